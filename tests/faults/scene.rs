//! A few stages for all scenarios of this folder: each scenario has one for itself meanwhile, and begins with nothing launched.

use std::collections::BTreeSet;
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use api::objects::Pod;
use api::status::Conditioned;
use api::{EC2NodeClass, NodeClaim, NodePool, condition};
use cloud::fake::FakeInstance;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use world::eventually;
use world::stage::Stage;

/// The interruption queue that the controller is told of; it is there as soon as a scenario makes it.
pub const QUEUE: &str = "kerf-interruptions";

/// How long anything may take. Generous: the machine may be building something else.
pub const LIMIT: Duration = Duration::from_secs(90);

/// Everything of the stage belongs to the runtime that set it, which therefore outlives each test.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
/// How many stages there are at most: scenarios wait more than they compute, but a stage takes 1 GB of memory.
const STAGES: usize = 3;
static FREE: Semaphore = Semaphore::const_new(STAGES);
/// Stages between two scenarios.
static IDLE: Mutex<Vec<Scene>> = Mutex::new(Vec::new());

/// The stage with a controller at work, and what the scenarios ask of it.
pub struct Scene {
    /// The stage.
    pub stage: Stage,
    /// The administrator's client.
    pub client: Client,
    /// Instances and claims of earlier scenarios.
    before: BTreeSet<String>,
    /// Events of earlier scenarios.
    told_before: BTreeSet<String>,
}

/// Plays one scenario on a stage of its own for that time; its logs stay if it fails.
pub fn play(scenario: impl AsyncFnOnce(&mut Scene) -> Result<()>) {
    let outcome = RUNTIME.block_on(async {
        let _permit = FREE.acquire().await?;
        let idle = IDLE.lock().unwrap().pop();
        let mut scene = match idle {
            Some(scene) => scene,
            None => Scene::set().await?,
        };
        let begin = Instant::now();
        scene.clear().await.context("the stage cannot be cleared for this scenario")?;
        println!("cleared the stage in {:.1?}", begin.elapsed());
        let outcome = scenario(&mut scene).await.and_then(|()| scene.was_forbidden_nothing());
        println!("played in {:.1?} with that", begin.elapsed());
        if outcome.is_err() {
            scene.stage.keep_logs();
        }
        let outcome = outcome.with_context(|| format!("logs are in {}", scene.stage.folder().display()));
        IDLE.lock().unwrap().push(scene);
        outcome
    });
    if let Err(error) = outcome {
        panic!("{error:?}");
    }
}

impl Scene {
    async fn set() -> Result<Self> {
        let mut stage = Stage::set().await?;
        for file in ["ec2nodeclass.yaml", "nodepool.yaml", "aws-node.yaml"] {
            stage.apply(&format!("getting-started/{file}")).await?;
        }
        stage.set_gates("NodeOverlay=true,StaticCapacity=true,CapacityBuffer=true");
        stage.set_queue(QUEUE);
        stage.start_controller()?;
        let client = stage.client.clone();
        let scene = Self { stage, client, before: BTreeSet::new(), told_before: BTreeSet::new() };
        // A node that goes by itself would come between a scenario and what it looks for.
        let never = json!({"spec": {"disruption": {"consolidateAfter": "Never"}}});
        scene.api::<NodePool>().patch("default", &PatchParams::default(), &Patch::Merge(never)).await?;
        eventually("the pool to be ready", LIMIT, async || {
            let pool = scene.api::<NodePool>().get("default").await?;
            Ok(pool.is_true(condition::READY).then_some(()))
        })
        .await?;
        Ok(scene)
    }

    /// What the last scenario left starts to go the regular way; of all before it nothing may be left by now.
    async fn clear(&mut self) -> Result<()> {
        let at_once = DeleteParams::default().grace_period(0);
        self.stage.ec2.end_outages();
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), "default");
        let sets: Api<ReplicaSet> = Api::namespaced(self.client.clone(), "default");
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(self.client.clone(), "default");
        budgets.delete_collection(&at_once, &ListParams::default()).await?;
        deployments.delete_collection(&DeleteParams::background(), &ListParams::default()).await?;
        sets.delete_collection(&DeleteParams::background(), &ListParams::default()).await?;
        self.api::<NodeClaim>().delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        eventually("the stage to be clear", LIMIT, async || {
            self.pods().delete_collection(&at_once, &ListParams::default()).await?;
            let pods = self.pods().list(&ListParams::default()).await?.items.len();
            ensure!(pods == 0, "{pods} pods are left");
            let living = self.living().into_iter().map(|machine| machine.instance.id);
            let claims = self.list::<NodeClaim>().await?.into_iter().map(|claim| claim.name_any());
            let left: Vec<String> = living.chain(claims).filter(|name| self.before.contains(name)).collect();
            ensure!(left.is_empty(), "{left:?} should have gone long ago");
            Ok(Some(()))
        })
        .await?;
        ensure!(self.stage.wire.waiting_faults() == 0, "a fault of an earlier scenario never struck");
        self.before.extend(self.stage.ec2.machines().into_iter().map(|machine| machine.instance.id));
        self.before.extend(self.list::<NodeClaim>().await?.iter().map(ResourceExt::name_any));
        self.told_before = self.events().await?.iter().map(ResourceExt::name_any).collect();
        Ok(())
    }

    /// The controller has the rights of its chart and must need no other.
    fn was_forbidden_nothing(&self) -> Result<()> {
        let asked = self.stage.control_plane.asked_by_controller()?;
        let forbidden: Vec<_> = asked.iter().filter(|asked| asked.forbidden).collect();
        ensure!(forbidden.is_empty(), "the controller was forbidden {forbidden:?}");
        Ok(())
    }

    /// A cluster-scoped kind, or all namespaces of another.
    pub fn api<K: kube::Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    /// Pods of the namespace that scenarios use.
    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    async fn list<K>(&self) -> Result<Vec<K>>
    where
        K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        Ok(self.api::<K>().list(&ListParams::default()).await?.items)
    }

    /// Claims that stay.
    pub async fn claims(&self) -> Result<Vec<NodeClaim>> {
        let mut claims: Vec<NodeClaim> = self.list().await?;
        claims.retain(|claim| claim.metadata.deletion_timestamp.is_none());
        Ok(claims)
    }

    /// The only claim.
    pub async fn only_claim(&self) -> Result<NodeClaim> {
        let mut claims = self.claims().await?;
        ensure!(claims.len() == 1, "{} claims", claims.len());
        claims.pop().context("no claim")
    }

    /// The only claim, once its machine is ready for pods, and its instance.
    pub async fn settled_claim(&self) -> Result<(NodeClaim, String)> {
        let claim = eventually("its claim to be initialized", LIMIT, async || {
            let claim = self.only_claim().await?;
            Ok(claim.is_true(condition::INITIALIZED).then_some(claim))
        })
        .await?;
        let instance = instance_of(&claim)?;
        Ok((claim, instance))
    }

    /// Instances that live now.
    pub fn living(&self) -> Vec<FakeInstance> {
        self.stage.living()
    }

    /// Instances that this scenario launched, living or not.
    pub fn launched(&self) -> Vec<FakeInstance> {
        let mut machines = self.stage.ec2.machines();
        machines.retain(|machine| !self.before.contains(&machine.instance.id));
        machines
    }

    /// Creates a ReplicaSet of one pod that asks for so much CPU and for nodes with these labels.
    pub async fn pod(&self, name: &str, cpu: &str, selector: Value) -> Result<()> {
        self.stage.pod(name, cpu, selector).await
    }

    /// Waits until the pod runs, and names its node.
    pub async fn runs(&self, name: &str) -> Result<String> {
        eventually(&format!("pod {name} to run"), LIMIT, async || {
            let pods = self.pods().list(&ListParams::default().labels(&format!("app={name}"))).await?.items;
            let phases: Vec<&str> = pods.iter().map(|pod| pod.status.phase.as_str()).collect();
            let running = pods.iter().find(|pod| pod.status.phase == "Running" && !pod.is_terminating());
            Ok(Some(running.with_context(|| format!("its pods are {phases:?}"))?.spec.node_name.clone()))
        })
        .await
    }

    /// Every claim has its own living instance, and no instance lives without a claim.
    pub async fn one_instance_each(&self) -> Result<()> {
        let claimed: Vec<String> =
            self.claims().await?.iter().filter_map(|claim| Some(claim.status.as_ref()?.provider_id.clone())).collect();
        let living = self.living().into_iter().filter(|machine| !self.before.contains(&machine.instance.id));
        let living: BTreeSet<String> = living.map(|machine| machine.instance.provider_id()).collect();
        let distinct: BTreeSet<String> = claimed.iter().cloned().collect();
        ensure!(distinct.len() == claimed.len(), "claims share an instance: {claimed:?}");
        ensure!(distinct == living, "claims have {distinct:?}, EC2 runs {living:?}");
        Ok(())
    }

    async fn events(&self) -> Result<Vec<Event>> {
        self.list().await
    }

    /// Waits for an event of ours on an object of that name, or on a pod of that ReplicaSet, and returns its message.
    /// kube-scheduler has a reason of the same name.
    pub async fn told(&self, object: &str, reason: &str, part: &str) -> Result<String> {
        eventually(&format!("an event {reason} on {object} with {part:?}"), LIMIT, async || {
            let events = self.events().await?;
            let ours = events.into_iter().filter(|event| {
                !self.told_before.contains(&event.name_any())
                    && event.reason.as_deref() == Some(reason)
                    && event.involved_object.name.as_deref().is_some_and(|name| is_of(name, object))
                    && event.source.as_ref().and_then(|source| source.component.as_deref()) == Some("karpenter")
            });
            let messages: Vec<String> = ours.filter_map(|event| event.message).collect();
            let found = messages.iter().find(|message| message.contains(part)).cloned();
            ensure!(found.is_some(), "only {messages:?}");
            Ok(found)
        })
        .await
    }

    /// Events of ours on objects whose names begin like this.
    pub async fn events_on(&self, prefix: &str) -> Result<Vec<String>> {
        let events = self.events().await?.into_iter();
        let ours =
            events.filter(|event| event.involved_object.name.as_deref().is_some_and(|name| name.starts_with(prefix)));
        Ok(ours.filter_map(|event| event.message).collect())
    }

    /// Waits for a condition of a class to have that status and returns its message.
    pub async fn class_says(&self, class: &str, type_: &str, status: &str) -> Result<String> {
        eventually(&format!("{type_}={status} on class {class}"), LIMIT, async || {
            let class = self.api::<EC2NodeClass>().get(class).await?;
            let found = api::status::find(class.conditions(), type_).context("no such condition")?;
            ensure!(found.status == status, "it is {} ({})", found.status, found.message);
            Ok(Some(found.message.clone()))
        })
        .await
    }
}

/// Whether the name is `owner`, or that of a pod which the ReplicaSet `owner` made.
fn is_of(name: &str, owner: &str) -> bool {
    name.strip_prefix(owner).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// The instance that a claim was launched as.
pub fn instance_of(claim: &NodeClaim) -> Result<String> {
    let provider_id = claim.status.as_ref().map(|status| status.provider_id.as_str()).unwrap_or_default();
    let found = cloud::launch::claim::instance_id(provider_id).map(str::to_owned);
    found.with_context(|| format!("NodeClaim {} has no instance, its provider ID is {provider_id:?}", claim.name_any()))
}

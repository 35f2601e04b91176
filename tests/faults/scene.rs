//! One stage for all scenarios of this file, one scenario at a time, each beginning with nothing launched.

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::objects::{Node, Pod};
use api::status::Conditioned;
use api::{EC2NodeClass, NodeClaim, NodePool, condition};
use cloud::fake::Machine;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::{Mutex, OnceCell};
use world::eventually;
use world::stage::Stage;

/// How long anything may take. Generous: the machine may be building something else.
pub const LIMIT: Duration = Duration::from_secs(90);

/// Everything of the stage belongs to the runtime that set it, which therefore outlives each test.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
static SCENE: OnceCell<Mutex<Scene>> = OnceCell::const_new();

/// The stage with a controller at work, and what the scenarios ask of it.
pub struct Scene {
    /// The stage.
    pub stage: Stage,
    /// The administrator's client.
    pub client: Client,
    /// Instances of earlier scenarios.
    before: BTreeSet<String>,
    /// Events of earlier scenarios.
    told_before: BTreeSet<String>,
}

/// Plays one scenario on the shared stage; its logs stay if it fails.
pub fn play(scenario: impl AsyncFnOnce(&mut Scene) -> Result<()>) {
    let outcome = RUNTIME.block_on(async {
        let mut scene = SCENE.get_or_try_init(Scene::set).await?.lock().await;
        scene.clear().await.context("the stage cannot be cleared for this scenario")?;
        let outcome = scenario(&mut scene).await;
        if outcome.is_err() {
            scene.stage.keep_logs();
        }
        outcome.with_context(|| format!("logs are in {}", scene.stage.folder().display()))
    });
    if let Err(error) = outcome {
        panic!("{error:?}");
    }
}

impl Scene {
    async fn set() -> Result<Mutex<Self>> {
        let mut stage = Stage::set().await?;
        for file in ["ec2nodeclass.yaml", "nodepool.yaml", "aws-node.yaml"] {
            stage.apply(file).await?;
        }
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
        Ok(Mutex::new(scene))
    }

    /// Everything that earlier scenarios left goes the regular way; nothing of it may stay behind.
    async fn clear(&mut self) -> Result<()> {
        let at_once = DeleteParams::default().grace_period(0);
        self.stage.ec2.end_droughts();
        self.pods().delete_collection(&at_once, &ListParams::default()).await?;
        self.api::<NodeClaim>().delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        eventually("everything to be gone", LIMIT, async || {
            let (claims, nodes) = (self.claims().await?.len(), self.list::<Node>().await?.len());
            let (living, pods) = (self.living().len(), self.pods().list(&ListParams::default()).await?.items.len());
            ensure!(
                claims + nodes + living + pods == 0,
                "{claims} claims, {nodes} nodes, {living} instances, {pods} pods"
            );
            Ok(Some(()))
        })
        .await?;
        ensure!(self.stage.wire.waiting_faults() == 0, "a fault of an earlier scenario never struck");
        self.before = self.stage.ec2.machines().into_iter().map(|machine| machine.instance.id).collect();
        self.told_before = self.events().await?.iter().map(ResourceExt::name_any).collect();
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

    /// All claims.
    pub async fn claims(&self) -> Result<Vec<NodeClaim>> {
        self.list().await
    }

    /// The only claim.
    pub async fn only_claim(&self) -> Result<NodeClaim> {
        let mut claims = self.claims().await?;
        ensure!(claims.len() == 1, "{} claims", claims.len());
        claims.pop().context("no claim")
    }

    /// Instances that live now.
    pub fn living(&self) -> Vec<Machine> {
        let ended = |machine: &Machine| matches!(machine.instance.state.as_str(), "terminated" | "shutting-down");
        self.stage.ec2.machines().into_iter().filter(|machine| !ended(machine)).collect()
    }

    /// Instances that this scenario launched, living or not.
    pub fn launched(&self) -> Vec<Machine> {
        let mut machines = self.stage.ec2.machines();
        machines.retain(|machine| !self.before.contains(&machine.instance.id));
        machines
    }

    /// Creates a pod that asks for so much CPU and for nodes with these labels.
    pub async fn pod(&self, name: &str, cpu: &str, selector: Value) -> Result<()> {
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "nodeSelector": selector,
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "app", "image": "app", "resources": {"requests": {"cpu": cpu}}}],
            },
        });
        self.stage.apply_value(pod).await
    }

    /// Waits until the pod runs, and names its node.
    pub async fn runs(&self, name: &str) -> Result<String> {
        eventually(&format!("pod {name} to run"), LIMIT, async || {
            let pod = self.pods().get(name).await?;
            ensure!(pod.status.phase == "Running", "it is {}", pod.status.phase);
            Ok(Some(pod.spec.node_name))
        })
        .await
    }

    /// Every claim has its own living instance, and no instance lives without a claim.
    pub async fn one_instance_each(&self) -> Result<()> {
        let claimed: Vec<String> =
            self.claims().await?.iter().filter_map(|claim| Some(claim.status.as_ref()?.provider_id.clone())).collect();
        let living: BTreeSet<String> = self.living().iter().map(|machine| machine.instance.provider_id()).collect();
        let distinct: BTreeSet<String> = claimed.iter().cloned().collect();
        ensure!(distinct.len() == claimed.len(), "claims share an instance: {claimed:?}");
        ensure!(distinct == living, "claims have {distinct:?}, EC2 runs {living:?}");
        Ok(())
    }

    async fn events(&self) -> Result<Vec<Event>> {
        self.list().await
    }

    /// Waits for an event of ours in this scenario and returns its message. kube-scheduler has a reason of the same name.
    pub async fn told(&self, object: &str, reason: &str, part: &str) -> Result<String> {
        eventually(&format!("an event {reason} on {object} with {part:?}"), LIMIT, async || {
            let events = self.events().await?;
            let ours = events.into_iter().filter(|event| {
                !self.told_before.contains(&event.name_any())
                    && event.reason.as_deref() == Some(reason)
                    && event.involved_object.name.as_deref() == Some(object)
                    && event.source.as_ref().and_then(|source| source.component.as_deref()) == Some("karpenter")
            });
            let messages: Vec<String> = ours.filter_map(|event| event.message).collect();
            let found = messages.iter().find(|message| message.contains(part)).cloned();
            ensure!(found.is_some(), "only {messages:?}");
            Ok(found)
        })
        .await
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

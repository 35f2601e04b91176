//! A few clusters for all tests of this folder. A test has one cluster for itself, and begins with nothing launched.

use std::collections::BTreeSet;
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use api::objects::{Node, Pod};
use api::status::Conditioned;
use api::{
    CapacityBuffer, Commitment, EC2NodeClass, NodeClaim, NodeOverlay, NodePool, ProvisioningRequest, SpendPolicy,
    annotation, condition, label, taint,
};
use cloud::fake::FakeInstance;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use testbed::controlplane::{Account, AuditedRequest};
use testbed::environment::{CLUSTER, Environment};
use testbed::eventually;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

/// Name of the interruption queue in the settings of the controller. The queue exists once a test creates it.
pub const QUEUE: &str = "kerf-interruptions";

/// Address of the Service kube-dns.
pub const CLUSTER_DNS: &str = "10.96.0.77";

/// Time limit of every wait. The limit is high, because the machine may compile something else at the same time.
pub const LIMIT: Duration = Duration::from_secs(90);

/// Time limit for clearing a cluster. An instance whose NodeClaim was deleted during its launch is an orphan, which garbage collection
/// terminates within 150 s.
const CLEARING: Duration = Duration::from_secs(240);

/// Runtime of all clusters. Their tasks belong to it, so it outlives each test.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
/// Highest number of clusters. Tests wait more than they compute, but a cluster takes 1 GB of memory.
const CLUSTERS: usize = 3;
static FREE: Semaphore = Semaphore::const_new(CLUSTERS);
/// Clusters that no test uses.
static IDLE: Mutex<Vec<Fixture>> = Mutex::new(Vec::new());

/// Cluster with a running controller, and the assertions of the tests.
pub struct Fixture {
    /// The cluster.
    pub environment: Environment,
    /// Client with administrator rights.
    pub client: Client,
    /// Instances and NodeClaims of earlier tests.
    before: BTreeSet<String>,
    /// Names of the events of earlier tests.
    earlier_events: BTreeSet<String>,
}

/// Runs one test on a cluster of its own; keeps the logs if the test fails.
pub fn run(scenario: impl AsyncFnOnce(&mut Fixture) -> Result<()>) {
    let outcome = RUNTIME.block_on(async {
        let _permit = FREE.acquire().await?;
        let idle = IDLE.lock().unwrap().pop();
        let mut fixture = match idle {
            Some(fixture) => fixture,
            None => Fixture::start().await?,
        };
        let begin = Instant::now();
        if let Err(error) = fixture.clear().await {
            fixture.environment.keep_logs();
            let folder = fixture.environment.folder().display().to_string();
            return Err(error.context(format!("the cluster cannot be cleared for this test, logs are in {folder}")));
        }
        println!("cleared the cluster in {:.1?}", begin.elapsed());
        let outcome = scenario(&mut fixture).await.and_then(|()| fixture.was_forbidden_nothing());
        println!("ran the test in {:.1?} with that", begin.elapsed());
        if outcome.is_err() {
            fixture.environment.keep_logs();
        }
        let outcome = outcome.with_context(|| format!("logs are in {}", fixture.environment.folder().display()));
        IDLE.lock().unwrap().push(fixture);
        outcome
    });
    if let Err(error) = outcome {
        panic!("{error:?}");
    }
}

/// Returns the Service whose address nodes use as cluster DNS.
fn cluster_dns() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "kube-dns", "namespace": "kube-system"},
        "spec": {"clusterIP": CLUSTER_DNS, "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]},
    })
}

impl Fixture {
    async fn start() -> Result<Self> {
        let mut environment = Environment::start().await?;
        for file in ["ec2nodeclass.yaml", "nodepool.yaml", "aws-node.yaml"] {
            environment.apply(&format!("getting-started/{file}")).await?;
        }
        environment.set_gates("NodeOverlay=true,StaticCapacity=true,CapacityBuffer=true");
        environment.set_queue(QUEUE);
        environment.set_metrics_detail("karpenter");
        environment.set_zonal_shift(true);
        environment.apply_value(cluster_dns()).await?;
        environment.start_controller()?;
        let client = environment.client.clone();
        let fixture = Self { environment, client, before: BTreeSet::new(), earlier_events: BTreeSet::new() };
        // A node that is removed by consolidation would disturb the tests.
        let never = json!({"spec": {"disruption": {"consolidateAfter": "Never"}}});
        fixture.api::<NodePool>().patch("default", &PatchParams::default(), &Patch::Merge(never)).await?;
        eventually("the pool to be ready", LIMIT, async || {
            let pool = fixture.api::<NodePool>().get("default").await?;
            Ok(pool.is_true(condition::READY).then_some(()))
        })
        .await?;
        Ok(fixture)
    }

    /// Deletes the objects of the last test in the regular way; those of earlier tests must be gone by now.
    async fn clear(&mut self) -> Result<()> {
        let at_once = DeleteParams::default().grace_period(0);
        if !self.environment.has_controller() {
            self.environment.start_controller()?;
        }
        self.environment.ec2.end_outages();
        self.environment.ec2.set_zonal_shifts(CLUSTER, Some(Vec::new()));
        self.environment.ec2.set_policies(None);
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), "default");
        let sets: Api<ReplicaSet> = Api::namespaced(self.client.clone(), "default");
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(self.client.clone(), "default");
        // A request that is left would buy nodes during the next test.
        let jobs: Api<Job> = Api::namespaced(self.client.clone(), "default");
        let requests: Api<ProvisioningRequest> = Api::namespaced(self.client.clone(), "default");
        jobs.delete_collection(&DeleteParams::background(), &ListParams::default()).await?;
        requests.delete_collection(&at_once, &ListParams::default()).await?;
        budgets.delete_collection(&at_once, &ListParams::default()).await?;
        deployments.delete_collection(&DeleteParams::background(), &ListParams::default()).await?;
        sets.delete_collection(&DeleteParams::background(), &ListParams::default()).await?;
        self.delete_settings().await?;
        self.api::<NodeClaim>().delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        eventually("the cluster to be clear", CLEARING, async || {
            self.pods().delete_collection(&at_once, &ListParams::default()).await?;
            let pods = self.pods().list(&ListParams::default()).await?.items.len();
            ensure!(pods == 0, "{pods} pods are left");
            let running_instances = self.running_instances().into_iter().map(|machine| machine.instance.id);
            let claims = self.list::<NodeClaim>().await?.into_iter().map(|claim| claim.name_any());
            let left: Vec<String> = running_instances.chain(claims).filter(|name| self.before.contains(name)).collect();
            ensure!(left.is_empty(), "{left:?} should have gone long ago");
            let settings = self.settings().await?;
            ensure!(settings.is_empty(), "{settings:?} would rule the next test");
            let open = self.open_nodes().await?;
            ensure!(open.is_empty(), "{open:?} of deleted claims could still get a pod of the next test");
            Ok(Some(()))
        })
        .await?;
        self.forget_notices().await?;
        ensure!(self.environment.wire.waiting_faults() == 0, "a fault of an earlier test never occurred");
        self.before.extend(self.environment.ec2.machines().into_iter().map(|machine| machine.instance.id));
        self.before.extend(self.list::<NodeClaim>().await?.iter().map(ResourceExt::name_any));
        self.earlier_events = self.events().await?.iter().map(ResourceExt::name_any).collect();
        Ok(())
    }

    /// Deletes the settings that the last test wrote, also where it failed.
    async fn delete_settings(&self) -> Result<()> {
        let (now, own) = (DeleteParams::default(), ListParams::default().fields("metadata.name!=default"));
        self.api::<NodePool>().delete_collection(&now, &own).await?;
        self.api::<EC2NodeClass>().delete_collection(&now, &own).await?;
        self.api::<NodeOverlay>().delete_collection(&now, &own).await?;
        self.api::<Commitment>().delete_collection(&now, &own).await?;
        self.api::<SpendPolicy>().delete_collection(&now, &own).await?;
        Api::<CapacityBuffer>::namespaced(self.client.clone(), "default").delete_collection(&now, &own).await?;
        Ok(())
    }

    /// Returns the names of NodePools and EC2NodeClasses, of which the controller removes its finalizer, without those of the
    /// start.
    async fn settings(&self) -> Result<Vec<String>> {
        let pools = self.list::<NodePool>().await?.into_iter().map(|pool| pool.name_any());
        let classes = self.list::<EC2NodeClass>().await?.into_iter().map(|class| class.name_any());
        Ok(pools.chain(classes).filter(|name| name != "default").collect())
    }

    /// Restarts the controller without its memory of notices: of those of several tests, it would handle only three in ten
    /// minutes.
    async fn forget_notices(&mut self) -> Result<()> {
        let pools: Vec<NodePool> = self.list().await?;
        let noticed = pools.iter().filter(|pool| pool.annotations().contains_key(annotation::NOTICE_REMOVALS));
        let noticed: Vec<String> = noticed.map(ResourceExt::name_any).collect();
        if noticed.is_empty() {
            return Ok(());
        }
        self.environment.kill_controller()?;
        let without = json!({"metadata": {"annotations": {annotation::NOTICE_REMOVALS: null}}});
        for pool in noticed {
            self.api::<NodePool>().patch(&pool, &PatchParams::default(), &Patch::Merge(&without)).await?;
        }
        self.environment.start_controller()
    }

    /// Returns the nodes of NodeClaims that the controller has not tainted for their removal.
    async fn open_nodes(&self) -> Result<Vec<String>> {
        let claims: Vec<NodeClaim> = self.list().await?;
        let of_claim = |node: &Node| {
            claims.iter().any(|claim| claim.status.as_ref().is_some_and(|status| status.node_name == node.name()))
        };
        let mut nodes: Vec<Node> = self.list().await?;
        nodes.retain(|node| of_claim(node) && !node.has_taint(taint::DISRUPTED, taint::NO_SCHEDULE));
        Ok(nodes.iter().map(|node| node.name().to_owned()).collect())
    }

    /// Deletes all nodes. The controller may have launched one for a pod that was just deleted.
    pub async fn remove_nodes(&self) -> Result<()> {
        eventually("the nodes to go", LIMIT, async || {
            self.api::<NodeClaim>().delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
            let claims = self.list::<NodeClaim>().await?.len();
            ensure!(claims == 0, "{claims} NodeClaims are left");
            Ok(Some(()))
        })
        .await
    }

    /// Asserts that RBAC and admission policies of the chart permitted every request of the controller.
    fn was_forbidden_nothing(&self) -> Result<()> {
        let asked = self.environment.control_plane.requests_of(Account::Controller)?;
        // An admission policy rejects a write that RBAC allows.
        let rejected = |asked: &&AuditedRequest| asked.forbidden || asked.verb == "patch" && asked.code == 403;
        let forbidden: Vec<_> = asked.iter().filter(rejected).collect();
        ensure!(forbidden.is_empty(), "the controller was forbidden {forbidden:?}");
        Ok(())
    }

    /// Returns an API for a cluster-scoped kind, or for all namespaces of a namespaced kind.
    pub fn api<K: kube::Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    /// Returns the API for pods in the namespace of the tests.
    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    async fn list<K>(&self) -> Result<Vec<K>>
    where
        K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        Ok(self.api::<K>().list(&ListParams::default()).await?.items)
    }

    /// Returns the NodeClaims that are not being deleted.
    pub async fn claims(&self) -> Result<Vec<NodeClaim>> {
        let mut claims: Vec<NodeClaim> = self.list().await?;
        claims.retain(|claim| claim.metadata.deletion_timestamp.is_none());
        Ok(claims)
    }

    /// Returns the NodeClaims of a NodePool that are not being deleted.
    pub async fn claims_of(&self, pool: &str) -> Result<Vec<NodeClaim>> {
        let mut claims = self.claims().await?;
        claims.retain(|claim| claim.labels().get(label::NODEPOOL).is_some_and(|found| found == pool));
        Ok(claims)
    }

    /// Returns the only NodeClaim.
    pub async fn only_claim(&self) -> Result<NodeClaim> {
        let mut claims = self.claims().await?;
        ensure!(claims.len() == 1, "{} claims", claims.len());
        claims.pop().context("no claim")
    }

    /// Returns the only NodeClaim with its instance, once it is initialized.
    pub async fn settled_claim(&self) -> Result<(NodeClaim, String)> {
        let claim = eventually("its claim to be initialized", LIMIT, async || {
            let claim = self.only_claim().await?;
            Ok(claim.is_true(condition::INITIALIZED).then_some(claim))
        })
        .await?;
        let instance = instance_of(&claim)?;
        Ok((claim, instance))
    }

    /// Returns the running instances.
    pub fn running_instances(&self) -> Vec<FakeInstance> {
        self.environment.running_instances()
    }

    /// Returns the instances that this test launched, running or terminated.
    pub fn launched(&self) -> Vec<FakeInstance> {
        let mut machines = self.environment.ec2.machines();
        machines.retain(|machine| !self.before.contains(&machine.instance.id));
        machines
    }

    /// Creates a ReplicaSet of one pod with this CPU request and this node selector.
    pub async fn pod(&self, name: &str, cpu: &str, selector: Value) -> Result<()> {
        self.environment.pod(name, cpu, selector).await
    }

    /// Waits until the pod runs; returns its node.
    pub async fn runs(&self, name: &str) -> Result<String> {
        eventually(&format!("pod {name} to run"), LIMIT, async || {
            let pods = self.pods().list(&ListParams::default().labels(&format!("app={name}"))).await?.items;
            let phases: Vec<&str> = pods.iter().map(|pod| pod.status.phase.as_str()).collect();
            let running = pods.iter().find(|pod| pod.status.phase == "Running" && !pod.is_terminating());
            Ok(Some(running.with_context(|| format!("its pods are {phases:?}"))?.spec.node_name.clone()))
        })
        .await
    }

    /// Asserts that every NodeClaim has a running instance of its own, and that no instance runs without a NodeClaim.
    pub async fn one_instance_each(&self) -> Result<()> {
        let claimed: Vec<String> =
            self.claims().await?.iter().filter_map(|claim| Some(claim.status.as_ref()?.provider_id.clone())).collect();
        let running_instances =
            self.running_instances().into_iter().filter(|machine| !self.before.contains(&machine.instance.id));
        let running_instances: BTreeSet<String> =
            running_instances.map(|machine| machine.instance.provider_id()).collect();
        let distinct: BTreeSet<String> = claimed.iter().cloned().collect();
        ensure!(distinct.len() == claimed.len(), "claims share an instance: {claimed:?}");
        ensure!(distinct == running_instances, "claims have {distinct:?}, EC2 runs {running_instances:?}");
        Ok(())
    }

    async fn events(&self) -> Result<Vec<Event>> {
        self.list().await
    }

    /// Waits for an event of Kerf on an object of that name, or on a pod of that ReplicaSet; returns its message. The filter by
    /// component is needed, because kube-scheduler uses a reason of the same name.
    pub async fn wait_for_event(&self, object: &str, reason: &str, part: &str) -> Result<String> {
        eventually(&format!("an event {reason} on {object} with {part:?}"), LIMIT, async || {
            let events = self.events().await?;
            let ours = events.into_iter().filter(|event| {
                !self.earlier_events.contains(&event.name_any())
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

    /// Returns the messages of events on objects whose names have this prefix.
    pub async fn events_on(&self, prefix: &str) -> Result<Vec<String>> {
        let events = self.events().await?.into_iter();
        let ours =
            events.filter(|event| event.involved_object.name.as_deref().is_some_and(|name| name.starts_with(prefix)));
        Ok(ours.filter_map(|event| event.message).collect())
    }

    /// Waits until a condition of an EC2NodeClass has that status; returns its message.
    pub async fn wait_for_class_condition(&self, class: &str, type_: &str, status: &str) -> Result<String> {
        eventually(&format!("{type_}={status} on class {class}"), LIMIT, async || {
            let class = self.api::<EC2NodeClass>().get(class).await?;
            let found = api::status::find(class.conditions(), type_).context("no such condition")?;
            ensure!(found.status == status, "it is {} ({})", found.status, found.message);
            Ok(Some(found.message.clone()))
        })
        .await
    }
}

/// Reports whether the name is `owner`, or that of a pod of the ReplicaSet `owner`.
fn is_of(name: &str, owner: &str) -> bool {
    name.strip_prefix(owner).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Returns the instance id of a NodeClaim.
pub fn instance_of(claim: &NodeClaim) -> Result<String> {
    let provider_id = claim.status.as_ref().map(|status| status.provider_id.as_str()).unwrap_or_default();
    let found = cloud::launch::claim::instance_id(provider_id).map(str::to_owned);
    found.with_context(|| format!("NodeClaim {} has no instance, its provider ID is {provider_id:?}", claim.name_any()))
}

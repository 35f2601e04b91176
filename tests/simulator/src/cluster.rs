//! Simulated cluster on tokio's clock, with successive runs of the controller.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use api::objects::{Node, Pod};
use api::status::Conditioned;
use api::{NodeClaim, condition, label, taint};
use cloud::Cloud;
use cloud::fake::FakeCloud;
use cloud::guard::{Guard, Guarded};
use controller::provision::Rules;
use controller::provision::batcher::BatchWindow;
use controller::settings::Gates;
use controller::state::cluster::Clock;
use planner::MicroDollars;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::api_server::{ApiServer, NODES, PODS, POOLS};
use crate::classes;
use crate::clock::{OfTokio, of_tokio};
use crate::controller_run::{ControllerRun, Place};
use crate::crash::Crash;
use crate::middleware::{Middleware, client};
use crate::surroundings::{Surroundings, Workload};

/// Instance types of the fake of EC2.
pub const TYPES: [&str; 6] = ["m5.large", "m5.xlarge", "m5.2xlarge", "c5.xlarge", "c5.2xlarge", "c5.4xlarge"];
/// Interval of the models of kubelets and kube-scheduler.
const LOOK: Duration = Duration::from_millis(100);
/// Longest interval between two checks of `until` without a change of the cluster.
const LATEST_LOOK: Duration = Duration::from_secs(1);
/// Time limit of `until` in simulated time, which passes at once.
const LIMIT: Duration = Duration::from_secs(3600);

/// Simulated cluster.
pub struct ModelCluster {
    /// The API server.
    pub server: Arc<ApiServer>,
    /// Fake of EC2.
    pub ec2: FakeCloud,
    /// Kubelets, kube-scheduler and owners of pods.
    pub surroundings: Arc<Surroundings>,
    /// Maximum cost of all nodes per hour.
    pub cost_limit: Option<MicroDollars>,
    gates: Gates,
    _tasks: JoinSet<()>,
}

impl ModelCluster {
    /// Creates a cluster with this NodePool.
    #[must_use]
    pub fn new(pool: Value, gates: Gates) -> Self {
        let ec2 = FakeCloud::builder("us-west-2").only_types(&TYPES).clock(OfTokio).build().unwrap();
        Self::on(ec2, vec![pool], gates, LOOK)
    }

    /// Creates a cluster with these NodePools on a fake of EC2, whose models react to changes after `pause`.
    #[must_use]
    pub fn on(ec2: FakeCloud, pools: Vec<Value>, gates: Gates, pause: Duration) -> Self {
        let server = Arc::new(ApiServer::new(of_tokio));
        server.create("ec2nodeclasses", classes::default_class());
        pools.into_iter().for_each(|pool| server.create(POOLS, pool));
        let surroundings = Surroundings::new(Arc::clone(&server), ec2.clone(), of_tokio);
        let tasks = JoinSet::from_iter([Arc::clone(&surroundings).live(pause)]);
        Self { server, ec2, surroundings, cost_limit: None, gates, _tasks: tasks }
    }

    /// Starts a run of the controller that never ends by itself.
    #[must_use]
    pub fn controller_run(&self) -> ControllerRun {
        self.run_until(&Arc::new(Crash::never()))
    }

    /// Starts a run of the controller that ends at `crash`.
    #[must_use]
    pub fn run_until(&self, crash: &Arc<Crash>) -> ControllerRun {
        let mut controller_run = self.awake(crash.alive(), Arc::clone(crash), Arc::clone(crash));
        controller_run.plans(self.rules());
        controller_run
    }

    /// Starts a run of the controller that only updates its index, behind these faults of EC2 and the API server.
    #[must_use]
    pub fn awake(
        &self,
        alive: Arc<AtomicBool>,
        guard: Arc<impl Guard + 'static>,
        middleware: Arc<impl Middleware>,
    ) -> ControllerRun {
        ControllerRun::awake(self.place(alive, guard, middleware, of_tokio))
    }

    /// Returns the environment of a run behind these faults of EC2 and the API server, with a clock of its own.
    #[must_use]
    pub fn place(
        &self,
        alive: Arc<AtomicBool>,
        guard: Arc<impl Guard + 'static>,
        middleware: Arc<impl Middleware>,
        clock: Clock,
    ) -> Place<'_> {
        let cloud: Arc<dyn Cloud> = Arc::new(Guarded::new(Arc::new(self.ec2.clone()), guard));
        let client = client(&self.server, middleware);
        Place { cloud, server: &self.server, client, clock, alive, gates: self.gates }
    }

    /// Returns the rules of plans.
    #[must_use]
    pub fn rules(&self) -> Rules {
        let window = BatchWindow { idle: Duration::from_millis(200), max: Duration::from_secs(10) };
        let planning = snapshot::Settings {
            node_repair: self.gates.node_repair,
            static_pools: self.gates.static_capacity,
            spot_to_spot: self.gates.spot_to_spot,
            cost_limit: self.cost_limit,
            ..snapshot::Settings::default()
        };
        Rules { window, planning }
    }

    /// Creates or replaces a workload.
    pub fn want(&self, app: &str, workload: Workload) {
        self.surroundings.want(app, workload);
    }

    /// Returns the NodeClaims.
    #[must_use]
    pub fn claims(&self) -> Vec<NodeClaim> {
        self.server.claims()
    }

    /// Returns the Nodes.
    #[must_use]
    pub fn nodes(&self) -> Vec<Node> {
        self.server.all(NODES)
    }

    /// Returns the pods.
    #[must_use]
    pub fn pods(&self) -> Vec<Pod> {
        self.server.all(PODS)
    }

    /// Waits until a condition holds; panics with the last objection after the time limit.
    pub async fn until(&self, what: &str, is: impl Fn(&Self) -> Result<(), String>) {
        let begin = tokio::time::Instant::now();
        let (mut seen, mut looked) = (None, begin);
        loop {
            // Most of a test's time goes into reading all objects.
            if seen != Some(self.server.version()) || looked.elapsed() >= LATEST_LOOK {
                (seen, looked) = (Some(self.server.version()), tokio::time::Instant::now());
                match is(self) {
                    Ok(()) => return,
                    Err(objection) if begin.elapsed() > LIMIT => panic!("{what}: {objection}"),
                    Err(_) => {}
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Checks that nothing is in progress. Every NodeClaim has an initialized, schedulable node and an instance of its own, and
    /// `pods` pods run.
    pub fn is_settled(&self, claims: usize, pods: usize) -> Result<(), String> {
        let there = self.claims();
        let up = there.iter().filter(|claim| claim.is_true(condition::INITIALIZED)).count();
        let nodes = self.nodes();
        let closed = nodes.iter().filter(|node| node.has_taint(taint::DISRUPTED, taint::NO_SCHEDULE)).count();
        let going = there.iter().filter(|claim| claim.metadata.deletion_timestamp.is_some()).count();
        let marked = there.iter().filter(|claim| claim.replaced_by().is_some()).count();
        let running = self.pods().iter().filter(|pod| pod.is_ready() && !pod.is_terminating()).count();
        let alive = self.ec2.machines().iter().filter(|machine| !machine.instance.is_ending()).count();
        let found = (there.len(), up, nodes.len(), alive, running, closed + going + marked);
        let wanted = (claims, claims, claims, claims, pods, 0);
        if found == wanted {
            Ok(())
        } else {
            Err(format!("claims, up, nodes, machines, pods, under way: {found:?}, not {wanted:?}"))
        }
    }
}

/// Returns an on-demand NodePool with these instance types and this `spec.disruption`.
#[must_use]
pub fn pool(types: &[&str], disruption: Value) -> Value {
    let one_of = |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {
            "disruption": disruption,
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [
                    one_of(label::ARCH, &[label::ARCH_AMD64]),
                    one_of(label::INSTANCE_TYPE, types),
                    one_of(label::CAPACITY_TYPE, &[label::CAPACITY_ON_DEMAND]),
                ],
                "expireAfter": "Never",
            }},
        },
    })
}

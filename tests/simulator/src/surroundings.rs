//! The rest of a cluster, as models: kubelets on the instances that EC2 has started, kube-scheduler, the owners of pods, and the
//! disruption controller. None of them depends on Kerf's controller.

mod budgets;
mod kubelet;
mod machines;
mod owners;
mod scheduler;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use api::objects::{Node, Pod};
use cloud::fake::FakeCloud;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::api_server::{ApiServer, NODES, text};
use kubelet::Kubelets;
use machines::Machines;
use owners::Owners;

pub use kubelet::{GPU, allocated, gpus, requested};
pub use machines::{Boot, NodeChange};
pub use owners::ordinal;

/// Pods of one owner.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Number of pods.
    pub replicas: usize,
    /// CPU request of each pod, in millicores.
    pub cpu: i64,
    /// Memory request of each pod, in bytes; zero is none.
    pub memory: i64,
    /// Number of GPUs that each pod requests.
    pub gpus: i64,
    /// Time from binding to Ready.
    pub starts: SignedDuration,
    /// Time that a pod takes to stop within its grace period; `None` takes all of it.
    pub stops: Option<SignedDuration>,
    /// Time from Ready to the completion of a pod of a Job.
    pub lasts: Option<SignedDuration>,
    /// Further fields of the pod template.
    pub template: Value,
}

impl Workload {
    /// Returns pods with this CPU request and no further fields.
    #[must_use]
    pub fn of(replicas: usize, cpu: i64) -> Self {
        let starts = SignedDuration::ZERO;
        Self { replicas, cpu, memory: 0, gpus: 0, starts, stops: None, lasts: None, template: json!({}) }
    }
}

/// Models of everything in a cluster except the controller.
pub struct Surroundings {
    /// The API server.
    pub server: Arc<ApiServer>,
    /// Fake of EC2.
    pub ec2: FakeCloud,
    clock: fn() -> Timestamp,
    models: Mutex<Models>,
    /// Changes of workloads.
    desired: Notify,
}

#[derive(Default)]
struct Models {
    owners: Owners,
    machines: Machines,
    kubelets: Kubelets,
}

/// What the models read and change.
struct Place<'a> {
    server: &'a ApiServer,
    ec2: &'a FakeCloud,
    now: Timestamp,
}

impl Surroundings {
    /// Creates the models without workloads.
    #[must_use]
    pub fn new(server: Arc<ApiServer>, ec2: FakeCloud, clock: fn() -> Timestamp) -> Arc<Self> {
        Arc::new(Self { server, ec2, clock, models: Mutex::default(), desired: Notify::new() })
    }

    /// Creates or replaces a workload.
    pub fn want(&self, app: &str, workload: Workload) {
        self.models().owners.want(app, workload);
        self.desired.notify_one();
    }

    /// Changes the number of pods of a workload.
    pub fn scale(&self, app: &str, replicas: usize) {
        self.models().owners.scale(app, replicas);
        self.desired.notify_one();
    }

    /// Returns the number of pods that a workload wants; pods of Jobs that have completed do not count.
    #[must_use]
    pub fn wanted(&self, app: &str) -> usize {
        self.models().owners.wanted(app)
    }

    /// Sets how instances that are launched from now on boot.
    pub fn boot(&self, boot: Boot) {
        self.models().machines.boot = boot;
    }

    /// Changes each Node that registers from now on before it is stored.
    pub fn change_new_nodes(&self, change: NodeChange) {
        self.models().machines.change = Some(change);
    }

    /// Runs the models forever. They react to a change after `pause`.
    pub async fn live(self: Arc<Self>, pause: Duration) {
        let (mut machines, mut objects) = (self.ec2.changes(), self.server.changes());
        loop {
            self.ec2.tick();
            // The next round handles changes that happen during the step.
            machines.mark_unchanged();
            objects.mark_unchanged();
            let next = self.step();
            let now = (self.clock)();
            let ahead = |at: Timestamp| Duration::try_from(at.duration_since(now)).unwrap_or_default();
            let due = self.ec2.next_change().into_iter().chain(next).min().map(ahead);
            tokio::select! {
               biased;
                () = objects.changed() => {}
                () = machines.changed() => {}
                () = self.desired.notified() => {}
                () = tokio::time::sleep(due.unwrap_or(IDLE)) => {}
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Runs the models once, and returns the time of their next event.
    pub fn step(&self) -> Option<Timestamp> {
        let place = self.place();
        let mut models = self.models();
        let Models { owners, machines, kubelets } = &mut *models;
        machines.run(&place);
        kubelets.end_pods(&place, owners);
        owners.run(&place);
        scheduler::bind(&place);
        kubelets.start_pods(&place, owners);
        kubelets.resize_pods(&place, machines);
        budgets::count(&place, owners);
        kubelets.next().into_iter().chain(machines.next()).min()
    }

    /// Sets a condition of a Node.
    pub fn say(&self, node: &str, type_: &str, status: &str) {
        self.place().say(node, type_, status);
    }

    fn place(&self) -> Place<'_> {
        Place { server: &self.server, ec2: &self.ec2, now: (self.clock)() }
    }

    fn models(&self) -> MutexGuard<'_, Models> {
        self.models.lock().unwrap()
    }
}

/// Longest time without a look.
const IDLE: Duration = Duration::from_secs(60);

impl Place<'_> {
    /// Sets a condition of a Node.
    fn say(&self, node: &str, type_: &str, status: &str) {
        let Some(found) = self.server.get::<Node>(NODES, node) else { return };
        let event = json!({"type": type_, "status": status, "lastTransitionTime": text(self.now)});
        let mut conditions: Vec<Value> = found.status.conditions.iter().map(|it| json!(it)).collect();
        conditions.retain(|condition| condition["type"] != type_);
        conditions.push(event);
        self.server.change(NODES, node, &json!({"status": {"conditions": conditions}}));
    }
}

/// Returns the workload of a pod, by its label `app`.
pub(crate) fn app_of(pod: &Pod) -> &str {
    let app = pod.metadata.labels.as_ref().and_then(|labels| labels.get("app"));
    app.map(String::as_str).unwrap_or_default()
}

/// Returns `namespace/name` of a pod.
pub(crate) fn key(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace(), pod.name())
}

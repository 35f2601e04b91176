//! The rest of a cluster, as models that poll: kubelets on the instances that EC2 has started, kube-scheduler, the owners of
//! pods, and the disruption controller. None of them depends on the controller.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::objects::{Node, Pod, PodDisruptionBudget};
use api::{condition, label, taint};
use cloud::fake::{FakeCloud, FakeInstance};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api_server::{ApiServer, BUDGETS, NODES, PODS, merge, text};

/// CPUs by size of an instance type; every family here has the same.
const SIZES: [(&str, i64); 4] = [("large", 2), ("xlarge", 4), ("2xlarge", 8), ("4xlarge", 16)];
/// GiB of memory for each CPU; r5 has twice as much.
const MEMORY: i64 = 4;

/// Pods of one owner.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Number of pods.
    pub replicas: usize,
    /// CPU request of each pod, in millicores.
    pub cpu: i64,
    /// Further fields of the pod template.
    pub template: Value,
}

impl Workload {
    /// Returns pods with this CPU request and no further fields.
    #[must_use]
    pub fn of(replicas: usize, cpu: i64) -> Self {
        Self { replicas, cpu, template: json!({}) }
    }
}

/// Models of everything in a cluster except the controller.
pub struct Surroundings {
    /// The API server.
    pub server: Arc<ApiServer>,
    /// Fake of EC2.
    pub ec2: FakeCloud,
    clock: fn() -> Timestamp,
    /// Workloads by name, which is the label `app` of their pods.
    workloads: Mutex<BTreeMap<String, Workload>>,
    made: Mutex<u64>,
    /// Number of calls of `want` so far.
    wishes: AtomicU64,
}

impl Surroundings {
    /// Creates the models without workloads.
    #[must_use]
    pub fn new(server: Arc<ApiServer>, ec2: FakeCloud, clock: fn() -> Timestamp) -> Arc<Self> {
        let (workloads, made, wishes) = (Mutex::default(), Mutex::default(), AtomicU64::default());
        Arc::new(Self { server, ec2, clock, workloads, made, wishes })
    }

    /// Creates or replaces a workload.
    pub fn want(&self, app: &str, workload: Workload) {
        self.workloads.lock().unwrap().insert(app.to_owned(), workload);
        self.wishes.fetch_add(1, Ordering::AcqRel);
    }

    /// Runs the models forever.
    pub async fn live(self: Arc<Self>, pause: Duration) {
        let mut machines = self.ec2.changes();
        let (mut seen, mut next) = (None, None);
        loop {
            self.ec2.tick();
            let is_due = next.is_some_and(|next| next <= (self.clock)());
            let wishes = self.wishes.load(Ordering::Acquire);
            if is_due || machines.has_changed().unwrap_or(true) || seen != Some((self.server.version(), wishes)) {
                machines.mark_unchanged();
                // The next round handles changes that happen during the step.
                seen = Some((self.server.version(), wishes));
                self.step();
                next = self.next_end();
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Returns the time at which the next pod terminates.
    fn next_end(&self) -> Option<Timestamp> {
        let pods = self.server.all::<Pod>(PODS);
        pods.iter().filter_map(|pod| Some(pod.metadata.deletion_timestamp.as_ref()?.0)).min()
    }

    fn step(&self) {
        self.machines();
        self.endings();
        self.owners();
        self.schedule();
        self.run();
        self.budgets();
    }

    /// Creates a Node for each running instance, and sets the Nodes of terminated instances to NotReady.
    fn machines(&self) {
        let nodes = self.server.all::<Node>(NODES);
        let known: BTreeMap<&str, &Node> = nodes.iter().map(|node| (node.spec.provider_id.as_str(), node)).collect();
        for machine in self.ec2.machines() {
            let node = known.get(machine.instance.provider_id().as_str());
            match (machine.instance.state.as_str(), node) {
                ("running", None) => self.server.create(NODES, self.node(&machine)),
                ("shutting-down" | "terminated", Some(node)) if node.is_ready() => {
                    self.say(node.name(), condition::READY, "Unknown");
                }
                _ => {}
            }
        }
    }

    fn node(&self, machine: &FakeInstance) -> Value {
        let instance = &machine.instance;
        let (family, size) = instance.instance_type.split_once('.').unwrap();
        let cpus = SIZES.iter().find(|(name, _)| *name == size).unwrap().1;
        let memory = cpus * MEMORY * if family.starts_with('r') { 2 } else { 1 };
        let now = text((self.clock)());
        let size = json!({"cpu": format!("{}m", cpus * 1000 - 60), "memory": format!("{memory}Gi"), "pods": "110"});
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": instance.private_dns_name, "labels": {
                label::HOSTNAME: instance.private_dns_name, label::ARCH: label::ARCH_AMD64, label::OS: label::OS_LINUX,
                label::INSTANCE_TYPE: instance.instance_type, label::ZONE: instance.zone,
            }},
            "spec": {
                "providerID": instance.provider_id(),
                "taints": [{"key": taint::UNREGISTERED, "effect": taint::NO_EXECUTE}],
            },
            "status": {"capacity": size, "allocatable": size, "conditions": [
                {"type": condition::READY, "status": "True", "reason": "KubeletReady", "lastTransitionTime": now},
            ]},
        })
    }

    /// Sets a condition of a Node.
    pub fn say(&self, node: &str, type_: &str, status: &str) {
        let Some(found) = self.server.get::<Node>(NODES, node) else { return };
        let said = json!({"type": type_, "status": status, "lastTransitionTime": text((self.clock)())});
        let mut conditions: Vec<Value> = found.status.conditions.iter().map(|it| json!(it)).collect();
        conditions.retain(|condition| condition["type"] != type_);
        conditions.push(said);
        self.server.change(NODES, node, &json!({"status": {"conditions": conditions}}));
    }

    /// Removes pods whose grace period is over, and pods of deleted Nodes.
    fn endings(&self) {
        let now = (self.clock)();
        let nodes: BTreeSet<String> =
            self.server.all::<Node>(NODES).iter().map(|node| node.name().to_owned()).collect();
        for pod in self.server.all::<Pod>(PODS) {
            let over = pod.metadata.deletion_timestamp.as_ref().is_some_and(|end| end.0 <= now);
            let orphan = pod.is_bound() && !nodes.contains(&pod.spec.node_name);
            if over || orphan {
                self.server.remove(PODS, &key(&pod));
            }
        }
    }

    /// Creates and deletes pods until each workload has its replicas; terminating pods do not count.
    fn owners(&self) {
        let workloads = self.workloads.lock().unwrap().clone();
        let pods = self.server.all::<Pod>(PODS);
        for (app, workload) in &workloads {
            let own: Vec<&Pod> = pods.iter().filter(|pod| is_of(pod, app) && !pod.is_terminating()).collect();
            for _ in own.len()..workload.replicas {
                self.server.create(PODS, self.pod(app, workload));
            }
            own.iter().skip(workload.replicas).for_each(|pod| self.server.delete(PODS, &key(pod)));
        }
    }

    fn pod(&self, app: &str, workload: &Workload) -> Value {
        let mut made = self.made.lock().unwrap();
        *made += 1;
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("{app}-{made}"), "namespace": "default", "labels": {"app": app},
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": format!("owner-{app}"), "controller": true,
                }],
            },
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "main", "resources": {"requests": {"cpu": format!("{}m", workload.cpu)}}}],
            },
            "status": {"phase": "Pending"},
        });
        merge(&mut pod, &workload.template);
        pod
    }

    /// Binds each pod to a node with free CPU, preferably to its nominated node.
    fn schedule(&self) {
        let pods = self.server.all::<Pod>(PODS);
        let nodes = self.server.all::<Node>(NODES);
        let open: Vec<&Node> = nodes.iter().filter(|node| is_open(node)).collect();
        let mut left: BTreeMap<&str, i64> = open.iter().map(|node| (node.name(), cpu_of(node))).collect();
        for pod in pods.iter().filter(|pod| pod.is_bound()) {
            left.entry(pod.spec.node_name.as_str()).and_modify(|left| *left -= requested(pod));
        }
        for pod in pods.iter().filter(|pod| !pod.is_bound() && !pod.is_terminating()) {
            let fits =
                |node: &&&Node| suits(pod, node) && left.get(node.name()).is_some_and(|it| *it >= requested(pod));
            let expected = open.iter().filter(fits).find(|node| node.name() == pod.status.nominated_node_name);
            match expected.or_else(|| open.iter().find(fits)).map(|node| node.name()) {
                Some(node) => {
                    left.entry(node).and_modify(|left| *left -= requested(pod));
                    let bound = json!({"type": "PodScheduled", "status": "True"});
                    let change = json!({"spec": {"nodeName": node}, "status": {"conditions": [bound]}});
                    self.server.change(PODS, &key(pod), &change);
                }
                None if !pod.is_unschedulable() => self.refuse(pod),
                None => {}
            }
        }
    }

    fn refuse(&self, pod: &Pod) {
        let now = text((self.clock)());
        let refused = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": now,
        });
        self.server.change(PODS, &key(pod), &json!({"status": {"conditions": [refused]}}));
    }

    /// Sets bound pods to Running.
    fn run(&self) {
        let pods = self.server.all::<Pod>(PODS);
        for pod in pods.iter().filter(|pod| pod.is_bound() && pod.status.phase != "Running") {
            let now = text((self.clock)());
            let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": now});
            let status = json!({"phase": "Running", "startTime": now, "conditions": [ready]});
            self.server.change(PODS, &key(pod), &json!({"status": status}));
        }
    }

    /// Updates the allowed disruptions of budgets, as the disruption controller does.
    fn budgets(&self) {
        let pods = self.server.all::<Pod>(PODS);
        for budget in self.server.all::<PodDisruptionBudget>(BUDGETS) {
            let own: Vec<&Pod> = pods.iter().filter(|pod| budget.selects(pod) && !pod.is_terminating()).collect();
            let healthy = i32::try_from(own.iter().filter(|pod| pod.is_ready()).count()).unwrap();
            let expected = i32::try_from(own.len()).unwrap();
            let stays = match &budget.spec.min_available {
                Some(number) => serde_json::to_value(number).unwrap().as_i64().unwrap().try_into().unwrap(),
                None => 0,
            };
            let status = json!({
                "disruptionsAllowed": (healthy - stays).max(0), "currentHealthy": healthy, "desiredHealthy": stays,
                "expectedPods": expected,
            });
            if serde_json::to_value(&budget.status).unwrap() != status {
                let key = format!("default/{}", budget.metadata.name.unwrap());
                self.server.change(BUDGETS, &key, &json!({"status": status}));
            }
        }
    }
}

fn is_of(pod: &Pod, app: &str) -> bool {
    pod.metadata.labels.as_ref().and_then(|labels| labels.get("app")).is_some_and(|label| label == app)
}

fn is_open(node: &Node) -> bool {
    node.is_ready()
        && !node.spec.unschedulable
        && node.spec.taints.iter().all(|taint| taint.effect == "PreferNoSchedule")
}

fn suits(pod: &Pod, node: &Node) -> bool {
    pod.spec.node_selector.iter().all(|(key, value)| node.label(key) == Some(value))
}

fn cpu_of(node: &Node) -> i64 {
    node.status.allocatable["cpu"].amount("cpu").unwrap()
}

fn requested(pod: &Pod) -> i64 {
    pod.spec.containers.iter().map(|it| it.resources.requests["cpu"].amount("cpu").unwrap()).sum()
}

fn key(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace(), pod.name())
}

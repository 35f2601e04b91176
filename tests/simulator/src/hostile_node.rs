//! Node whose programs lie. A program takes the place of kubelet and agent, and writes everything that the API server lets a
//! node write: its Node, its NodeUsage, the status of its pods, static pods, and a second Node with another provider id. Its
//! choices depend only on its seed.

use std::sync::Arc;

use api::objects::{Node, Pod};
use api::usage::{Histogram, Joint, PodId, PodUsage, encode_pods};
use api::{DrainRequest, annotation, condition, label, reason, taint};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::api_server::{ApiServer, NODES, PODS, USAGES, text};
use crate::chance::Chance;

/// Number of invented condition types in one write.
const CONDITIONS: usize = 10_000;
/// Number of invented resources in one write.
const RESOURCES: usize = 500;
/// Maximum number of static pods.
const STATIC_PODS: usize = 5;

const AMOUNTS: [&str; 8] = ["0", "1", "1m", "100", "64Gi", "1000000", "9223372036854775807", "8Ei"];
const STATUSES: [&str; 4] = [condition::TRUE, condition::FALSE, condition::UNKNOWN, "Perhaps"];
const VALUES: [&str; 12] = [
    "",
    "true",
    "false",
    "m5.large",
    "c5.4xlarge",
    "u-24tb1.112xlarge",
    "us-west-2b",
    "moon-1a",
    label::CAPACITY_SPOT,
    label::CAPACITY_RESERVED,
    "default",
    "spare",
];
const LABELS: [&str; 16] = [
    label::INSTANCE_TYPE,
    label::ZONE,
    label::REGION,
    label::ARCH,
    label::OS,
    label::HOSTNAME,
    label::CAPACITY_TYPE,
    label::NODEPOOL,
    label::REGISTERED,
    label::INITIALIZED,
    label::DO_NOT_SYNC_TAINTS,
    label::EC2_NODE_CLASS,
    label::CAPACITY_RESERVATION_ID,
    label::INSTANCE_CPU,
    label::EXCLUDE_BALANCERS,
    "failure-domain.beta.kubernetes.io/zone",
];
const CONDITION_TYPES: [&str; 15] = [
    condition::READY,
    "MemoryPressure",
    "DiskPressure",
    condition::NETWORK_UNAVAILABLE,
    condition::AGENT_READY,
    condition::INTERRUPTED,
    condition::INTERRUPTED,
    condition::NODE_DRAINED,
    condition::MAINTENANCE_SCHEDULED,
    condition::METADATA_REACHABLE,
    condition::KERNEL_READY,
    condition::STORAGE_READY,
    condition::CONTAINER_RUNTIME_READY,
    condition::NETWORKING_READY,
    condition::ACCELERATED_HARDWARE_READY,
];
const REASONS: [&str; 10] = [
    "",
    reason::SPOT_INTERRUPTION,
    reason::REBALANCE_RECOMMENDATION,
    reason::REBALANCE_REPLACEMENT,
    reason::SCHEDULED_EVENT,
    reason::ASG_LIFECYCLE,
    reason::INSTANCE_SHUTDOWN,
    reason::DRAINING,
    "KubeletReady",
    "Any,Number,Of,Reasons",
];
const ANNOTATIONS: [&str; 12] = [
    annotation::INTERRUPTION_DEADLINE,
    annotation::AGENT_HEARTBEAT,
    annotation::DRAIN,
    annotation::DRAIN_TAKEN_OVER,
    annotation::DO_NOT_DISRUPT,
    annotation::TIMELINE,
    annotation::REPLACEMENT_APPROVED,
    annotation::REPLACED_BY,
    annotation::TERMINATION_TIMESTAMP,
    annotation::NODEPOOL_HASH,
    annotation::EC2_NODE_CLASS_HASH,
    annotation::LAUNCH_TOKEN,
];

/// Field that a program writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Labels,
    Amounts,
    Conditions,
    InventedConditions,
    Annotations,
    Cordon,
    Finalizers,
    NodeInfo,
    Usage,
    PodStatus,
    StaticPods,
}

const KINDS: [Kind; 11] = [
    Kind::Labels,
    Kind::Amounts,
    Kind::Conditions,
    Kind::InventedConditions,
    Kind::Annotations,
    Kind::Cordon,
    Kind::Finalizers,
    Kind::NodeInfo,
    Kind::Usage,
    Kind::PodStatus,
    Kind::StaticPods,
];

/// Program of one node. It uses some kinds of fields only, since a node that writes all of them is soon replaced.
#[derive(Debug)]
pub struct HostileNode {
    name: String,
    provider_id: String,
    /// Provider id of another node.
    victim: String,
    kinds: Vec<Kind>,
    condition_types: Vec<&'static str>,
    /// The program writes at one of so many opportunities.
    rarity: usize,
    /// True if a second Node carries the provider id of the victim.
    duplicates: bool,
    /// True if the program claims to drain for ever, and never gives the drain to the controller.
    drains: bool,
    chance: Chance,
}

impl HostileNode {
    /// Creates the program of the Node with this name.
    #[must_use]
    pub fn new(name: &str, provider_id: &str, victim: &str, seed: u64) -> Self {
        let chance = Chance::new(seed);
        let mut kinds = vec![KINDS[chance.below(KINDS.len())]];
        if !chance.one_in(3) {
            kinds.extend(KINDS.into_iter().filter(|_| chance.one_in(2)));
        }
        let is_interrupted = chance.one_in(2);
        let types = CONDITION_TYPES.into_iter().filter(|type_| is_interrupted || *type_ != condition::INTERRUPTED);
        let own = str::to_owned;
        Self {
            name: own(name),
            provider_id: own(provider_id),
            victim: own(victim),
            kinds,
            condition_types: types.collect(),
            rarity: [1, 6, 30][chance.below(3)],
            duplicates: chance.one_in(2),
            drains: chance.one_in(2),
            chance,
        }
    }

    /// Writes some random values. A program that claims to drain writes nothing else from the deletion of its Node on.
    pub fn write(&self, server: &ApiServer, now: Timestamp) {
        let node = server.get::<Node>(NODES, &self.name);
        if self.drains {
            self.claim_to_drain(server, now);
            if node.is_some_and(|node| node.metadata.deletion_timestamp.is_some()) {
                return;
            }
        }
        if self.chance.one_in(self.rarity) {
            for _ in 0..=self.chance.below(3) {
                let second = self.duplicates && self.chance.one_in(4);
                let node = if second { self.second_node(server) } else { self.name.clone() };
                self.write_one(server, &node, now);
            }
        }
    }

    fn write_one(&self, server: &ApiServer, node: &str, now: Timestamp) {
        let change = match self.kinds[self.chance.below(self.kinds.len())] {
            Kind::Labels => json!({"metadata": {"labels": {self.pick(&LABELS): self.label_value()}}}),
            Kind::Amounts => self.amounts(),
            Kind::Conditions => return self.set_condition(server, node, now),
            Kind::InventedConditions if self.chance.one_in(30) => self.invented_conditions(now),
            Kind::InventedConditions => return,
            Kind::Annotations => {
                json!({"metadata": {"annotations": {self.pick(&ANNOTATIONS): self.annotation_value(now)}}})
            }
            Kind::Cordon => json!({"spec": {"unschedulable": self.chance.one_in(2)}}),
            Kind::Finalizers => json!({"metadata": {"finalizers": self.finalizers(), "ownerReferences": []}}),
            Kind::NodeInfo => {
                json!({"status": {"nodeInfo": {"bootID": self.garbage(), "kubeletVersion": self.garbage()}}})
            }
            Kind::Usage => return self.report_usage(server, now),
            Kind::PodStatus => return self.change_pod(server, now),
            Kind::StaticPods => return self.create_static_pod(server),
        };
        server.change(NODES, node, &change);
    }

    /// Changes a Node before the API server stores it for the first time. The taint of new nodes stays.
    pub fn write_at_boot(&self, node: &mut Value) {
        for _ in 0..self.chance.below(4) {
            node["metadata"]["labels"][self.pick(&LABELS)] = json!(self.pick(&VALUES));
        }
        if self.chance.one_in(2) {
            node["metadata"]["labels"][label::DO_NOT_SYNC_TAINTS] = json!(label::TRUE);
        }
        if self.chance.one_in(3) {
            crate::api_server::merge(node, &self.amounts());
        }
    }

    fn pick<'v>(&self, values: &[&'v str]) -> &'v str {
        values[self.chance.below(values.len())]
    }

    fn garbage(&self) -> String {
        let length = [0, 1, 20, 63, 300, 5000][self.chance.below(6)];
        "Ab/-_.9,=;{\"\u{e4}\u{1f600}".chars().cycle().skip(self.chance.below(9)).take(length).collect()
    }

    fn label_value(&self) -> Option<String> {
        match self.chance.below(8) {
            0 => None,
            1 => Some(format!("invented-{}", self.chance.below(1_000_000))),
            _ => Some(self.pick(&VALUES).to_owned()),
        }
    }

    fn moment(&self, now: Timestamp) -> String {
        let ago = |seconds| text(now - SignedDuration::from_secs(seconds));
        match self.chance.below(6) {
            0 => "0001-01-01T00:00:00Z".to_owned(),
            1 => "9999-12-30T00:00:00Z".to_owned(),
            2 => ago(86_400),
            3 => ago(-120),
            _ => ago(0),
        }
    }

    fn annotation_value(&self, now: Timestamp) -> Option<String> {
        let id = self.pick(&["termination-1", "a,b", ""]);
        match self.chance.below(8) {
            0 => None,
            1 => Some(self.garbage()),
            2 => Some(self.pick(&VALUES).to_owned()),
            3 => Some("never".to_owned()),
            4 => Some(json!({"id": id, "reason": self.garbage(), "at": self.moment(now)}).to_string()),
            5 => Some(json!({"id": id, "deadline": self.moment(now), "asked": self.moment(now)}).to_string()),
            _ => Some(self.moment(now)),
        }
    }

    fn amounts(&self) -> Value {
        let mut list = Map::new();
        for resource in ["cpu", "memory", "pods", "ephemeral-storage", "nvidia.com/gpu"] {
            if self.chance.one_in(2) {
                list.insert(resource.to_owned(), json!(self.pick(&AMOUNTS)));
            }
        }
        if self.chance.one_in(8) {
            let first = self.chance.below(100_000);
            list.extend((first..first + RESOURCES).map(|number| (format!("invented.com/{number}"), json!("1"))));
        }
        match self.chance.below(3) {
            0 => json!({"status": {"capacity": list}}),
            1 => json!({"status": {"allocatable": list}}),
            _ => json!({"status": {"capacity": list, "allocatable": list}}),
        }
    }

    fn message(&self, now: Timestamp) -> String {
        match self.chance.below(5) {
            0 => format!("deadline={} policy=drain", self.moment(now)),
            1 => format!("id={} policy=replace", self.chance.below(1000)),
            2 => "for=x evicted=18446744073709551615 forced=18446744073709551615 left=18446744073709551615".to_owned(),
            3 => "a long message ".repeat(2000),
            _ => self.garbage(),
        }
    }

    fn set_condition(&self, server: &ApiServer, node: &str, now: Timestamp) {
        let stated = json!({
            "type": self.pick(&self.condition_types), "status": self.pick(&STATUSES), "reason": self.pick(&REASONS),
            "message": self.message(now), "lastTransitionTime": self.moment(now), "lastHeartbeatTime": self.moment(now),
        });
        set_condition(server, node, stated);
    }

    fn invented_conditions(&self, now: Timestamp) -> Value {
        let first = self.chance.below(1_000_000);
        let invented = (first..first + CONDITIONS).map(|number| {
            json!({
                "type": format!("Invented{number}"), "status": condition::FALSE, "reason": format!("Because{number}"),
                "lastTransitionTime": text(now),
            })
        });
        let ready = json!({"type": condition::READY, "status": condition::TRUE, "lastTransitionTime": text(now)});
        json!({"status": {"conditions": invented.chain([ready]).collect::<Vec<_>>()}})
    }

    fn finalizers(&self) -> Vec<&'static str> {
        if self.chance.one_in(2) { Vec::new() } else { vec!["hostile.example/never"] }
    }

    /// Returns the name of a second Node, which carries the provider id of another node.
    fn second_node(&self, server: &ApiServer) -> String {
        let name = format!("a-{}", self.name);
        if server.get::<Node>(NODES, &name).is_none() {
            let ready = json!({"type": condition::READY, "status": condition::TRUE});
            let labels =
                json!({label::REGISTERED: label::TRUE, label::INITIALIZED: label::TRUE, label::NODEPOOL: "default"});
            server.create(
                NODES,
                json!({
                    "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
                    "spec": {"providerID": self.victim}, "status": {"conditions": [ready]},
                }),
            );
        }
        name
    }

    fn report_usage(&self, server: &ApiServer, now: Timestamp) {
        let figures = || {
            let amount = || self.pick(&AMOUNTS);
            json!({
                "p50": amount(), "p95": amount(), "p99": amount(), "peak5m": amount(), "peak1h": amount(),
                "peak24h": amount(),
            })
        };
        let instance = if self.chance.one_in(4) { &self.victim } else { &self.provider_id };
        let share = || self.chance.below(1001);
        let spec = json!({
            "instance": instance.rsplit('/').next(), "measuredAt": self.moment(now), "since": self.moment(now),
            "cpu": figures(), "memory": figures(), "throttled": share(),
            "pressure": {
                "cpu": share(), "memory": share(), "memoryFull": share(), "io": share(), "ioFull": share(),
            },
            "oomKills": self.chance.below(u32::MAX as usize), "pods": encode_pods(&self.usage_of_pods(server, now)),
            "histograms": {
                "cpu": Histogram::default().abridged(), "memory": Histogram::default().abridged(),
                "joint": Joint::default().abridged(),
            },
        });
        // The admission policy permits only the name of the node.
        let report = json!({
            "apiVersion": "kerf.sh/v1alpha1", "kind": "NodeUsage", "metadata": {"name": self.name}, "spec": spec,
        });
        server.create(USAGES, report);
    }

    /// Returns a usage of any size for each pod of the cluster, also for those of other nodes.
    fn usage_of_pods(&self, server: &ApiServer, now: Timestamp) -> Vec<PodUsage> {
        let pods = server.shared::<Pod>(PODS);
        let usage = |pod: &Arc<Pod>| {
            let mut histogram = Histogram::default();
            histogram.add([0, 1, 1 << 30, u64::MAX][self.chance.below(4)], now);
            let level = histogram.percentile(950)?;
            let id = PodId::from_uid(pod.metadata.uid.as_deref()?)?;
            Some(PodUsage {
                id,
                cpu_p50: level,
                cpu_p95: level,
                cpu_peak: level,
                memory_p95: level,
                memory_peak: level,
                throttled: 0,
                pressure: u8::try_from(self.chance.below(101)).ok()?,
                oom_kills: u8::try_from(self.chance.below(3)).ok()?,
                hours: u8::MAX,
            })
        };
        let mut all: Vec<PodUsage> = pods.iter().filter_map(usage).collect();
        all.sort_by_key(|usage| usage.id);
        all.dedup_by_key(|usage| usage.id);
        all
    }

    fn change_pod(&self, server: &ApiServer, now: Timestamp) {
        let pods = server.shared::<Pod>(PODS);
        let own: Vec<_> = pods.iter().filter(|pod| pod.spec.node_name == self.name).collect();
        if own.is_empty() {
            return;
        }
        let pod = own[self.chance.below(own.len())];
        let resources = json!({"cpu": self.pick(&AMOUNTS), "memory": self.pick(&AMOUNTS)});
        let stated = |type_: &str| {
            json!({
                "type": type_, "status": self.pick(&STATUSES[..3]), "reason": self.pick(&["Infeasible", "Deferred", ""]),
                "lastTransitionTime": self.moment(now),
            })
        };
        let status = match self.chance.below(3) {
            0 => json!({"containerStatuses": [{"name": "main", "allocatedResources": resources}]}),
            1 => json!({"conditions": [stated("Ready"), stated("PodScheduled"), stated("PodResizePending")]}),
            _ => json!({"startTime": self.moment(now)}),
        };
        server.change(PODS, &format!("{}/{}", pod.namespace(), pod.name()), &json!({"status": status}));
    }

    /// Creates a static pod, which kubelet shows to the API server as it pleases.
    fn create_static_pod(&self, server: &ApiServer) {
        let name = format!("static-{}-{}", self.chance.below(STATIC_PODS), self.name);
        if server.get::<Pod>(PODS, &format!("default/{name}")).is_some() {
            return server.remove(PODS, &format!("default/{name}"));
        }
        let requests = json!({"cpu": self.pick(&AMOUNTS), "memory": self.pick(&AMOUNTS), "invented.com/a": "1"});
        let annotations = json!({
            annotation::MIRROR_POD: "x", annotation::DO_NOT_DISRUPT: self.pick(&["true", "9999h", "x"]),
            annotation::POD_DELETION_COST: self.pick(&AMOUNTS), annotation::REQUESTED: self.garbage(),
        });
        let owner = json!({"apiVersion": "v1", "kind": "Node", "name": self.name, "uid": "x", "controller": true});
        server.create(
            PODS,
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "name": name, "namespace": "default", "annotations": annotations, "ownerReferences": [owner],
                    "labels": {"app": format!("static-{}", self.name)},
                },
                "spec": {
                    "nodeName": self.name, "priority": 2_000_001_000, "terminationGracePeriodSeconds": i64::MAX,
                    "containers": [{"name": "main", "resources": {"requests": requests}}],
                },
                "status": {"phase": "Running"},
            }),
        );
    }

    /// Answers each drain request, with a current heartbeat and without an end, and removes the controller's signature.
    fn claim_to_drain(&self, server: &ApiServer, now: Timestamp) {
        let Some(node) = server.get::<Node>(NODES, &self.name) else { return };
        let beats = json!({annotation::AGENT_HEARTBEAT: now.to_string(), annotation::DRAIN_TAKEN_OVER: null});
        server.change(NODES, &self.name, &json!({"metadata": {"annotations": beats}}));
        let Some(request) = node.annotation(annotation::DRAIN).and_then(|text| DrainRequest::parse(text).ok()) else {
            return;
        };
        let stated = json!({
            "type": condition::NODE_DRAINED, "status": condition::FALSE, "reason": reason::DRAINING,
            "message": format!("for={} evicted=18446744073709551615 forced=1 left=3", request.id),
            "lastTransitionTime": text(now),
        });
        set_condition(server, &self.name, stated);
    }
}

fn set_condition(server: &ApiServer, node: &str, stated: Value) {
    let Some(found) = server.get::<Node>(NODES, node) else { return };
    let others = found.status.conditions.iter().filter(|it| stated["type"] != it.type_);
    let mut conditions: Vec<Value> = others.map(|it| json!(it)).collect();
    conditions.push(stated);
    server.change(NODES, node, &json!({"status": {"conditions": conditions}}));
}

/// Sets the taints of nodes that are not ready, as Kubernetes' node lifecycle controller does.
pub fn taint_unready_nodes(server: &ApiServer) {
    const NOT_READY: &str = "node.kubernetes.io/not-ready";
    for node in server.shared::<Node>(NODES) {
        let is_tainted = node.has_taint(NOT_READY, taint::NO_SCHEDULE);
        if is_tainted == node.is_ready() {
            let mut taints: Vec<Value> = node.spec.taints.iter().map(|it| json!(it)).collect();
            taints.retain(|it| it["key"] != NOT_READY);
            if !node.is_ready() {
                taints.push(json!({"key": NOT_READY, "effect": taint::NO_SCHEDULE}));
            }
            server.change(NODES, node.name(), &json!({"spec": {"taints": taints}}));
        }
    }
}

//! Instances as kubelet and the cloud controller see them: kubelet registers a Node, the cloud controller deletes the Node of a
//! terminated instance.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::objects::Node;
use api::{condition, label, quantity, taint};
use cloud::fake::FakeInstance;
use daemon::changes::Changes;
use jiff::{SignedDuration, Timestamp};
use planner::Resources;
use serde_json::{Map, Value, json};

use super::Place;
use crate::api_server::{NODES, text};
use crate::chance::Chance;
use crate::kinds;

/// One of so many nodes cannot resize running pods, as with the static CPU policy.
const RIGID: u64 = 20;

/// Boot of instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Boot {
    /// Shortest and longest time from the launch to the Node. A Node never precedes the state `running`.
    pub registers: (SignedDuration, SignedDuration),
    /// Time from the Node to Ready.
    pub ready: SignedDuration,
    /// Percentage of instances that never register.
    pub duds: usize,
    /// Seed of the random choices.
    pub seed: u64,
}

/// Change of a new Node.
pub type NodeChange = Box<dyn FnMut(&mut Value) + Send>;

/// State of the instances.
#[derive(Default)]
pub(super) struct Machines {
    pub(super) boot: Boot,
    pub(super) change: Option<NodeChange>,
    /// Registration of each instance that has none yet; `None` never registers.
    registers: BTreeMap<String, Option<Timestamp>>,
    /// Time at which each new Node becomes ready.
    ready: BTreeMap<String, Timestamp>,
    /// Number of instances so far.
    seen: u64,
    /// Nodes that cannot resize running pods.
    rigid: BTreeSet<String>,
    /// All instances as of the last change.
    all: Vec<FakeInstance>,
    changes: Option<Changes>,
}

impl Machines {
    /// Returns the time of the next event.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.registers.values().flatten().chain(self.ready.values()).min().copied()
    }

    /// Reports whether a node cannot resize running pods.
    pub(super) fn is_rigid(&self, node: &str) -> bool {
        self.rigid.contains(node)
    }

    pub(super) fn run(&mut self, place: &Place<'_>) {
        let nodes = place.server.shared::<Node>(NODES);
        let known: BTreeMap<&str, &Arc<Node>> =
            nodes.iter().map(|node| (node.spec.provider_id.as_str(), node)).collect();
        let all = self.instances(place);
        self.registers.retain(|id, _| all.iter().any(|it| it.instance.id == *id && !it.instance.is_ending()));
        for machine in &all {
            let node = known.get(machine.instance.provider_id().as_str());
            match (machine.instance.state.as_str(), node) {
                ("pending" | "running", None) => self.register(place, machine),
                ("shutting-down" | "terminated", Some(node)) if node.is_ready() => {
                    place.say(node.name(), condition::READY, "Unknown");
                }
                ("terminated", Some(node)) if node.metadata.deletion_timestamp.is_none() => {
                    place.server.delete(NODES, node.name());
                }
                _ => {}
            }
        }
        self.all = all;
        for (node, _) in self.ready.extract_if(.., |_, at| *at <= place.now) {
            place.say(&node, condition::READY, condition::TRUE);
        }
    }

    /// Takes the instances, which are read again only after a change.
    fn instances(&mut self, place: &Place<'_>) -> Vec<FakeInstance> {
        place.ec2.tick();
        let changes = self.changes.get_or_insert_with(|| {
            let mut changes = place.ec2.changes();
            changes.mark_changed();
            changes
        });
        if !changes.has_changed() {
            return std::mem::take(&mut self.all);
        }
        changes.mark_unchanged();
        place.ec2.machines()
    }

    fn register(&mut self, place: &Place<'_>, machine: &FakeInstance) {
        let id = &machine.instance.id;
        if !self.registers.contains_key(id) {
            let at = self.registration(machine);
            self.registers.insert(id.clone(), at);
        }
        let due = self.registers[id].is_some_and(|at| at <= place.now);
        if due && machine.instance.state == "running" {
            self.registers.insert(id.clone(), None);
            let ready = self.boot.ready.is_zero();
            let mut node = node(machine, ready, place.now);
            self.change.iter_mut().for_each(|change| change(&mut node));
            place.server.create(NODES, node);
            if !ready {
                self.ready.insert(machine.instance.private_dns_name.clone(), place.now + self.boot.ready);
            }
        }
    }

    fn registration(&mut self, machine: &FakeInstance) -> Option<Timestamp> {
        self.seen += 1;
        if self.seen.is_multiple_of(RIGID) {
            self.rigid.insert(machine.instance.private_dns_name.clone());
        }
        let chance = Chance::new(self.boot.seed.rotate_left(17) ^ self.seen.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        if chance.below(100) < self.boot.duds {
            return None;
        }
        let (least, most) = self.boot.registers;
        let spread = usize::try_from((most - least).as_millis()).unwrap() + 1;
        Some(machine.launched + least + SignedDuration::from_millis(chance.below(spread) as i64))
    }
}

fn node(machine: &FakeInstance, ready: bool, now: Timestamp) -> Value {
    let instance = &machine.instance;
    let kind = kinds::kind(&instance.instance_type);
    let mut labels: Map<String, Value> =
        kind.labels.iter().filter_map(|(key, values)| Some((key.clone(), json!(values.first()?)))).collect();
    labels.insert(label::HOSTNAME.to_owned(), json!(instance.private_dns_name));
    labels.insert(label::INSTANCE_TYPE.to_owned(), json!(instance.instance_type));
    labels.insert(label::ZONE.to_owned(), json!(instance.zone));
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": instance.private_dns_name, "labels": labels},
        "spec": {
            "providerID": instance.provider_id(),
            "taints": [{"key": taint::UNREGISTERED, "effect": taint::NO_EXECUTE}],
        },
        "status": {"capacity": amounts(&kind.capacity), "allocatable": amounts(&kind.allocatable), "conditions": [{
            "type": condition::READY, "status": if ready { condition::TRUE } else { condition::FALSE },
            "reason": "KubeletReady", "lastTransitionTime": text(now),
        }]},
    })
}

/// Returns the quantities in the API's form, without those that are zero.
fn amounts(resources: &Resources) -> Value {
    let all = resources.iter().filter(|(_, amount)| *amount > 0);
    all.map(|(name, amount)| (name.to_owned(), json!(quantity::text(name, amount)))).collect::<Map<_, _>>().into()
}

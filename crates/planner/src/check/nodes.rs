//! Existing nodes: assigned pods fit there together with all present and future pods.

use std::collections::BTreeMap;

use crate::{Daemon, Node, Plan, PodShape, Resources, Snapshot, Stage};

use super::in_flight_node::InFlightNode;
use super::labels::{first_untolerated, missing_resources};
use super::node_places::{cordon, domains, is_running, meets_requirements};
use super::shared_resources::NodePods;
use super::topology::ExcludedDaemons;
use super::verdicts::{self, AssignedNode};
use super::{Findings, InFlightNodes};

pub(super) fn check(
    snapshot: &Snapshot,
    plan: &Plan,
    in_flight_nodes: &InFlightNodes<'_>,
    excluded_daemons: &ExcludedDaemons,
    findings: &mut Findings,
) {
    let mut assigned: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (pod, verdict) in plan.report.pods.iter().enumerate() {
        if let Some(AssignedNode::Node(node)) = verdicts::place(verdict) {
            assigned.entry(node).or_default().push(pod);
        }
    }
    for (node, in_flight_node) in snapshot.nodes.iter().zip(&in_flight_nodes.nodes) {
        if let Some(pods) = assigned.get(node.name.as_str()) {
            let subject = format!("node {}", node.name);
            let assigned = NodePods { snapshot, subject: &subject, pods };
            ReceivingNode { snapshot, node, in_flight_node: in_flight_node.as_deref(), excluded_daemons, assigned }
                .check(findings);
        }
    }
}

/// Node to which the plan assigns pods.
struct ReceivingNode<'a> {
    snapshot: &'a Snapshot,
    node: &'a Node,
    in_flight_node: Option<&'a InFlightNode<'a>>,
    excluded_daemons: &'a ExcludedDaemons,
    assigned: NodePods<'a>,
}

impl<'a> ReceivingNode<'a> {
    fn check(&self, findings: &mut Findings) {
        let (node, subject) = (self.node, self.assigned.subject);
        findings.expect(node.leaving.is_none(), subject, || "is leaving and gets pods".to_owned());
        let expired = node.claim.is_some() && node.expires.is_some_and(|at| at <= self.snapshot.now);
        findings.expect(node.stage == Stage::Initialized || !expired, subject, || {
            "has expired before it came up and gets pods".to_owned()
        });
        for pod in self.assigned.pods {
            let pod = &self.snapshot.pods[*pod];
            let shape = &self.snapshot.shapes[pod.shape];
            let tolerates = !node.unschedulable || first_untolerated(&cordon(), &shape.tolerations).is_none();
            findings
                .expect(tolerates, subject, || format!("is cordoned and gets pods that do not bear it: {}", pod.name));
            if let Some(taint) = first_untolerated(&node.taints, &shape.tolerations) {
                findings.add(subject, format!("pod {} does not bear taint {taint}", pod.name));
            }
            let fulfils = meets_requirements(node, self.in_flight_node, shape);
            findings.expect(fulfils, subject, || format!("pod {} wants other labels", pod.name));
        }
        let daemons: Vec<&Daemon> = self.daemons().collect();
        self.capacity(&daemons, findings);
        let daemon_shapes = daemons.iter().map(|daemon| &daemon.shape);
        let residents: Vec<&PodShape> = node.pods.iter().map(|pod| pod.shape.as_ref()).chain(daemon_shapes).collect();
        self.assigned.ports(&residents, findings);
        self.assigned.attachments(Some(node), &node.attach_limits, "", findings);
    }

    /// Returns DaemonSets whose pods certainly run there, now or later; for those that a claim may still attract, the solver is
    /// responsible.
    fn daemons(&self) -> impl Iterator<Item = &'a Daemon> {
        let values = |key: &str| domains(self.node, self.in_flight_node, key);
        let comes = move |(position, Daemon { shape, .. }): &(usize, &Daemon)| {
            first_untolerated(&self.node.taints, &shape.tolerations).is_none()
                && meets_requirements(self.node, self.in_flight_node, shape)
                && (is_running(self.node, shape) || !self.excluded_daemons.contains(*position, values))
        };
        self.snapshot.daemons.iter().enumerate().filter(comes).map(|(_, daemon)| daemon)
    }

    fn capacity(&self, daemons: &[&Daemon], findings: &mut Findings) {
        let requests = |pod: &usize| &self.snapshot.shapes[self.snapshot.pods[*pod].shape].requests;
        let mut wanted = self.node.used.clone();
        self.assigned.pods.iter().for_each(|pod| wanted.add(requests(pod)));
        for Daemon { name, shape } in daemons {
            let there = |resource: &str| self.node.daemon_used.get(name).map_or(0, |there| there.get(resource));
            let missing = shape.requests.iter().map(|(resource, amount)| (resource, amount - there(resource)));
            wanted.add(&missing.filter(|(_, amount)| *amount > 0).collect());
        }
        // Present pods may exceed the node without a fault of the plan; only requested resources count.
        let requested = |resource: &str| self.assigned.pods.iter().any(|pod| requests(pod).get(resource) > 0);
        let requested: Resources = wanted.iter().filter(|(name, _)| requested(name)).collect();
        let lacking = missing_resources(&requested, &self.node.allocatable);
        findings.expect(lacking.is_empty(), self.assigned.subject, || format!("is overfull: {}", lacking.join(", ")));
    }
}

//! Invariants of the rest of the cluster, which hold after every write of any client.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use api::NodeClaim;
use api::objects::{Node, Pod, PodDisruptionBudget};
use simulator::api_server::{BUDGETS, CLAIMS, Check, NODES, Objects, PODS};

/// Nodes that are hostile, by name and provider id.
#[derive(Clone, Debug, Default)]
pub struct HostileNodes(Arc<Mutex<Vec<(String, String)>>>);

impl HostileNodes {
    pub fn add(&self, name: &str, provider_id: &str) {
        self.0.lock().unwrap().push((name.to_owned(), provider_id.to_owned()));
    }

    pub fn all(&self) -> Vec<(String, String)> {
        self.0.lock().unwrap().clone()
    }

    /// Reports whether a Node is hostile, or is the second Node of a hostile one.
    pub fn has_node(&self, name: &str) -> bool {
        self.0.lock().unwrap().iter().any(|(node, _)| name == node || name.strip_prefix("a-") == Some(node))
    }

    pub fn has_claim(&self, claim: &NodeClaim) -> bool {
        let id = claim.provider_id().unwrap_or_default();
        self.0.lock().unwrap().iter().any(|(_, provider_id)| provider_id == id)
    }
}

/// Returns a check: no other NodeClaim with pods is deleted or replaced, no other node is cordoned, no pod of another node
/// terminates, and each PodDisruptionBudget holds. Each violation is reported once.
pub fn check(hostile: HostileNodes) -> Check {
    let (mut reported, mut reached) = (BTreeSet::new(), BTreeSet::new());
    Box::new(move |objects: &Objects| {
        let (nodes, pods) = (objects.shared::<Node>(NODES), objects.shared::<Pod>(PODS));
        let mut found = ended_claims(&objects.shared(CLAIMS), &pods, &hostile);
        found.extend(cordoned_nodes(&nodes, &hostile));
        found.extend(leaving_pods(&nodes, &pods, &hostile));
        found.extend(broken_budgets(&objects.shared(BUDGETS), &pods, &hostile, &mut reached));
        found.into_iter().find(|text| reported.insert(text.clone()))
    })
}

fn ended_claims(claims: &[Arc<NodeClaim>], pods: &[Arc<Pod>], hostile: &HostileNodes) -> Vec<String> {
    let in_use = |claim: &NodeClaim| {
        let node = claim.status.as_ref().map_or("", |status| status.node_name.as_str());
        !node.is_empty() && pods.iter().any(|pod| pod.spec.node_name == node)
    };
    let ends = |claim: &NodeClaim| claim.metadata.deletion_timestamp.is_some() || claim.replaced_by().is_some();
    let others = claims.iter().filter(|claim| ends(claim) && !hostile.has_claim(claim) && in_use(claim));
    let name = |claim: &Arc<NodeClaim>| claim.metadata.name.clone().unwrap_or_default();
    others.map(|claim| format!("NodeClaim {} of another node ends", name(claim))).collect()
}

fn cordoned_nodes(nodes: &[Arc<Node>], hostile: &HostileNodes) -> Vec<String> {
    let others = nodes.iter().filter(|node| node.spec.unschedulable && !hostile.has_node(node.name()));
    others.map(|node| format!("another node {} is cordoned", node.name())).collect()
}

fn leaving_pods(nodes: &[Arc<Node>], pods: &[Arc<Pod>], hostile: &HostileNodes) -> Vec<String> {
    let there: BTreeSet<&str> = nodes.iter().map(|node| node.name()).collect();
    let others = pods.iter().filter(|pod| {
        let node = pod.spec.node_name.as_str();
        pod.is_terminating() && there.contains(node) && !hostile.has_node(node)
    });
    others.map(|pod| format!("pod {} of another node {} terminates", pod.name(), pod.spec.node_name)).collect()
}

/// Returns the budgets with fewer ready pods than they require, once that number was reached. Pods of hostile nodes count,
/// because these nodes may claim anything about them.
fn broken_budgets(
    budgets: &[Arc<PodDisruptionBudget>],
    pods: &[Arc<Pod>],
    hostile: &HostileNodes,
    reached: &mut BTreeSet<String>,
) -> Vec<String> {
    let broken = budgets.iter().filter_map(|budget| {
        let name = budget.metadata.name.clone().unwrap();
        let least = serde_json::to_value(&budget.spec.min_available).unwrap().as_u64().unwrap();
        let counts = |pod: &Pod| pod.is_ready() || hostile.has_node(&pod.spec.node_name);
        let ready = pods.iter().filter(|pod| budget.selects(pod) && counts(pod) && !pod.is_terminating()).count();
        if ready as u64 >= least {
            reached.insert(name);
            return None;
        }
        reached.contains(&name).then(|| format!("{ready} pods of {name} are ready, {least} have to be"))
    });
    broken.collect()
}

//! Nodes with a NodePool label but without a NodeClaim, Nodes with an invalid `do-not-disrupt` annotation or with keys without
//! effect, and Nodes that start with a taint that their NodePool does not declare.

use api::ineffective::{KeyOwner, keys};
use api::objects::Node;
use api::{NodePool, label};

use super::NodeSource;
use crate::problem::{ineffective, merge_equal};
use crate::{Input, Problem};

/// Domains of taints that Kubernetes, Karpenter and the agent set and remove themselves.
const PLATFORM: [&str; 4] = ["karpenter.sh", "kerf.sh", "node.cloudprovider.kubernetes.io", "node.kubernetes.io"];

/// Returns the nodes with a NodePool's label but without a NodeClaim, once per NodePool, the nodes with an invalid
/// `do-not-disrupt` annotation or keys without effect, and those with undeclared taints.
pub(crate) fn problems(input: &Input<'_>, machines: &[NodeSource<'_>]) -> Vec<Problem> {
    let invalid = machines.iter().filter_map(|machine| {
        let (node, text) = (machine.node?, machine.node?.misread_do_not_disrupt()?.to_owned());
        Some(Problem::NodeDoNotDisrupt { node: node.name().to_owned(), others: 0, text })
    });
    let alone = machines.iter().filter(|machine| machine.claim.is_none());
    let unclaimed = alone.filter_map(|machine| {
        let (node, pool) = (machine.node?, machine.pool()?);
        let is_unclaimed = node.metadata.deletion_timestamp.is_none() && input.is_settled(&node.metadata);
        is_unclaimed.then(|| Problem::Unclaimed { node: node.name().to_owned(), others: 0, pool: pool.clone() })
    });
    let without_effect = machines.iter().filter_map(|machine| machine.node).flat_map(|node| {
        let own = &node.metadata;
        let settings = keys(KeyOwner::Node, "metadata", own.annotations.as_ref(), own.labels.as_ref());
        ineffective("Node", Some(node.name()), settings)
    });
    let undeclared = machines.iter().flat_map(|machine| undeclared_taints(input, machine));
    let all = unclaimed.chain(invalid).chain(without_effect).chain(undeclared);
    merge_equal(all.map(|problem| ((), problem)))
}

/// Returns the taints of a node that is not initialized which its NodePool declares neither as taints nor as startup taints.
/// kube-scheduler places no pod there, and planning counts on no pod there, until something removes the taint.
fn undeclared_taints(input: &Input<'_>, machine: &NodeSource<'_>) -> Vec<Problem> {
    let (Some(node), Some(name), true) = (machine.node, machine.pool(), machine.claim.is_some()) else {
        return Vec::new();
    };
    let is_initialized = node.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(label::INITIALIZED));
    let pool = input.pools.iter().find(|pool| pool.metadata.name.as_ref() == Some(name));
    let Some(pool) = pool.filter(|_| !is_initialized && node.metadata.deletion_timestamp.is_none()) else {
        return Vec::new();
    };
    let problem =
        |taint: String| Problem::UndeclaredTaint { node: node.name().to_owned(), others: 0, taint, pool: name.clone() };
    undeclared(node, pool).map(problem).collect()
}

fn undeclared<'a>(node: &'a Node, pool: &'a NodePool) -> impl Iterator<Item = String> + 'a {
    let template = &pool.spec.template.spec;
    let declared = || template.taints.iter().chain(&template.startup_taints).flatten();
    let is_own = |key: &str| PLATFORM.contains(&label::domain(key).unwrap_or_default());
    let unknown = node.spec.taints.iter().filter(move |taint| {
        !is_own(&taint.key) && !declared().any(|known| known.key == taint.key && known.effect == taint.effect)
    });
    unknown
        .filter(|taint| taint.effect != api::taint::PREFER_NO_SCHEDULE)
        .map(|taint| format!("{}:{}", taint.key, taint.effect))
}

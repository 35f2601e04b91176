//! Two checks of disruption budgets. When a command begins, every unavailable node of its NodePool counts, including nodes that
//! fail for other reasons. Karpenter counts in the same way before it begins a command. After each step, the nodes that Kerf
//! disrupts are compared with the budgets of that instant.
//!
//! The second check cannot simply require "never more than the budget". Nodes that EC2 interrupts or that fail lower the base
//! of a percentage while other disruptions are in progress. A window may open while commands are in progress. A command that
//! has begun continues, because a rollback would disrupt pods again.
//!
//! The invariant is: while more nodes are being disrupted than a budget allows, no further node joins them. So each node was
//! within every budget for its reason when Kerf began to disrupt it, by the number of nodes and the windows of that instant.
//! From then on, the excess over a budget only falls.
//!
//! The checks read only the cluster state, so they also find a command that begins node by node and a controller that crashes
//! halfway.

use std::collections::{BTreeMap, BTreeSet};

use api::status::{Conditioned, find};
use api::{NodeClaim, annotation, condition, label, taint};
use planner::CommandReason;

use super::{Audit, name};
use crate::clock::Moment;
use crate::cluster_state::ClusterState;
use crate::market::Instance;

/// Nodes of a NodePool that count, and the nodes among them that Kerf disrupts: NodeClaim and reason.
#[derive(Default)]
struct Count<'w> {
    all: usize,
    going: Vec<(&'w str, &'w str)>,
}

impl Audit {
    /// Checks the budgets when a command has begun and its nodes are tainted.
    pub fn began(&mut self, cluster_state: &ClusterState, reason: CommandReason, claims: &[String]) {
        self.sees(cluster_state, claims);
        for (pool, budgets) in self.budgets.clone() {
            let all: Vec<&NodeClaim> = settled(cluster_state).filter(|claim| pool_of(claim) == pool).collect();
            if !all.iter().any(|claim| claims.contains(&name(claim))) {
                continue;
            }
            let disturbed = all.iter().filter(|claim| is_disturbed(cluster_state, claim)).count();
            for budget in budgets.iter().filter(|budget| budget.concerns(reason.as_str())) {
                let Some(most) =
                    budget.allows_between(all.len(), self.unseen_since(cluster_state), self.latest(cluster_state))
                else {
                    continue;
                };
                self.expect(disturbed <= most, cluster_state.now, || {
                    format!(
                        "{disturbed} of {} nodes of {pool} are disturbed after {reason:?}, {most} may be",
                        all.len()
                    )
                });
            }
        }
    }

    /// Checks that no node joins the nodes that Kerf disrupts while they exceed the budgets of their NodePool.
    pub(super) fn budgets(&mut self, cluster_state: &ClusterState) {
        let mut counts: BTreeMap<&str, Count<'_>> = BTreeMap::new();
        for claim in settled(cluster_state) {
            let count = counts.entry(pool_of(claim)).or_default();
            count.all += 1;
            count.going.extend(taken_for(cluster_state, claim).map(|reason| (name_of(claim), reason)));
        }
        for (pool, budgets) in self.budgets.clone() {
            let Some(Count { all, going }) = counts.get(pool.as_str()) else { continue };
            for budget in budgets {
                let Some(most) =
                    budget.allows_between(*all, self.unseen_since(cluster_state), self.latest(cluster_state))
                else {
                    continue;
                };
                let own: Vec<_> = going.iter().filter(|(_, reason)| budget.concerns(reason)).collect();
                let joined = own.iter().find(|(claim, _)| !self.going.contains(*claim)).filter(|_| own.len() > most);
                self.expect(joined.is_none(), cluster_state.now, || {
                    format!("{} of {all} nodes of {pool} go and {most} may, {joined:?} since a moment", own.len())
                });
            }
        }
        let all: BTreeSet<String> =
            counts.values().flat_map(|count| &count.going).map(|(claim, _)| (*claim).to_owned()).collect();
        self.going = all;
    }

    /// Returns the earliest moment, by the clock of a replica, of a change that this step shows. A command that began then was
    /// within the window of then.
    fn unseen_since(&self, cluster_state: &ClusterState) -> Moment {
        cluster_state.now - self.grain - self.skew
    }

    /// Returns the latest moment by the clock of a replica.
    fn latest(&self, cluster_state: &ClusterState) -> Moment {
        cluster_state.now + self.skew
    }
}

/// Returns the NodeClaims whose nodes count for budgets: initialized, with an instance and a Node, and not terminating.
fn settled(cluster_state: &ClusterState) -> impl Iterator<Item = &NodeClaim> {
    let all = cluster_state.claims.values().map(AsRef::as_ref);
    all.filter(|claim| claim.is_true(condition::INITIALIZED) && !claim.is_true(condition::INSTANCE_TERMINATING)).filter(
        |claim| instance(cluster_state, claim).is_some_and(|instance| cluster_state.nodes.contains_key(&instance.id)),
    )
}

fn instance<'w>(cluster_state: &'w ClusterState, claim: &NodeClaim) -> Option<&'w Instance> {
    cluster_state.instance_of(name_of(claim))
}

fn name_of(claim: &NodeClaim) -> &str {
    claim.metadata.name.as_deref().unwrap_or_default()
}

fn pool_of(claim: &NodeClaim) -> &str {
    let pool = claim.metadata.labels.as_ref().and_then(|all| all.get(label::NODEPOOL));
    pool.map(String::as_str).unwrap_or_default()
}

/// Returns the reason in the NodeClaim for which Kerf disrupts a node. Returns `None` if Kerf does not disrupt it, if EC2
/// interrupts it anyway, or if it writes false objects.
fn taken_for<'w>(cluster_state: &ClusterState, claim: &'w NodeClaim) -> Option<&'w str> {
    let found = find(claim.conditions(), condition::DISRUPTION_REASON).filter(|found| found.is_true());
    let goes = found.is_some() || is_marked(claim) || is_closed(cluster_state, claim);
    let by_ec2 = instance(cluster_state, claim).is_some_and(|instance| instance.noticed);
    let is_false = cluster_state.has_false_node(name_of(claim));
    (goes && !by_ec2 && !is_false).then(|| found.map(|found| found.reason.as_str()).unwrap_or_default())
}

fn is_marked(claim: &NodeClaim) -> bool {
    let marked = claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(annotation::REPLACED_BY));
    marked || claim.metadata.deletion_timestamp.is_some()
}

fn is_closed(cluster_state: &ClusterState, claim: &NodeClaim) -> bool {
    let node = instance(cluster_state, claim).and_then(|instance| cluster_state.nodes.get(&instance.id));
    node.is_some_and(|node| node.has_taint(taint::DISRUPTED, taint::NO_SCHEDULE))
}

/// Reports whether a node counts against a budget, for any reason. A node that writes false objects may look disrupted.
fn is_disturbed(cluster_state: &ClusterState, claim: &NodeClaim) -> bool {
    if cluster_state.has_false_node(name_of(claim)) {
        return false;
    }
    let node = instance(cluster_state, claim).and_then(|instance| cluster_state.nodes.get(&instance.id));
    let off = node.is_some_and(|node| {
        let interrupted = node.condition(condition::INTERRUPTED).is_some_and(|found| found.status == condition::TRUE);
        !node.is_ready() || interrupted
    });
    off || is_marked(claim) || is_closed(cluster_state, claim) || claim.is_true(condition::DISRUPTION_REASON)
}

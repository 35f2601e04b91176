//! Budgets, judged twice. When a move begins, all of its pool that is out of order counts, whoever is to blame: so Karpenter counts, and
//! so much may be begun. And at every instant what Kerf itself takes away is held against what may go then.
//!
//! The second cannot simply be "never more than the budget says". Nodes that EC2 takes, or that are lost, make a percentage smaller while
//! others are on their way; a window opens over moves that have begun; and what has begun goes on, since turning back would disturb again.
//! What holds at every instant, whatever happens, is this: as long as more nodes go than a budget allows, none joins them that went not
//! before. So each node that Kerf takes was within every budget for its reason at the instant at which it was taken, by the number of
//! nodes and the windows of that instant; and from there on the number over a budget only falls. A move that begins node by node, and a
//! controller that dies halfway, are seen here as well, for nothing is asked of those who move.

use std::collections::{BTreeMap, BTreeSet};

use api::status::{Conditioned, find};
use api::{NodeClaim, annotation, condition, label, taint};
use planner::CommandReason;

use super::{Audit, name};
use crate::market::Instance;
use crate::world::World;

/// A pool's nodes that count, and those of them that Kerf takes away: claim and reason.
#[derive(Default)]
struct Count<'w> {
    all: usize,
    going: Vec<(&'w str, &'w str)>,
}

impl Audit {
    /// A move has begun: its nodes are closed.
    pub fn began(&mut self, world: &World, reason: CommandReason, claims: &[String]) {
        for (pool, budgets) in self.budgets.clone() {
            let all: Vec<&NodeClaim> = settled(world).filter(|claim| pool_of(claim) == pool).collect();
            if !all.iter().any(|claim| claims.contains(&name(claim))) {
                continue;
            }
            let disturbed = all.iter().filter(|claim| is_disturbed(world, claim)).count();
            for budget in budgets.iter().filter(|budget| budget.concerns(reason.as_str())) {
                let Some(most) = budget.allows(all.len(), world.now) else { continue };
                self.expect(disturbed <= most, world.now, || {
                    format!(
                        "{disturbed} of {} nodes of {pool} are disturbed after {reason:?}, {most} may be",
                        all.len()
                    )
                });
            }
        }
    }

    /// No node joins those that Kerf takes while they are more than their pool's budgets allow.
    pub(super) fn budgets(&mut self, world: &World) {
        let mut counts: BTreeMap<&str, Count<'_>> = BTreeMap::new();
        for claim in settled(world) {
            let count = counts.entry(pool_of(claim)).or_default();
            count.all += 1;
            count.going.extend(taken_for(world, claim).map(|reason| (name_of(claim), reason)));
        }
        for (pool, budgets) in self.budgets.clone() {
            let Some(Count { all, going }) = counts.get(pool.as_str()) else { continue };
            for budget in budgets {
                let Some(most) = budget.allows(*all, world.now) else { continue };
                let own: Vec<_> = going.iter().filter(|(_, reason)| budget.concerns(reason)).collect();
                let joined = own.iter().find(|(claim, _)| !self.going.contains(*claim)).filter(|_| own.len() > most);
                self.expect(joined.is_none(), world.now, || {
                    format!("{} of {all} nodes of {pool} go and {most} may, {joined:?} since a moment", own.len())
                });
            }
        }
        let all: BTreeSet<String> =
            counts.values().flat_map(|count| &count.going).map(|(claim, _)| (*claim).to_owned()).collect();
        self.going = all;
    }
}

/// Claims whose nodes budgets count: initialized, there, and not ending.
fn settled(world: &World) -> impl Iterator<Item = &NodeClaim> {
    let all = world.claims.values().map(AsRef::as_ref);
    all.filter(|claim| claim.is_true(condition::INITIALIZED) && !claim.is_true(condition::INSTANCE_TERMINATING))
        .filter(|claim| instance(world, claim).is_some_and(|instance| world.nodes.contains_key(&instance.id)))
}

fn instance<'w>(world: &'w World, claim: &NodeClaim) -> Option<&'w Instance> {
    world.instance_of(name_of(claim))
}

fn name_of(claim: &NodeClaim) -> &str {
    claim.metadata.name.as_deref().unwrap_or_default()
}

fn pool_of(claim: &NodeClaim) -> &str {
    let pool = claim.metadata.labels.as_ref().and_then(|all| all.get(label::NODEPOOL));
    pool.map(String::as_str).unwrap_or_default()
}

/// Why Kerf takes a node away, as its claim says; `None` where it does not, or where EC2 takes it in any case.
fn taken_for<'w>(world: &World, claim: &'w NodeClaim) -> Option<&'w str> {
    let said = find(claim.conditions(), condition::DISRUPTION_REASON).filter(|said| said.is_true());
    let goes = said.is_some() || is_marked(claim) || is_closed(world, claim);
    let by_ec2 = instance(world, claim).is_some_and(|instance| instance.noticed);
    (goes && !by_ec2).then(|| said.map(|said| said.reason.as_str()).unwrap_or_default())
}

fn is_marked(claim: &NodeClaim) -> bool {
    let marked = claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(annotation::REPLACED_BY));
    marked || claim.metadata.deletion_timestamp.is_some()
}

fn is_closed(world: &World, claim: &NodeClaim) -> bool {
    let node = instance(world, claim).and_then(|instance| world.nodes.get(&instance.id));
    node.is_some_and(|node| node.has_taint(taint::DISRUPTED, taint::NO_SCHEDULE))
}

/// Whether a node uses up a budget, whoever is to blame.
fn is_disturbed(world: &World, claim: &NodeClaim) -> bool {
    let node = instance(world, claim).and_then(|instance| world.nodes.get(&instance.id));
    let off = node.is_some_and(|node| {
        let interrupted = node.condition(condition::INTERRUPTED).is_some_and(|said| said.status == condition::TRUE);
        !node.is_ready() || interrupted
    });
    off || is_marked(claim) || is_closed(world, claim) || claim.is_true(condition::DISRUPTION_REASON)
}

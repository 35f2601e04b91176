//! Limits on repeated moves of the same pods and on replacements that are removed soon after they were launched.
//!
//! Neither can be forbidden. On the simulated day, a pod or node is created, removed or fails twice a minute, so a correct
//! decision may be wrong a moment later. kube-scheduler also places evicted pods freely, so one command may leave a node that
//! the next one removes. Both can be limited: an oscillation never ends by itself, so it exceeds each of these limits within an
//! hour.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use api::status::Conditioned;
use api::{NodeClaim, condition};
use planner::CommandReason;

use super::{Audit, name};
use crate::clock::{HOUR, MINUTE, Moment};
use crate::cluster_state::ClusterState;
use crate::commands::reason_of;

/// Age below which the removal of a replacement counts as soon.
const SOON: i64 = 10 * MINUTE;

/// Most moves of one pod of a workload within an hour to save money. Thirty hours with one fault per minute and fourteen days
/// with a thousand faults had at most nine moves. A cluster without further changes, after a change of half of its services,
/// had four. A move and its reversal take two minutes each, so an oscillating pod would be moved thirty times.
const MOST_MOVED: usize = 12;
/// Most replacements that may be removed within `SOON`, in percent, plus `FEW`. Single hours had 43 percent, whole days 40.
const MOST_SOON: usize = 50;
/// Most replacements that may be removed although nothing has changed, in percent, plus `FEW`. The same hours and days had
/// none. After a change so large that its commands continue long after it, up to 27 percent were measured.
const MOST_FOR_NOTHING: usize = 35;
/// Number of replacements that both limits permit in addition.
const FEW: usize = 5;

/// Counters of moves and replacements.
#[derive(Debug, Default)]
pub struct Churn {
    /// Number of replacements that became initialized.
    pub replacements: usize,
    /// Number of those that were removed within `SOON` to save money.
    pub given_back_soon: usize,
    /// Number of those that were removed to save money although nothing had changed since their command began.
    pub given_back_for_nothing: usize,
    /// Most moves of one pod of a workload within an hour to save money.
    pub most_moved: usize,
    /// Moments within the last hour at which each pod of a workload was moved to save money.
    moved: BTreeMap<(String, usize), VecDeque<Moment>>,
    /// Existing replacements by NodeClaim.
    bought: BTreeMap<String, Replacement>,
}

#[derive(Debug)]
struct Replacement {
    /// First observation, which is the start of its command.
    bought: Moment,
    /// Moment of its initialization.
    up: Option<Moment>,
    /// True after its removal to save money has begun.
    is_given_back: bool,
}

impl Churn {
    /// Returns one sentence per exceeded limit.
    #[must_use]
    pub fn excess(&self) -> Vec<String> {
        let most = |percent: usize| FEW + self.replacements * percent / 100;
        let too_many = |count: usize, percent: usize, what: &str| {
            let words = format!("{count} of {} replacements were given back {what}", self.replacements);
            (count > most(percent)).then_some(words)
        };
        let moved = format!("a pod was moved {} times within an hour to save money", self.most_moved);
        let moved = (self.most_moved > MOST_MOVED).then_some(moved);
        let soon = too_many(self.given_back_soon, MOST_SOON, "within minutes");
        let for_nothing = too_many(self.given_back_for_nothing, MOST_FOR_NOTHING, "though nothing had changed");
        moved.into_iter().chain(soon).chain(for_nothing).collect()
    }
}

impl Audit {
    /// Counts a move of a pod to save money.
    pub(super) fn moved(&mut self, cluster_state: &ClusterState, pod: &str) {
        let Some(running) = cluster_state.pods.get(pod) else { return };
        let moments = self.churn.moved.entry((running.app.clone(), running.ordinal)).or_default();
        moments.push_back(cluster_state.now);
        while moments.front().is_some_and(|at| cluster_state.now - at >= HOUR) {
            moments.pop_front();
        }
        self.churn.most_moved = self.churn.most_moved.max(moments.len());
    }

    /// Follows the replacements from launch to removal.
    pub(super) fn churn(&mut self, cluster_state: &ClusterState) {
        let replaces = |claim: &&NodeClaim| claim.replaces().next().is_some();
        let mut there = BTreeSet::new();
        for claim in cluster_state.claims.values().map(AsRef::as_ref).filter(replaces) {
            let name = name(claim);
            let new = || Replacement { bought: cluster_state.now, up: None, is_given_back: false };
            let known = self.churn.bought.entry(name.clone()).or_insert_with(new);
            if known.up.is_none() && claim.is_true(condition::INITIALIZED) {
                known.up = Some(cluster_state.now);
                self.churn.replacements += 1;
            }
            if let Some(up) = known.up.filter(|_| saves(claim) && !known.is_given_back) {
                known.is_given_back = true;
                self.churn.given_back_soon += usize::from(cluster_state.now - up <= SOON);
                self.churn.given_back_for_nothing += usize::from(cluster_state.changed <= known.bought);
            }
            there.insert(name);
        }
        self.churn.bought.retain(|claim, _| there.contains(claim));
    }
}

/// Reports whether a NodeClaim is disrupted to save money.
pub(super) fn saves(claim: &NodeClaim) -> bool {
    matches!(reason_of(claim), Some(CommandReason::Empty | CommandReason::Underutilized))
}

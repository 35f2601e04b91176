//! Whether the cluster is moved to and fro: pods that are moved again and again, machines that were bought for a move and are given back.
//!
//! None of it can be forbidden outright. Something comes, goes or fails twice a minute on the simulated day, so what was right a moment ago
//! may be wrong now; and kube-scheduler puts evicted pods where it likes, so a move may leave over what the next one takes away. It can be
//! bounded: an oscillation has no end by itself, so it goes beyond any of these figures within an hour.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use api::status::{Conditioned, find};
use api::{NodeClaim, condition};
use planner::CommandReason;

use super::{Audit, name};
use crate::clock::{HOUR, MINUTE, Moment};
use crate::world::World;

/// Given back within so long after it came up is soon.
const SOON: i64 = 10 * MINUTE;

/// A pod of a workload is moved at most so often within an hour to save money. Thirty hours with a fault a minute and fourteen days with a
/// thousand faults had nine at most, a cluster that is left alone after a change of half of its services four; a move and the one that undoes
/// it take two minutes each, so pods that went to and fro would be moved thirty times.
const MOST_MOVED: usize = 12;
/// Of a hundred replacements so many are given back within minutes at most, but for a few: single hours had 43 of them, whole days 40.
const MOST_SOON: usize = 50;
/// Of a hundred replacements so many are given back although nothing has changed, but for a few: on those hours and days none was; where a
/// change is so large that its moves go on long after it, up to 27.
const MOST_FOR_NOTHING: usize = 35;
/// The few.
const FEW: usize = 5;

/// What is known of moves so far.
#[derive(Debug, Default)]
pub struct Churn {
    /// Replacements that came up.
    pub replacements: usize,
    /// Of those, how many were given back within minutes to save money.
    pub given_back_soon: usize,
    /// How many were given back to save money although nothing had come, gone or failed since their move began.
    pub given_back_for_nothing: usize,
    /// How often one and the same pod of a workload was moved within an hour to save money, at most.
    pub most_moved: usize,
    /// When each pod of a workload was moved to save money within the last hour.
    moved: BTreeMap<(String, usize), VecDeque<Moment>>,
    /// Replacements that are there, by claim.
    bought: BTreeMap<String, Replacement>,
}

#[derive(Debug)]
struct Replacement {
    /// When it was seen first, which is when its move began.
    bought: Moment,
    /// When it was up.
    up: Option<Moment>,
    /// Whether it has been given back to save money.
    is_given_back: bool,
}

impl Churn {
    /// What goes beyond the bounds, each in a sentence.
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
    /// A pod is moved to save money.
    pub(super) fn moved(&mut self, world: &World, pod: &str) {
        let Some(running) = world.pods.get(pod) else { return };
        let moments = self.churn.moved.entry((running.app.clone(), running.ordinal)).or_default();
        moments.push_back(world.now);
        while moments.front().is_some_and(|at| world.now - at >= HOUR) {
            moments.pop_front();
        }
        self.churn.most_moved = self.churn.most_moved.max(moments.len());
    }

    /// What becomes of machines that were bought for a move.
    pub(super) fn churn(&mut self, world: &World) {
        let replaces = |claim: &&NodeClaim| claim.replaces().next().is_some();
        let mut there = BTreeSet::new();
        for claim in world.claims.values().map(AsRef::as_ref).filter(replaces) {
            let name = name(claim);
            let new = || Replacement { bought: world.now, up: None, is_given_back: false };
            let known = self.churn.bought.entry(name.clone()).or_insert_with(new);
            if known.up.is_none() && claim.is_true(condition::INITIALIZED) {
                known.up = Some(world.now);
                self.churn.replacements += 1;
            }
            if let Some(up) = known.up.filter(|_| saves(claim) && !known.is_given_back) {
                known.is_given_back = true;
                self.churn.given_back_soon += usize::from(world.now - up <= SOON);
                self.churn.given_back_for_nothing += usize::from(world.changed <= known.bought);
            }
            there.insert(name);
        }
        self.churn.bought.retain(|claim, _| there.contains(claim));
    }
}

/// Whether a claim goes to save money.
fn saves(claim: &NodeClaim) -> bool {
    let said = find(claim.conditions(), condition::DISRUPTION_REASON).filter(|said| said.is_true());
    let reasons = [CommandReason::Empty, CommandReason::Underutilized].map(CommandReason::as_str);
    said.is_some_and(|said| reasons.contains(&said.reason.as_str()))
}

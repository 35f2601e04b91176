//! Whether the cluster is moved to and fro: pods that are moved again and again, machines that were bought to save money or to renew a node
//! and are given back at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use api::status::{Conditioned, find};
use api::{NodeClaim, condition};
use planner::MoveReason;

use super::{Audit, name};
use crate::clock::{HOUR, MINUTE, Moment};
use crate::world::World;

/// Given back within so long after it came up is soon.
const SOON: i64 = 10 * MINUTE;

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
    let reasons = [MoveReason::Empty, MoveReason::Underutilized].map(MoveReason::as_str);
    said.is_some_and(|said| reasons.contains(&said.reason.as_str()))
}

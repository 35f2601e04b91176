//! Totals of the current period, from records and from samples of nodes and pods. Pure.

use std::collections::{BTreeMap, VecDeque};

use api::decisions::{CommandTotals, Decision, DecisionKind, NewFleet, NodeHours, Summary};
use api::{NodeClaim, condition, label};
use jiff::{SignedDuration, Timestamp};
use planner::FleetCost;

use crate::state::index::Index;
use crate::state::plans::pod_decisions::PodDecisions;

/// Length of a period. After a start, the first periods are shorter, so that there is something to read soon: the first has a
/// minute, and each later one is as long as all before it.
const PERIOD: SignedDuration = SignedDuration::from_mins(15);
const FIRST_PERIOD: SignedDuration = SignedDuration::from_mins(1);
/// Longest time that a sample stands for. A process that stood still does not know its nodes of that time.
const LONGEST: SignedDuration = SignedDuration::from_mins(5);
/// Time after its binding in which a pod is measured. The watch may be late.
const LATE: SignedDuration = SignedDuration::from_mins(4);
/// Maximum number of commands whose realised savings are awaited.
const COMMANDS: usize = 1000;

/// Totals of the current period, and what they need of the time before.
#[derive(Debug, Default)]
pub(super) struct Totals {
    summary: Summary,
    /// Begin of the first period.
    started: Option<Timestamp>,
    sampled: Option<Timestamp>,
    commands: VecDeque<OpenCommand>,
    /// Recently bound pods that are counted, by UID, with the time of their binding.
    measured: BTreeMap<String, Timestamp>,
    /// Fleet that an observing controller would launch now.
    new_fleet: Option<FleetCost>,
}

/// Command that has started and not ended.
#[derive(Debug)]
struct OpenCommand {
    claims: Vec<String>,
    /// Planned prices of the replacements, by name, once they are known.
    replacements: BTreeMap<String, Option<i64>>,
    /// Savings in micro-dollars per hour: first at the planned prices, then at those of the instances that EC2 launched.
    saving: i64,
}

impl Totals {
    /// Counts a record.
    pub(super) fn add(&mut self, decision: &Decision) {
        match decision.kind {
            DecisionKind::Created => self.plan_price(decision),
            DecisionKind::Launched => {
                self.summary.launched += 1;
                self.correct_saving(decision);
            }
            DecisionKind::Initialized => {
                if let Some(duration) = api::timeline::node_start(&decision.stages) {
                    self.summary.starts.add(duration.as_secs().max(0).unsigned_abs());
                }
            }
            DecisionKind::LaunchFailed => self.summary.launches_failed += decision.nodeclaims.count as u64,
            DecisionKind::Interrupted => {
                for pool in &decision.nodepools.names {
                    *self.summary.interruptions.entry(pool.clone()).or_default() += 1;
                }
            }
            DecisionKind::Disrupting => self.begin(decision),
            DecisionKind::Disrupted => {
                let saving = self.end(decision).map_or(0, |command| command.saving);
                self.summary.commands.entry(decision.reason.clone()).or_default().realised_saving += saving;
            }
            DecisionKind::RolledBack => {
                self.end(decision);
                self.summary.commands.entry(decision.reason.clone()).or_default().rolled_back += 1;
            }
            DecisionKind::WouldDisrupt => {
                add_command(self.summary.would_disrupt.entry(decision.reason.clone()).or_default(), decision);
            }
            DecisionKind::Unschedulable | DecisionKind::Kept | DecisionKind::WouldCreate | DecisionKind::Unknown => {}
        }
    }

    /// Stores the fleet that the controller would launch for the present pods.
    pub(super) fn expect_fleet(&mut self, fleet: FleetCost) {
        self.new_fleet = Some(fleet);
    }

    /// Counts a record that the log could not keep.
    pub(super) fn lose(&mut self) {
        self.summary.lost += 1;
    }

    fn begin(&mut self, decision: &Decision) {
        add_command(self.summary.commands.entry(decision.reason.clone()).or_default(), decision);
        if self.commands.len() >= COMMANDS {
            self.commands.pop_front();
        }
        self.commands.push_back(OpenCommand {
            claims: decision.nodeclaims.names.clone(),
            replacements: decision.replacements.names.iter().map(|name| (name.clone(), None)).collect(),
            saving: decision.saving_per_hour.unwrap_or_default(),
        });
    }

    /// Stores the planned price of a replacement.
    fn plan_price(&mut self, created: &Decision) {
        for name in &created.nodeclaims.names {
            if let Some(planned) = self.commands.iter_mut().find_map(|command| command.replacements.get_mut(name)) {
                *planned = created.price_per_hour;
            }
        }
    }

    /// Replaces the planned price of a replacement by that of its instance. With an unknown one, the planned price remains.
    fn correct_saving(&mut self, launched: &Decision) {
        for command in &mut self.commands {
            let planned = launched.nodeclaims.names.iter().find_map(|name| *command.replacements.get(name)?);
            if let (Some(planned), Some(price)) = (planned, launched.price_per_hour) {
                command.saving += planned - price;
            }
        }
    }

    /// Removes the command of the same NodeClaims.
    fn end(&mut self, decision: &Decision) -> Option<OpenCommand> {
        let of = |command: &OpenCommand| command.claims.iter().any(|claim| decision.nodeclaims.contains(claim));
        let position = self.commands.iter().position(of)?;
        self.commands.remove(position)
    }

    /// Adds the time and cost of nodes since the last sample, and the waits of pods that were bound since.
    pub(super) fn sample(
        &mut self,
        index: &Index,
        decisions: &PodDecisions,
        price: impl Fn(&NodeClaim) -> Option<i64>,
        now: Timestamp,
    ) {
        let Some(last) = self.sampled.replace(now) else {
            (self.summary.from, self.started) = (now, Some(now));
            return;
        };
        let seconds = now.duration_since(last).min(LONGEST).as_secs().max(0);
        let claims = index.claims.values().filter(|claim| claim.provider_id().is_some());
        let nodes: Vec<NodeHours> = claims.map(|claim| node_hours(claim, seconds, price(claim))).collect();
        if let Some(fleet) = &self.new_fleet {
            compare(self.summary.new_fleet.get_or_insert_default(), fleet, &nodes, seconds);
        }
        nodes.into_iter().for_each(|hours| self.summary.add_nodes(hours));
        self.measure_waits(index, decisions, now);
    }

    fn measure_waits(&mut self, index: &Index, decisions: &PodDecisions, now: Timestamp) {
        let is_recent = |bound: Timestamp| now.duration_since(bound) < LATE;
        self.measured.retain(|_, bound| is_recent(*bound));
        for pod in index.pods.values() {
            let scheduled = pod.condition(condition::POD_SCHEDULED).filter(|found| found.status == condition::TRUE);
            let bound = scheduled.and_then(|found| Some(found.last_transition_time.as_ref()?.0));
            let created = pod.metadata.creation_timestamp.as_ref().map(|created| created.0);
            let (Some(uid), Some(created), Some(bound)) = (&pod.metadata.uid, created, bound) else { continue };
            if is_recent(bound) && decisions.has(uid) && self.measured.insert(uid.clone(), bound).is_none() {
                self.summary.waits.add(bound.duration_since(created).as_secs().max(0).unsigned_abs());
            }
        }
    }

    /// Returns the summary of the period if it is complete, or in any case at the end of the process.
    pub(super) fn close(&mut self, now: Timestamp, at_the_end: bool) -> Option<Summary> {
        let from = self.summary.from;
        let length = from.duration_since(self.started?).clamp(FIRST_PERIOD, PERIOD);
        if !at_the_end && now.duration_since(from) < length {
            return None;
        }
        let next = Summary { from: now, ..Summary::default() };
        Some(Summary { to: now, ..std::mem::replace(&mut self.summary, next) })
    }
}

/// Counts a started command.
fn add_command(totals: &mut CommandTotals, decision: &Decision) {
    totals.started += 1;
    totals.nodes += decision.nodeclaims.count as u64;
    totals.pods += decision.pods.count as u64;
    totals.expected_saving += decision.saving_per_hour.unwrap_or_default();
}

/// Adds the last seconds of the new fleet, and of the present nodes beside it.
fn compare(totals: &mut NewFleet, fleet: &FleetCost, nodes: &[NodeHours], seconds: i64) {
    let span = seconds.unsigned_abs();
    totals.seconds += span;
    totals.node_seconds += fleet.nodes as u64 * span;
    totals.cost += fleet.price.0 * seconds / 3600;
    totals.unplaced_seconds += fleet.unplaced as u64 * span;
    totals.actual_node_seconds += nodes.iter().map(|hours| hours.seconds).sum::<u64>();
    totals.actual_cost += nodes.iter().map(|hours| hours.cost).sum::<i64>();
}

fn node_hours(claim: &NodeClaim, seconds: i64, price: Option<i64>) -> NodeHours {
    let label = |key: &str| claim.metadata.labels.as_ref().and_then(|all| all.get(key)).cloned().unwrap_or_default();
    NodeHours {
        nodepool: claim.nodepool().to_owned(),
        instance_type: label(label::INSTANCE_TYPE),
        zone: label(label::ZONE),
        capacity_type: label(label::CAPACITY_TYPE),
        seconds: seconds.unsigned_abs(),
        unpriced_seconds: if price.is_none() { seconds.unsigned_abs() } else { 0 },
        cost: price.unwrap_or_default() * seconds / 3600,
    }
}

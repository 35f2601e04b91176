//! Decision log: records that wait to be stored, and the totals of the current period. A record never delays the work that it
//! describes.

mod totals;

use std::collections::VecDeque;

use api::NodeClaim;
use api::decisions::{Decision, DecisionKind, Summary};
use jiff::Timestamp;
use parking_lot::Mutex;
use planner::FleetCost;

use crate::state::index::Index;
use crate::state::plans::pod_decisions::PodDecisions;
use totals::Totals;

/// Maximum number of records that wait. Above it, the oldest are dropped.
const WAITING: usize = 10_000;

/// The log.
#[derive(Debug, Default)]
pub struct DecisionLog(Mutex<Pending>);

#[derive(Debug, Default)]
struct Pending {
    decisions: VecDeque<Decision>,
    totals: Totals,
}

impl DecisionLog {
    /// Adds a record, and a log line for it.
    pub fn record(&self, decision: Decision) {
        log_line(&decision);
        let Pending { decisions, totals } = &mut *self.0.lock();
        totals.add(&decision);
        if decisions.len() >= WAITING {
            decisions.pop_front();
            totals.lose();
        }
        decisions.push_back(decision);
    }

    /// Stores the fleet that an observing controller would launch for the present pods.
    pub fn expect_fleet(&self, fleet: FleetCost) {
        self.0.lock().totals.expect_fleet(fleet);
    }

    /// Returns the records since the last call.
    pub fn take(&self) -> Vec<Decision> {
        self.0.lock().decisions.drain(..).collect()
    }

    /// Adds the time and cost of nodes since the last call, and the waits of pods that were bound since.
    pub fn sample(
        &self,
        index: &Index,
        decisions: &PodDecisions,
        price: impl Fn(&NodeClaim) -> Option<i64>,
        now: Timestamp,
    ) {
        self.0.lock().totals.sample(index, decisions, price, now);
    }

    /// Ends the period of the totals if it is complete, or in any case at the end of the process.
    pub fn summary(&self, now: Timestamp, at_the_end: bool) -> Option<Summary> {
        self.0.lock().totals.close(now, at_the_end)
    }
}

fn log_line(decision: &Decision) {
    let (reason, nodes) = (decision.reason.as_str(), decision.nodes.names.join(","));
    let (claims, cause) = (decision.nodeclaims.names.join(","), decision.message.as_str());
    let price = decision.price_per_hour.map(api::price::dollars);
    match decision.kind {
        DecisionKind::Created => tracing::info!(
            nodeclaim = claims,
            nodepool = decision.nodepools.names.join(","),
            pods = decision.pods.count as i64,
            reason,
            price_per_hour = price,
            "created nodeclaim"
        ),
        DecisionKind::Launched => {
            let instance = decision.instance.as_ref();
            tracing::info!(
                nodeclaim = claims,
                instance_id = instance.map(|it| it.id.as_str()),
                instance_type = instance.map(|it| it.instance_type.as_str()),
                zone = instance.map(|it| it.zone.as_str()),
                capacity_type = instance.map(|it| it.capacity_type.as_str()),
                price_per_hour = price,
                "launched nodeclaim"
            );
        }
        DecisionKind::Initialized => {
            let stages = api::timeline::line(&decision.stages);
            tracing::info!(node = nodes, stages = stages.as_str(), "initialized nodeclaim");
        }
        DecisionKind::Unschedulable => {
            tracing::info!(reason, pods = decision.pods.count as i64, cause, "pods are unschedulable");
        }
        DecisionKind::LaunchFailed => tracing::info!(reason, nodeclaims = claims, cause, "no instance launched"),
        DecisionKind::WouldCreate => tracing::info!(
            nodepool = decision.nodepools.names.join(","),
            pods = decision.pods.count as i64,
            instance_type = decision.instance_types.names.first().map(String::as_str),
            reason,
            price_per_hour = price,
            "would create nodeclaim"
        ),
        DecisionKind::WouldDisrupt => {
            let saving = decision.saving_per_hour.map(api::price::dollars);
            tracing::info!(reason, nodes, cause, saving_per_hour = saving, "would disrupt nodes");
        }
        DecisionKind::Disrupted => tracing::info!(reason, nodeclaims = claims, "disrupted nodeclaims"),
        DecisionKind::Interrupted => tracing::info!(reason, nodeclaims = claims, cause, "instance is interrupted"),
        DecisionKind::Kept => tracing::debug!(reason, nodes, cause, "nodes stay"),
        // These have lines of their own, for each NodeClaim or with the cause.
        DecisionKind::Disrupting | DecisionKind::RolledBack | DecisionKind::Unknown => {}
    }
}

#[cfg(test)]
mod tests;

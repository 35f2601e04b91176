//! Observe mode: what the controller would do becomes records, and the fleet that it would launch anew is computed. Nothing is
//! changed.

use std::collections::BTreeMap;
use std::time::Duration;

use api::decisions::{Decision, DecisionKind, Names};
use daemon::metric::{Metrics, NoLabels};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use planner::FleetCost;
use snapshot::SnapshotResult;
use tokio::time::Instant;

use super::PlanActions;
use crate::metrics;
use crate::state::cluster::Cluster;
use crate::state::panics;

/// Time after which an object that no plan named meanwhile is news again.
const MEMORY: SignedDuration = SignedDuration::from_mins(15);
/// Least time between two computations of the new fleet.
const INTERVAL: Duration = Duration::from_secs(60);
/// Maximum share of time, as one part in this many, of these computations.
const PAUSES: u32 = 20;

/// Observer of plans.
#[derive(Debug, Default)]
pub struct Observation {
    named: Mutex<NamedObjects>,
    /// Time of the next computation of the new fleet.
    due: Mutex<Option<Instant>>,
}

impl Observation {
    /// Records the actions that are news, and computes the new fleet from time to time.
    pub async fn observe(&self, actions: &PlanActions, built: &SnapshotResult, cluster: &Cluster, metrics: &Metrics) {
        let news = self.named.lock().news(actions, cluster.now());
        news.into_iter().for_each(|record| cluster.log.record(record));
        if self.due.lock().is_some_and(|due| Instant::now() < due) {
            return;
        }
        let begin = Instant::now();
        let snapshot = built.snapshot.clone();
        let computed = tokio::task::spawn_blocking(move || planner::new_fleet(&snapshot)).await;
        let pause = begin.elapsed().saturating_mul(PAUSES).max(INTERVAL);
        *self.due.lock() = Some(Instant::now() + pause);
        match computed {
            Ok(fleet) => publish(fleet, cluster, metrics),
            Err(_) => {
                panics::count(metrics, "plan");
                tracing::error!("the plan of a new fleet panicked");
            }
        }
    }
}

fn publish(fleet: FleetCost, cluster: &Cluster, metrics: &Metrics) {
    let dollars = fleet.price.0 as f64 / 1e6;
    metrics.set(&metrics::NEW_FLEET_COST, NoLabels, dollars);
    tracing::debug!(nodes = fleet.nodes as i64, dollars_per_hour = dollars, "computed the new fleet");
    cluster.log.expect_fleet(fleet);
}

/// Objects that plans named, with the time of the last one.
#[derive(Debug, Default)]
struct NamedObjects(BTreeMap<String, Timestamp>);

impl NamedObjects {
    /// Returns a record for each action that names an object for the first time.
    fn news(&mut self, actions: &PlanActions, now: Timestamp) -> Vec<Decision> {
        self.0.retain(|_, last| now.duration_since(*last) < MEMORY);
        let mut records = Vec::new();
        for planned in &actions.launches {
            // A launch without pods is for a static NodePool or a CapacityBuffer.
            let objects = if planned.pods.is_empty() { &planned.record.nodepools.names } else { &planned.pods };
            if self.names_first(objects, now) {
                records.push(would_create(&planned.record));
            }
        }
        for command in &actions.orders {
            let records_of_command = command.records.split_first();
            if let Some((start, replacements)) = records_of_command.filter(|_| self.names_first(&command.claims, now)) {
                records.push(would_disrupt(start, replacements));
            }
        }
        records
    }

    fn names_first(&mut self, objects: &[String], now: Timestamp) -> bool {
        let mut is_news = false;
        for object in objects {
            is_news |= self.0.insert(object.clone(), now).is_none();
        }
        is_news
    }
}

/// Returns the record of a NodeClaim that is not created, so it has no name.
fn would_create(record: &Decision) -> Decision {
    Decision { kind: DecisionKind::WouldCreate, nodeclaims: Names::default(), ..record.clone() }
}

/// Returns the record of a command that does not start. It has the instance types of its first replacement.
fn would_disrupt(start: &Decision, replacements: &[Decision]) -> Decision {
    let instance_types = replacements.first().map(|record| record.instance_types.clone()).unwrap_or_default();
    Decision { kind: DecisionKind::WouldDisrupt, replacements: Names::default(), instance_types, ..start.clone() }
}

#[cfg(test)]
mod tests;

//! Results of a simulation: totals, one sample per minute, and every disruption command.

use std::collections::BTreeMap;

use planner::{CommandReason, MicroDollars};

use crate::clock::{MINUTE, Moment};
use crate::cluster_state::ClusterState;
use crate::spending::Spending;

/// State of the cluster at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Moment of the sample.
    pub at: Moment,
    /// Number of instances that cost money.
    pub machines: usize,
    /// Number of running and pending pods.
    pub pods: usize,
    /// Number of pending pods.
    pub waiting: usize,
    /// Price of all instances in dollars per hour.
    pub dollars: f64,
}

/// Disruption command from its start to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Moved {
    /// Reason of the command.
    pub reason: CommandReason,
    /// NodeClaims of the removed nodes.
    pub claims: Vec<String>,
    /// Names of its replacements; empty without replacements.
    pub id: String,
    /// Start of the command.
    pub begun: Moment,
    /// Moment at which its replacements were initialized or the command was rolled back. A command without replacements ends at
    /// its start.
    pub ended: Option<Moment>,
    /// True if the command was completed.
    pub done: bool,
}

/// Data for the report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// Samples, one per minute.
    pub samples: Vec<Sample>,
    /// Commands in the order of their starts.
    pub moves: Vec<Moved>,
    /// Number of plans.
    pub plans: usize,
    /// Number of plans with a finding of plan validation. Such a plan was not carried out, or only its first commands were.
    pub refused: usize,
    /// Number of launched instances.
    pub launches: usize,
    /// Number of launches that failed with insufficient capacity.
    pub refusals: usize,
    /// Number of controller crashes.
    pub crashes: usize,
    /// Number of processes of the controller that a panic ended.
    pub panicked: usize,
    /// Number of processes of the controller that lost their lease.
    pub lost_leases: usize,
    /// Number of processes that began to lead.
    pub takeovers: usize,
    /// Number of watches that stopped.
    pub stopped_watches: usize,
    /// Number of checks at which the leader's view of a kind was stale.
    pub stale_checks: usize,
    /// Number of nodes with false objects.
    pub false_nodes: usize,
    /// Number of changes of objects by those nodes.
    pub false_writes: usize,
    /// Number of faults of all kinds.
    pub faults: usize,
    /// Number of resizes that lowered requests.
    pub lowered: usize,
    /// Number of resizes that raised requests again.
    pub raised: usize,
    /// Number of interrupted instances with a notice.
    pub notices: usize,
    /// Time from the creation of each pod to its binding, in milliseconds.
    pub waits: Vec<Moment>,
    /// The same by the priority of the pods.
    pub waits_by_priority: BTreeMap<i32, Vec<Moment>>,
    /// Accumulated cost.
    pub spending: Spending,
    /// Highest price of all instances per hour at any moment.
    pub highest_price: MicroDollars,
    clock: Option<Moment>,
}

impl Record {
    /// Advances the clock to this moment and adds the cost of the instances until then.
    pub fn tick(&mut self, cluster_state: &ClusterState, now: Moment) {
        let passed = now - self.clock.replace(now).unwrap_or(now);
        self.spending.add(cluster_state, passed);
        self.highest_price = self.highest_price.max(MicroDollars(cluster_state.market.cost()));
        let due = self.samples.last().is_none_or(|last| now - last.at >= MINUTE);
        if due {
            let waiting = cluster_state.pods.values().filter(|pod| pod.node.is_none()).count();
            self.samples.push(Sample {
                at: now,
                machines: cluster_state.market.instances.len(),
                pods: cluster_state.pods.len(),
                waiting,
                dollars: cluster_state.market.cost() as f64 / 1e6,
            });
        }
    }
}

impl Moved {
    /// Reports whether the command was started to save money.
    #[must_use]
    pub fn saves(&self) -> bool {
        matches!(self.reason, CommandReason::Empty | CommandReason::Underutilized)
    }
}

//! One process of the controller, from its start to its end, with the same order as `run` of the program: it watches, waits for
//! the lease, works, and ends by a panic, by the loss of the lease, or by a crash.

use std::collections::BTreeMap;
use std::sync::Arc;

use controller::lease::{Candidate, Keeper};
use controller::provision::Rules;
use simulator::controller_run::ControllerRun;
use simulator::watches::Watches;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;

use super::weather::{Planner, Weather};
use crate::clock::{Moment, moment};
use crate::market::QUEUE;

/// Cause of the end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Crash, or the end of its machine.
    Killed,
    /// The lease was not renewed in time, or another replica has it.
    LostLease,
    /// A task of the controller panicked.
    Panicked,
}

/// Report of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// The process leads and begins to work.
    Leads,
    /// The process has ended.
    Ended {
        /// Cause.
        end: End,
        /// Messages of the panics that ended tasks.
        ended_tasks: Vec<String>,
        /// Message of the panic that ended the thread of the lease.
        ended_lease: Option<String>,
        /// Panics that the controller caught and counted, by task.
        caught: BTreeMap<String, usize>,
        /// Time since the last panic, in milliseconds.
        since_panic: Option<Moment>,
    },
}

/// Handle of a process.
pub struct Process {
    /// Number of the process.
    pub number: usize,
    /// Its connections.
    pub weather: Arc<Weather>,
    /// Its watches.
    pub watches: Arc<Watches>,
    /// Returns its metrics as Prometheus reads them.
    pub metrics: Box<dyn Fn() -> String + Send>,
}

/// Parts of a process that starts.
pub struct Start {
    /// Number of the process.
    pub number: usize,
    /// Connections of the process.
    pub weather: Arc<Weather>,
    /// Candidate of the leader election, if there is one.
    pub candidate: Option<Candidate>,
    /// Rules of plans.
    pub rules: Rules,
    /// Source of plans.
    pub planner: Arc<Planner>,
    /// Receiver of reports.
    pub reports: UnboundedSender<(usize, Report)>,
}

/// Lease of a process: handle of its keeper, and its thread.
struct Lease {
    keeper: Keeper,
    thread: JoinHandle<()>,
}

/// Runs a process until its end.
pub async fn run(mut controller_run: ControllerRun, start: Start) {
    let Start { number, weather, candidate, rules, planner, reports } = start;
    let leading = controller_run.leading();
    let mut lease = candidate.map(|candidate| {
        let (keeper, keep) = Keeper::new(candidate, leading.clone());
        Lease { keeper, thread: tokio::spawn(keep) }
    });
    let work = async {
        if let Some(lease) = &mut lease {
            tokio::select! {
                biased;
                acquired = lease.keeper.acquired() => if acquired.is_err() { return (End::LostLease, None) },
                message = controller_run.panicked() => return (End::Panicked, Some(message)),
            }
        }
        let _ = reports.send((number, Report::Leads));
        controller_run.listens(QUEUE);
        controller_run.plans_by(rules, planner);
        tokio::select! {
            biased;
            () = leading.lost() => {
                weather.unpaused().await;
                (End::LostLease, None)
            }
            message = controller_run.panicked() => (End::Panicked, Some(message)),
        }
    };
    let (end, message) = tokio::select! {
       biased;
        () = weather.crash.comes() => (End::Killed, None),
        ended = work => ended,
    };
    let since_panic = weather.panics.last().map(|last| moment() - last);
    leading.end();
    let ended_tasks = message.into_iter().chain(controller_run.take_panics()).collect();
    let caught = caught(&controller_run.metrics());
    controller_run.kill();
    weather.end();
    let ended_lease = match lease {
        Some(lease) => lease.end(end).await,
        None => None,
    };
    // The simulation may have ended.
    let _ = reports.send((number, Report::Ended { end, ended_tasks, ended_lease, caught, since_panic }));
}

impl Lease {
    /// Releases the lease after an orderly end. Returns the message of a panic that had ended its thread before.
    async fn end(self, end: End) -> Option<String> {
        if end == End::Panicked {
            self.keeper.release().await;
        }
        self.thread.abort();
        let error = self.thread.await.err().filter(tokio::task::JoinError::is_panic)?;
        Some(controller::state::panics::message(error.into_panic().as_ref()))
    }
}

/// Returns the panics in the metrics of a process, by task.
pub fn caught(metrics: &str) -> BTreeMap<String, usize> {
    let of = |line: &str| {
        let (task, count) = line.strip_prefix("kerf_panics_total{task=\"")?.split_once("\"} ")?;
        Some((task.to_owned(), count.parse::<f64>().ok()? as usize))
    };
    metrics.lines().filter_map(of).filter(|(_, count)| *count > 0).collect()
}

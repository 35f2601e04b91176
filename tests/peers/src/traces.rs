//! Public workload traces on the simulated clock: the shipped controller, EC2's prices, spot interruptions and shortages, and the
//! pods of a real cloud. Karpenter's rules for disruption play the same trace beside it.

mod azure;

use std::fmt;
use std::path::Path;

use anyhow::Context;
use day::clock::{HOUR, MINUTE, Moment, SECOND, START};
use day::dice::Dice;
use day::faults::Fault;
use day::setup::Setup;
use day::simulation::Simulation;
use day::trace::Event;
use day::verdict;

use crate::daily::{self, Bounded};
use crate::disruption::untimed_peer;

/// Spot interruptions and shortages per hour.
const MARKET_FAULTS: i64 = 4;

/// Events of a trace, from its first moment on.
pub struct Trace {
    /// Name in the report.
    pub name: String,
    /// Length.
    pub hours: i64,
    /// Number of pods that it creates.
    pub pods: usize,
    /// Workloads and their changes.
    pub events: Vec<(Moment, Event)>,
}

/// Part of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Longest time from the trace's begin.
    pub hours: i64,
    /// Keeps one owner of so many.
    pub every: usize,
    /// First owner that is kept.
    pub first: usize,
}

/// Every twentieth owner of the whole time: about 20,000 pods, up to 1,400 of them within five minutes.
pub const AZURE: Part = Part { hours: 137, every: 20, first: 9 };

/// Reads the part of Azure's trace.
///
/// # Errors
/// Returns an error with the file and line that cannot be used.
pub fn azure(folder: &Path, part: Part) -> anyhow::Result<Trace> {
    azure::read(folder, part)
}

/// Result of one side.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Cost from the second hour on, and its lower bound where it was computed.
    pub cost: f64,
    /// Lower bound for the same hours.
    pub least: Option<f64>,
    /// Time from the creation of a pod to its binding, sorted, in milliseconds.
    pub waits: Vec<Moment>,
    /// Evicted pods.
    pub evicted: usize,
    /// Launched instances.
    pub launches: usize,
    /// Largest number of instances at the same time.
    pub most_machines: usize,
    /// CPU time of the whole simulation, in seconds.
    pub cpu: f64,
}

impl Outcome {
    /// Returns the wait that `percent` of the pods do not exceed, in seconds.
    #[must_use]
    pub fn wait(&self, percent: usize) -> f64 {
        let position = (self.waits.len() * percent / 100).min(self.waits.len().saturating_sub(1));
        self.waits.get(position).map_or(0.0, |wait| *wait as f64 / SECOND as f64)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:.2} $", self.cost)?;
        if let Some(least) = self.least {
            write!(out, " ({:.3} times the bound of {least:.2} $)", self.cost / least)?;
        }
        write!(
            out,
            ", pods wait {:.1} s (p50) and {:.1} s (p99), {} of {} pods evicted, {} launches, at most {} instances, \
             {:.0} s of CPU for the simulation",
            self.wait(50),
            self.wait(99),
            self.evicted,
            self.waits.len(),
            self.launches,
            self.most_machines,
            self.cpu,
        )
    }
}

/// Plays the trace by Kerf's rules with the lower bound, or by Karpenter's.
///
/// # Errors
/// Returns an error if an object cannot be generated, or if an invariant is broken under Kerf's rules.
pub fn play(trace: &Trace, peer: bool) -> anyhow::Result<Outcome> {
    let begin = cpu()?;
    let setup = Setup { duds: 0, grain: SECOND, ..Setup::default() };
    let mut simulation = Simulation::new(&setup)?;
    if peer {
        simulation.ruled_by(Some(untimed_peer()));
    }
    let faults = market_faults(trace.hours);
    trace.events.iter().cloned().chain(faults).for_each(|(at, event)| simulation.at(at, event));
    let Bounded { cost, least } = daily::play(&mut simulation, trace.hours, !peer)?;
    let broken = if peer { Vec::new() } else { verdict::broken(&simulation) };
    anyhow::ensure!(broken.is_empty(), "{} violated invariants:\n  {}", trace.name, broken.join("\n  "));
    let record = &simulation.record;
    let mut waits = record.waits.clone();
    waits.sort_unstable();
    Ok(Outcome {
        cost,
        least: (!peer).then_some(least),
        waits,
        evicted: simulation.cluster_state.evicted,
        launches: record.launches,
        most_machines: record.samples.iter().map(|sample| sample.machines).max().unwrap_or_default(),
        cpu: cpu()? - begin,
    })
}

/// Returns spot interruptions and shortages of EC2 at random moments.
fn market_faults(hours: i64) -> impl Iterator<Item = (Moment, Event)> {
    let mut dice = Dice::new(Setup::default().seed);
    (0..hours * MARKET_FAULTS).map(move |number| {
        let target = usize::try_from(dice.between(0, 1_000_000)).unwrap_or_default();
        let fault = match number % 2 {
            0 => Fault::Notice(target),
            _ => Fault::Dry(target, dice.between(2, 20) * MINUTE),
        };
        (START + dice.between(0, hours * HOUR), Event::Fault(fault))
    })
}

/// Returns the CPU time of this process, in seconds.
fn cpu() -> anyhow::Result<f64> {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF).context("no CPU time")?;
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

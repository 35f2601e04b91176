//! Public workload traces on the simulated clock: the shipped controller, EC2's prices, spot interruptions and shortages, and the
//! pods of a real cloud. Karpenter's rules for disruption play the same trace beside it.

mod azure;
mod openb;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use day::clock::{HOUR, MINUTE, Moment, SECOND, START};
use day::dice::Dice;
use day::faults::Fault;
use day::setup::{FAMILIES, Setup};
use day::simulation::Simulation;
use day::trace::Event;
use day::verdict;

use crate::daily::{self, Bounded};
use crate::disruption::untimed_peer;
use crate::limited::{self, Hours};

/// Spot interruptions and shortages per hour.
const MARKET_FAULTS: i64 = 4;

/// Families with GPUs.
const GPU_FAMILIES: [&str; 4] = ["g4dn", "g5", "g6", "p4d"];
/// Sizes with several GPUs.
const GPU_SIZES: [&str; 4] = ["12xlarge", "16xlarge", "24xlarge", "48xlarge"];

/// Origin of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Virtual machines of a region of Azure.
    Azure,
    /// Pods of a GPU cluster of Alibaba.
    Openb,
}

impl Origin {
    fn named(name: &str) -> Option<Self> {
        [Self::Azure, Self::Openb].into_iter().find(|origin| origin.as_str() == name)
    }

    /// Returns the name in commands and reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Azure => "azure",
            Self::Openb => "openb",
        }
    }

    /// Returns the largest part that is played without other words.
    fn part(self) -> Part {
        match self {
            // About 20,000 pods, up to 1,400 of them within five minutes.
            Self::Azure => Part { hours: 137, every: 20, first: 9 },
            // About 8,100 pods in the 34 days in which the cluster is in use.
            Self::Openb => Part { hours: 34 * 24, every: 1, first: 0 },
        }
    }

    fn read(self, folder: &Path, part: Part) -> anyhow::Result<Trace> {
        match self {
            Self::Azure => azure::read(folder, part),
            Self::Openb => openb::read(folder, part),
        }
    }

    /// Returns the cluster: every instance registers, and the GPU cluster has types with GPUs.
    fn setup(self) -> Setup {
        let mut setup = Setup { duds: 0, grain: SECOND, ..Setup::default() };
        if self == Self::Openb {
            setup.families = [FAMILIES.as_slice(), GPU_FAMILIES.as_slice()].concat();
            setup.sizes.extend(GPU_SIZES);
        }
        setup
    }
}

/// Trace to play, with its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Origin of the trace.
    pub origin: Origin,
    /// Part of the trace.
    pub part: Part,
    /// True if cheaper spot nodes may replace spot nodes.
    pub spot_to_spot: bool,
    /// Limit of the cost, in percent of the highest cost without a limit.
    pub limit: Option<i64>,
    /// True if the result becomes a section of docs/performance.md.
    pub is_reported: bool,
}

impl Request {
    /// Reads words such as `openb`, `hours=24` or `limit=80`, in any order.
    ///
    /// # Errors
    /// Returns an error with the word that cannot be used.
    pub fn parse(words: &[&str]) -> anyhow::Result<Self> {
        let origin = words.iter().find_map(|word| Origin::named(word)).unwrap_or(Origin::Azure);
        let mut request = Self { origin, part: origin.part(), spot_to_spot: false, limit: None, is_reported: false };
        for word in words.iter().filter(|word| Origin::named(word).is_none()) {
            request.take(word)?;
        }
        let Part { hours, every, first } = request.part;
        ensure!(hours > 1, "hours={hours}: write at least 2, because the first hour does not count");
        ensure!(every > first, "every={every}: write at least {}", first + 1);
        Ok(request)
    }

    fn take(&mut self, word: &str) -> anyhow::Result<()> {
        let number = |text: &str| text.parse::<i64>().with_context(|| format!("{word}: no number"));
        match word.split_once('=').unwrap_or((word, "")) {
            ("hours", hours) => self.part.hours = number(hours)?,
            ("every", every) => self.part.every = every.parse().with_context(|| format!("{word}: no number"))?,
            ("limit", percent) => {
                let percent = number(percent)?;
                ensure!((1..=100).contains(&percent), "{word}: write a percentage, such as limit=80");
                self.limit = Some(percent);
            }
            ("spot-to-spot", "") => self.spot_to_spot = true,
            ("report", "") => self.is_reported = true,
            _ => bail!(
                "{word:?} is unknown: write azure, openb, hours=N, every=N, spot-to-spot, limit=PERCENT or report"
            ),
        }
        Ok(())
    }

    /// Reads the trace.
    ///
    /// # Errors
    /// Returns an error with the file and line that cannot be used.
    pub fn read(&self, folder: &Path) -> anyhow::Result<Trace> {
        self.origin.read(folder, self.part)
    }

    /// Returns the cluster for the trace.
    #[must_use]
    pub fn setup(&self) -> Setup {
        Setup { spot_to_spot: self.spot_to_spot, ..self.origin.setup() }
    }
}

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
    /// Number of hours from the begin of the trace.
    pub hours: i64,
    /// Keeps one owner of so many.
    pub every: usize,
    /// Position of the first owner that is kept.
    pub first: usize,
}

/// Result of one side.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Cost from the second hour on; the bound is only computed by Kerf's rules.
    pub bounded: Bounded,
    /// Time from the creation of a pod to its binding, sorted, in milliseconds.
    pub waits: Vec<Moment>,
    /// Evicted pods.
    pub evicted: usize,
    /// Launched instances.
    pub launches: usize,
    /// Largest number of instances at the same time.
    pub most_machines: usize,
    /// CPU time of the plans.
    pub planning: Duration,
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
        let (cost, least) = (self.bounded.cost(), self.bounded.least);
        write!(out, "{cost:.2} $")?;
        if least > 0.0 {
            write!(out, " ({:.3} times the bound of {least:.2} $)", cost / least)?;
        }
        write!(
            out,
            ", pods wait {:.1} s (p50) and {:.1} s (p99), {} evictions, {} bindings, {} launches, at most {} instances, {:.1} s of CPU for plans",
            self.wait(50),
            self.wait(99),
            self.evicted,
            self.waits.len(),
            self.launches,
            self.most_machines,
            self.planning.as_secs_f64(),
        )?;
        write!(out, "; {}", daily::parts(&self.bounded))
    }
}

/// Plays the trace by Kerf's rules with the lower bound, or by Karpenter's.
///
/// # Errors
/// Returns an error if an object cannot be generated, or if an invariant is broken under Kerf's rules.
pub fn play(trace: &Trace, setup: &Setup, peer: bool) -> anyhow::Result<Outcome> {
    let mut simulation = Simulation::new(setup)?;
    if peer {
        simulation.ruled_by(Some(untimed_peer()));
    }
    let faults = market_faults(trace.hours);
    trace.events.iter().cloned().chain(faults).for_each(|(at, event)| simulation.at(at, event));
    let bounded = daily::play(&mut simulation, trace.hours, !peer)?;
    let broken = if peer { Vec::new() } else { verdict::broken(&simulation) };
    anyhow::ensure!(broken.is_empty(), "{} violated invariants:\n  {}", trace.name, broken.join("\n  "));
    let record = &simulation.record;
    let mut waits = record.waits.clone();
    waits.sort_unstable();
    Ok(Outcome {
        bounded,
        waits,
        evicted: simulation.cluster_state.evicted,
        launches: record.launches,
        most_machines: record.samples.iter().map(|sample| sample.machines).max().unwrap_or_default(),
        planning: simulation.planning,
    })
}

/// Plays the trace without a limit of the cost and with one, and returns the comparison.
///
/// # Errors
/// Returns the errors of [`limited::compare`].
pub fn limited(trace: Trace, setup: &Setup, percent: i64) -> anyhow::Result<String> {
    let events = trace.events.into_iter().chain(market_faults(trace.hours)).collect();
    limited::compare(setup, &Hours { count: trace.hours, events }, percent)
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

#[cfg(test)]
mod tests {
    use day::app::App;
    use day::clock::{HOUR, START};
    use day::trace::Event;

    use super::{Bounded, Origin, Part, Request, Trace, play};

    #[test]
    fn play_measures_both_sides_of_a_small_trace() {
        let app = |name: &str, wanted| App { name: name.to_owned(), wanted, cpu: 1_000, ..App::default() };
        let events = vec![
            (START, Event::Come(app("first", 12))),
            (START + HOUR, Event::Come(app("second", 8))),
            (START + HOUR * 3 / 2, Event::Scale("first".to_owned(), 0)),
        ];
        let trace = Trace { name: "small".to_owned(), hours: 3, pods: 20, events };
        for peer in [false, true] {
            let found = play(&trace, &Origin::Azure.setup(), peer).unwrap();
            assert!(found.waits.len() >= 20 && found.wait(99) >= found.wait(50), "{found}");
            assert!(found.launches > 0 && found.most_machines > 0 && found.bounded.cost() > 0.0, "{found}");
            let Bounded { least, anew, .. } = found.bounded;
            assert_eq!(least == 0.0, peer, "{found}");
            assert!(peer || 0.0 < least && least <= anew && least <= found.bounded.cost(), "{found}");
        }
    }

    #[test]
    fn parse_reads_words_in_any_order() {
        let azure = Request::parse(&["every=100", "spot-to-spot", "hours=24", "limit=80"]).unwrap();
        assert_eq!(azure.part, Part { hours: 24, every: 100, first: 9 });
        assert!(azure.spot_to_spot && azure.limit == Some(80) && !azure.is_reported, "{azure:?}");
        let openb = Request::parse(&["report", "openb"]).unwrap();
        assert_eq!(openb.part, Part { hours: 816, every: 1, first: 0 });
        assert!(openb.is_reported && openb.setup().families.contains(&"g5"), "{openb:?}");
        for (word, expected) in [
            ("every=9", "every=9: write at least 10"),
            ("hours=1", "hours=1: write at least 2, because the first hour does not count"),
            ("limit=0", "limit=0: write a percentage, such as limit=80"),
            ("hours=day", "hours=day: no number"),
            ("24", "\"24\" is unknown: write azure, openb, hours=N, every=N, spot-to-spot, limit=PERCENT or report"),
        ] {
            assert_eq!(Request::parse(&[word]).unwrap_err().to_string(), expected);
        }
    }
}

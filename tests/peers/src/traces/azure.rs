//! Azure's trace of virtual machines: one virtual machine is one pod with its requests, one batch of a tenant is one owner.
//!
//! A line of the arrivals is a moment in seconds and the flavor letters of all batches, each batch behind its last comma ended by
//! `|`. The same positions of the lifetimes are `U` (ended) or `C` (still running at the end) with the bin of the lifetime.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use day::app::App;
use day::clock::{HOUR, Moment, SECOND, START};
use day::dice::Dice;
use day::trace::Event;

use super::{Part, Trace};

const ARRIVALS: &str = "azure-v1.test.txt";
const LIFETIMES: &str = "azure-v1.test.c2591400.txt";
const FLAVORS: &str = "azure-flavors.txt";
const BINS: &str = "azure-duration-bins.txt";
/// Width of the first bins, in seconds.
const STEP: i64 = 300;

/// Requests of a flavor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flavor {
    millicores: i64,
    bytes: i64,
}

/// Batch of one tenant: flavor and lifetime of each virtual machine.
type Batch<'t> = Vec<(&'t str, &'t str)>;

/// Reads a part of the trace.
///
/// # Errors
/// Returns an error with the file and line that cannot be used.
pub fn read(folder: &Path, part: Part) -> Result<Trace> {
    let text = |name: &str| {
        let file = folder.join(name);
        std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
    };
    let flavors = flavors(&text(FLAVORS)?).with_context(|| format!("{FLAVORS} is no use"))?;
    let bins = bins(&text(BINS)?).with_context(|| format!("{BINS} is no use"))?;
    let (arrivals, lifetimes) = (text(ARRIVALS)?, text(LIFETIMES)?);
    let mut trace = Trace { name: "trace-azure".to_owned(), hours: 0, pods: 0, events: Vec::new() };
    let mut dice = Dice::new(1);
    let (mut owner, mut begin) = (0, None);
    let lines = arrivals.lines().zip(lifetimes.lines()).enumerate().filter(|(_, (line, _))| !line.trim().is_empty());
    for (number, (arrivals, lifetimes)) in lines {
        let (at, batches) = batches(arrivals, lifetimes).with_context(|| format!("{ARRIVALS}:{}", number + 1))?;
        let at = START + (at - *begin.get_or_insert(at)) * SECOND;
        if at >= START + part.hours * HOUR {
            break;
        }
        trace.hours = (at - START) / HOUR + 1;
        for batch in batches {
            owner += 1;
            if (owner - 1) % part.every == part.first {
                trace.pods += batch.len();
                let apps = Apps { owner, at, flavors: &flavors, bins: &bins };
                apps.add(&batch, &mut dice, &mut trace.events).with_context(|| format!("line {}", number + 1))?;
            }
        }
    }
    trace.events.sort_by_key(|(at, _)| *at);
    Ok(trace)
}

/// Returns the moment of a line, in seconds, and its batches.
fn batches<'t>(arrivals: &'t str, lifetimes: &'t str) -> Result<(i64, Vec<Batch<'t>>)> {
    let (at, flavors) = arrivals.split_once(' ').context("no space after the moment")?;
    let (same, ends) = lifetimes.split_once(' ').context("no space after the moment of the lifetimes")?;
    ensure!(at == same, "arrivals at {at}, lifetimes at {same}");
    let words = |batch: &'t str| batch.split(',').map(str::trim).filter(|word| !word.is_empty()).collect::<Vec<_>>();
    let pairs = |(flavors, ends): (&'t str, &'t str)| {
        let (flavors, ends) = (words(flavors), words(ends));
        ensure!(flavors.len() == ends.len(), "{} flavors and {} lifetimes in a batch", flavors.len(), ends.len());
        Ok(flavors.into_iter().zip(ends).collect::<Batch>())
    };
    let all: Result<Vec<Batch>> = flavors.split('|').zip(ends.split('|')).map(pairs).collect();
    let at = at.parse().with_context(|| format!("{at:?} is no moment"))?;
    Ok((at, all?.into_iter().filter(|batch| !batch.is_empty()).collect()))
}

/// Workloads of one owner.
struct Apps<'a> {
    owner: usize,
    at: Moment,
    flavors: &'a BTreeMap<String, Flavor>,
    bins: &'a BTreeMap<usize, i64>,
}

impl Apps<'_> {
    /// Adds a workload for each flavor of the batch, and its smaller number of pods at the end of each lifetime.
    fn add(&self, batch: &Batch, dice: &mut Dice, events: &mut Vec<(Moment, Event)>) -> Result<()> {
        let mut ends: BTreeMap<&str, Vec<Option<Moment>>> = BTreeMap::new();
        for (flavor, lifetime) in batch {
            ends.entry(flavor).or_default().push(self.end(lifetime, dice)?);
        }
        for (flavor, ends) in ends {
            let Flavor { millicores, bytes } =
                *self.flavors.get(flavor).with_context(|| format!("{flavor} is no flavor"))?;
            let name = format!("owner-{:06}-{flavor}", self.owner);
            let mut left = ends.len();
            let app = App { name: name.clone(), wanted: left, cpu: millicores, memory: bytes, ..App::default() };
            events.push((self.at, Event::Come(app)));
            let mut ends: Vec<Moment> = ends.into_iter().flatten().collect();
            ends.sort_unstable();
            for end in ends {
                left -= 1;
                events.push((end, Event::Scale(name.clone(), left)));
            }
        }
        Ok(())
    }

    /// Returns the end of a virtual machine, at random within the bin; `None` if it outlives the trace.
    fn end(&self, lifetime: &str, dice: &mut Dice) -> Result<Option<Moment>> {
        let bin = lifetime.strip_prefix(['U', 'C']).with_context(|| format!("{lifetime:?} is no lifetime"))?;
        let bin: usize = bin.parse().with_context(|| format!("{lifetime:?} has no bin"))?;
        let longest = self.bins.get(&bin).with_context(|| format!("{bin} is no bin"))?;
        let before = bin.checked_sub(1).and_then(|before| self.bins.get(&before)).copied().unwrap_or(-STEP);
        let seconds = dice.between(before + 1, *longest).max(1);
        Ok(lifetime.starts_with('U').then_some(self.at + seconds * SECOND))
    }
}

/// Reads lines such as `1,1.75 b`: vCPUs, GB, and the letter.
fn flavors(text: &str) -> Result<BTreeMap<String, Flavor>> {
    let flavor = |line: &str| {
        let (size, letter) = line.trim().split_once(' ')?;
        let (cores, gigabytes) = size.split_once(',')?;
        let bytes = gigabytes.parse::<f64>().ok()? * f64::from(1 << 30);
        Some((letter.to_owned(), Flavor { millicores: cores.parse::<i64>().ok()? * 1_000, bytes: bytes as i64 }))
    };
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| flavor(line).with_context(|| format!("{line:?} is no flavor"))).collect()
}

/// Reads lines such as `3900 13`, and returns the longest lifetime of each bin, in seconds.
fn bins(text: &str) -> Result<BTreeMap<usize, i64>> {
    let mut bins = BTreeMap::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let pair = line.trim().split_once(' ').and_then(|(end, bin)| Some((bin.parse().ok()?, end.parse().ok()?)));
        let (bin, seconds): (usize, i64) = pair.with_context(|| format!("{line:?} is no bin"))?;
        let longest = bins.entry(bin).or_insert(seconds);
        *longest = seconds.max(*longest);
    }
    Ok(bins)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use day::clock::{SECOND, START};
    use day::trace::Event;

    use super::{ARRIVALS, BINS, FLAVORS, LIFETIMES, Part, read};

    fn folder(arrivals: &str, lifetimes: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write(ARRIVALS, arrivals);
        write(LIFETIMES, lifetimes);
        write(FLAVORS, "1,1.75 b\n4,7 k\n");
        write(BINS, "0 0\n300 1\n600 2\n900 3\n");
        folder
    }

    fn described(folder: &Path, part: Part) -> Vec<String> {
        let describe = |(at, event): &(i64, Event)| match event {
            Event::Come(app) => format!("{} {} x{} {}m {}", at - START, app.name, app.wanted, app.cpu, app.memory),
            Event::Scale(name, left) => format!("{name} {left}"),
            other => format!("{other:?}"),
        };
        read(folder, part).unwrap().events.iter().map(describe).collect()
    }

    #[test]
    fn read_makes_workloads_of_batches() {
        let folder = folder("600 b,b,k,|,k,|,\n900 b,|,\n", "600 U1,C3,U2,|,U1,|,\n900 C1,|,\n");
        let all = Part { hours: 1, every: 1, first: 0 };
        let events = described(folder.path(), all);
        assert_eq!(events[0], "0 owner-000001-b x2 1000m 1879048192");
        assert_eq!(events[1], "0 owner-000001-k x1 4000m 7516192768");
        assert_eq!(events.iter().filter(|event| event.ends_with("owner-000001-b 1")).count(), 1);
        assert_eq!(events.iter().filter(|event| event.ends_with("owner-000001-b 0")).count(), 0);
        assert!(events.contains(&format!("{} owner-000003-b x1 1000m 1879048192", 300 * SECOND)), "{events:#?}");
        let second = described(folder.path(), Part { every: 3, first: 1, ..all });
        assert_eq!(second.len(), 2, "{second:#?}");
        assert!(second.iter().all(|event| event.contains("owner-000002-k")), "{second:#?}");
    }

    #[test]
    fn read_draws_lifetimes_within_their_bins() {
        let folder = folder("600 b,b,b,|,\n", "600 U1,U2,U3,|,\n");
        let trace = read(folder.path(), Part { hours: 1, every: 1, first: 0 }).unwrap();
        let ends: Vec<i64> = trace.events.iter().skip(1).map(|(at, _)| (at - START) / SECOND).collect();
        assert_eq!(ends.len(), 3);
        for (end, within) in ends.iter().zip([1..=300, 301..=600, 601..=900]) {
            assert!(within.contains(end), "{end} {within:?}");
        }
    }

    #[test]
    fn read_names_the_line_that_it_cannot_use() {
        let wrong = folder("600 b,b,|,\n", "600 U1,|,\n");
        let error = format!("{:#}", read(wrong.path(), Part { hours: 1, every: 1, first: 0 }).err().unwrap());
        assert!(error.contains("azure-v1.test.txt:1: 2 flavors and 1 lifetimes in a batch"), "{error}");
    }
}

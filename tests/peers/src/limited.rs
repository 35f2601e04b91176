//! The same hours without and with a limit of the cost of all nodes: what they cost, and how long pods wait, by their priority.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use day::clock::{HOUR, Moment, SECOND, START};
use day::setup::Setup;
use day::simulation::Simulation;
use day::trace::Event;
use day::verdict;
use planner::MicroDollars;

/// Priorities of the workloads, in turn.
const PRIORITIES: [i32; 3] = [100, 0, -100];

/// Hours with their events.
pub struct Hours {
    /// Number of hours.
    pub count: i64,
    /// Events in order.
    pub events: Vec<(Moment, Event)>,
}

/// Plays the hours without a limit, then with this percentage of their highest cost as the limit, and returns the comparison as text.
///
/// # Errors
/// Returns an error if an invariant was broken, or if the cost was above the limit at any moment.
pub fn compare(setup: &Setup, hours: &Hours, percent: i64) -> Result<String> {
    let free = play(setup, hours).context("without a limit")?;
    let limit = MicroDollars(free.record.highest_price.0 * percent / 100);
    let limited = play(&Setup { cost_limit: Some(limit), ..setup.clone() }, hours).context("with the limit")?;
    let highest = limited.record.highest_price;
    ensure!(highest <= limit, "the cost was {} $/h, above the limit of {} $/h", dollars(highest), dollars(limit));
    let mut text = String::new();
    writeln!(text, "without a limit: {}", describe(&free))?;
    writeln!(text, "with {} $/h, {percent} % of that: {}", dollars(limit), describe(&limited))?;
    writeln!(
        text,
        "{:>8}  {:>14}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}",
        "priority", "", "pods", "p50", "p99", "longest", "at the end"
    )?;
    let (free, limited) = (waits(&free), waits(&limited));
    for priority in PRIORITIES {
        for (name, all) in [("without limit", &free), ("with limit", &limited)] {
            let Some(row) = all.get(&priority) else { continue };
            writeln!(text, "{priority:>8}  {name:>14}  {row}")?;
        }
    }
    Ok(text)
}

fn play(setup: &Setup, hours: &Hours) -> Result<Simulation> {
    let mut simulation = Simulation::new(setup)?;
    prioritized(&hours.events).for_each(|(at, event)| simulation.at(at, event));
    simulation.run(START + hours.count * HOUR);
    let broken = verdict::broken(&simulation);
    ensure!(broken.is_empty(), "violated invariants:\n  {}", broken.join("\n  "));
    Ok(simulation)
}

/// Gives the workloads priorities in turn.
fn prioritized(events: &[(Moment, Event)]) -> impl Iterator<Item = (Moment, Event)> + '_ {
    let mut priorities = PRIORITIES.into_iter().cycle();
    events.iter().cloned().map(move |(at, event)| match event {
        Event::Come(mut app) => {
            app.priority = priorities.next().unwrap_or_default();
            (at, Event::Come(app))
        }
        event => (at, event),
    })
}

fn describe(simulation: &Simulation) -> String {
    let record = &simulation.record;
    format!(
        "{:.2} $, at most {} $/h, {} launches",
        record.spending.dollars(),
        dollars(record.highest_price),
        record.launches
    )
}

fn dollars(price: MicroDollars) -> String {
    format!("{:.2}", price.0 as f64 / 1e6)
}

/// Returns the waits of pods in seconds by priority: number, median, 99th percentile, longest, and pods without a node at the end.
fn waits(simulation: &Simulation) -> BTreeMap<i32, String> {
    let mut waits = simulation.record.waits_by_priority.clone();
    let mut pending: BTreeMap<i32, usize> = BTreeMap::new();
    let cluster = &simulation.cluster_state;
    for pod in cluster.pods.values().filter(|pod| pod.node.is_none()) {
        let priority = cluster.apps.get(&pod.app).map_or(0, |app| app.priority);
        *pending.entry(priority).or_default() += 1;
        waits.entry(priority).or_default().push(cluster.now - pod.created);
    }
    let row = |(priority, mut waits): (i32, Vec<Moment>)| {
        waits.sort_unstable();
        let at = |percent: usize| {
            let position = (waits.len() * percent / 100).min(waits.len().saturating_sub(1));
            waits.get(position).map_or(0.0, |wait| *wait as f64 / SECOND as f64)
        };
        let left = pending.get(&priority).copied().unwrap_or_default();
        let seconds = [at(50), at(99), at(100)].map(|seconds| format!("{seconds:>8.1} s")).join("  ");
        (priority, format!("{:>10}  {seconds}  {left:>10}", waits.len()))
    };
    waits.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use day::app::App;
    use day::clock::MINUTE;

    use super::*;

    #[test]
    fn pods_with_the_highest_priority_wait_least_within_a_limit() {
        let app = |name: &str| App { name: name.to_owned(), wanted: 6, cpu: 2_000, ..App::default() };
        let events = ["high", "middle", "low"].map(|name| (START + MINUTE, Event::Come(app(name))));
        let hours = Hours { count: 1, events: events.into() };
        let setup = Setup { duds: 0, grain: SECOND, ..Setup::default() };
        let text = compare(&setup, &hours, 60).unwrap();
        let at_the_end = |priority: &str| {
            let line = text.lines().find(|line| line.trim_start().starts_with(priority) && line.contains("with limit"));
            line.and_then(|line| line.split_whitespace().last()?.parse::<usize>().ok()).unwrap()
        };
        assert_eq!(at_the_end("100"), 0, "{text}");
        assert!(at_the_end("-100") > 0, "{text}");
    }
}

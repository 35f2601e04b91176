//! Two charts of a simulation as plain SVG without scripts: cost of the fleet beside its pods, and starts of disruption
//! commands.

use std::collections::BTreeMap;

use planner::CommandReason;

use crate::chart::{LEFT, LEGEND, Scale, Ticks, put, text, whole};
use crate::clock::{HOUR, MINUTE, Moment};
use crate::record::{Moved, Record, Sample};

/// Duration that one bar covers.
const QUARTER: i64 = 15 * MINUTE;
/// Most points of a line; more are not visible.
const POINTS: usize = 240;
const PODS: &str = "#888";
const MACHINES: &str = "#1f77b4";
const DOLLARS: &str = "#d9722c";
const REASONS: [(CommandReason, &str); 4] = [
    (CommandReason::Empty, "#2a9d5c"),
    (CommandReason::Underutilized, "#1f77b4"),
    (CommandReason::Drifted, "#8e5bb5"),
    (CommandReason::Expired, "#d9722c"),
];

/// Draws pods, instances and dollars per hour over time, each on its own scale.
#[must_use]
pub fn fleet(record: &Record) -> String {
    let samples = thinned(&record.samples);
    let scale = scale(record);
    let curves = [
        Curve::of(&samples, ("pods", 0, PODS), |it| it.pods as f64),
        Curve::of(&samples, ("nodes", 0, MACHINES), |it| it.machines as f64),
        Curve::of(&samples, ("dollars an hour", 2, DOLLARS), |it| it.dollars),
    ];
    let heading = "A day of a cluster: each curve has a scale of its own, from nothing to its most";
    let mut body = scale.frame(heading, hours(&scale));
    for (number, curve) in curves.iter().enumerate() {
        let x = LEFT + 200.0 * number as f64;
        put(&mut body, format_args!("{}", curve.line(&scale)));
        put(&mut body, format_args!("{}", text(x, LEGEND, "start", curve.colour, &curve.legend)));
    }
    whole(&body, "Pods, nodes and dollars per hour over the simulated day")
}

/// One value over time.
struct Curve {
    legend: String,
    colour: &'static str,
    points: Vec<(Moment, f64)>,
    most: f64,
}

impl Curve {
    fn of(samples: &[Sample], (name, digits, colour): (&str, usize, &'static str), figure: fn(&Sample) -> f64) -> Self {
        let points: Vec<(Moment, f64)> = samples.iter().map(|it| (it.at, figure(it))).collect();
        let most = points.iter().map(|(_, figure)| *figure).fold(0.0, f64::max);
        Self { legend: format!("{name}, at most {most:.digits$}"), colour, points, most }
    }

    fn line(&self, scale: &Scale) -> String {
        let points = self.points.iter().map(|(at, figure)| (*at, figure / self.most.max(1e-9)));
        scale.line(points, self.colour, "")
    }
}

/// Draws the number of commands that began in each quarter of an hour, stacked by reason. Hollow bars are commands that were
/// rolled back.
#[must_use]
pub fn moves(record: &Record) -> String {
    let scale = scale(record);
    let all = by_quarter(record.moves.iter(), &scale);
    let most = all.values().max().copied().unwrap_or(1);
    let heading =
        format!("Moves that take nodes away, by quarter of an hour: at most {most}; hollow ones were taken back");
    let mut body = scale.frame(&heading, hours(&scale));
    let mut stacks: BTreeMap<i64, usize> = BTreeMap::new();
    let mut left = LEFT;
    for (reason, colour) in REASONS {
        let own = record.moves.iter().filter(|moved| moved.reason == reason);
        let count = own.clone().count();
        if count == 0 {
            continue;
        }
        for (done, paint) in [(true, "fill"), (false, "fill=\"none\" stroke")] {
            let counts = by_quarter(own.clone().filter(|moved| moved.done == done), &scale);
            let bars = bars(&counts, &mut stacks, most, &scale);
            put(&mut body, format_args!("<path {paint}=\"{colour}\" d=\"{bars}\"/>"));
        }
        put(&mut body, format_args!("{}", text(left, LEGEND, "start", colour, &format!("{reason}: {count}"))));
        left += 160.0;
    }
    whole(&body, "Moves of the simulated day, by quarter of an hour and reason")
}

/// Counts the commands that began in each quarter of an hour since the start.
fn by_quarter<'m>(moves: impl Iterator<Item = &'m Moved>, scale: &Scale) -> BTreeMap<i64, usize> {
    let mut counts = BTreeMap::new();
    for moved in moves {
        *counts.entry((moved.begun - scale.from).div_euclid(QUARTER)).or_default() += 1;
    }
    counts
}

/// Draws a bar for each quarter of an hour on top of the existing bars.
fn bars(counts: &BTreeMap<i64, usize>, stacks: &mut BTreeMap<i64, usize>, most: usize, scale: &Scale) -> String {
    let wide = scale.x(scale.from + QUARTER) - scale.x(scale.from) - 1.0;
    let bar = |(quarter, count): (&i64, &usize)| {
        let stack = stacks.entry(*quarter).or_default();
        *stack += count;
        let (x, top) = (scale.x(scale.from + quarter * QUARTER), scale.y(*stack as f64 / most as f64));
        let high = scale.y(0.0) - scale.y(*count as f64 / most as f64);
        format!("M{x:.1} {top:.1}h{wide:.1}v{high:.1}h-{wide:.1}z")
    };
    counts.iter().map(bar).collect()
}

fn scale(record: &Record) -> Scale {
    let from = record.samples.first().map_or(0, |it| it.at);
    Scale { from, until: record.samples.last().map_or(from + 1, |it| it.at.max(from + 1)) }
}

fn hours(scale: &Scale) -> Ticks {
    let every = if (scale.until - scale.from).div_euclid(HOUR) > 8 { 3 } else { 1 };
    Ticks { unit: HOUR, name: "h", every }
}

fn thinned(samples: &[Sample]) -> Vec<Sample> {
    samples.iter().step_by(samples.len().div_ceil(POINTS).max(1)).copied().collect()
}

//! Two pictures of a simulation, plain SVG without scripts: what the fleet cost beside its pods, and every move from begin to end.

use std::fmt::Write;

use planner::MoveReason;

use crate::clock::{HOUR, MINUTE, Moment};
use crate::record::{Moved, Record, Sample};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 52.0;
const TOP: f64 = 54.0;
/// Where the words above the plot stand.
const HEADING: f64 = 18.0;
const LEGEND: f64 = 40.0;
const BOTTOM: f64 = 28.0;
/// Points a line: more cannot be seen.
const POINTS: usize = 240;
const PODS: &str = "#888";
const MACHINES: &str = "#1f77b4";
const DOLLARS: &str = "#d9722c";
const REASONS: [(MoveReason, &str); 4] = [
    (MoveReason::Empty, "#2a9d5c"),
    (MoveReason::Underutilized, "#1f77b4"),
    (MoveReason::Drifted, "#8e5bb5"),
    (MoveReason::Expired, "#d9722c"),
];

/// Pods, machines and dollars per hour over the time, each on a scale of its own.
#[must_use]
pub fn fleet(record: &Record) -> String {
    let samples = thinned(&record.samples);
    let scale = Scale::of(record);
    let curves = [
        Curve::of(&samples, ("pods", 0, PODS), |it| it.pods as f64),
        Curve::of(&samples, ("nodes", 0, MACHINES), |it| it.machines as f64),
        Curve::of(&samples, ("dollars an hour", 2, DOLLARS), |it| it.dollars),
    ];
    let mut body = scale.frame("A day of a cluster: each curve has a scale of its own, from nothing to its most");
    for (number, curve) in curves.iter().enumerate() {
        let x = LEFT + 200.0 * number as f64;
        put(&mut body, format_args!("{}", curve.line(&scale)));
        put(&mut body, format_args!("{}", text(x, LEGEND, "start", curve.colour, &curve.legend)));
    }
    whole(&body, "Pods, nodes and dollars per hour over the simulated day")
}

/// One figure over the time.
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
        let point =
            |(at, figure): &(Moment, f64)| format!("{:.0},{:.0}", scale.x(*at), scale.y(figure / self.most.max(1e-9)));
        let points: Vec<String> = self.points.iter().map(point).collect();
        let colour = self.colour;
        format!("<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" points=\"{}\"/>", points.join(" "))
    }
}

/// Every move as a bar from its begin to the moment at which its replacements were up; a hollow one was taken back.
#[must_use]
pub fn moves(record: &Record) -> String {
    let scale = Scale::of(record);
    let rows = rows(&record.moves);
    let most = rows.iter().max().map_or(1, |row| row + 1);
    let height = ((HEIGHT - TOP - BOTTOM) / most as f64).min(12.0);
    let mut body = scale.frame("What was taken away on that day: from a move's begin until its replacements were up");
    let mut left = LEFT;
    for (reason, colour) in REASONS {
        let mut bars = [String::new(), String::new()];
        let mut count = 0;
        for (moved, row) in record.moves.iter().zip(&rows).filter(|(moved, _)| moved.reason == reason) {
            let ended = moved.ended.unwrap_or(moved.begun);
            let wide = (scale.x(ended) - scale.x(moved.begun)).max(1.5);
            let up = HEIGHT - BOTTOM - (*row as f64 + 1.0) * height;
            put(
                &mut bars[usize::from(moved.done)],
                format_args!("M{:.1} {up:.1}h{wide:.1}v{:.1}h-{wide:.1}z", scale.x(moved.begun), height * 0.75),
            );
            count += 1;
        }
        if count > 0 {
            let [back, done] = bars;
            put(&mut body, format_args!("<path fill=\"{colour}\" d=\"{done}\"/>"));
            put(&mut body, format_args!("<path fill=\"none\" stroke=\"{colour}\" d=\"{back}\"/>"));
            put(&mut body, format_args!("{}", text(left, LEGEND, "start", colour, &format!("{reason}: {count}"))));
            left += 160.0;
        }
    }
    whole(&body, "Moves of the simulated day, by reason")
}

/// The lowest row in which each move overlaps no earlier one.
fn rows(moves: &[Moved]) -> Vec<usize> {
    let mut free: Vec<Moment> = Vec::new();
    let place = |moved: &Moved| {
        let end = moved.ended.unwrap_or(moved.begun).max(moved.begun + 2 * MINUTE);
        let row = free.iter().position(|until| *until <= moved.begun).unwrap_or(free.len());
        free.resize(free.len().max(row + 1), 0);
        free[row] = end;
        row
    };
    moves.iter().map(place).collect()
}

struct Scale {
    from: Moment,
    until: Moment,
}

impl Scale {
    fn of(record: &Record) -> Self {
        let from = record.samples.first().map_or(0, |it| it.at);
        Self { from, until: record.samples.last().map_or(from + 1, |it| it.at.max(from + 1)) }
    }

    fn x(&self, at: Moment) -> f64 {
        LEFT + (at - self.from) as f64 / (self.until - self.from) as f64 * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, share: f64) -> f64 {
        HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
    }

    /// What the picture shows, and the hours.
    fn frame(&self, heading: &str) -> String {
        let mut body = text(LEFT, HEADING, "start", "#333", heading) + "\n";
        let hours = (self.until - self.from).div_euclid(HOUR);
        let step = if hours > 8 { 3 } else { 1 };
        for hour in (0..=hours).step_by(step) {
            let x = self.x(self.from + hour * HOUR);
            put(&mut body, format_args!("<path stroke=\"#ccc\" d=\"M{x:.0} {TOP}V{:.0}\"/>", HEIGHT - BOTTOM));
            put(&mut body, format_args!("{}", text(x, HEIGHT - 10.0, "middle", "#555", &format!("{hour} h"))));
        }
        body
    }
}

fn thinned(samples: &[Sample]) -> Vec<Sample> {
    samples.iter().step_by(samples.len().div_ceil(POINTS).max(1)).copied().collect()
}

fn text(x: f64, y: f64, anchor: &str, colour: &str, words: &str) -> String {
    format!("<text x=\"{x:.0}\" y=\"{y:.0}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{words}</text>")
}

fn put(body: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(body, "{line}");
}

fn whole(body: &str, title: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <title>{title}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n"
    )
}

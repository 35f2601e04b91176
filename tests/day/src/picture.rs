//! Two pictures of a simulation, plain SVG without scripts: what the fleet cost hour by hour, and every move from begin to end.

use std::fmt::Write;

use planner::MoveReason;

use crate::clock::{HOUR, MINUTE, Moment};
use crate::record::{Moved, Record, Sample};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 52.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 28.0;
/// Points a line: more cannot be seen.
const POINTS: usize = 240;
const MACHINES: &str = "#1f77b4";
const DOLLARS: &str = "#d9722c";
const REASONS: [(MoveReason, &str); 4] = [
    (MoveReason::Empty, "#2a9d5c"),
    (MoveReason::Underutilized, "#1f77b4"),
    (MoveReason::Drifted, "#8e5bb5"),
    (MoveReason::Expired, "#d9722c"),
];

/// Machines and dollars per hour over the time.
#[must_use]
pub fn fleet(record: &Record) -> String {
    let samples = thinned(&record.samples);
    let most = |of: fn(&Sample) -> f64| samples.iter().map(of).fold(1.0, f64::max);
    let (machines, dollars) = (most(|it| it.machines as f64), most(|it| it.dollars));
    let scale = Scale::of(record);
    let mut body = scale.frame();
    for (of, most, colour) in [
        ((|it: &Sample| it.machines as f64) as fn(&Sample) -> f64, machines, MACHINES),
        (|it: &Sample| it.dollars, dollars, DOLLARS),
    ] {
        let point = |it: &Sample| format!("{:.0},{:.0}", scale.x(it.at), scale.y(of(it) / most));
        let points: Vec<String> = samples.iter().map(point).collect();
        put(
            &mut body,
            format_args!(
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" points=\"{}\"/>",
                points.join(" ")
            ),
        );
    }
    put(&mut body, format_args!("{}", text(LEFT, 20.0, "start", MACHINES, &format!("nodes, at most {machines:.0}"))));
    let right = format!("dollars an hour, at most {dollars:.2}");
    put(&mut body, format_args!("{}", text(WIDTH - RIGHT, 20.0, "end", DOLLARS, &right)));
    whole(&body, "Nodes and dollars per hour over the simulated day")
}

/// Every move as a bar from its begin to the moment at which its replacements were up; a hollow one was taken back.
#[must_use]
pub fn moves(record: &Record) -> String {
    let scale = Scale::of(record);
    let rows = rows(&record.moves);
    let most = rows.iter().max().map_or(1, |row| row + 1);
    let height = ((HEIGHT - TOP - BOTTOM) / most as f64).min(12.0);
    let mut body = scale.frame();
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
            put(&mut body, format_args!("{}", text(left, 20.0, "start", colour, &format!("{reason}: {count}"))));
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

    /// The ground line with the hours.
    fn frame(&self) -> String {
        let mut body = String::new();
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

//! Parts of charts over time, as plain SVG without scripts.

use std::fmt::Write;

use crate::clock::Moment;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 320.0;
/// Left edge of the plot.
pub const LEFT: f64 = 52.0;
/// Vertical position of the legend.
pub const LEGEND: f64 = 40.0;
const RIGHT: f64 = 52.0;
const TOP: f64 = 54.0;
/// Vertical position of the heading above the plot.
const HEADING: f64 = 18.0;
const BOTTOM: f64 = 28.0;
/// Colour of the heading.
const DARK: &str = "#333";

/// Unit of the time axis.
#[derive(Clone, Copy, Debug)]
pub struct Ticks {
    /// Length of the unit.
    pub unit: Moment,
    /// Name of the unit.
    pub name: &'static str,
    /// Units between two ticks.
    pub every: usize,
}

/// Time axis, and a vertical axis from 0 to 1.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// First moment.
    pub from: Moment,
    /// Last moment, after the first.
    pub until: Moment,
}

impl Scale {
    /// Returns the horizontal position of a moment.
    #[must_use]
    pub fn x(&self, at: Moment) -> f64 {
        LEFT + (at - self.from) as f64 / (self.until - self.from) as f64 * (WIDTH - LEFT - RIGHT)
    }

    /// Returns the vertical position of a share.
    #[must_use]
    pub fn y(&self, share: f64) -> f64 {
        HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
    }

    /// Draws the heading and the time axis.
    #[must_use]
    pub fn frame(&self, heading: &str, ticks: Ticks) -> String {
        let mut body = text(LEFT, HEADING, "start", DARK, heading) + "\n";
        for number in (0..=(self.until - self.from).div_euclid(ticks.unit)).step_by(ticks.every) {
            let x = self.x(self.from + number * ticks.unit);
            put(&mut body, format_args!("<path stroke=\"#ccc\" d=\"M{x:.0} {TOP}V{:.0}\"/>", HEIGHT - BOTTOM));
            let label = format!("{number} {}", ticks.name);
            put(&mut body, format_args!("{}", text(x, HEIGHT - 10.0, "middle", "#555", &label)));
        }
        body
    }

    /// Draws shares over time. `dash` is the pattern of the line; it is empty for a solid line.
    #[must_use]
    pub fn line(&self, points: impl Iterator<Item = (Moment, f64)>, colour: &str, dash: &str) -> String {
        let points: Vec<String> = points.map(|(at, share)| format!("{:.0},{:.0}", self.x(at), self.y(share))).collect();
        let dash = if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dash}\"") };
        let points = points.join(" ");
        format!("<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"{dash} points=\"{points}\"/>")
    }
}

/// Draws text.
#[must_use]
pub fn text(x: f64, y: f64, anchor: &str, colour: &str, words: &str) -> String {
    format!("<text x=\"{x:.0}\" y=\"{y:.0}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{words}</text>")
}

/// Adds a line to the body of a chart.
pub fn put(body: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(body, "{line}");
}

/// Returns the whole chart.
#[must_use]
pub fn whole(body: &str, title: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <title>{title}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n"
    )
}

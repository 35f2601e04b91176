//! Picture of nodes and cost over time, one curve for each column.

use std::fmt::Write as _;

use jiff::Timestamp;
use replay::{Figures, Point};

use super::{Column, Report};
use crate::output::money::rounded;

const WIDTH: f64 = 900.0;
/// Height of one of the two diagrams.
const HEIGHT: f64 = 260.0;
/// Space for numbers on the left, and for titles and times.
const MARGINS: [f64; 2] = [64.0, 40.0];
/// Colours that people with any colour vision can tell apart, and the pattern of each curve.
const CURVES: [(Column, &str, &str, &str); 4] = [
    (Column::Recorded, "recorded", "#000000", ""),
    (Column::Replayed, "replayed", "#0072b2", "6 3"),
    (Column::Changed, "changed", "#d55e00", ""),
    (Column::Karpenter, "Karpenter's rules", "#009e73", "2 3"),
];

/// Returns the picture as SVG.
pub(super) fn svg(report: &Report) -> String {
    let height = 2.0 * HEIGHT + 30.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    legend(report, &mut svg);
    diagram(report, "cost per hour", 30.0, |point| point.rate as f64, |value| rounded(value as i64), &mut svg);
    diagram(report, "nodes", 30.0 + HEIGHT, |point| point.nodes as f64, |value| format!("{value:.0}"), &mut svg);
    svg + "</svg>\n"
}

/// Returns the next number of the form 4, 8, 12, 20 or 40 times a power of ten: its quarters are round.
fn round_up(value: f64) -> f64 {
    let power = 10.0_f64.powf((value.max(1e-9) / 4.0).log10().floor());
    let steps = [1.0, 2.0, 3.0, 5.0, 10.0].map(|step| 4.0 * step * power);
    steps.into_iter().find(|step| *step >= value).unwrap_or(value)
}

/// Returns the curves of the report with their name, colour and pattern.
fn curves(report: &Report) -> impl Iterator<Item = (&'static str, &'static str, &'static str, &Figures)> {
    CURVES
        .iter()
        .filter_map(|(column, name, colour, dashes)| Some((*name, *colour, *dashes, report.figures.get(column)?)))
}

fn legend(report: &Report, svg: &mut String) {
    for (number, (name, colour, dashes, _)) in curves(report).enumerate() {
        let x = MARGINS[0] + 160.0 * number as f64;
        let end = x + 24.0;
        let text = x + 30.0;
        let _ = writeln!(
            svg,
            "<line x1=\"{x}\" y1=\"14\" x2=\"{end}\" y2=\"14\" stroke=\"{colour}\" stroke-width=\"2\" \
             stroke-dasharray=\"{dashes}\"/><text x=\"{text}\" y=\"18\">{name}</text>"
        );
    }
}

fn diagram(
    report: &Report,
    title: &str,
    top: f64,
    value: impl Fn(&Point) -> f64,
    label: impl Fn(f64) -> String,
    svg: &mut String,
) {
    let values = curves(report).flat_map(|(.., figures)| figures.points.iter().map(&value));
    let most = round_up(values.fold(0.0_f64, f64::max));
    let (left, bottom) = (MARGINS[0], top + HEIGHT - MARGINS[1]);
    let place = |share: f64| bottom - share * (HEIGHT - 2.0 * MARGINS[1]);
    let right = WIDTH - 20.0;
    let _ = writeln!(svg, "<text x=\"{left}\" y=\"{:.0}\" font-weight=\"bold\">{title}</text>", top + 28.0);
    for quarter in 0..=4 {
        let share = f64::from(quarter) / 4.0;
        let (y, text) = (place(share), label(most * share));
        let _ = writeln!(
            svg,
            "<line x1=\"{left}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"#dddddd\"/>\
             <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
            left - 6.0,
            y + 4.0
        );
    }
    let length = report.to.duration_since(report.from).as_secs_f64().max(1.0);
    let x = |at: Timestamp| left + at.duration_since(report.from).as_secs_f64() / length * (right - left);
    for (at, anchor) in [(report.from, "start"), (report.to, "end")] {
        let (x, y, text) = (x(at), bottom + 18.0, at.strftime("%Y-%m-%d %H:%M"));
        let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
    }
    for (_, colour, dashes, figures) in curves(report) {
        let mut path = String::new();
        let mut before = None;
        for point in &figures.points {
            let (x, y) = (x(point.at), place(value(point) / most));
            let _ = match before.replace(y) {
                None => write!(path, "M{x:.1} {y:.1}"),
                Some(_) => write!(path, "H{x:.1}V{y:.1}"),
            };
        }
        let _ = writeln!(
            svg,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::round_up;

    #[test]
    fn round_up_returns_numbers_with_round_quarters() {
        for (value, expected) in [(10.0, 12.0), (3.277, 4.0), (4.0, 4.0), (170.0, 200.0), (0.35, 0.4), (37.0, 40.0)] {
            assert!((round_up(value) - expected).abs() < 1e-9, "{value}: {}", round_up(value));
        }
    }
}

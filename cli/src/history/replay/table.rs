//! Text of `kerf replay`: one column for the recording and one for each replay.

use std::collections::BTreeSet;

use replay::Figures;

use super::{Column, Report};
use crate::history::report::{table, with_title};
use crate::output::money::rounded;
use crate::output::wrap;

/// Width of the output.
const WIDTH: usize = 80;
const SECONDS_PER_DAY: f64 = 86_400.0;
const SECONDS_PER_HOUR: f64 = 3_600.0;
/// Explanation of the columns.
const MEANING: &str = "REPLAYED is the recording again with nothing changed: its difference to RECORDED is the error of the replay. Compare \
                       the other columns with it.";

/// Returns the comparison as text.
pub(super) fn text(report: &Report) -> String {
    let seconds = report.to.duration_since(report.from).as_secs_f64();
    let columns: Vec<&Figures> = report.figures.values().collect();
    let mut title = vec![""];
    title.extend(report.figures.keys().map(|column| heading(*column)));
    let mut lines = vec![format!(
        "{} to {} ({:.1} h)",
        report.from.strftime("%Y-%m-%d %H:%M"),
        report.to.strftime("%Y-%m-%d %H:%M UTC"),
        seconds / SECONDS_PER_HOUR
    )];
    lines.extend(report.changes.iter().flat_map(|change| wrap(&format!("changed: {change}"), WIDTH, "  ")));
    lines.extend(table(with_title(&title, rows(&columns, seconds))));
    lines.push(String::new());
    lines.extend(wrap(MEANING, WIDTH, ""));
    for warning in &report.warnings {
        lines.extend(wrap(&format!("warning: {warning}"), WIDTH, "  "));
    }
    lines.join("\n") + "\n"
}

fn heading(column: Column) -> &'static str {
    match column {
        Column::Recorded => "RECORDED",
        Column::Replayed => "REPLAYED",
        Column::Changed => "CHANGED",
        Column::Karpenter => "KARPENTER",
    }
}

fn rows(columns: &[&Figures], seconds: f64) -> Vec<Vec<String>> {
    let row = |name: &str, cell: &dyn Fn(&Figures) -> String| -> Vec<String> {
        std::iter::once(name.to_owned()).chain(columns.iter().map(|figures| cell(figures))).collect()
    };
    let per_day = |cost: i64| (cost as f64 * SECONDS_PER_DAY / seconds.max(1.0)).round() as i64;
    let mut rows = vec![
        row("cost", &|figures| rounded(figures.cost)),
        row("cost per day", &|figures| rounded(per_day(figures.cost))),
    ];
    for pool in names(columns, |figures| figures.cost_by_nodepool.keys()) {
        let cost = |figures: &Figures| figures.cost_by_nodepool.get(&pool).copied().unwrap_or(0);
        rows.push(row(&format!("  NodePool {pool}"), &|figures| rounded(cost(figures))));
    }
    rows.extend([
        row("nodes, mean", &|figures| format!("{:.1}", figures.node_seconds as f64 / seconds.max(1.0))),
        row("nodes, most", &|figures| figures.most_nodes.to_string()),
        row("launches", &|figures| figures.launches.to_string()),
    ]);
    for reason in names(columns, |figures| figures.disrupted.keys()) {
        let count = |figures: &Figures| figures.disrupted.get(&reason).copied().unwrap_or(0).to_string();
        rows.push(row(&format!("nodes removed: {reason}"), &count));
    }
    rows.extend([
        row("interruptions", &|figures| figures.interrupted.to_string()),
        row("evicted pods", &|figures| figures.evicted.to_string()),
        row("pods that needed a node", &|figures| figures.pods.to_string()),
        row("wait for a node, p50", &|figures| waited(figures.wait_p50)),
        row("wait for a node, p99", &|figures| waited(figures.wait_p99)),
        row("wait for a node, longest", &|figures| waited(figures.wait_max)),
        row("pending pods at the end", &|figures| figures.pending.to_string()),
    ]);
    rows
}

/// Returns the names that occur in any column.
fn names<'f, I: Iterator<Item = &'f String>>(
    columns: &[&'f Figures],
    of: impl Fn(&'f Figures) -> I,
) -> BTreeSet<String> {
    columns.iter().flat_map(|figures| of(figures)).cloned().collect()
}

fn waited(millis: i64) -> String {
    match millis {
        ..60_000 => format!("{:.1} s", millis as f64 / 1000.0),
        _ => format!("{:.1} min", millis as f64 / 60_000.0),
    }
}

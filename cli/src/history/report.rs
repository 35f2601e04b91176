//! Text of `kerf report`.

use std::collections::BTreeMap;

use api::decisions::{CommandTotals, Durations, NodeHours, Summary};
use api::label;

use crate::output::money::rounded;
use crate::output::{Paint, wrap};

/// Number of instance types and zones that are listed.
const SHOWN: usize = 5;
/// Width of the output.
const WIDTH: usize = 80;
const HOUR: f64 = 3600.0;
const DAY: f64 = 24.0 * HOUR;

/// Returns the report of a period.
pub(super) fn text(total: &Summary, colours: bool) -> String {
    let seconds = total.to.duration_since(total.from).as_secs_f64();
    if seconds <= 0.0 {
        return "no summary of this period: the controller writes one every 15 minutes\n".to_owned();
    }
    let paint = Paint(colours);
    let cost: i64 = total.nodes.iter().map(|nodes| nodes.cost).sum();
    let time = |at: jiff::Timestamp| at.strftime("%Y-%m-%d %H:%M").to_string();
    let mut lines = vec![
        paint.bold(&format!("From {} to {} UTC", time(total.from), time(total.to))),
        format!("Cost: {}, {} per hour", rounded(cost), rounded((cost as f64 * HOUR / seconds).round() as i64)),
    ];
    let unpriced: u64 = total.nodes.iter().map(|nodes| nodes.unpriced_seconds).sum();
    if unpriced > 0 {
        lines.push(format!("Without a known price: {:.1} node hours", unpriced as f64 / HOUR));
    }
    lines.extend(table(pools(total)));
    lines.extend(table(commands(total, seconds)));
    lines.push(String::new());
    lines.extend(wrap(&launches(total), WIDTH, ""));
    lines.extend(wrap(&durations("Nodes that started", &total.starts), WIDTH, ""));
    lines.extend(wrap(&durations("Pods that waited for a node", &total.waits), WIDTH, ""));
    lines.extend(shares("Instance types", total, |nodes| &nodes.instance_type));
    lines.extend(shares("Zones", total, |nodes| &nodes.zone));
    if total.lost > 0 {
        lines.push(format!("{} decisions are not in the log, because too many waited for the API server", total.lost));
    }
    lines.join("\n") + "\n"
}

/// Node hours and cost of a NodePool.
#[derive(Default)]
struct PoolTotals {
    seconds: u64,
    spot: u64,
    cost: i64,
}

fn pools(total: &Summary) -> Vec<Vec<String>> {
    let mut pools: BTreeMap<&str, PoolTotals> = BTreeMap::new();
    for nodes in &total.nodes {
        let pool = pools.entry(&nodes.nodepool).or_default();
        pool.seconds += nodes.seconds;
        pool.spot += if nodes.capacity_type == label::CAPACITY_SPOT { nodes.seconds } else { 0 };
        pool.cost += nodes.cost;
    }
    for pool in total.interruptions.keys() {
        pools.entry(pool).or_default();
    }
    let row = |(name, pool): (&str, PoolTotals)| {
        let interruptions = total.interruptions.get(name).copied().unwrap_or_default();
        let spot_hours = pool.spot as f64 / HOUR;
        let rate =
            if pool.spot == 0 { "-".to_owned() } else { format!("{:.2}", 100.0 * interruptions as f64 / spot_hours) };
        vec![
            name.to_owned(),
            format!("{:.1}", pool.seconds as f64 / HOUR),
            rounded(pool.cost),
            format!("{spot_hours:.1}"),
            interruptions.to_string(),
            rate,
        ]
    };
    let title = ["NODEPOOL", "NODE HOURS", "COST", "ON SPOT", "INTERRUPTED", "PER 100 H"];
    with_title(&title, pools.into_iter().map(row).collect())
}

fn commands(total: &Summary, seconds: f64) -> Vec<Vec<String>> {
    let row = |(reason, totals): (&String, &CommandTotals)| {
        let each = if totals.started == 0 { 0.0 } else { totals.pods as f64 / totals.started as f64 };
        vec![
            reason.clone(),
            totals.started.to_string(),
            format!("{:.1}", totals.started as f64 * DAY / seconds),
            totals.rolled_back.to_string(),
            totals.nodes.to_string(),
            format!("{each:.1}"),
            rounded(totals.expected_saving),
            rounded(totals.realised_saving),
        ]
    };
    let title = ["DISRUPTION", "COMMANDS", "A DAY", "UNDONE", "NODES", "PODS EACH", "SAVING/H", "REALISED"];
    with_title(&title, total.commands.iter().map(row).collect())
}

pub(super) fn with_title(title: &[&str], rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let title = title.iter().map(|column| (*column).to_owned()).collect();
    if rows.is_empty() { rows } else { std::iter::once(title).chain(rows).collect() }
}

/// Returns an empty line and the rows: the first column aligned to the left, the others to the right.
pub(super) fn table(rows: Vec<Vec<String>>) -> Vec<String> {
    let Some(first) = rows.first() else { return Vec::new() };
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..first.len()).map(|column| width(column).unwrap_or_default()).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ")
    };
    std::iter::once(String::new()).chain(rows.iter().map(line)).collect()
}

fn launches(total: &Summary) -> String {
    format!("Launches: {} instances, {} without capacity or with an error", total.launched, total.launches_failed)
}

fn durations(title: &str, all: &Durations) -> String {
    let bound = |percent| all.percentile(percent).unwrap_or_default();
    match all.count() {
        0 => format!("{title}: 0"),
        count => format!("{title}: {count}; p50 at most {} s, p99 at most {} s", bound(50), bound(99)),
    }
}

/// Returns the shares of the most frequent values in the node hours.
fn shares<'a>(title: &str, total: &'a Summary, value: impl Fn(&'a NodeHours) -> &'a String) -> Vec<String> {
    let mut seconds: BTreeMap<&str, u64> = BTreeMap::new();
    for nodes in &total.nodes {
        *seconds.entry(value(nodes)).or_default() += nodes.seconds;
    }
    let all: u64 = seconds.values().sum();
    if all == 0 {
        return Vec::new();
    }
    let mut sorted: Vec<(&str, u64)> = seconds.into_iter().collect();
    sorted.sort_by_key(|(name, seconds)| (std::cmp::Reverse(*seconds), *name));
    let share = |(name, seconds): &(&str, u64)| format!("{name} {:.0} %", 100.0 * *seconds as f64 / all as f64);
    let mut shown: Vec<String> = sorted.iter().take(SHOWN).map(share).collect();
    if sorted.len() > SHOWN {
        shown.push(format!("{} others", sorted.len() - SHOWN));
    }
    wrap(&format!("{title} by node hours: {}", shown.join(", ")), WIDTH, "")
}

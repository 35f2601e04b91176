//! Text of `kerf compare`: the cost of the cluster beside the fleets that an observing controller would launch.

use std::collections::BTreeMap;

use api::decisions::{NewFleet, Summary};
use jiff::{SignedDuration, Timestamp};

use super::report::{table, with_title};
use crate::output::money::rounded;
use crate::output::{counted, wrap};

/// Width of the output.
const WIDTH: usize = 80;
const HOUR: f64 = 3600.0;
/// Reason for an output without figures.
const NOTHING: &str =
    "no comparison of this period: only a controller with kerf.observe (OBSERVE) writes one, every 15 minutes\n";
/// Explanation of the last column.
const MEANING: &str = "NEW FLEET is what Kerf would launch for the pods of the same moment if there were no nodes. It is a lower limit: \
                       a running fleet also pays for changes, for nodes that start, and for pods that may not move.";

/// Returns the periods of this length with their merged summaries, in order. Summaries without a comparison do not count.
pub(super) fn periods(summaries: &[Summary], every: SignedDuration) -> BTreeMap<Timestamp, Summary> {
    let mut periods: BTreeMap<Timestamp, Summary> = BTreeMap::new();
    for summary in summaries.iter().filter(|summary| summary.new_fleet.is_some()) {
        let begin = begin(summary.from, every);
        periods.entry(begin).or_default().merge(summary);
    }
    periods
}

/// Returns the begin of the period that contains the time. Periods of a day begin at midnight UTC.
fn begin(time: Timestamp, every: SignedDuration) -> Timestamp {
    let seconds = every.as_secs().max(1);
    Timestamp::from_second(time.as_second().div_euclid(seconds) * seconds).unwrap_or(time)
}

/// Returns the comparison as text.
pub(super) fn text(periods: &BTreeMap<Timestamp, Summary>) -> String {
    let mut total = Summary::default();
    periods.values().for_each(|summary| total.merge(summary));
    let Some(all) = total.new_fleet.as_ref().filter(|fleet| fleet.seconds > 0) else { return NOTHING.to_owned() };
    let named = periods.iter().map(|(begin, summary)| (begin.strftime("%Y-%m-%d %H:%M").to_string(), summary));
    let mut rows: Vec<Vec<String>> =
        named.filter_map(|(name, summary)| Some(row(&name, summary.new_fleet.as_ref()?))).collect();
    rows.push(row("all", all));
    let title = ["FROM (UTC)", "NODES", "COST/H", "NEW FLEET", "COST/H", "LESS"];
    // The table begins with an empty line.
    let mut lines = table(with_title(&title, rows)).split_off(1);
    lines.push(String::new());
    lines.extend(wrap(MEANING, WIDTH, ""));
    if all.unplaced_seconds > 0 {
        let hours = all.unplaced_seconds as f64 / HOUR;
        lines.extend(wrap(&format!("It has no place for some pods, together for {hours:.1} pod hours."), WIDTH, ""));
    }
    lines.extend(wrap(&commands(&total), WIDTH, ""));
    lines.join("\n") + "\n"
}

/// Returns means over the time for which the new fleet is known.
fn row(name: &str, fleet: &NewFleet) -> Vec<String> {
    let seconds = fleet.seconds.max(1) as f64;
    let mean = |sum: u64| format!("{:.1}", sum as f64 / seconds);
    let rate = |cost: i64| rounded((cost as f64 * HOUR / seconds).round() as i64);
    let less = match fleet.actual_cost {
        ..=0 => "-".to_owned(),
        actual => format!("{:.0} %", 100.0 * (actual - fleet.cost) as f64 / actual as f64),
    };
    let (actual, new) = (mean(fleet.actual_node_seconds), mean(fleet.node_seconds));
    vec![name.to_owned(), actual, rate(fleet.actual_cost), new, rate(fleet.cost), less]
}

fn commands(total: &Summary) -> String {
    if total.would_disrupt.is_empty() {
        return "Kerf would have started no disruption command.".to_owned();
    }
    let each = total.would_disrupt.iter().map(|(reason, totals)| {
        let (commands, nodes) = (counted(totals.started as usize, "command"), counted(totals.nodes as usize, "node"));
        let pods = counted(totals.pods as usize, "pod");
        format!("{reason}: {commands} for {nodes} with {pods}, {} per hour saved", rounded(totals.expected_saving))
    });
    let each: Vec<String> = each.collect();
    format!("Kerf would have started these disruption commands. {}. kerf log lists them.", each.join("; "))
}

//! Text of `kerf compare`: the cost of the cluster beside the fleets that an observing controller would launch.

use std::collections::BTreeMap;

use api::decisions::{NewFleet, Summary};
use jiff::{SignedDuration, Timestamp};

use crate::output::money::rounded;
use crate::output::{Paint, counted, wrap};

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
pub(super) fn text(periods: &BTreeMap<Timestamp, Summary>, colours: bool) -> String {
    let mut total = Summary::default();
    periods.values().for_each(|summary| total.merge(summary));
    let Some(all) = total.new_fleet.as_ref().filter(|fleet| fleet.seconds > 0) else { return NOTHING.to_owned() };
    let paint = Paint(colours);
    let title = format!(
        "{:<16}  {:>7}  {:>10}  {:>9}  {:>10}  {:>6}",
        "FROM (UTC)", "NODES", "COST/H", "NEW FLEET", "COST/H", "LESS"
    );
    let mut lines = vec![paint.bold(&title)];
    for (begin, summary) in periods {
        let name = begin.strftime("%Y-%m-%d %H:%M").to_string();
        lines.extend(summary.new_fleet.as_ref().map(|fleet| line(&name, fleet)));
    }
    lines.push(line("all", all));
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
fn line(name: &str, fleet: &NewFleet) -> String {
    let seconds = fleet.seconds.max(1) as f64;
    let rate = |cost: i64| rounded((cost as f64 * HOUR / seconds).round() as i64);
    let less = match fleet.actual_cost {
        ..=0 => "-".to_owned(),
        actual => format!("{:.0} %", 100.0 * (actual - fleet.cost) as f64 / actual as f64),
    };
    format!(
        "{name:<16}  {:>7.1}  {:>10}  {:>9.1}  {:>10}  {less:>6}",
        fleet.actual_node_seconds as f64 / seconds,
        rate(fleet.actual_cost),
        fleet.node_seconds as f64 / seconds,
        rate(fleet.cost),
    )
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

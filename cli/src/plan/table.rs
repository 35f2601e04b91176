//! Plan as a table for people: 80 columns, bars, and colours on a terminal.

use planner::Resources;

use super::report::{
    CommandReport, INTERRUPTED, PlanReport, SplitReport, commitment_text, preference_text, requested_split, spend_text,
};
use super::view::{self, NodeRow};
use super::{PlanAnswer, cost};
use crate::output::money::rounded;
use crate::output::{Paint, counted, fit, wrap};

const WIDTH: usize = 80;
const BAR: usize = 16;
/// Maximum length of a name that is shown in full, so that the other columns fit.
const NAME: usize = 24;
/// Hours of an average month, for a price that is comparable with a bill.
const MONTH: i64 = 730;

/// Returns the complete table.
#[must_use]
pub fn table(answer: &PlanAnswer, report: &PlanReport, colours: bool) -> String {
    let mut table = Table { paint: Paint(colours), lines: Vec::new() };
    table.headline(answer, report);
    let after = answer.after_moves();
    table.nodes("NEW NODES", &after, &view::launched(&after));
    table.nodes("EXISTING NODES", &after, &view::existing(&after));
    table.splits(report);
    table.commands("INTERRUPTED", report, |it| it.reason == INTERRUPTED);
    table.commands("REMOVED", report, |it| it.reason != INTERRUPTED);
    table.resizes(report);
    let preferences: Vec<String> = report.preferences.iter().map(preference_text).collect();
    let workloads = report.preferences.iter().map(|it| it.workload.as_str());
    table.list("PREFERENCES", workloads.zip(preferences.iter().map(String::as_str)));
    let stays = report.disruption.stays.iter();
    table.list("STAYS", stays.map(|stay| (stay.node.as_str(), stay.why.as_str())));
    let unpacked = report.disruption.unpacked.iter();
    table.list("NOT RESIZED", unpacked.map(|it| (it.pod.as_str(), it.why.as_str())));
    table.list("UNSCHEDULABLE", report.unschedulable.iter().map(|it| (it.pod.as_str(), it.message.as_str())));
    table.list("IGNORED", report.ignored.iter().map(|it| (it.pod.as_str(), it.reason.as_str())));
    table.list("WARNINGS", report.warnings.iter().map(|text| ("", text.as_str())));
    table.cost(answer, report);
    if let Some(what_if) = &report.what_if {
        table.heading("WHAT IF");
        table.lines.extend(what_if.lines());
    }
    table.lines.join("\n") + "\n"
}

struct Table {
    paint: Paint,
    lines: Vec<String>,
}

impl Table {
    fn heading(&mut self, text: &str) {
        self.lines.push(String::new());
        self.lines.push(self.paint.bold(text));
    }

    fn headline(&mut self, answer: &PlanAnswer, report: &PlanReport) {
        let launched = answer.plan.launches.iter().flat_map(|launch| &launch.pods);
        let all = launched.chain(answer.plan.nominations.iter().map(|nomination| &nomination.pod));
        // Virtual pods of a CapacityBuffer are not counted.
        let placed = all.filter(|pod| answer.built.snapshot.pods[**pod].holder.is_none()).count();
        let mut parts = vec![
            counted(report.node_claims.len(), "new node"),
            format!("{} placed", counted(placed, "pod")),
            format!("{} unschedulable", report.unschedulable.len()),
        ];
        if !report.ignored.is_empty() {
            parts.push(format!("{} ignored", report.ignored.len()));
        }
        self.lines.push(self.paint.bold(&parts.join(", ")));
    }

    fn nodes(&mut self, heading: &str, answer: &PlanAnswer, nodes: &[NodeRow]) {
        if nodes.is_empty() {
            return;
        }
        self.heading(heading);
        let groups = grouped(answer, nodes);
        let width = groups.iter().map(|group| group.name.chars().count()).max().unwrap_or(0).clamp(8, NAME);
        for group in &groups {
            self.node(group, width);
            for (owner, count) in &group.owners {
                self.lines.push(fit(&format!("  {count:>3} x {owner}"), WIDTH));
            }
        }
    }

    fn node(&mut self, group: &Group<'_>, width: usize) {
        let node = group.node;
        let price = node.price.map_or_else(|| "?".to_owned(), |price| format!("{}/h", rounded(price)));
        let kind = if node.kind.is_empty() { "type unknown" } else { &node.kind };
        let name = fit(&group.name, width);
        let rest = format!(
            "{:<width$} {kind:<14} {:<14} {:<9} {price:>9}",
            "",
            node.zone,
            node.capacity_type,
            width = width - name.chars().count()
        );
        self.lines.push(format!("{}{}", self.paint.cyan(&name), fit(rest.trim_end(), WIDTH - name.chars().count())));
        let (cpu, memory) = (self.gauge("cpu", node, Resources::CPU), self.gauge("memory", node, Resources::MEMORY));
        self.lines.push(format!("  {cpu}   {memory}"));
        match node.others {
            0 => {}
            1 => self.lines.push("  or one other type".to_owned()),
            others => self.lines.push(format!("  or one of {others} other types")),
        }
        for (key, count) in &node.lowered {
            self.lines.extend(wrap(&format!("minValues of {key} lowered to {count} (BestEffort)"), WIDTH, "  "));
        }
    }

    /// Returns a utilization bar, such as `cpu ########------  88 %`.
    fn gauge(&self, name: &str, node: &NodeRow, resource: &str) -> String {
        let (used, of) = (node.used.get(resource).max(0), node.allocatable.get(resource));
        if of <= 0 {
            return format!("{name} {:<width$}", "unknown", width = BAR + 6);
        }
        let percent = (i128::from(used) * 100 / i128::from(of)).clamp(0, 999);
        let filled = usize::try_from(percent).unwrap_or(0) * BAR / 100;
        let bar = format!("{}{}", "█".repeat(filled.min(BAR)), "░".repeat(BAR.saturating_sub(filled)));
        format!("{name} {} {percent:>3} %", self.paint.level(&bar, percent))
    }

    fn splits(&mut self, report: &PlanReport) {
        if report.splits.is_empty() {
            return;
        }
        self.heading("ON-DEMAND AND SPOT");
        for split in &report.splits {
            self.lines.push(self.paint.cyan(&fit(&split.workload, WIDTH)));
            self.lines.extend(wrap(&split_text(split), WIDTH, "  "));
        }
    }

    fn commands(&mut self, heading: &str, report: &PlanReport, is_listed: impl Fn(&&CommandReport) -> bool) {
        let own: Vec<&CommandReport> = report.disruption.moves.iter().filter(is_listed).collect();
        if own.is_empty() {
            return;
        }
        self.heading(heading);
        for it in own {
            let price = match it.saving {
                None => String::new(),
                Some(more) if more < 0 => format!(", costs {}/h more", rounded(-more)),
                Some(less) => format!(", saves {}/h", rounded(less)),
            };
            self.lines.push(fit(&format!("{}: {}{price}", it.nodes.join(" and "), it.reason), WIDTH));
            self.lines.extend(wrap(&command_text(it), WIDTH, "  "));
        }
    }

    fn resizes(&mut self, report: &PlanReport) {
        let disruption = &report.disruption;
        if disruption.resizes.is_empty() {
            return;
        }
        self.heading("RESIZED");
        for it in &disruption.resizes {
            let change = |(name, from): (&String, &String)| {
                format!("{name} {from} to {}", it.to.get(name).map_or("", String::as_str))
            };
            let changes: Vec<String> = it.from.iter().map(change).collect();
            self.lines.push(fit(&format!("{} {}: {}", it.pod, it.container, changes.join(", ")), WIDTH));
            self.lines.extend(wrap(&it.why, WIDTH, "  "));
        }
    }

    /// Adds a list. Entries with the same reason are grouped, so that a thousand equal pods take one entry.
    fn list<'a>(&mut self, heading: &str, entries: impl Iterator<Item = (&'a str, &'a str)>) {
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        for (subject, text) in entries {
            match groups.iter_mut().find(|(known, _)| *known == text) {
                Some((_, subjects)) => subjects.push(subject),
                None => groups.push((text, vec![subject])),
            }
        }
        if groups.is_empty() {
            return;
        }
        self.heading(heading);
        for (text, subjects) in groups {
            let who = match subjects.as_slice() {
                [""] => None,
                [one] => Some((*one).to_owned()),
                [one, rest @ ..] => Some(format!("{one} and {}", counted(rest.len(), "other"))),
                [] => None,
            };
            if let Some(who) = who {
                self.lines.push(self.paint.cyan(&fit(&who, WIDTH)));
            }
            self.lines.extend(wrap(text, WIDTH, "  "));
        }
    }

    fn cost(&mut self, answer: &PlanAnswer, report: &PlanReport) {
        self.heading("COST");
        let (before, after) = cost::before_and_after(answer);
        let unknown = answer.built.snapshot.nodes.iter().filter(|node| cost::price(answer, node).is_none()).count();
        self.lines.push(format!("  {}", cost_change(before.instances, after.instances)));
        if (before.paid, after.paid) != (0, 0) {
            let (paid_before, paid_after) = (rounded(before.paid), rounded(after.paid));
            self.lines.push(format!("  of it Commitments pay: before {paid_before}/h, after {paid_after}/h"));
        }
        if (before.extras, after.extras) != (0, 0) {
            let change = cost_change(before.extras, after.extras);
            self.lines.extend(wrap(&format!("volumes and fees: {change}"), WIDTH, "  "));
        }
        for text in spend_text(answer).into_iter().chain(commitment_text(answer)) {
            self.lines.extend(wrap(&text, WIDTH, "  "));
        }
        if answer.plan.saved_by_usage.0 > 0 {
            let saved = rounded(answer.plan.saved_by_usage.0);
            self.lines.push(format!("  savings by utilization: {saved}/h, now or after requests are lowered"));
        }
        if unknown > 0 {
            self.lines.push(format!("  without {} of unknown type or price", counted(unknown, "node")));
        }
        for source in &answer.cluster.catalogue_set.sources {
            self.lines.extend(wrap(source, WIDTH, "  "));
        }
        if !report.unschedulable.is_empty() {
            self.lines.push("  kerf why pod NAMESPACE/NAME PATH... explains one pod".to_owned());
        }
    }
}

/// Returns the cost per hour before and after a plan, and per month after it.
fn cost_change(before: i64, after: i64) -> String {
    let month = rounded(after.saturating_mul(MONTH));
    let month = month.split('.').next().unwrap_or_default();
    format!("before {}/h, after {}/h (about {month} a month)", rounded(before), rounded(after))
}

/// Returns the reason of a command, its replacements, and the number of pods that move.
fn command_text(it: &CommandReport) -> String {
    let mut text = it.why.clone();
    if !it.replacements.is_empty() {
        // An interruption does not wait for replacements.
        text = match it.reason == INTERRUPTED {
            true => format!("{text}; replaced by {}", with_verb(&it.replacements)),
            false => format!("{text}, after {} initialized", with_verb(&it.replacements)),
        };
    }
    if !it.pods.is_empty() {
        text = format!("{text}; {} to move", counted(it.pods.len(), "pod"));
    }
    text
}

/// Returns the pods of a workload's split by capacity type, and the requested split.
fn split_text(split: &SplitReport) -> String {
    let counts = [(split.unknown, "on nodes of unknown capacity type"), (split.waiting, "unschedulable")];
    let rest = counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!(", {count} {what}"));
    let rest: String = rest.collect();
    let requested = requested_split(split.on_demand_base, split.spot_share);
    format!("{} on demand, {} on spot{rest} (asked: {requested})", split.on_demand, split.spot)
}

/// Consecutive nodes that differ only in their names.
struct Group<'a> {
    name: String,
    node: &'a NodeRow,
    owners: Vec<(String, usize)>,
}

fn grouped<'a>(answer: &PlanAnswer, nodes: &'a [NodeRow]) -> Vec<Group<'a>> {
    let mut groups: Vec<(Group<'a>, usize)> = Vec::new();
    for node in nodes {
        let owners = view::owners(answer, &node.pods);
        match groups.last_mut() {
            Some((last, count)) if last.owners == owners && last.node.is_like(node) => *count += 1,
            _ => groups.push((Group { name: node.name.clone(), node, owners }, 1)),
        }
    }
    let named = |(mut group, count): (Group<'a>, usize)| {
        if count > 1 {
            let more = format!(" and {} more", count - 1);
            group.name = fit(&group.name, NAME.saturating_sub(more.len())) + &more;
        }
        group
    };
    groups.into_iter().map(named).collect()
}

/// Returns a list with its verb: `a is`, `a and b are`.
fn with_verb(claims: &[String]) -> String {
    format!("{} {}", claims.join(" and "), if claims.len() == 1 { "is" } else { "are" })
}

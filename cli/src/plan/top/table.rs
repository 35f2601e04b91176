//! The same figures as text, for pipes and `--once`.

use super::TopOptions;
use super::columns::Columns;
use super::overview::{Overview, PoolLine};
use crate::output::money::rounded;
use crate::output::{counted, fit, wrap};
use crate::plan::report::CommandReport;
use crate::plan::{PlanAnswer, cost};

/// Width of sentences.
const WIDTH: usize = 80;

/// Returns the overview as text. Without a width, which a pipe does not have, no name is cut.
pub(crate) fn text(answer: &PlanAnswer, options: &TopOptions, width: Option<usize>) -> String {
    let overview = Overview::new(answer, &options.shown);
    let mut lines = summary(&overview);
    lines.push(String::new());
    let columns = width.map_or_else(|| Columns::whole(&overview), |width| Columns::within(width, &overview));
    lines.push(columns.heading());
    lines.extend(overview.nodes.iter().map(|node| columns.row(node)));
    lines.push(String::new());
    lines.push(pool_heading());
    lines.extend(overview.pools.iter().map(pool_row));
    if !overview.pending.is_empty() {
        lines.extend([String::new(), "PENDING PODS".to_owned()]);
        for (pod, reason) in &overview.pending {
            lines.push(width.map_or_else(|| pod.clone(), |width| fit(pod, width)));
            lines.extend(wrap(reason, WIDTH, "  "));
        }
    }
    if !overview.commands.is_empty() {
        lines.extend([String::new(), "COMMANDS".to_owned()]);
        for command in &overview.commands {
            lines.extend(command_lines(command));
        }
    }
    lines.join("\n") + "\n"
}

/// Returns the number of nodes and pods, and their cost and load.
pub(super) fn summary(overview: &Overview) -> Vec<String> {
    let mut parts = vec![counted(overview.nodes.len(), "node"), counted(overview.pods(), "pod")];
    if !overview.pending.is_empty() {
        parts.push(format!("{} without a place", counted(overview.pending.len(), "pod")));
    }
    if overview.leaving() > 0 {
        parts.push(format!("{} to remove", counted(overview.leaving(), "node")));
    }
    let (now, month) = (rounded(overview.cost), rounded(cost::per_month(overview.cost)));
    let after = overview.cost_after.map(rounded).filter(|after| *after != now);
    let after = after.map_or_else(String::new, |after| format!(", after the plan {after}/h"));
    let (cpu, memory) = overview.load();
    let load = format!("CPU {} %, memory {} %", cpu.text(), memory.text());
    vec![parts.join(", "), format!("{now}/h, {month}/month{after}; {load}")]
}

/// Returns the titles of the list of NodePools.
pub(super) fn pool_heading() -> String {
    format!("{:<30} {:>5} {:>5} {:>7} {:>7} {:>9}", "NODEPOOL", "NODES", "PODS", "CPU %", "MEM %", "$/H")
}

/// Returns the line of a NodePool.
pub(super) fn pool_row(pool: &PoolLine) -> String {
    let name = if pool.name.is_empty() { "(none)" } else { &pool.name };
    format!(
        "{:<30} {:>5} {:>5} {:>7} {:>7} {:>9}",
        fit(name, 30),
        pool.nodes,
        pool.pods,
        pool.cpu.text(),
        pool.memory.text(),
        rounded(pool.price).replace('$', "")
    )
}

/// Returns the lines of a command: its nodes and savings, then the reason.
pub(super) fn command_lines(command: &CommandReport) -> Vec<String> {
    let saving = match command.saving {
        Some(saving) if saving < 0 => format!(", costs {}/h", rounded(-saving)),
        Some(saving) => format!(", saves {}/h", rounded(saving)),
        None => String::new(),
    };
    let mut lines = wrap(&format!("{}: {}{saving}", command.nodes.join(" and "), command.reason), WIDTH, "");
    lines.extend(wrap(&command.why, WIDTH, "  "));
    lines
}

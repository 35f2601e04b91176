//! The first disruption after the switch: the commands that `kerf plan` computes from the same objects, with their savings.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::report::Finding;
use super::{cluster, text};
use crate::failure::Failure;
use crate::input;
use crate::output::counted;
use crate::output::money::rounded;
use crate::plan;
use crate::plan::report::{CommandReport, INTERRUPTED, PlanReport};

/// Returns a finding per command and their sum. Without Nodes and pods there is nothing to plan, and with an object that cannot
/// be read there is no plan: that object is a finding of its own.
pub(super) fn findings(objects: &[&Value], now: Timestamp) -> Vec<Finding> {
    let has = |kind: &str| objects.iter().any(|object| text(object, "/kind") == kind);
    if !has("Node") || !has("Pod") {
        return Vec::new();
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    let Ok(manifests) = input::read_text(&cluster().file, &list) else { return Vec::new() };
    let answer = super::settings(objects)
        .map_err(Failure::usage)
        .and_then(|settings| plan::answer(manifests, &settings.unwrap_or_default().conditions(now)));
    match answer {
        Ok(answer) => {
            let report = PlanReport::new(&answer);
            let commands = report.disruption.moves.iter().filter(|command| command.reason != INTERRUPTED);
            let commands: Vec<&CommandReport> = commands.collect();
            commands.iter().map(|command| first(command)).chain(sum(&commands)).collect()
        }
        Err(failure) => {
            vec![Finding::change(
                "Disruption",
                format!("cannot be computed: {failure}; use kerf plan with its options"),
            )]
        }
    }
}

fn first(command: &CommandReport) -> Finding {
    let price = command.saving.map_or_else(String::new, |saving| format!(", saves {}/h", rounded(saving)));
    let replacements = match command.replacements.len() {
        0 => String::new(),
        count => format!(
            ", after {} initialized",
            if count == 1 { "1 new node is".to_owned() } else { format!("{count} new nodes are") }
        ),
    };
    let text = format!("disruption begins here ({}{price}): {}{replacements}", command.reason, command.why);
    Finding::change(format!("Node {}", command.nodes.join(" and ")), text)
}

/// Returns the sum of all commands; nothing without commands.
fn sum(commands: &[&CommandReport]) -> Option<Finding> {
    let nodes: usize = commands.iter().map(|command| command.nodes.len()).sum();
    let saving: i64 = commands.iter().filter_map(|command| command.saving).sum();
    let text = format!("begins with {} and saves {}/h, within the budgets", counted(nodes, "node"), rounded(saving));
    (nodes > 0).then(|| Finding::change("Disruption", text))
}

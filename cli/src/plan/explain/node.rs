//! Explanation for one node: its pods, and why it stays, or the command that removes it.

use std::sync::Arc;

use api::{quantity, timeline};
use planner::{Node, NodeVerdict, Resources};

use super::super::report::{CommandReport, PlanReport};
use super::super::{PlanAnswer, view};
use super::{Explanation, similar};
use crate::failure::{Failure, PLACED};
use crate::output::money::rounded;

/// Returns the explanation of a node with the exit code.
///
/// # Errors
/// Returns an error if the input has no such node; the message contains similar names.
pub fn node(answer: &PlanAnswer, name: &str, colours: bool) -> Result<(String, u8), Failure> {
    let nodes = &answer.built.snapshot.nodes;
    match nodes.iter().find(|node| node.name == name) {
        Some(node) => Ok((explained(answer, node, colours), PLACED)),
        None => Err(similar("node", name, nodes.iter().map(|node| node.name.clone()))),
    }
}

/// Returns the explanation of a NodeClaim's node with the exit code.
///
/// # Errors
/// Returns an error if the input has no such NodeClaim; the message contains similar names.
pub fn node_claim(answer: &PlanAnswer, name: &str, colours: bool) -> Result<(String, u8), Failure> {
    let nodes = &answer.built.snapshot.nodes;
    match nodes.iter().find(|node| node.claim.as_deref() == Some(name)) {
        Some(node) => Ok((explained(answer, node, colours), PLACED)),
        None => Err(similar("nodeclaim", name, nodes.iter().filter_map(|node| node.claim.clone()))),
    }
}

fn explained(answer: &PlanAnswer, node: &Arc<Node>, colours: bool) -> String {
    let mut explanation = Explanation::new(colours);
    explanation.title(&title(node));
    start(&mut explanation, answer, node);
    figures(&mut explanation, answer, node);
    verdict(&mut explanation, answer, node);
    explanation.text()
}

fn title(node: &Node) -> String {
    let claim = node.claim.as_ref().filter(|claim| **claim != node.name);
    let claim = claim.map(|claim| format!(", NodeClaim {claim}")).unwrap_or_default();
    let pool = node.pool.as_ref().map(|pool| format!(", NodePool {pool}")).unwrap_or_default();
    format!("Node {}{claim}{pool}", node.name)
}

/// Adds the stages of the node's start, if its NodeClaim is known.
fn start(explanation: &mut Explanation, answer: &PlanAnswer, node: &Node) {
    let stages = node.claim.as_ref().map(|claim| view::start_stages(answer, claim)).unwrap_or_default();
    if stages.len() > 1 {
        explanation.heading("START");
        explanation.line(&timeline::line(&stages));
    }
}

/// Adds the node's type and price, its pods by owner, and requested and used resources.
fn figures(explanation: &mut Explanation, answer: &PlanAnswer, node: &Node) {
    let row = view::existing_row(answer, node, Vec::new());
    explanation.line(&row.words());
    explanation.heading("PODS");
    let pods = node.pods.iter().map(|pod| pod.name.as_str());
    for (owner, count) in view::owners_of(answer, pods) {
        explanation.line(&format!("{count} x {owner}"));
    }
    explanation.line(&format!("requested: {}", row.shares().join(", ")));
    if let Some(usage) = &node.usage {
        let text = |name: &str, amount: i64| format!("{name} {}", quantity::text(name, amount));
        let used = [text(Resources::CPU, usage.cpu), text(Resources::MEMORY, usage.memory)];
        explanation.line(&format!("used (95th percentile): {}", used.join(", ")));
    }
}

/// Adds why the node stays, or the command that removes it.
fn verdict(explanation: &mut Explanation, answer: &PlanAnswer, node: &Node) {
    explanation.heading("ANSWER");
    let Some((_, verdict)) = answer.plan.report.nodes.iter().find(|(name, _)| *name == node.name) else {
        explanation.line("It belongs to no NodePool, so it is never removed; pods may be placed on it.");
        return;
    };
    explanation.line(&format!("It {verdict}."));
    if let NodeVerdict::Remove(_) | NodeVerdict::Leaving = verdict {
        let report = PlanReport::new(answer);
        let command = report.disruption.moves.iter().find(|command| command.nodes.contains(&node.name));
        command.into_iter().for_each(|command| removal(explanation, command, &node.name));
    }
}

fn removal(explanation: &mut Explanation, command: &CommandReport, node: &str) {
    explanation.line(&format!("Reason: {}.", command.why));
    let others: Vec<&str> = command.nodes.iter().map(String::as_str).filter(|name| *name != node).collect();
    if !others.is_empty() {
        explanation.line(&format!("It is removed together with {}.", others.join(" and ")));
    }
    if let Some(saving) = command.saving {
        let verb = if saving < 0 { "costs" } else { "saves" };
        explanation.line(&format!("The command {verb} {}/h.", rounded(saving.abs())));
    }
    if !command.replacements.is_empty() {
        explanation.line(&format!("New nodes must be initialized first: {}.", command.replacements.join(", ")));
    }
    if command.pods.is_empty() {
        return;
    }
    explanation.heading("PODS TO MOVE");
    for place in &command.pods {
        explanation.line(&format!("{} to node {}", place.pod, place.to));
    }
}

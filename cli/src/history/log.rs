//! Text of `kerf log`: one paragraph per decision.

use api::decisions::{Decision, DecisionKind, Names};

use crate::args::Log;
use crate::output::money::rounded;
use crate::output::{Paint, counted, wrap};

/// Number of names in a sentence.
const SHOWN: usize = 3;
/// Width of the output.
const WIDTH: usize = 80;
const INDENT: &str = "    ";

/// Reports whether the decision is about the objects of the arguments.
pub(super) fn is_selected(args: &Log, decision: &Decision) -> bool {
    let is_about = |wanted: &Option<String>, lists: &[&Names]| {
        wanted.as_ref().is_none_or(|name| lists.iter().any(|names| names.contains(name)))
    };
    let pod = args.pod.as_ref().map(|pod| if pod.contains('/') { pod.clone() } else { format!("default/{pod}") });
    is_about(&pod, &[&decision.pods])
        && is_about(&args.node, &[&decision.nodes])
        && is_about(&args.nodeclaim, &[&decision.nodeclaims, &decision.replacements])
        && is_about(&args.nodepool, &[&decision.nodepools])
        && args.reason.as_ref().is_none_or(|reason| *reason == decision.reason)
}

/// Returns the decisions as text.
pub(super) fn text(decisions: &[Decision], colours: bool) -> String {
    if decisions.is_empty() {
        return "no decision matches\n".to_owned();
    }
    let paint = Paint(colours);
    let mut lines = Vec::new();
    for decision in decisions {
        let time = decision.time.strftime("%Y-%m-%d %H:%M:%S");
        let title = format!("{}: {}", decision.kind.as_str(), decision.reason);
        lines.push(format!("{time}  {}", paint.bold(&title)));
        lines.extend(wrap(&sentence(decision), WIDTH, INDENT));
    }
    lines.join("\n") + "\n"
}

fn sentence(decision: &Decision) -> String {
    let mut parts = vec![subject(decision)];
    if !decision.message.is_empty() {
        parts.push(decision.message.clone());
    }
    match decision.kind {
        DecisionKind::Created | DecisionKind::WouldCreate => parts.extend(choice(decision)),
        DecisionKind::Launched => parts.extend(instance(decision)),
        DecisionKind::Initialized => parts.push(api::timeline::line(&decision.stages)),
        DecisionKind::Disrupting | DecisionKind::WouldDisrupt => parts.extend(consequences(decision)),
        DecisionKind::Unknown => parts.push("written by a newer version: upgrade kerf".to_owned()),
        DecisionKind::LaunchFailed
        | DecisionKind::Unschedulable
        | DecisionKind::Disrupted
        | DecisionKind::RolledBack
        | DecisionKind::Kept
        | DecisionKind::Interrupted => {}
    }
    parts.join("; ")
}

/// Returns the objects of the decision.
fn subject(decision: &Decision) -> String {
    let Decision { nodeclaims, nodes, pods, nodepools, .. } = decision;
    let pool = if nodepools.is_empty() { String::new() } else { format!(" of NodePool {}", nodepools.listed(SHOWN)) };
    if decision.kind == DecisionKind::WouldCreate {
        return format!("NodeClaim{pool}");
    }
    let (kind, names) = match (nodes.is_empty(), nodeclaims.is_empty()) {
        (false, _) => ("Node", nodes),
        (true, false) => ("NodeClaim", nodeclaims),
        (true, true) => ("Pod", pods),
    };
    format!("{kind} {}{pool}", names.listed(SHOWN))
}

fn choice(decision: &Decision) -> Vec<String> {
    let pods =
        (!decision.pods.is_empty()).then(|| format!("for {} {}", pods(&decision.pods), decision.pods.listed(SHOWN)));
    let price = decision.price_per_hour.map(|price| format!("from {} per hour", rounded(price)));
    let types =
        (!decision.instance_types.is_empty()).then(|| format!("types {}", decision.instance_types.listed(SHOWN)));
    [pods, price, types].into_iter().flatten().collect()
}

fn pods(names: &Names) -> &'static str {
    if names.count == 1 { "pod" } else { "pods" }
}

fn instance(decision: &Decision) -> Vec<String> {
    let instance = decision.instance.as_ref().map(|instance| {
        format!("{}, {} in {}, {}", instance.id, instance.instance_type, instance.zone, instance.capacity_type)
    });
    let price = decision.price_per_hour.map(|price| format!("{} per hour", rounded(price)));
    instance.into_iter().chain(price).collect()
}

fn consequences(decision: &Decision) -> Vec<String> {
    let moved = (!decision.pods.is_empty()).then(|| format!("moves {}", counted(decision.pods.count, "pod")));
    let replaced = (!decision.replacements.is_empty())
        .then(|| format!("replaced by NodeClaim {}", decision.replacements.listed(SHOWN)));
    let planned = (decision.replacements.is_empty() && !decision.instance_types.is_empty())
        .then(|| format!("replaced by types {}", decision.instance_types.listed(SHOWN)));
    let saving = decision.saving_per_hour.map(|saving| match decision.price_per_hour {
        Some(price) => format!("saves {} of {} per hour", rounded(saving), rounded(price)),
        None => format!("saves {} per hour", rounded(saving)),
    });
    [moved, replaced, planned, saving].into_iter().flatten().collect()
}

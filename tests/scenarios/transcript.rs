//! Text form of a plan that does not depend on positions, for comparison and review.

use std::fmt::Write as _;

use planner::{
    Destination, Launch, MicroDollars, Operator, Plan, Purpose, Relocation, Requirement, Resize, Resources, Size,
    Snapshot,
};

use crate::values;

/// Returns the whole plan: launches, nominations, removals, and a reason for everything else.
pub fn of(snapshot: &Snapshot, plan: &Plan) -> String {
    let mut out = String::new();
    for (position, launch) in plan.launches.iter().enumerate() {
        write_launch(&mut out, position, launch);
    }
    for it in &plan.moves {
        let saving = it.saving.map_or_else(|| "an unknown amount".to_owned(), price);
        let nodes: Vec<&str> = it.nodes.iter().map(|leaver| leaver.node.as_str()).collect();
        writeln!(out, "remove {} ({}), which saves {saving}", nodes.join(" and "), it.reason).unwrap();
        if !it.replacements.is_empty() {
            let new: Vec<String> = it.replacements.iter().map(|launch| format!("new node {}", launch + 1)).collect();
            writeln!(out, "  once there is {}", new.join(" and ")).unwrap();
        }
        let mut pods: Vec<String> =
            it.pods.iter().map(|pod| format!("  pod {} goes to {}{}", pod.pod, place(&pod.to), ahead(pod))).collect();
        pods.sort();
        pods.iter().for_each(|pod| writeln!(out, "{pod}").unwrap());
    }
    plan.resizes.iter().for_each(|it| write_resize(&mut out, it));
    if plan.saved_by_usage.0 > 0 {
        writeln!(out, "savings by utilization: {}", price(plan.saved_by_usage)).unwrap();
    }
    for it in &plan.report.unpacked {
        writeln!(out, "pod {} on {} keeps its requests: {}", it.pod, it.node, it.why).unwrap();
    }
    let mut pods: Vec<(usize, String)> =
        plan.report.pods.iter().enumerate().map(|(pod, verdict)| (pod, verdict.to_string())).collect();
    pods.sort_by_key(|(pod, _)| snapshot.pods[*pod].name.clone());
    for (pod, verdict) in pods {
        writeln!(out, "pod {} {verdict}", snapshot.pods[pod].name).unwrap();
    }
    let mut nodes: Vec<&(String, planner::NodeVerdict)> = plan.report.nodes.iter().collect();
    nodes.sort_by_key(|(name, _)| name);
    for (name, verdict) in nodes {
        writeln!(out, "node {name} {verdict}").unwrap();
    }
    if out.is_empty() {
        out.push_str("nothing to do\n");
    }
    out
}

fn write_resize(out: &mut String, it: &Resize) {
    let again = if it.marks { ", and remembers it" } else { "" };
    writeln!(out, "resize {} on {}: {}{again}", it.pod, it.node, it.why).unwrap();
    for container in &it.containers {
        let text = |size: Size| resources(&size.resources());
        let (from, to, was) = (text(container.from), text(container.to), text(container.requested));
        writeln!(out, "  {} from {from} to {to}, first {was}", container.name).unwrap();
    }
}

fn ahead(pod: &Relocation) -> &'static str {
    if pod.surge { ", where a copy of it is up before" } else { "" }
}

fn place(to: &Destination) -> String {
    match to {
        Destination::Node(node) => format!("node {node}"),
        Destination::Launch(launch) => format!("new node {}", launch + 1),
    }
}

fn write_launch(out: &mut String, position: usize, launch: &Launch) {
    let number = position + 1;
    let paid = launch.commitment.as_ref().map(|name| format!(", paid by commitment {name}")).unwrap_or_default();
    writeln!(out, "new node {number} from pool {} at {} or more{paid}", launch.pool, price(launch.price)).unwrap();
    writeln!(out, "  types {}", types(&launch.instance_types)).unwrap();
    writeln!(out, "  requests {}", resources(&launch.requests)).unwrap();
    let all: Vec<String> = launch.requirements.iter().map(requirement).collect();
    writeln!(out, "  requires {}", all.join(" and ")).unwrap();
    if let Some(least) = launch.min_instance_types {
        writeln!(out, "  keeps at least {least} types to choose from").unwrap();
    }
    if launch.min_values_relaxed {
        writeln!(out, "  with less choice than was asked for").unwrap();
    }
    if launch.purpose == Purpose::Static {
        writeln!(out, "  for the replicas of a static pool").unwrap();
    }
}

/// Lists all types, or only the first and the last ones of more than 40.
fn types(names: &[String]) -> String {
    match names.len() {
        0..=40 => names.join(" "),
        many => format!("{} ... {} ({many} in all)", names[..8].join(" "), names[many - 2..].join(" ")),
    }
}

fn price(price: MicroDollars) -> String {
    let (sign, whole) = (if price.0 < 0 { "-" } else { "" }, price.0.unsigned_abs());
    format!("{sign}${}.{:04}/h", whole / 1_000_000, whole % 1_000_000 / 100)
}

fn requirement(it: &Requirement) -> String {
    let key = values::short_key(&it.key);
    let min = it.min_values.map(|count| format!(" (at least {count})")).unwrap_or_default();
    match it.operator {
        Operator::Exists | Operator::DoesNotExist => format!("{key} {:?}{min}", it.operator),
        operator => format!("{key} {operator:?} {}{min}", it.values.join(",")),
    }
}

fn resources(amounts: &Resources) -> String {
    let text = |(name, amount): (&str, i64)| match name {
        Resources::CPU => format!("cpu={amount}m"),
        Resources::MEMORY => format!("memory={}Mi", amount >> 20),
        name => format!("{name}={amount}"),
    };
    amounts.iter().map(text).collect::<Vec<_>>().join(" ")
}

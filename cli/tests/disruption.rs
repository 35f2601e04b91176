//! Properties of every plan of every case: each node is reported once, and every object that a command names is in the plan.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::support::kerf;
use api::objects::Node;
use api::{NodeClaim, condition, reason};
use cli::input::Objects;
use serde_json::Value;

/// A plan of a case with its input objects.
struct Planned {
    /// The command, with its case.
    what: String,
    objects: Objects,
    plan: Value,
}

/// Computes all plans of the cases' commands.
fn plans() -> Vec<Planned> {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let folders = cases.read_dir().unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let mut folders: Vec<PathBuf> = folders.collect();
    folders.sort();
    folders.iter().flat_map(|case| plans_of(case)).collect()
}

fn plans_of(case: &Path) -> Vec<Planned> {
    let input = std::fs::read_to_string(case.join("input")).unwrap_or_default();
    let commands = std::fs::read_to_string(case.join("commands")).unwrap();
    let commands = commands.lines().filter_map(|line| line.strip_prefix("kerf plan "));
    let asked: BTreeSet<String> = commands.map(|words| words.replace(" -o json", "").replace(" -o yaml", "")).collect();
    let planned = |asked: String| {
        let words: Vec<&str> = asked.split(' ').collect();
        let arguments: Vec<&str> = ["plan"].into_iter().chain(words.iter().copied()).chain(["-o", "json"]).collect();
        let answer = kerf(case, &arguments, &input, &[]);
        if answer.code == 2 {
            return None;
        }
        let plan = serde_json::from_str(&answer.stdout).map_err(|error| format!("{error}: {}", answer.stderr)).unwrap();
        let named = words.iter().take_while(|word| !word.starts_with("--"));
        let paths: Vec<PathBuf> =
            named.map(|word| if *word == "-" { PathBuf::from("-") } else { case.join(word) }).collect();
        let objects = cli::input::read(&paths, &mut input.as_bytes()).unwrap().objects;
        Some(Planned { what: format!("{}: {asked}", case.display()), objects, plan })
    };
    asked.into_iter().filter_map(planned).collect()
}

fn texts<'a>(list: &'a Value, field: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|it| it[field].as_str().unwrap()).collect()
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect()
}

fn moves(plan: &Value) -> &Vec<Value> {
    plan["disruption"]["moves"].as_array().unwrap()
}

/// Returns a NodeClaim's Node, and their common name in reports.
fn node_of<'a>(objects: &'a Objects, claim: &'a NodeClaim) -> (Option<&'a Node>, &'a str) {
    let named = claim.status.as_ref().map_or("", |status| status.node_name.as_str());
    let node = objects.nodes.iter().find(|node| node.name() == named).map(AsRef::as_ref);
    (node, node.map_or(claim.metadata.name.as_deref().unwrap_or_default(), Node::name))
}

/// Reports whether EC2 interrupts the node's instance, or whether a rebalance recommendation replaces it.
fn is_taken(node: &Node) -> bool {
    let condition = node.condition(condition::INTERRUPTED).filter(|it| it.status == condition::TRUE);
    condition.is_some_and(|it| it.reason != reason::REBALANCE_RECOMMENDATION || it.message.contains("policy=replace"))
}

/// Reports whether the node's removal was decided before this plan.
fn is_going(node: Option<&Node>, claim: &NodeClaim) -> bool {
    claim.metadata.deletion_timestamp.is_some()
        || claim.replaced_by().is_some()
        || node.is_some_and(|node| node.metadata.deletion_timestamp.is_some())
        || node.is_some_and(is_taken)
}

#[test]
fn plan_reports_each_managed_node_once_in_moves_or_stays() {
    let mut checked = 0;
    for Planned { what, objects, plan } in plans() {
        let planned = moves(&plan).iter().filter(|it| it["reason"] != "Interrupted");
        let mut reported: Vec<&str> = planned.flat_map(|it| names(&it["nodes"])).collect();
        reported.extend(texts(&plan["disruption"]["stays"], "node"));
        reported.sort_unstable();
        let stay = objects.claims.iter().map(|claim| (node_of(&objects, claim), claim));
        let stay = stay.filter(|((node, _), claim)| !is_going(*node, claim));
        let mut managed: Vec<&str> = stay.map(|((_, name), _)| name).collect();
        managed.sort_unstable();
        checked += managed.len();
        assert_eq!(reported, managed, "{what}");
    }
    assert!(checked > 20, "{checked}");
}

#[test]
fn plan_reports_each_interrupted_node_once_as_interrupted() {
    let mut taken = 0;
    for Planned { what, objects, plan } in plans() {
        let reported = moves(&plan).iter().filter(|it| it["reason"] == "Interrupted");
        let mut reported: Vec<&str> = reported.flat_map(|it| names(&it["nodes"])).collect();
        reported.sort_unstable();
        let mut expected: Vec<&str> =
            objects.nodes.iter().filter(|node| is_taken(node)).map(|node| node.name()).collect();
        expected.sort_unstable();
        taken += expected.len();
        assert_eq!(reported, expected, "{what}");
    }
    assert!(taken > 3, "{taken}");
}

#[test]
fn moves_name_only_claims_and_nodes_of_the_plan() {
    let mut replaced = 0;
    for Planned { what, objects, plan } in plans() {
        let claims: BTreeMap<&str, &Value> =
            plan["nodeClaims"].as_array().unwrap().iter().map(|it| (it["name"].as_str().unwrap(), it)).collect();
        let replacements: BTreeSet<&str> =
            claims.iter().filter(|(_, it)| it["purpose"] == "replacement").map(|(name, _)| *name).collect();
        let mut named: Vec<&str> = moves(&plan).iter().flat_map(|it| names(&it["replacements"])).collect();
        named.sort_unstable();
        assert_eq!(named, replacements.into_iter().collect::<Vec<_>>(), "{what}: each replacement belongs to one move");
        replaced += named.len();
        for it in moves(&plan) {
            let own = names(&it["replacements"]);
            for pod in it["pods"].as_array().unwrap() {
                let (pod, to) = (pod["pod"].as_str().unwrap(), pod["to"].as_str().unwrap());
                match claims.get(to) {
                    Some(claim) => {
                        assert!(own.contains(&to), "{what}: {pod} goes to {to}, which is up by then");
                        assert!(names(&claim["pods"]).contains(&pod), "{what}: {to} lists {pod}");
                    }
                    None => {
                        let nodes = objects.nodes.iter().map(|node| node.name());
                        let claims = objects.claims.iter().filter_map(|claim| claim.metadata.name.as_deref());
                        assert!(nodes.chain(claims).any(|name| name == to), "{what}: {pod} goes to {to}");
                    }
                }
            }
        }
    }
    assert!(replaced > 5, "{replaced}");
}

/// Commands of the case `replaced`, by reason: nodes, replacements, pods with their destinations, and savings.
#[test]
fn moves_list_nodes_replacements_destinations_and_savings() {
    let replaced = plans().into_iter().find(|it| it.what.contains("/replaced:")).unwrap();
    let row = |it: &Value| {
        let place = |it: &Value| format!("{}>{}", it["pod"].as_str().unwrap(), it["to"].as_str().unwrap());
        let places: Vec<String> = it["pods"].as_array().unwrap().iter().map(place).collect();
        let parts = [names(&it["nodes"]).join(","), names(&it["replacements"]).join(","), places.join(",")];
        format!("{} {} {}", it["reason"].as_str().unwrap(), parts.join(" "), it["savingPerHour"].as_str().unwrap())
    };
    let reported: Vec<String> = moves(&replaced.plan).iter().map(row).collect();
    let expected = [
        "Unhealthy sick   0.1",
        "Static fixed-a   0.1",
        "Empty idle   0.38",
        "Drifted stale kept-1  0",
        "Drifted lucky renewed-1 shop/api>renewed-1 -0.06",
        "Expired old aged-1 shop/db>aged-1 0",
        "Underutilized wide wide-1,wide-2 shop/job-a>wide-1,shop/job-b>wide-2 0.18",
        "Underutilized half-a,half-b halves-1 shop/web-a>halves-1,shop/web-b>halves-1 0.08",
    ];
    assert_eq!(reported, expected);
}

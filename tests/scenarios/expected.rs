//! Expectations of a scenario for every plan: `BLESS=1` cannot accept a transcript that violates them.
//!
//! ```text
//! expect 2 new nodes                          expect no new nodes
//! expect price 0.3                            (of all new nodes together)
//! expect web on n1                            every pod of the group, on a node or `new`
//! expect web unschedulable [because WORDS]    all pods of the group, with this text in the reason
//! expect web 3 unschedulable                  so many pods of the group
//! expect web over zone a=2 b=1                number of placed pods of the group per domain
//! expect web over hostname counts 2,1         the same without the domains, in descending order
//! expect web apart from db                    no node has pods of both
//! expect web with db                          one node has all of both
//! expect web launches m.large                 the cheapest type of each new node with pods of the group
//! expect web lists 600 types
//! expect web from POOL                        the NodePool of each new node with pods of the group
//! expect no moves                             expect 3 nodes removed
//! expect n1,n2 removed REASON                 (of commands: Empty, Drifted, ...)
//! expect n1,n2 kept because WORDS             each node is not disrupted, with this text in the reason
//! expect web-1,web-2 moves to new             destination of running pods in commands: a node, `new` or `unplaced`
//! expect replacements list 16 types           expect replacements require capacity-type In spot
//! ```
//!
//! A group is the pods `web`, `web-01`, `web-02`, ...; `all-pods` is every pod.

#[path = "expected/moves.rs"]
mod moves;

use std::collections::{BTreeMap, BTreeSet};

use planner::{Launch, Node, Operator, Plan, PodVerdict, Requirement, Snapshot, label};

use crate::values;

/// Returns the expectations that the plan violates.
pub fn broken(expected: &[String], snapshot: &Snapshot, plan: &Plan) -> Vec<String> {
    let outcome = Outcome { snapshot, plan };
    let checked = expected.iter().map(|line| (line, outcome.check(&line.split_whitespace().collect::<Vec<_>>())));
    checked.filter_map(|(line, checked)| checked.err().map(|why| format!("expected {line}, but {why}"))).collect()
}

struct Outcome<'a> {
    snapshot: &'a Snapshot,
    plan: &'a Plan,
}

/// Node or launch on which a pod is placed.
enum Place<'a> {
    Node(&'a Node),
    Launch(usize, &'a Launch),
}

impl<'a> Outcome<'a> {
    fn check(&self, words: &[&str]) -> Result<(), String> {
        if let Some(checked) = self.moves(words) {
            return checked;
        }
        match words {
            [count, "new", "nodes" | "node"] => {
                let count = if *count == "no" { "0" } else { count };
                equal(count, &self.plan.launches.len().to_string())
            }
            ["price", price] => {
                let price = values::dollars(price)?;
                equal(&price.0.to_string(), &self.plan.launches.iter().map(|it| it.price.0).sum::<i64>().to_string())
            }
            [group, rest @ ..] => self.group(group, rest),
            [] => Err("nothing is expected".to_owned()),
        }
    }

    fn group(&self, group: &str, words: &[&str]) -> Result<(), String> {
        let pods = self.pods(group)?;
        match words {
            ["unschedulable"] => self.each(&pods, "unschedulable", |it| self.status(it).to_owned()),
            ["unschedulable", "because", reason @ ..] => self.has_reason(&pods, &reason.join(" ")),
            [count, "unschedulable"] => {
                let waiting = pods.iter().filter(|pod| self.place(**pod).is_none()).count();
                equal(count, &waiting.to_string())
            }
            ["on", "new"] => {
                self.each(&pods, "new", |it| self.on(it).split_once('-').map_or("old", |it| it.0).to_owned())
            }
            ["on", node] => self.each(&pods, node, |it| self.on(it)),
            ["over", key, "counts", counts] => equal(counts, &self.counts(&pods, &values::key(key))),
            ["over", key, counts @ ..] => equal(&counts.join(" "), &self.spread(&pods, &values::key(key))),
            ["apart", "from", other] => {
                let both: Vec<String> =
                    self.nodes(&pods).intersection(&self.nodes(&self.pods(other)?)).cloned().collect();
                equal("", &both.join(" "))
            }
            ["with", other] => {
                let nodes: BTreeSet<String> =
                    self.nodes(&pods).union(&self.nodes(&self.pods(other)?)).cloned().collect();
                equal("1", &nodes.len().to_string())
            }
            ["launches", kind] => self.each_launch(&pods, kind, |it| it.instance_types[0].clone()),
            ["lists", count, "types"] => self.each_launch(&pods, count, |it| it.instance_types.len().to_string()),
            ["from", pool] => self.each_launch(&pods, pool, |it| it.pool.clone()),
            _ => Err(format!("{:?} is not an expectation", words.join(" "))),
        }
    }

    fn pods(&self, group: &str) -> Result<Vec<usize>, String> {
        let of_group = |name: &str| {
            let stem = name.rsplit_once('-').filter(|(_, number)| number.parse::<u32>().is_ok()).map(|it| it.0);
            group == "all-pods" || group.split(',').any(|group| name == group || stem == Some(group))
        };
        let all = 0..self.snapshot.pods.len();
        let pods: Vec<usize> = all.filter(|pod| of_group(&self.snapshot.pods[*pod].name)).collect();
        if pods.is_empty() { Err(format!("there is no pod {group}")) } else { Ok(pods) }
    }

    fn place(&self, pod: usize) -> Option<Place<'a>> {
        match &self.plan.report.pods[pod] {
            PodVerdict::Existing { node, .. } => {
                self.snapshot.nodes.iter().find(|it| it.name == *node).map(|it| Place::Node(it))
            }
            PodVerdict::Launch { launch, .. } => Some(Place::Launch(*launch, &self.plan.launches[*launch])),
            _ => None,
        }
    }

    fn status(&self, pod: usize) -> &'static str {
        if self.place(pod).is_some() { "placed" } else { "unschedulable" }
    }

    fn has_reason(&self, pods: &[usize], part: &str) -> Result<(), String> {
        self.each(pods, "unschedulable", |it| self.status(it).to_owned())?;
        for pod in pods {
            let reported = self.plan.report.pods[*pod].to_string();
            if !reported.contains(part) {
                return Err(format!("the verdict of {} is: {reported}", self.snapshot.pods[*pod].name));
            }
        }
        Ok(())
    }

    /// Returns the name of the node, `new-1` and so on, or `nowhere`.
    fn on(&self, pod: usize) -> String {
        match self.place(pod) {
            Some(Place::Node(node)) => node.name.clone(),
            Some(Place::Launch(launch, _)) => format!("new-{}", launch + 1),
            None => "nowhere".to_owned(),
        }
    }

    fn nodes(&self, pods: &[usize]) -> BTreeSet<String> {
        pods.iter().filter(|pod| self.place(**pod).is_some()).map(|pod| self.on(*pod)).collect()
    }

    /// Returns the domain of the pod: the value of a label, or all values that remain on that new node. Returns `None` for an
    /// unschedulable pod.
    fn domain(&self, pod: usize, key: &str) -> Option<String> {
        let place = self.place(pod)?;
        if key == label::HOSTNAME {
            return Some(self.on(pod));
        }
        Some(match place {
            Place::Node(node) => {
                node.labels.get(key).cloned().unwrap_or_else(|| open(&node.requirements, key, &node.name))
            }
            Place::Launch(launch, _) if key == values::key("nodepool") => self.plan.launches[launch].pool.clone(),
            Place::Launch(_, launch) => open(&launch.requirements, key, &self.on(pod)),
        })
    }

    fn domains(&self, pods: &[usize], key: &str) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for domain in pods.iter().filter_map(|pod| self.domain(*pod, key)) {
            *counts.entry(domain).or_default() += 1;
        }
        counts
    }

    fn spread(&self, pods: &[usize], key: &str) -> String {
        let counts = self.domains(pods, key).into_iter().map(|(domain, count)| format!("{domain}={count}"));
        counts.collect::<Vec<_>>().join(" ")
    }

    fn counts(&self, pods: &[usize], key: &str) -> String {
        let mut counts: Vec<usize> = self.domains(pods, key).into_values().collect();
        counts.sort_by(|one, other| other.cmp(one));
        counts.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    fn each(&self, pods: &[usize], expected: &str, actual: impl Fn(usize) -> String) -> Result<(), String> {
        for pod in pods {
            equal(expected, &actual(*pod)).map_err(|why| format!("of {} {why}", self.snapshot.pods[*pod].name))?;
        }
        Ok(())
    }

    fn each_launch(&self, pods: &[usize], expected: &str, actual: impl Fn(&Launch) -> String) -> Result<(), String> {
        self.each(pods, expected, |pod| match self.place(pod) {
            Some(Place::Launch(_, launch)) => actual(launch),
            _ => "no new node".to_owned(),
        })
    }
}

/// Returns the only remaining value of a label, or all remaining values with the node `on`: two nodes that may differ are two
/// domains.
fn open(requirements: &[Requirement], key: &str, on: &str) -> String {
    match requirements.iter().find(|it| it.key == key && it.operator == Operator::In).map(|it| it.values.as_slice()) {
        Some([only]) => only.clone(),
        Some(words) => format!("{}({on})", words.join("|")),
        None => format!("anything({on})"),
    }
}

fn equal(expected: &str, actual: &str) -> Result<(), String> {
    if expected == actual { Ok(()) } else { Err(format!("it is {actual:?}")) }
}

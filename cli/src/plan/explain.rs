//! Explanation for one pod: its constraints, its node or the reason why it has none, and the other pods on that node.

mod constraints;
mod events;
mod fleet;
mod node;
mod pool;

use api::objects::Pod;
use planner::{PlacementReason, PodShape, PodVerdict};

use super::view::{self, NodeRow};
use super::{PlanAnswer, report};
use crate::failure::{Failure, PLACED, UNPLACED};
use crate::output::{Paint, counted, wrap};

const WIDTH: usize = 80;
/// Maximum number of instance types that an explanation lists.
const TYPES: usize = 8;

pub use events::events;
pub use fleet::cost_of_cluster;
pub use node::{node, node_claim};
pub use pool::why_not;

/// Returns the explanation of a pod with the exit code: 3 if the pod is unschedulable.
///
/// # Errors
/// Returns an error if the input has no such pod; the message contains similar names.
pub fn pod(answer: &PlanAnswer, name: &str, colours: bool) -> Result<(String, u8), Failure> {
    let full_name = full_name(name);
    let mut explanation = Explanation::new(colours);
    let pods = &answer.built.snapshot.pods;
    let position = pods.iter().position(|pod| pod.name == full_name);
    let object = view::object(answer, &full_name);
    if position.is_none() && object.is_none() {
        return Err(unknown(answer, &full_name));
    }
    explanation.pod_title(answer, &full_name, object);
    let code = match position {
        Some(position) => explanation.planned(answer, position),
        None => explanation.outside_plan(answer, &full_name, object),
    };
    Ok((explanation.text(), code))
}

/// Returns `namespace/name` of a pod; a name alone is in namespace default.
pub fn full_name(name: &str) -> String {
    if name.contains('/') { name.to_owned() } else { format!("default/{name}") }
}

struct Explanation {
    paint: Paint,
    lines: Vec<String>,
}

impl Explanation {
    fn new(colours: bool) -> Self {
        Self { paint: Paint(colours), lines: Vec::new() }
    }

    fn text(self) -> String {
        self.lines.join("\n") + "\n"
    }

    fn title(&mut self, text: &str) {
        self.lines.push(self.paint.bold(text));
    }

    fn heading(&mut self, text: &str) {
        self.lines.push(String::new());
        self.lines.push(self.paint.bold(text));
    }

    fn line(&mut self, text: &str) {
        self.lines.extend(wrap(text, WIDTH, "  "));
    }

    fn pod_title(&mut self, answer: &PlanAnswer, full_name: &str, object: Option<&Pod>) {
        let owner = object.filter(|pod| pod.controller().is_some()).map(|pod| view::owner(answer, pod));
        let owner = owner.map(|owner| format!(", of {owner}")).unwrap_or_default();
        self.title(&format!("Pod {full_name}{owner}"));
    }

    /// Adds the sections for a pod that the plan covers.
    fn planned(&mut self, answer: &PlanAnswer, position: usize) -> u8 {
        let snapshot = &answer.built.snapshot;
        let pod = &snapshot.pods[position];
        self.constraints(&snapshot.shapes[pod.shape], &pod.claims);
        if let Some(mix) = &pod.mix {
            self.line(&format!("with its workload: {}", report::requested_split(mix.on_demand_base, mix.spot_share)));
        }
        let verdict = &answer.plan.report.pods[position];
        self.heading("ANSWER");
        if let Some(node) = &pod.leaving_node {
            self.line(&format!("Its node {node} is being removed, so it must be rescheduled."));
        }
        let node = node_row(answer, verdict);
        match verdict {
            PodVerdict::Unschedulable { pools, .. } if !pools.is_empty() => {
                self.line("UNSCHEDULABLE. Reason per NodePool:");
                for reason in pools.iter() {
                    self.line(&reason.to_string());
                }
            }
            PodVerdict::Launch { launch, .. } => {
                // A verdict numbers launches, but the report refers to new nodes by name.
                let name = node.as_ref().map_or("", |node| &node.name);
                let sentence =
                    verdict.to_string().replacen(&format!("node {}", launch + 1), &format!("node {name}"), 1);
                self.line(&format!("It {sentence}."));
                self.reason(verdict);
                self.launch(answer, *launch, name);
            }
            _ => {
                self.line(&format!("It {verdict}."));
                self.reason(verdict);
            }
        }
        self.node(answer, node, position);
        if report::is_unplaced(verdict) { UNPLACED } else { PLACED }
    }

    /// Adds the reason for the choice of the node.
    fn reason(&mut self, verdict: &PodVerdict) {
        let (PodVerdict::Existing { why, .. } | PodVerdict::Launch { why, .. }) = verdict else { return };
        self.line(match why {
            // The text of the verdict already contains these reasons.
            PlacementReason::Promised | PlacementReason::Static => return,
            PlacementReason::Room => "First existing node with enough free capacity, at no extra cost.",
            PlacementReason::Joined => "The node is shared with other pods; a separate node would cost more.",
            PlacementReason::Opened => {
                "No existing node fits; this is the cheapest new node in the NodePools of the highest weight."
            }
        });
    }

    /// Adds the pod's constraints as the planner reads them.
    fn constraints(&mut self, shape: &PodShape, claims: &[String]) {
        self.heading("CONSTRAINTS");
        constraints::lines(shape, claims).iter().for_each(|line| self.line(line));
    }

    /// Adds the requirements and instance types of the pod's new node.
    fn launch(&mut self, answer: &PlanAnswer, launch: usize, name: &str) {
        let launch = &answer.plan.launches[launch];
        self.heading(&format!("NEW NODE {name}"));
        self.line(&format!("pool {}, with {}", launch.pool, constraints::terms(&launch.requirements)));
        let shown: Vec<&str> = launch.instance_types.iter().take(TYPES).map(String::as_str).collect();
        let rest = launch.instance_types.len() - shown.len();
        let more = if rest > 0 { format!(" and {}", counted(rest, "other")) } else { String::new() };
        self.line(&format!("cheapest first: {}{more}", shown.join(", ")));
    }

    /// Adds the pod's node and the other pods on it.
    fn node(&mut self, answer: &PlanAnswer, node: Option<NodeRow>, position: usize) {
        let Some(node) = node else { return };
        self.heading("OTHER PODS ON IT");
        self.line(&format!("{}: {}", node.name, node.words()));
        let others: Vec<usize> = node.pods.iter().copied().filter(|pod| *pod != position).collect();
        for (owner, count) in view::owners(answer, &others) {
            self.line(&format!("{count} x {owner}"));
        }
        let shares = node.shares();
        if !shares.is_empty() {
            self.line(&format!("then in use: {}", shares.join(", ")));
        }
    }

    /// Adds the section for a pod that the plan does not cover.
    fn outside_plan(&mut self, answer: &PlanAnswer, full_name: &str, object: Option<&Pod>) -> u8 {
        self.heading("ANSWER");
        if let Some(ignored) = answer.built.ignored.iter().find(|ignored| ignored.pod == full_name) {
            self.line(&format!("Ignored: {}.", ignored.reason));
        } else if let Some(pod) = object {
            let why = no_node_needed(pod);
            self.line(&why);
        }
        PLACED
    }
}

/// Returns the node of the pod.
fn node_row(answer: &PlanAnswer, verdict: &PodVerdict) -> Option<NodeRow> {
    match verdict {
        PodVerdict::Launch { launch, .. } => view::launched(answer).into_iter().nth(*launch),
        PodVerdict::Existing { node, .. } => view::existing(answer).into_iter().find(|it| it.name == *node),
        _ => None,
    }
}

/// Returns why a pod needs no new place.
fn no_node_needed(pod: &Pod) -> String {
    if pod.is_terminal() {
        return format!("Completed ({}).", pod.status.phase);
    }
    if pod.is_bound() {
        return format!("Running on node {}.", pod.spec.node_name);
    }
    if pod.is_daemon() {
        return "DaemonSet pod for one node; its overhead is reserved on every new node.".to_owned();
    }
    if pod.is_terminating() {
        return "Being deleted.".to_owned();
    }
    "Not marked unschedulable by kube-scheduler, so no node is launched for it.".to_owned()
}

/// Returns the error for an unknown pod.
fn unknown(answer: &PlanAnswer, full_name: &str) -> Failure {
    let pods = answer.cluster.objects.pods.iter();
    similar("pod", full_name, pods.map(|pod| format!("{}/{}", pod.namespace(), pod.name())))
}

/// Returns the error for an unknown object, with up to 5 names of the same workload or with the same substring.
fn similar(what: &str, full_name: &str, all: impl Iterator<Item = String>) -> Failure {
    let name = full_name.rsplit('/').next().unwrap_or_default();
    let close: Vec<String> = all.filter(|known| known.contains(name) || name.contains(stem(known))).take(5).collect();
    let hint = if close.is_empty() {
        "`kerf plan` lists them".to_owned()
    } else {
        format!("did you mean {}?", close.join(", "))
    };
    Failure::usage(format!("{what} {full_name} is not in the input; {hint}"))
}

/// Returns the part of a name that all objects with the same owner share.
fn stem(full_name: &str) -> &str {
    let name = full_name.rsplit('/').next().unwrap_or_default();
    name.rsplit_once('-').map_or(name, |(stem, _)| stem)
}

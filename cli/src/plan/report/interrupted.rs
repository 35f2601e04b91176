//! Nodes whose instances EC2 interrupts. No command of the planner contains them, because no plan decides their removal. The
//! report has the form of a command: nodes, time, destinations of pods, and replacements.

use std::collections::{BTreeMap, BTreeSet};

use api::objects::Node;
use api::{RebalanceRisk, condition, reason};
use jiff::Timestamp;
use planner::{Leaving, MicroDollars, Millis, PodVerdict};

use super::disruption::{CommandReport, PodPlace, without_place};
use crate::output::money::dollars;
use crate::plan::PlanAnswer;

/// Reason of these entries. `removals` excludes these nodes, because the plan does not remove them.
pub(crate) const INTERRUPTED: &str = "Interrupted";

/// Nodes that are reported together, because their pods share new nodes.
struct InterruptedNode<'a> {
    nodes: Vec<&'a planner::Node>,
    launches: BTreeSet<usize>,
    pods: Vec<PodPlace>,
    why: Vec<String>,
}

/// Returns one entry for each interrupted node, or for several whose pods share new nodes; `names` are those of the launches.
pub(super) fn commands(answer: &PlanAnswer, names: &[String]) -> Vec<CommandReport> {
    let mut all: Vec<InterruptedNode<'_>> = Vec::new();
    for (node, why) in interrupted_nodes(answer) {
        let mut entry = single(answer, node, why, names);
        let (shared, disjoint) =
            all.into_iter().partition(|it: &InterruptedNode<'_>| !it.launches.is_disjoint(&entry.launches));
        all = disjoint;
        for other in shared {
            entry = other.merged_with(entry);
        }
        all.push(entry);
    }
    all.sort_by_key(|it| it.nodes.first().map(|node| &node.name));
    all.into_iter().map(|it| command(answer, it, names)).collect()
}

/// Returns the positions of launches that take pods of interrupted nodes.
pub(super) fn launches(answer: &PlanAnswer) -> BTreeSet<usize> {
    let launch = |(_, verdict): (usize, &PodVerdict)| match verdict {
        PodVerdict::Launch { launch, .. } => Some(*launch),
        _ => None,
    };
    interrupted_nodes(answer).flat_map(|(node, _)| pods(answer, node)).filter_map(launch).collect()
}

/// Returns the nodes whose instances are interrupted, by name, with the notice.
fn interrupted_nodes(answer: &PlanAnswer) -> impl Iterator<Item = (&planner::Node, String)> {
    let objects: BTreeMap<&str, &Node> =
        answer.cluster.objects.nodes.iter().map(|node| (node.name(), node.as_ref())).collect();
    let claims = &answer.cluster.objects.claims;
    let claim_of = move |node: &planner::Node| claims.iter().find(|claim| claim.metadata.name == node.claim);
    answer.built.snapshot.nodes.iter().filter_map(move |node| {
        let object = objects.get(node.name.as_str())?;
        let notice = object.condition(condition::INTERRUPTED).map_or("", |condition| condition.reason.as_str());
        let why = match node.leaving.as_ref()? {
            Leaving::Interrupted { deadline: Some(at) } => format!("instance terminates at {} ({notice})", moment(*at)),
            Leaving::Interrupted { deadline: None } => format!("instance terminates at an unknown time ({notice})"),
            Leaving::Deleting => {
                RebalanceRisk::requested_replacement(object, claim_of(node).map(AsRef::as_ref))?;
                let notice = reason::REBALANCE_RECOMMENDATION;
                format!("instance may be interrupted ({notice}), removed once its pods have ready nodes")
            }
        };
        Some((node.as_ref(), why))
    })
}

/// Converts a time into a timestamp, limited to the maximum timestamp.
fn moment(at: Millis) -> Timestamp {
    Timestamp::from_millisecond(at.0).unwrap_or(Timestamp::MAX)
}

/// Returns the pods that leave a node, by position, with their verdicts.
fn pods<'a>(answer: &'a PlanAnswer, node: &'a planner::Node) -> impl Iterator<Item = (usize, &'a PodVerdict)> {
    let all = answer.built.snapshot.pods.iter().zip(&answer.plan.report.pods).enumerate();
    let own = all.filter(|(_, (pod, _))| pod.leaving_node.as_ref() == Some(&node.name));
    own.map(|(position, (_, verdict))| (position, verdict))
}

fn single<'a>(answer: &'a PlanAnswer, node: &'a planner::Node, why: String, names: &[String]) -> InterruptedNode<'a> {
    let mut entry = InterruptedNode { nodes: vec![node], launches: BTreeSet::new(), pods: Vec::new(), why: Vec::new() };
    for (position, verdict) in pods(answer, node) {
        let to = match verdict {
            PodVerdict::Existing { node, .. } => node.clone(),
            PodVerdict::Launch { launch, .. } => {
                entry.launches.insert(*launch);
                names.get(*launch).cloned().unwrap_or_default()
            }
            PodVerdict::Unschedulable { .. } | PodVerdict::Postponed => continue,
        };
        let pod = answer.built.snapshot.pods[position].name.clone();
        entry.pods.push(PodPlace { pod, to, surge: false });
    }
    let left = without_place(&[node], entry.pods.len());
    entry.why = vec![left.map_or_else(|| why.clone(), |left| format!("{why}; its {left} are unschedulable"))];
    entry
}

impl InterruptedNode<'_> {
    fn merged_with(mut self, other: Self) -> Self {
        self.nodes.extend(other.nodes);
        self.launches.extend(other.launches);
        self.pods.extend(other.pods);
        self.why.extend(other.why);
        self
    }
}

fn command(answer: &PlanAnswer, mut it: InterruptedNode<'_>, names: &[String]) -> CommandReport {
    let saving = saving(answer, &it);
    let mut nodes: Vec<&str> = it.nodes.iter().map(|node| node.name.as_str()).collect();
    let why = grouped_notices(&nodes, &it.why);
    nodes.sort_unstable();
    it.pods.sort_by(|one, other| (&one.pod, &one.to).cmp(&(&other.pod, &other.to)));
    CommandReport {
        reason: INTERRUPTED.to_owned(),
        nodes: nodes.into_iter().map(str::to_owned).collect(),
        replacements: it.launches.iter().filter_map(|launch| names.get(*launch).cloned()).collect(),
        pods: it.pods,
        saving_per_hour: saving.map(dollars),
        saving,
        why,
    }
}

/// Returns the notices of the nodes; nodes with the same notice are grouped.
fn grouped_notices(nodes: &[&str], notices: &[String]) -> String {
    let mut by_notice: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (node, why) in nodes.iter().zip(notices) {
        by_notice.entry(why).or_default().insert(node);
    }
    if let [why] = by_notice.keys().collect::<Vec<_>>().as_slice() {
        return (**why).to_owned();
    }
    let group = |(why, nodes): (&str, BTreeSet<&str>)| {
        format!("{}: {why}", nodes.into_iter().collect::<Vec<_>>().join(" and "))
    };
    by_notice.into_iter().map(group).collect::<Vec<_>>().join("; ")
}

/// Returns the savings in millionths of a dollar per hour, fees included; `None` if a price is unknown.
fn saving(answer: &PlanAnswer, it: &InterruptedNode<'_>) -> Option<i64> {
    let fee = |pool: Option<&String>| {
        let pool = answer.built.snapshot.pools.iter().find(|one| Some(&one.name) == pool);
        pool.map_or(0, |pool| pool.node_fee.0)
    };
    let before =
        it.nodes.iter().map(|node| node.unpaid_price().map(|MicroDollars(price)| price + fee(node.pool.as_ref())));
    let launches = it.launches.iter().filter_map(|launch| answer.plan.launches.get(*launch));
    let after: i64 = launches.map(|launch| launch.unpaid_price().0 + fee(Some(&launch.pool))).sum();
    Some(before.sum::<Option<i64>>()? - after)
}

//! Nodes whose machines EC2 takes: no plan decides that, so no move of the planner's says it. What it comes to is reported like a move:
//! who goes and when, where the pods have room, and what is bought for them.

use std::collections::{BTreeMap, BTreeSet};

use api::objects::Node;
use api::{RebalanceRisk, condition, reason};
use jiff::Timestamp;
use planner::{Leaving, MicroDollars, Millis, PodVerdict};

use super::disruption::{CommandReport, PodPlace, without_place};
use crate::money::dollars;
use crate::plan_input::PlanAnswer;

/// The reason of such moves. `removals` does not have them: it is not the plan that takes these nodes away.
pub(crate) const INTERRUPTED: &str = "Interrupted";

/// Nodes that go together, since their pods share machines that are bought for them.
struct InterruptedNode<'a> {
    nodes: Vec<&'a planner::Node>,
    launches: BTreeSet<usize>,
    pods: Vec<PodPlace>,
    why: Vec<String>,
}

/// One move for each node whose machine is taken, or for several whose pods share new machines; `names` are those of the launches.
pub(super) fn moves(answer: &PlanAnswer, names: &[String]) -> Vec<CommandReport> {
    let mut all: Vec<InterruptedNode<'_>> = Vec::new();
    for (node, why) in taken(answer) {
        let mut own = alone(answer, node, why, names);
        let (shared, apart) =
            all.into_iter().partition(|it: &InterruptedNode<'_>| !it.launches.is_disjoint(&own.launches));
        all = apart;
        for other in shared {
            own = other.with(own);
        }
        all.push(own);
    }
    all.sort_by_key(|it| it.nodes.first().map(|node| &node.name));
    all.into_iter().map(|it| moved(answer, it, names)).collect()
}

/// Positions of the launches that pods of such nodes go to.
pub(super) fn bought(answer: &PlanAnswer) -> BTreeSet<usize> {
    let launch = |(_, verdict): (usize, &PodVerdict)| match verdict {
        PodVerdict::Launch { launch, .. } => Some(*launch),
        _ => None,
    };
    taken(answer).flat_map(|(node, _)| pods(answer, node)).filter_map(launch).collect()
}

/// Nodes whose machines are taken, by name, and how that was announced.
fn taken(answer: &PlanAnswer) -> impl Iterator<Item = (&planner::Node, String)> {
    let objects: BTreeMap<&str, &Node> =
        answer.cluster.objects.nodes.iter().map(|node| (node.name(), node.as_ref())).collect();
    answer.built.snapshot.nodes.iter().filter_map(move |node| {
        let object = objects.get(node.name.as_str())?;
        let word = object.condition(condition::INTERRUPTED).map_or("", |said| said.reason.as_str());
        let why = match node.leaving.as_ref()? {
            Leaving::Interrupted { deadline: Some(at) } => format!("instance terminates at {} ({word})", moment(*at)),
            Leaving::Interrupted { deadline: None } => format!("instance terminates at an unknown time ({word})"),
            Leaving::Deleting => {
                RebalanceRisk::requested_replacement(object)?;
                let word = reason::REBALANCE_RECOMMENDATION;
                format!("instance may be interrupted ({word}), removed once its pods have ready nodes")
            }
        };
        Some((node.as_ref(), why))
    })
}

/// RFC 3339, as far as time goes.
fn moment(at: Millis) -> Timestamp {
    Timestamp::from_millisecond(at.0).unwrap_or(Timestamp::MAX)
}

/// The pods that leave a node, by position, and what becomes of each.
fn pods<'a>(answer: &'a PlanAnswer, node: &'a planner::Node) -> impl Iterator<Item = (usize, &'a PodVerdict)> {
    let all = answer.built.snapshot.pods.iter().zip(&answer.plan.report.pods).enumerate();
    let own = all.filter(|(_, (pod, _))| pod.leaving_node.as_ref() == Some(&node.name));
    own.map(|(position, (_, verdict))| (position, verdict))
}

fn alone<'a>(answer: &'a PlanAnswer, node: &'a planner::Node, why: String, names: &[String]) -> InterruptedNode<'a> {
    let mut own = InterruptedNode { nodes: vec![node], launches: BTreeSet::new(), pods: Vec::new(), why: Vec::new() };
    for (position, verdict) in pods(answer, node) {
        let to = match verdict {
            PodVerdict::Existing { node, .. } => node.clone(),
            PodVerdict::Launch { launch, .. } => {
                own.launches.insert(*launch);
                names.get(*launch).cloned().unwrap_or_default()
            }
            PodVerdict::Unschedulable { .. } | PodVerdict::Postponed => continue,
        };
        let pod = answer.built.snapshot.pods[position].name.clone();
        own.pods.push(PodPlace { pod, to, surge: false });
    }
    let left = without_place(&[node], own.pods.len());
    own.why = vec![left.map_or_else(|| why.clone(), |left| format!("{why}; its {left} are unschedulable"))];
    own
}

impl InterruptedNode<'_> {
    fn with(mut self, other: Self) -> Self {
        self.nodes.extend(other.nodes);
        self.launches.extend(other.launches);
        self.pods.extend(other.pods);
        self.why.extend(other.why);
        self
    }
}

fn moved(answer: &PlanAnswer, mut it: InterruptedNode<'_>, names: &[String]) -> CommandReport {
    let saving = saving(answer, &it);
    let mut nodes: Vec<&str> = it.nodes.iter().map(|node| node.name.as_str()).collect();
    let why = story(&nodes, &it.why);
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

/// What was announced of each node, once for those of which the same was.
fn story(nodes: &[&str], announced: &[String]) -> String {
    let mut told: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (node, why) in nodes.iter().zip(announced) {
        told.entry(why).or_default().insert(node);
    }
    if let [why] = told.keys().collect::<Vec<_>>().as_slice() {
        return (**why).to_owned();
    }
    let of = |(why, nodes): (&str, BTreeSet<&str>)| {
        format!("{}: {why}", nodes.into_iter().collect::<Vec<_>>().join(" and "))
    };
    told.into_iter().map(of).collect::<Vec<_>>().join("; ")
}

/// Millionths of a dollar per hour, fees included; `None` where a price is not known.
fn saving(answer: &PlanAnswer, it: &InterruptedNode<'_>) -> Option<i64> {
    let fee = |pool: Option<&String>| {
        let pool = answer.built.snapshot.pools.iter().find(|one| Some(&one.name) == pool);
        pool.map_or(0, |pool| pool.node_fee.0)
    };
    let before = it.nodes.iter().map(|node| node.price.map(|MicroDollars(price)| price + fee(node.pool.as_ref())));
    let launches = it.launches.iter().filter_map(|launch| answer.plan.launches.get(*launch));
    let after: i64 = launches.map(|launch| launch.price.0 + fee(Some(&launch.pool))).sum();
    Some(before.sum::<Option<i64>>()? - after)
}

//! Checks a plan without the solver: every rule that a plan must keep is worked out anew from the snapshot, naively.
//!
//! Nothing here may call into `provision` or `disrupt`, nor use the requirement sets that they are built on:
//! a mistake would then vouch for itself. So requirements are read here as plain predicates on label values, and
//! pods are bound one after another in the plan's own order, each under the rules of kube-scheduler.
//!
//! Where the cloud still has a choice (the type of a launch, its zone, its capacity type), a rule must hold whatever it
//! chooses.

mod after_commands;
mod binding_order;
mod budgets;
mod capacity_split;
mod commands;
mod disruption_intervals;
mod excluded_daemons;
mod flexibility;
mod in_flight_node;
mod labels;
mod launches;
mod node_places;
mod nodes;
mod resizes;
mod shared_resources;
mod topology_counts;
mod utilization_limits;
mod verdicts;

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use crate::{Launch, Plan, Snapshot};
pub use after_commands::carried_out;
use excluded_daemons::ExcludedDaemons;
use in_flight_node::InFlightNode;
pub use resizes::resized;

/// A rule that a plan breaks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// What the finding is about, such as `launch 2`, `node n1` or `pod default/a`.
    pub subject: String,
    /// The rule and how it is broken.
    pub fault: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.subject, self.fault)
    }
}

/// Everything that is wrong with a plan; empty when it keeps every rule.
#[must_use]
pub fn check(snapshot: &Snapshot, plan: &Plan) -> Vec<Finding> {
    let mut findings = Findings(Vec::new());
    verdicts::check(snapshot, plan, &mut findings);
    if findings.0.is_empty() {
        let in_flight_nodes = InFlightNodes::new(snapshot, plan);
        commands::check(snapshot, plan, &in_flight_nodes, &mut findings);
        utilization_limits::check(snapshot, plan, &mut findings);
        disruption_intervals::check(snapshot, plan, &mut findings);
        resizes::check(snapshot, plan, &mut findings);
        capacity_split::check(snapshot, plan, &node_places::all(snapshot, plan, &in_flight_nodes), &mut findings);
    }
    if findings.0.is_empty() && plan.moves.is_empty() {
        placed(snapshot, plan, snapshot.pods.len(), &mut findings);
    } else if findings.0.is_empty() {
        let (after, done) = after_commands::on_paper(snapshot, plan);
        placed(&after, &done, snapshot.pods.len(), &mut findings);
    }
    findings.0
}

/// What the checker leaves of a plan.
#[derive(Clone, Debug)]
pub struct ValidatedPlan {
    /// What may be carried out; nothing where even the places of pods break a rule.
    pub sound: Option<Plan>,
    /// What was wrong with the whole.
    pub findings: Vec<Finding>,
}

/// Holds a plan against every rule. Moves are planned one after another, so the first ones are sound without the others: where they
/// break a rule together, half of them are left out until they do not, and pods that wait have their places all the same.
#[must_use]
pub fn checked(snapshot: &Snapshot, plan: Plan) -> ValidatedPlan {
    let findings = check(snapshot, &plan);
    let Some(first) = findings.first().map(ToString::to_string) else {
        return ValidatedPlan { sound: Some(plan), findings };
    };
    let fewer = std::iter::successors(Some(plan.moves.len() / 2), |count| (*count > 0).then_some(count / 2));
    let sound = fewer.map(|count| plan.clone().with_moves(count, &first)).find(|part| check(snapshot, part).is_empty());
    ValidatedPlan { sound, findings }
}

/// Everything that is wrong with the places of pods. Those behind the first `own` are pods that move.
fn placed(snapshot: &Snapshot, plan: &Plan, own: usize, findings: &mut Findings) {
    let in_flight_nodes = InFlightNodes::new(snapshot, plan);
    let places = node_places::all(snapshot, plan, &in_flight_nodes);
    let excluded_daemons = ExcludedDaemons::new(snapshot, &in_flight_nodes.nodes);
    nodes::check(snapshot, plan, &in_flight_nodes, &excluded_daemons, findings);
    launches::check(snapshot, plan, &in_flight_nodes, findings);
    budgets::check(snapshot, plan, &in_flight_nodes, findings);
    binding_order::check(
        &binding_order::BindingState { snapshot, plan, places: &places, excluded_daemons: &excluded_daemons },
        own,
        findings,
    );
}

struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, subject: impl Into<String>, fault: impl Into<String>) {
        self.0.push(Finding { subject: subject.into(), fault: fault.into() });
    }

    /// Notes a fault unless `holds`.
    fn expect(&mut self, holds: bool, subject: &str, fault: impl FnOnce() -> String) {
        if !holds {
            self.add(subject, fault());
        }
    }
}

/// What every claim without an instance may become: those that ask for the same share it.
struct InFlightNodes<'a> {
    /// One a node; only of those whose labels are not settled.
    nodes: Vec<Option<Rc<InFlightNode<'a>>>>,
    /// One a launch; none when its pool is unknown.
    launches: Vec<Option<Rc<InFlightNode<'a>>>>,
}

impl<'a> InFlightNodes<'a> {
    fn new(snapshot: &'a Snapshot, plan: &'a Plan) -> Self {
        let mut alike: BTreeMap<_, Rc<InFlightNode<'a>>> = BTreeMap::new();
        let mut node = |node: &'a crate::Node| {
            let name = node_places::undecided(node).then_some((&node.pool, &node.requirements, &node.labels))?;
            Some(alike.entry(name).or_insert_with(|| Rc::new(InFlightNode::from_node(snapshot, node))).clone())
        };
        let nodes = snapshot.nodes.iter().map(|it| node(it)).collect();
        let mut alike: BTreeMap<_, Rc<InFlightNode<'a>>> = BTreeMap::new();
        let launch = |launch: &'a Launch| {
            let pool = snapshot.pools.iter().find(|pool| pool.name == launch.pool)?;
            let in_flight_node = || Rc::new(InFlightNode::from_launch(snapshot, pool, launch));
            Some(alike.entry((&launch.pool, &launch.requirements)).or_insert_with(in_flight_node).clone())
        };
        let launches = plan.launches.iter().map(launch).collect();
        Self { nodes, launches }
    }

    /// The in-flight node of the launch at this position.
    fn get(&self, launch: usize) -> Option<&InFlightNode<'a>> {
        self.launches.get(launch)?.as_deref()
    }
}

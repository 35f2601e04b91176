//! Validation of a plan without the solver: every rule of a plan is evaluated again from the snapshot, in a simple way.
//!
//! Code in `check` must not call `provision` or `disrupt`, nor use their requirement sets: a mistake there would confirm
//! itself. Requirements are therefore evaluated as plain predicates on label values. Pods are bound one after another in the
//! plan's own order, each under the rules of kube-scheduler.
//!
//! Where the cloud still has a choice (the type of a launch, its zone, its capacity type), a rule must hold for every choice.

mod capacity_split;
mod commands;
mod in_flight_node;
mod labels;
mod launches;
mod node_places;
mod nodes;
mod pool_limits;
mod resizes;
mod shared_resources;
mod topology;
mod verdicts;

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use crate::{Launch, Plan, Snapshot};
pub use commands::carried_out;
use in_flight_node::InFlightNode;
pub use resizes::resized;
use topology::{BindingState, ExcludedDaemons};

/// Violation of a rule by a plan.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Object of the finding, such as `launch 2`, `node n1` or `pod default/a`.
    pub subject: String,
    /// Rule and its violation.
    pub fault: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.subject, self.fault)
    }
}

/// Returns all violations of rules by a plan; empty for a valid plan.
#[must_use]
pub fn check(snapshot: &Snapshot, plan: &Plan) -> Vec<Finding> {
    let mut findings = Findings(Vec::new());
    verdicts::check(snapshot, plan, &mut findings);
    if findings.0.is_empty() {
        let in_flight_nodes = InFlightNodes::new(snapshot, plan);
        commands::check(snapshot, plan, &in_flight_nodes, &mut findings);
        resizes::check(snapshot, plan, &mut findings);
        capacity_split::check(snapshot, plan, &node_places::all(snapshot, plan, &in_flight_nodes), &mut findings);
    }
    if findings.0.is_empty() && plan.moves.is_empty() {
        placed(snapshot, plan, snapshot.pods.len(), &mut findings);
    } else if findings.0.is_empty() {
        let (after, done) = commands::apply_commands(snapshot, plan);
        placed(&after, &done, snapshot.pods.len(), &mut findings);
    }
    findings.0
}

/// Result of the validation of a plan.
#[derive(Clone, Debug)]
pub struct ValidatedPlan {
    /// Part of the plan that may be carried out; `None` where even the places of pending pods break a rule.
    pub sound: Option<Plan>,
    /// Violations by the complete plan.
    pub findings: Vec<Finding>,
}

/// Validates a plan against every rule. Commands are planned one after another, so the first ones are valid without the others.
/// Where all together break a rule, half of them are dropped repeatedly until the rest is valid. Pending pods have their places
/// in any case.
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

/// Validates the places of pods. Pods from position `own` on are moved pods.
fn placed(snapshot: &Snapshot, plan: &Plan, own: usize, findings: &mut Findings) {
    let in_flight_nodes = InFlightNodes::new(snapshot, plan);
    let places = node_places::all(snapshot, plan, &in_flight_nodes);
    let excluded_daemons = ExcludedDaemons::new(snapshot, &in_flight_nodes.nodes);
    nodes::check(snapshot, plan, &in_flight_nodes, &excluded_daemons, findings);
    launches::check(snapshot, plan, &in_flight_nodes, findings);
    pool_limits::check(snapshot, plan, &in_flight_nodes, findings);
    let state = BindingState { snapshot, plan, places: &places, excluded_daemons: &excluded_daemons };
    topology::check(&state, own, findings);
}

struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, subject: impl Into<String>, fault: impl Into<String>) {
        self.0.push(Finding { subject: subject.into(), fault: fault.into() });
    }

    /// Adds a finding unless `holds`.
    fn expect(&mut self, holds: bool, subject: &str, fault: impl FnOnce() -> String) {
        if !holds {
            self.add(subject, fault());
        }
    }
}

/// Possible results of every claim without an instance: equal claims share one entry.
struct InFlightNodes<'a> {
    /// One per node; `None` for nodes with fixed labels.
    nodes: Vec<Option<Rc<InFlightNode<'a>>>>,
    /// One per launch; `None` when its NodePool is unknown.
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

    /// Returns the in-flight node of the launch at this position.
    fn get(&self, launch: usize) -> Option<&InFlightNode<'a>> {
        self.launches.get(launch)?.as_deref()
    }
}

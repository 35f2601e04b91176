//! Random clusters with candidates for disruption: pods with blockers, intervals or costs, and nodes that are old, unhealthy or
//! busy. NodePools have budgets for each reason.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use planner::{
    BoundPod, Budgets, CommandReason, ConsolidationPolicy, Destination, DisruptedNode, Drifted, InstanceType, Launch,
    MicroDollars, Millis, MinimumSavings, Node, NodeVerdict, Offering, Plan, PlannedCommand, PodVerdict, Pool,
    Pressure, Purpose, Requirement, Size, Snapshot, Stage, Unhealthy, Usage, Utilization, carried_out, label,
};
use proptest::prelude::{Strategy, any};
use proptest::{collection, option, sample};

use super::constrained;
use crate::clusters::{Cluster, NOW};

/// Random part of a running pod: its blocker, its workload with a minimum interval between disruptions, its disruption cost,
/// its CPU usage.
type Hold = (Option<bool>, Option<usize>, i64, Option<i64>);

/// Random part of a node: drift, expiration, a drain that ends, an unhealthy condition, its usage.
type State = (Option<i64>, Option<i64>, bool, Option<i64>, Option<(i64, bool, i64)>);

/// Random part of a NodePool: its policy, its budgets, the minimum savings, whether usage applies.
type Terms = (ConsolidationPolicy, [u32; 4], MinimumSavings, bool);

/// Workloads with a minimum interval between disruptions, and its end: one within the interval, and two after it.
const WORKLOADS: [(&str, i64); 3] = [("rests", 500), ("rested", 0), ("has long rested", -1000)];

fn rarely<T: Strategy>(what: T) -> impl Strategy<Value = Option<T::Value>>
where
    T::Value: Clone,
{
    option::weighted(0.2, what)
}

fn hold() -> impl Strategy<Value = Hold> {
    let cost = sample::select(vec![BoundPod::COST, BoundPod::COST, 10 * BoundPod::COST, -BoundPod::COST]);
    (rarely(any::<bool>()), rarely(0usize..3), cost, option::of(0i64..3000))
}

fn state() -> impl Strategy<Value = State> {
    let around_now = |weight| option::weighted(weight, NOW - 1000..NOW + 300);
    let usage = option::of((0i64..6000, proptest::bool::weighted(0.1), 0i64..500));
    (around_now(0.3), around_now(0.3), proptest::bool::weighted(0.3), around_now(0.05), usage)
}

fn terms() -> impl Strategy<Value = Terms> {
    let all = [
        ConsolidationPolicy::WhenEmpty,
        ConsolidationPolicy::WhenEmptyOrUnderutilized,
        ConsolidationPolicy::WhenEmptyOrUnderutilized,
        ConsolidationPolicy::Balanced,
    ];
    let worth = (0u32..100, 0i64..3).prop_map(|(share, per_pod)| MinimumSavings {
        share,
        per_pod: MicroDollars(per_pod),
        ..MinimumSavings::default()
    });
    (sample::select(all.to_vec()), proptest::array::uniform4(0u32..6), worth, any::<bool>())
}

/// Returns clusters with candidates for disruption.
pub fn outgoing() -> impl Strategy<Value = Cluster> {
    let extras = (collection::vec(hold(), 12), collection::vec(state(), 5), collection::vec(terms(), 3));
    let whole = (any::<bool>(), proptest::bool::weighted(0.7), any::<bool>());
    (constrained::constrained(), extras, whole).prop_map(|(Cluster(mut snapshot), (holds, states, terms), whole)| {
        let (spot_to_spot, calm, dear) = whole;
        snapshot.policy.spot_to_spot = spot_to_spot;
        if calm {
            snapshot.pods.retain(|pod| pod.leaving_node.is_some());
        }
        for (pool, terms) in snapshot.pools.iter_mut().zip(terms) {
            agree(pool, terms);
        }
        let mut holds = holds.into_iter();
        for (node, state) in snapshot.nodes.iter_mut().zip(states) {
            let node = Arc::make_mut(node);
            suffer(node, state);
            for (pod, hold) in node.pods.iter_mut().zip(&mut holds) {
                take_hold(pod, hold);
            }
        }
        snapshot.resting = WORKLOADS.map(|(name, until)| (name.to_owned(), Millis(NOW + until))).into();
        if dear {
            waste(&mut snapshot);
        }
        Cluster(snapshot)
    })
}

/// Creates healthy nodes that cost four times as much as equal nodes now, in NodePools that consolidate them.
fn waste(snapshot: &mut Snapshot) {
    for pool in &mut snapshot.pools {
        let disruption = &mut pool.disruption;
        disruption.consolidate_after = Some(0);
        if disruption.policy == ConsolidationPolicy::WhenEmpty {
            disruption.policy = ConsolidationPolicy::WhenEmptyOrUnderutilized;
        }
    }
    for node in &mut snapshot.nodes {
        let node = Arc::make_mut(node);
        node.price = node.price.map(|price| MicroDollars(4 * price.0));
        (node.drifted, node.expires, node.unhealthy, node.nominated_until) = (None, None, None, None);
        node.do_not_disrupt = false;
    }
}

fn agree(pool: &mut Pool, (policy, [empty, underutilized, drifted, expired], worth, uses_utilization): Terms) {
    let disruption = &mut pool.disruption;
    disruption.policy = policy;
    disruption.consolidate_after = disruption.consolidate_after.map(|after| after / 4);
    disruption.budgets = Budgets { empty, underutilized, drifted, expired };
    disruption.worth = worth;
    disruption.utilization = if uses_utilization { Utilization::Observe } else { Utilization::Ignore };
}

fn suffer(node: &mut Node, (drifted, expires, ends, unhealthy, usage): State) {
    node.drifted = drifted.map(|since| Drifted { since: Millis(since), reason: "AMIDrift".to_owned() });
    node.expires = expires.map(Millis);
    node.termination_grace = ends.then_some(60_000);
    node.unhealthy = unhealthy.map(|due| Unhealthy { due: Millis(due), condition: "Ready".to_owned() });
    let used = |(cpu, pressed, lately): (i64, bool, i64)| Usage {
        cpu,
        memory: 1,
        pressed: pressed.then_some(Pressure::Cpu),
        newcomers: Size { cpu: lately, memory: 0 },
        ..Usage::default()
    };
    node.usage = usage.filter(|_| node.stage == Stage::Initialized).map(used);
}

fn take_hold(pod: &mut BoundPod, (held, rests, cost, cpu): Hold) {
    match held {
        Some(true) => pod.do_not_disrupt = true,
        Some(false) => pod.held_by = vec!["n/guard".to_owned()],
        None => {}
    }
    pod.workload = rests.map(|workload| WORKLOADS[workload].0.into());
    pod.cost = cost;
    pod.used = cpu.map(|cpu| Size { cpu, memory: 1 });
}

fn node<'a>(snapshot: &'a Snapshot, leaver: &DisruptedNode) -> &'a Node {
    snapshot.nodes.iter().find(|node| node.name == leaver.node).unwrap()
}

/// Reports whether a command ignores blockers of pods: reasons without delay, and drains that may end by force.
fn forces(it: &PlannedCommand, node: &Node) -> bool {
    let ends = node.termination_grace.is_some() && matches!(it.reason, CommandReason::Drifted | CommandReason::Expired);
    ends || matches!(it.reason, CommandReason::Unhealthy | CommandReason::Static)
}

/// Returns pods that are removed with their node despite a blocker.
pub fn torn_away(snapshot: &Snapshot, plan: &Plan) -> Vec<String> {
    let mut torn = Vec::new();
    for it in &plan.moves {
        for node in it.nodes.iter().map(|leaver| node(snapshot, leaver)).filter(|node| !forces(it, node)) {
            let held = node.pods.iter().filter(|pod| pod.do_not_disrupt || !pod.held_by.is_empty());
            torn.extend(held.map(|pod| pod.name.clone()));
        }
    }
    torn
}

/// Returns NodePools that lose more nodes, for a reason and for others before, than one of their budgets allows.
pub fn overdrawn(snapshot: &Snapshot, plan: &Plan) -> Vec<String> {
    let mut lost: BTreeMap<&str, u32> = BTreeMap::new();
    let mut overdrawn = BTreeSet::new();
    for it in &plan.moves {
        for leaver in &it.nodes {
            let name = node(snapshot, leaver).pool.as_deref().unwrap();
            let count = lost.entry(name).or_default();
            *count += 1;
            let budgets = snapshot.pools.iter().find(|pool| pool.name == name).map(|pool| pool.disruption.budgets);
            let allowed = match it.reason {
                CommandReason::Empty => budgets.unwrap().empty,
                CommandReason::Underutilized => budgets.unwrap().underutilized,
                CommandReason::Drifted => budgets.unwrap().drifted,
                CommandReason::Expired => budgets.unwrap().expired,
                CommandReason::Unhealthy | CommandReason::Inactive | CommandReason::Static => u32::MAX,
            };
            if *count > allowed {
                overdrawn.insert(format!("{name} for {}", it.reason));
            }
        }
    }
    overdrawn.into_iter().collect()
}

/// Returns consolidation commands that may increase the cost, and commands with wrong savings.
pub fn dearer(snapshot: &Snapshot, plan: &Plan) -> Vec<String> {
    let mut found = Vec::new();
    for it in &plan.moves {
        let fee = |pool: &str| snapshot.pools.iter().find(|it| it.name == pool).map_or(0, |it| it.node_fee.0);
        let nodes: Vec<&Node> = it.nodes.iter().map(|leaver| node(snapshot, leaver)).collect();
        let before: Option<i64> =
            nodes.iter().map(|node| Some(node.price?.0 + fee(node.pool.as_deref().unwrap_or_default()))).sum();
        let launches = || it.replacements.iter().map(|position| &plan.launches[*position]);
        let least: i64 = launches().map(|launch| launch.price.0 + fee(&launch.pool)).sum();
        let most: i64 = launches().map(|launch| dearest(snapshot, launch) + fee(&launch.pool)).sum();
        if it.saving.map(|saving| saving.0) != before.map(|before| before - least) {
            found.push(format!("{} says {:?} of {before:?} less {least}", it.reason, it.saving));
        }
        let saves = matches!(it.reason, CommandReason::Empty | CommandReason::Underutilized);
        if saves && before.is_some_and(|before| most >= before && most > 0) {
            found.push(format!("{} pays up to {most} for {before:?}", it.reason));
        }
    }
    found
}

/// Returns the maximum price of a launch, by the capacity type that EC2 uses first.
fn dearest(snapshot: &Snapshot, launch: &Launch) -> i64 {
    let pool = snapshot.pools.iter().find(|pool| pool.name == launch.pool).unwrap();
    let types = snapshot.catalogues[pool.catalogue].types.iter();
    let of_type = |kind: &InstanceType| {
        let sold =
            kind.offerings.iter().filter(|it| it.available && launch.requirements.iter().all(|asked| suits(it, asked)));
        let sold: Vec<&Offering> = sold.collect();
        let tier = sold.iter().map(|it| it.capacity_type).min();
        sold.iter().filter(|it| Some(it.capacity_type) == tier).map(|it| it.price.0).max().unwrap_or(0)
    };
    types.filter(|kind| launch.instance_types.contains(&kind.name)).map(of_type).max().unwrap_or(0)
}

/// Reports whether an offering satisfies a requirement on zone, capacity type or reservation.
fn suits(offering: &Offering, asked: &Requirement) -> bool {
    let own = match asked.key.as_str() {
        label::ZONE => Some(offering.zone.as_str()),
        label::CAPACITY_TYPE => Some(offering.capacity_type.as_str()),
        label::RESERVATION_ID => offering.reservation.as_ref().map(|it| it.id.as_str()),
        _ => return true,
    };
    asked.operator != planner::Operator::In || own.is_some_and(|own| asked.values.iter().any(|value| value == own))
}

/// Reports whether pods, virtual ones included, lose their node without a search for another place, or a static NodePool loses
/// a node without a replacement. The next plan places or replaces them.
pub fn strands(snapshot: &Snapshot, plan: &Plan) -> bool {
    let is_static =
        |node: &Node| snapshot.pools.iter().any(|it| Some(&it.name) == node.pool.as_ref() && it.replicas.is_some());
    plan.moves.iter().any(|it| {
        let mut nodes = it.nodes.iter().map(|leaver| node(snapshot, leaver));
        let forced =
            matches!(it.reason, CommandReason::Unhealthy | CommandReason::Expired) && it.replacements.is_empty();
        nodes.any(|node| {
            let moves = || node.pods.iter().any(|pod| pod.reschedulable);
            // A virtual pod protects its node from emptiness.
            let keeps = || it.reason != CommandReason::Empty && keeps_capacity(snapshot, plan, node);
            it.pods.is_empty() && (moves() || keeps()) || forced && is_static(node)
        })
    })
}

/// Reports whether virtual pods of CapacityBuffers have their place on a node.
fn keeps_capacity(snapshot: &Snapshot, plan: &Plan, node: &Node) -> bool {
    snapshot.pods.iter().zip(&plan.report.pods).any(|(pod, verdict)| {
        pod.holder.is_some() && matches!(verdict, PodVerdict::Existing { node: name, .. } if *name == node.name)
    })
}

/// Reports whether the policy of a command's NodePools compares it with their total cost.
pub fn is_weighed(snapshot: &Snapshot, it: &PlannedCommand) -> bool {
    let balanced = |name: Option<&String>| {
        let pool = snapshot.pools.iter().find(|pool| Some(&pool.name) == name);
        pool.is_some_and(|pool| pool.disruption.policy == ConsolidationPolicy::Balanced)
    };
    let mut nodes = it.nodes.iter().map(|leaver| node(snapshot, leaver));
    it.reason == CommandReason::Underutilized && nodes.any(|node| balanced(node.pool.as_ref()))
}

/// Returns the plan with only one of its commands, as if all others came later.
pub fn alone(plan: &Plan, position: usize) -> Plan {
    let mut only = plan.moves[position].clone();
    let mut launches: Vec<Launch> =
        plan.launches.iter().filter(|launch| launch.purpose != Purpose::Replacement).cloned().collect();
    let (first, before) = (launches.len(), only.replacements.first().copied().unwrap_or(0));
    launches.extend(only.replacements.iter().map(|launch| plan.launches[*launch].clone()));
    only.replacements = (first..launches.len()).collect();
    for pod in &mut only.pods {
        if let Destination::Launch(launch) = &mut pod.to {
            *launch = first + *launch - before;
        }
    }
    let mut report = plan.report.clone();
    for (node, verdict) in &mut report.nodes {
        if !only.nodes.iter().any(|leaver| leaver.node == *node) && matches!(verdict, NodeVerdict::Remove(_)) {
            *verdict = NodeVerdict::Watched;
        }
    }
    Plan { moves: vec![only], launches, report, resizes: Vec::new(), ..plan.clone() }
}

/// Returns the cluster after all commands, without any candidate left: pods have to be bound strictly in the stated order.
pub fn bound(snapshot: &Snapshot, plan: &Plan) -> (Snapshot, Plan) {
    let (after, mut done) = carried_out(snapshot, plan);
    done.report.nodes.iter_mut().for_each(|(_, verdict)| *verdict = NodeVerdict::Leaving);
    for launch in &mut done.launches {
        let is_static = after.pools.iter().any(|pool| pool.name == launch.pool && pool.replicas.is_some());
        launch.purpose = if is_static { Purpose::Static } else { Purpose::Provision };
    }
    (after, done)
}

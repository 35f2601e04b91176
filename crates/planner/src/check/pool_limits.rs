//! Limits, replicas and reservations for the plan as a whole.

use std::collections::{BTreeMap, BTreeSet};

use crate::{CapacityType, Launch, MicroDollars, Offering, Plan, Pool, Purpose, Resources, Snapshot, SpendLimit};

use super::in_flight_node::InFlightNode;
use super::{Findings, InFlightNodes};

pub(super) fn check(snapshot: &Snapshot, plan: &Plan, in_flight_nodes: &InFlightNodes<'_>, findings: &mut Findings) {
    reservations(snapshot, plan, in_flight_nodes, findings);
    commitments(snapshot, plan, in_flight_nodes, findings);
    let mut added = BTreeMap::new();
    for pool in &snapshot.pools {
        let subject = format!("pool {}", pool.name);
        limits(snapshot, plan, pool, &subject, findings);
        let by_launches = added_cost(plan, pool, in_flight_nodes);
        cost(pool.cost_limit, pool.cost, by_launches, &subject, findings);
        added.insert(pool.name.as_str(), by_launches);
        replicas(plan, pool, &subject, findings);
    }
    for SpendLimit { name, limit, cost: spent, pools } in &snapshot.spend_limits {
        let by_launches = pools.iter().filter_map(|pool| added.get(pool.as_str())).sum();
        cost(Some(*limit), *spent, by_launches, name, findings);
    }
}

/// Returns the cost that the launches in a NodePool add if EC2 selects the most expensive offering of each.
fn added_cost(plan: &Plan, pool: &Pool, in_flight_nodes: &InFlightNodes<'_>) -> i64 {
    let own = plan.launches.iter().enumerate().filter(|(_, launch)| launch.pool == pool.name);
    let highest = |(position, launch): (usize, &Launch)| {
        let in_flight_node = in_flight_nodes.get(position)?;
        offerings(in_flight_node, launch).map(|offering| offering.charged().0).max()
    };
    own.map(|of_pool| highest(of_pool).unwrap_or_default() + pool.node_fee.0).sum()
}

/// Checks that the cost with all launches is within its limit, unless no launch adds to it.
fn cost(limit: Option<MicroDollars>, spent: MicroDollars, added: i64, subject: &str, findings: &mut Findings) {
    let Some(MicroDollars(limit)) = limit else { return };
    let may_cost = spent.0 + added;
    let within = added == 0 || may_cost <= limit;
    findings.expect(within, subject, || format!("may cost {may_cost} of {limit} micro-dollars per hour"));
}

/// Checks that usage with the largest type of every launch is within the limits, unless no launch adds to it.
fn limits(snapshot: &Snapshot, plan: &Plan, pool: &Pool, subject: &str, findings: &mut Findings) {
    let Some(limits) = &pool.limits else { return };
    let types = snapshot.catalogues.get(pool.catalogue).map_or(&[][..], |it| &it.types);
    let mut added = Resources::default();
    let mut launches = 0;
    for launch in plan.launches.iter().filter(|launch| launch.pool == pool.name) {
        launches += 1;
        let mut largest: BTreeMap<&str, i64> = BTreeMap::from([(Resources::NODES, 1)]);
        for kind in types.iter().filter(|kind| launch.instance_types.contains(&kind.name)) {
            for (name, amount) in kind.capacity.iter() {
                let most = largest.entry(name).or_default();
                *most = amount.max(*most);
            }
        }
        added.add(&largest.into_iter().collect());
    }
    for (name, limit) in limits.iter() {
        let total = pool.usage.get(name) + added.get(name);
        findings.expect(launches == 0 || total <= limit, subject, || format!("{name} may reach {total} of {limit}"));
    }
}

/// Checks that a static NodePool gets nodes only up to its replicas, including replacements, and none for pods. No other
/// NodePool may get nodes without a need.
fn replicas(plan: &Plan, pool: &Pool, subject: &str, findings: &mut Findings) {
    let launches = |purpose: Purpose| {
        plan.launches.iter().filter(|launch| launch.pool == pool.name && launch.purpose == purpose).count()
    };
    let successors = if pool.replicas.is_some() { launches(Purpose::Replacement) } else { 0 };
    let (kept, provisioned) = (launches(Purpose::Static) + successors, launches(Purpose::Provision));
    let missing = pool.replicas.map_or(0, |replicas| replicas.saturating_sub(pool.running) as usize);
    findings.expect(kept <= missing, subject, || format!("gets {kept} nodes for its replicas, {missing} are missing"));
    let dynamic = pool.replicas.is_none() || provisioned == 0;
    findings.expect(dynamic, subject, || "is static and gets nodes for pods".to_owned());
}

/// Checks that a launch draws on one reservation or on none, and that no reservation is used beyond its remaining instances.
fn reservations(snapshot: &Snapshot, plan: &Plan, in_flight_nodes: &InFlightNodes<'_>, findings: &mut Findings) {
    let mut drawn: BTreeMap<&str, u32> = BTreeMap::new();
    for (position, launch) in plan.launches.iter().enumerate() {
        let subject = format!("launch {position}");
        let Some(in_flight_node) = in_flight_nodes.get(position) else { continue };
        let (reserved, other): (Vec<&Offering>, Vec<&Offering>) =
            offerings(in_flight_node, launch).partition(|it| it.capacity_type == CapacityType::Reserved);
        let pure = reserved.is_empty() || other.is_empty();
        findings.expect(pure, &subject, || "may draw on a reservation or not".to_owned());
        let ids: BTreeSet<Option<&str>> = reserved.iter().map(|it| id(it)).collect();
        findings.expect(ids.len() <= 1, &subject, || format!("may draw on any of the reservations {ids:?}"));
        ids.into_iter().flatten().for_each(|id| *drawn.entry(id).or_default() += 1);
    }
    let all = || snapshot.catalogues.iter().flat_map(|it| &it.types).flat_map(|kind| &kind.offerings);
    for (name, count) in drawn {
        let there = all().filter(|it| id(it) == Some(name)).filter_map(|it| it.reservation.as_ref());
        let left = there.map(|reservation| reservation.remaining).min().unwrap_or(0);
        findings
            .expect(count <= left, &format!("reservation {name}"), || format!("is drawn on {count} times, has {left}"));
    }
}

/// Checks that a commitment pays only for nodes that can use it, and for no more than it has left with what removed nodes release.
fn commitments(snapshot: &Snapshot, plan: &Plan, in_flight_nodes: &InFlightNodes<'_>, findings: &mut Findings) {
    let mut used: BTreeMap<&str, i64> = BTreeMap::new();
    for (position, launch) in plan.launches.iter().enumerate() {
        let (Some(name), Some(in_flight_node)) = (&launch.commitment, in_flight_nodes.get(position)) else { continue };
        let subject = format!("launch {position}");
        let commitment = snapshot.commitment(name);
        let amount = |kind: &String| commitment.and_then(|it| it.uses.get(kind)).copied();
        let amounts: Option<Vec<i64>> = launch.instance_types.iter().map(amount).collect();
        let Some(first) = amounts.and_then(|amounts| amounts.first().copied()) else {
            findings.add(subject, format!("lists a type that commitment {name} does not pay for"));
            continue;
        };
        let zone = commitment.and_then(|it| it.zone.as_ref());
        let is_paid =
            |it: &&Offering| it.capacity_type == CapacityType::OnDemand && zone.is_none_or(|zone| *zone == it.zone);
        let all_paid = offerings(in_flight_node, launch).all(|offering| is_paid(&offering));
        findings.expect(all_paid, &subject, || format!("may become a node that commitment {name} does not pay for"));
        *used.entry(name).or_default() += first;
    }
    let removed = plan.moves.iter().flat_map(|it| &it.nodes).map(|disrupted| disrupted.node.as_str());
    let removed: BTreeSet<&str> = removed.collect();
    for (name, used) in used {
        let gone = snapshot.nodes.iter().filter(|node| removed.contains(node.name.as_str()));
        let released: i64 = gone.flat_map(|it| &it.paid).filter(|it| it.commitment == *name).map(|it| it.amount).sum();
        let left = snapshot.commitment(name).map_or(0, |it| it.left);
        findings.expect(used <= left + released, &format!("commitment {name}"), || {
            format!("pays for {used}, has {left} and {released} of removed nodes")
        });
    }
}

fn id(offering: &Offering) -> Option<&str> {
    offering.reservation.as_ref().map(|reservation| reservation.id.as_str())
}

/// Returns the possible offerings of the launch, available or not.
fn offerings<'m>(in_flight_node: &'m InFlightNode<'_>, launch: &'m Launch) -> impl Iterator<Item = &'m Offering> {
    let kinds =
        in_flight_node.positions(&launch.instance_types).into_iter().map(|position| &in_flight_node.kinds[position]);
    kinds.flat_map(|(_, offerings)| offerings.iter().copied())
}

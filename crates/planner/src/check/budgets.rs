//! Limits and disruption budgets hold for the plan as a whole.

use std::collections::BTreeMap;

use crate::{Plan, Pool, Resources, Snapshot};

use super::Findings;

pub(super) fn check(snapshot: &Snapshot, plan: &Plan, findings: &mut Findings) {
    for pool in &snapshot.pools {
        let subject = format!("pool {}", pool.name);
        limits(snapshot, plan, pool, &subject, findings);
        let of_pool = |name: &str| {
            snapshot.nodes.iter().any(|node| node.name == name && node.pool.as_deref() == Some(pool.name.as_str()))
        };
        let removed = plan.removals.iter().filter(|removal| of_pool(&removal.node)).count();
        let budget = pool.disruption.empty_budget as usize;
        findings.expect(removed <= budget, &subject, || format!("loses {removed} nodes, its budget is {budget}"));
    }
}

/// Usage with the largest choice that every launch leaves to EC2 stays within the limits, unless no launch adds to it.
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

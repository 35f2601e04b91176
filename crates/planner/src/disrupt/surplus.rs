//! Surplus nodes of static NodePools: claims without an instance first, then empty nodes, then those with the lowest disruption
//! cost.

use std::collections::BTreeMap;

use crate::{Node, Pool, Snapshot, Stage};

use super::eligibility::EligibilityRules;
use super::savings::cost_of;
use super::simulation::Position;

/// Returns the surplus nodes of static NodePools, not counting nodes that are removed anyway. Nodes that expect pods are
/// excluded.
pub(super) fn surplus_nodes<'a>(
    snapshot: &'a Snapshot,
    eligibility: &EligibilityRules<'_>,
    goes: impl Fn(Position) -> bool,
) -> Vec<Position> {
    let mut by_pool: BTreeMap<&str, Vec<Position>> = BTreeMap::new();
    for (position, node) in snapshot.nodes.iter().enumerate() {
        if node.claim.is_some() && node.leaving.is_none() && !goes(position) {
            by_pool.entry(node.pool.as_deref().unwrap_or_default()).or_default().push(position);
        }
    }
    let of_static = |pool: &'a Pool| Some((pool.name.as_str(), pool.replicas?));
    let replicas: BTreeMap<&str, u32> = snapshot.pools.iter().filter_map(of_static).collect();
    let mut gone = Vec::new();
    for (pool, replicas) in replicas {
        let mut own = by_pool.remove(pool).unwrap_or_default();
        let surplus = own.len().saturating_sub(replicas as usize);
        own.retain(|position| !eligibility.is_expected(&snapshot.nodes[*position]));
        own.sort_by_cached_key(|position| removal_order(snapshot, &snapshot.nodes[*position]));
        gone.extend(own.into_iter().take(surplus));
    }
    gone
}

/// Returns the sort key for removals; lower keys are removed first.
fn removal_order(snapshot: &Snapshot, node: &Node) -> (bool, bool, bool, i64, String) {
    let in_use = node.pods.iter().any(|pod| pod.reschedulable);
    let held = node.do_not_disrupt || node.pods.iter().any(|pod| pod.do_not_disrupt);
    (node.stage != Stage::InFlight, held || in_use, held, remaining(snapshot, node), node.name.clone())
}

/// Returns the disruption cost, reduced in proportion to the remaining lifetime.
fn remaining(snapshot: &Snapshot, node: &Node) -> i64 {
    let cost = i128::from(cost_of(node));
    let Some(expires) = node.expires else { return cost_of(node) };
    let life = i128::from(expires.0 - node.created.0).max(1);
    let left = i128::from(expires.0 - snapshot.now.0).clamp(0, life);
    i64::try_from(cost * left / life).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{BoundPod, Millis, Plan};

    const HOUR: i64 = 3_600_000;
    const NOW: Millis = Millis(100 * HOUR);

    /// Creates a node of an age and a lifetime in hours, with pods of the given eviction costs in halves of the default.
    fn node(name: &str, age: i64, lifetime_hours: Option<i64>, pods: &[i64]) -> Node {
        let created = Millis(NOW.0 - age * HOUR);
        let pod = |cost: &i64| BoundPod { reschedulable: true, cost: cost * BoundPod::COST / 2, ..BoundPod::default() };
        Node {
            name: name.to_owned(),
            claim: Some(name.to_owned()),
            pool: Some("static".to_owned()),
            created,
            expires: lifetime_hours.map(|hours| Millis(created.0 + hours * HOUR)),
            pods: pods.iter().map(pod).collect(),
            ..Node::default()
        }
    }

    #[test]
    fn remaining_decreases_with_the_rest_of_the_lifetime() {
        let snapshot = Snapshot { now: NOW, ..Snapshot::default() };
        let whole = 2 * BoundPod::COST;
        let rows = [
            ("never ends", node("n", 50, None, &[2]), whole),
            ("just made", node("n", 0, Some(10), &[2]), whole),
            ("a quarter is over", node("n", 10, Some(40), &[2]), whole / 4 * 3),
            ("over", node("n", 40, Some(40), &[2]), 0),
            ("long over", node("n", 80, Some(40), &[2]), 0),
            ("from the future", node("n", -5, Some(40), &[2]), whole),
            ("no life at all", node("n", 0, Some(0), &[2]), 0),
        ];
        for (what, node, expected) in rows {
            assert_eq!(remaining(&snapshot, &node), expected, "{what}");
        }
    }

    #[test]
    fn surplus_nodes_returns_the_node_with_the_least_disruption() {
        let rows: [(&str, [Node; 2], &str); 4] = [
            ("the shorter life", [node("a", 1, Some(10), &[2]), node("b", 9, Some(10), &[2])], "b"),
            ("pods that are cheaper to evict", [node("a", 1, None, &[2, 2]), node("b", 1, None, &[2, 1])], "b"),
            (
                "many pods of a life that is nearly over",
                [node("a", 1, None, &[2]), node("b", 9, Some(10), &[2; 5])],
                "b",
            ),
            ("the name, where nothing else decides", [node("a", 1, None, &[2]), node("b", 1, None, &[2])], "a"),
        ];
        for (what, nodes, expected) in rows {
            let pool = Pool { name: "static".to_owned(), replicas: Some(1), ..Pool::default() };
            let nodes = nodes.map(Arc::new).into();
            let snapshot = Snapshot { now: NOW, pools: vec![pool], nodes, ..Snapshot::default() };
            let eligibility = EligibilityRules::new(&snapshot, &Plan::default());
            let gone = surplus_nodes(&snapshot, &eligibility, |_| false);
            let names: Vec<&str> = gone.iter().map(|position| snapshot.nodes[*position].name.as_str()).collect();
            assert_eq!(names, [expected], "{what}");
        }
    }
}

//! Savings of a command, compared with its disruption cost.

use std::collections::BTreeMap;

use crate::{
    Balance, BoundPod, ConsolidationPolicy, Launch, MicroDollars, Millis, Node, NodeVerdict, Pool, Resources, Snapshot,
    Utilization, payback,
};

/// Prices of nodes and disruption costs, by NodePool.
pub(super) struct SavingsRules<'a> {
    now: Millis,
    pools: BTreeMap<&'a str, PoolSavingsRules<'a>>,
}

struct PoolSavingsRules<'a> {
    pool: &'a Pool,
    price: i64,
    cost: i64,
}

/// Actual and required savings of a command.
pub(super) struct Savings {
    pub(super) saved: i64,
    pub(super) asked: i64,
}

/// Returns the disruption cost of a node: one unit, and the cost of each of its pods that would need another place.
pub(super) fn cost_of(node: &Node) -> i64 {
    let pods = node.pods.iter().filter(|pod| pod.reschedulable).map(|pod| pod.cost.max(0));
    BoundPod::COST + pods.sum::<i64>()
}

impl<'a> SavingsRules<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let weights = |pool: &'a Pool| (pool.name.as_str(), PoolSavingsRules { pool, price: 0, cost: 0 });
        let mut pools: BTreeMap<&str, PoolSavingsRules<'_>> = snapshot.pools.iter().map(weights).collect();
        for node in snapshot.nodes.iter().filter(|node| node.claim.is_some()) {
            if let Some(weights) = pools.get_mut(node.pool.as_deref().unwrap_or_default()) {
                // The fee counts here as in all savings.
                weights.price += node.unpaid_price().map_or(0, |price| price.0 + weights.pool.node_fee.0);
                weights.cost += cost_of(node);
            }
        }
        Self { now: snapshot.now, pools }
    }

    /// Returns what a node adds to the bill, with its NodePool's fee; `None` while its price is unknown.
    pub(super) fn price_of(&self, node: &Node) -> Option<i64> {
        Some(node.unpaid_price()?.0 + self.fee(node.pool.as_deref().unwrap_or_default()))
    }

    /// Reports whether usage reports apply to nodes of a NodePool.
    pub(super) fn uses_utilization(&self, pool: Option<&str>) -> bool {
        let pool = pool.and_then(|pool| self.pools.get(pool));
        pool.is_some_and(|weights| weights.pool.disruption.utilization != Utilization::Ignore)
    }

    /// Returns what launches add to the bill, with their NodePools' fees.
    pub(super) fn price_of_launches(&self, launches: &[Launch]) -> i64 {
        launches.iter().map(|launch| launch.unpaid_price().0 + self.fee(&launch.pool)).sum()
    }

    fn fee(&self, pool: &str) -> i64 {
        self.pools.get(pool).map_or(0, |weights| weights.pool.node_fee.0)
    }

    /// Returns the required savings of a command with these nodes and launches.
    pub(super) fn required_savings(&self, nodes: &[&Node], launches: &[Launch]) -> i64 {
        let tenure = nodes.iter().map(|node| payback::payback_time(node.created, self.now)).min().unwrap_or(1);
        let warm_up: i64 = launches.iter().map(|launch| self.warm_up(launch, tenure)).sum();
        self.minimum(nodes).max(warm_up.saturating_add(self.lost_work(nodes))).max(1)
    }

    /// Returns the minimum savings of a command by the settings of the nodes' NodePools.
    fn minimum(&self, nodes: &[&Node]) -> i64 {
        let of_node = |node: &&Node| {
            let worth = self.pools.get(node.pool.as_deref()?)?.pool.disruption.worth;
            let pods = node.pods.iter().filter(|pod| pod.reschedulable).count();
            let share = self.price_of(node)?.saturating_mul(i64::from(worth.share)) / 1000;
            let each = worth.per_pod.0.saturating_mul(i64::try_from(pods).unwrap_or(i64::MAX));
            Some((share, each))
        };
        let (shares, each) = nodes.iter().filter_map(of_node).fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
        shares.max(each)
    }

    /// Returns the verdict of nodes whose removal saves too little.
    pub(super) fn not_worth_it(&self, nodes: &[&Node], Savings { saved, asked }: Savings) -> NodeVerdict {
        let is_paid = |node: &&Node| node.unpaid_price() == Some(MicroDollars(0));
        let paid = nodes.iter().find(|node| saved <= 0 && is_paid(node)).and_then(|node| node.paid.first());
        let work = Some(self.lost_work(nodes)).filter(|work| *work > self.minimum(nodes)).map(MicroDollars);
        match paid {
            Some(share) => NodeVerdict::Paid { commitment: share.commitment.clone() },
            None => NodeVerdict::NotWorthIt { saving: MicroDollars(saved), asked: MicroDollars(asked), work },
        }
    }

    /// Returns the cost of the work that evicted pods would do again, per hour of the payback period. The work of a pod is its
    /// share of the node's price since its start.
    fn lost_work(&self, nodes: &[&Node]) -> i64 {
        nodes.iter().map(|node| self.lost_work_on(node)).sum()
    }

    fn lost_work_on(&self, node: &Node) -> i64 {
        let counts = |pool: &PoolSavingsRules<'_>| pool.pool.disruption.worth.lost_work;
        let is_counted = node.pool.as_deref().and_then(|pool| self.pools.get(pool)).is_some_and(counts);
        let Some(price) = self.price_of(node).filter(|_| is_counted) else { return 0 };
        let work = |pod: &BoundPod| {
            let since = pod.works_since.filter(|_| pod.reschedulable)?;
            let share = pod.shape.requests.share_of(&node.allocatable);
            Some(i128::from(share) * i128::from(payback::payback_time(since, self.now)))
        };
        let work: i128 = node.pods.iter().filter_map(work).sum();
        let tenure = payback::payback_time(node.created, self.now);
        let lost = i128::from(price) * work / i128::from(Resources::WHOLE) / i128::from(tenure);
        i64::try_from(lost).unwrap_or(i64::MAX)
    }

    /// Returns the cost of a new node before it is usable, per hour of the payback period.
    fn warm_up(&self, launch: &Launch, tenure: i64) -> i64 {
        let price = i128::from(launch.unpaid_price().0 + self.fee(&launch.pool));
        let millis = self.pools.get(launch.pool.as_str()).map_or(0, |weights| weights.pool.disruption.worth.warm_up);
        i64::try_from(price * i128::from(millis) / i128::from(tenure)).unwrap_or(i64::MAX)
    }

    /// Returns the verdict of a command that does not save enough, if it does not.
    pub(super) fn rejection(&self, nodes: &[&Node], Savings { saved, asked }: Savings) -> Option<NodeVerdict> {
        if saved < asked {
            return Some(self.not_worth_it(nodes, Savings { saved, asked }));
        }
        let balances = self.balances(nodes, saved);
        let weighed = balances.iter().filter(|it| it.policy == ConsolidationPolicy::Balanced);
        let least = weighed.filter(|it| !it.holds).map(|it| it.score).min();
        least.map(|score| NodeVerdict::Unbalanced { score })
    }

    /// Returns the balance of a command with these savings for each NodePool whose nodes it removes.
    pub(super) fn balances(&self, nodes: &[&Node], saved: i64) -> Vec<Balance> {
        let whole: i64 = nodes.iter().filter_map(|node| self.price_of(node)).sum();
        let mut by_pool: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
        for node in nodes {
            let (price, cost) = by_pool.entry(node.pool.as_deref().unwrap_or_default()).or_default();
            *price += self.price_of(node).unwrap_or(0);
            *cost += cost_of(node);
        }
        let balance = |(pool, (price, cost)): (&str, (i64, i64))| {
            let weights = self.pools.get(pool)?;
            Some(weights.balance(part(saved, price, whole), cost))
        };
        by_pool.into_iter().filter_map(balance).collect()
    }
}

impl PoolSavingsRules<'_> {
    /// Returns the savings' share of the NodePool's cost, compared with the disruption's share of the NodePool's disruption
    /// cost.
    fn balance(&self, saved: i64, cost: i64) -> Balance {
        let gain = i128::from(saved.max(0)) * i128::from(self.cost);
        let pain = i128::from(cost) * i128::from(self.price);
        let score = if pain > 0 { i64::try_from(gain * 1000 / pain).unwrap_or(i64::MAX) } else { 0 };
        Balance {
            pool: self.pool.name.clone(),
            policy: self.pool.disruption.policy,
            score,
            holds: saved > 0 && gain * 1000 >= pain * i128::from(Balance::ENOUGH),
        }
    }
}

/// Returns the share of an amount for one of several.
fn part(amount: i64, one: i64, whole: i64) -> i64 {
    if whole <= 0 {
        return amount;
    }
    i64::try_from(i128::from(amount) * i128::from(one) / i128::from(whole)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses a NodePool with price 100 and disruption cost 100.
    #[test]
    fn balance_holds_when_savings_reach_half_of_the_cost_share() {
        let pool = Pool::default();
        let weights = PoolSavingsRules { pool: &pool, price: 100, cost: 100 };
        let rows = [
            (20, 5, true),
            (10, 10, true),
            (5, 10, true),
            (4, 10, false),
            (5, 50, false),
            (5, 0, true),
            (0, 0, false),
            (0, 10, false),
            (-1, 10, false),
        ];
        for (saved, cost, enough) in rows {
            assert_eq!(weights.balance(saved, cost).holds, enough, "saves {saved} for {cost}");
        }
    }
}

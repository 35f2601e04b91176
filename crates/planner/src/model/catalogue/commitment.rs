//! Commitments: Savings Plans and Reserved Instances, whose cost is due whether nodes use them or not.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{CapacityType, MicroDollars, label};
use crate::{Node, Resources, Snapshot};

/// Label with the capacity type of nodes in EKS managed node groups, and its value for spot.
const MANAGED_SPOT: (&str, &str) = ("eks.amazonaws.com/capacityType", "SPOT");

/// Savings Plan or Reserved Instances. On-demand nodes use it by the hour, and what they use costs nothing more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Commitment {
    /// Name of the object.
    pub name: String,
    /// Amount per hour that no node uses: millionths of a dollar of a Savings Plan, or millionths of an instance.
    pub left: i64,
    /// Amount that one node uses, by instance type; it pays for no other types.
    pub uses: Arc<BTreeMap<String, i64>>,
    /// Zone of its nodes; `None` allows all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// Part of a node's price for which a commitment pays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PaidShare {
    /// Name of the commitment.
    pub commitment: String,
    /// Amount of the commitment that the node uses.
    pub amount: i64,
    /// Part of the node's price.
    pub price: MicroDollars,
}

impl Commitment {
    /// Share of the used amount that counts as the price of a launch. The amount is paid already, so it only decides which of the types
    /// uses less of the commitment.
    const PRICE_SHARE: i64 = 1000;

    /// Returns the amount that a node of an instance type uses; `None` if the commitment does not pay for it.
    #[must_use]
    pub fn use_of(&self, instance_type: &str) -> Option<i64> {
        self.uses.get(instance_type).copied()
    }

    /// Returns the price of a launch for which a commitment pays, in comparisons with other launches.
    #[must_use]
    pub fn price_of_launch(used: i64) -> MicroDollars {
        MicroDollars((used / Self::PRICE_SHARE).max(1))
    }

    /// Returns the amount that a node would use if the commitment paid for all of it; `None` if it pays for no such nodes.
    #[must_use]
    pub fn use_of_node(&self, node: &Node) -> Option<i64> {
        let is_in_zone = self.zone.is_none() || self.zone.as_ref() == node.labels.get(label::ZONE);
        self.use_of(node.instance_type.as_deref()?).filter(|_| is_on_demand(node) && is_in_zone)
    }

    /// Pays for the unpaid part of a node's price, as far as enough is left. A node without a known price uses the commitment as well.
    fn pay_for(&mut self, node: &Node) -> Option<PaidShare> {
        let used = self.use_of_node(node)?;
        let (whole, unpaid) = (node.price.unwrap_or_default(), node.unpaid_price().unwrap_or_default());
        let wanted = if whole.0 > 0 { share(used, unpaid.0, whole.0) } else { used };
        let amount = wanted.min(self.left);
        if amount <= 0 {
            return None;
        }
        self.left -= amount;
        let price = MicroDollars(share(unpaid.0, amount, wanted));
        Some(PaidShare { commitment: self.name.clone(), amount, price })
    }
}

/// Reports whether a node is an on-demand instance. Nodes that Kerf does not manage are, unless a label says spot.
fn is_on_demand(node: &Node) -> bool {
    match node.labels.get(label::CAPACITY_TYPE) {
        Some(capacity_type) => capacity_type == CapacityType::OnDemand.as_str(),
        None => node.claim.is_none() && node.labels.get(MANAGED_SPOT.0).is_none_or(|it| it != MANAGED_SPOT.1),
    }
}

/// Prices of on-demand nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnDemandCost {
    /// Sum of the known prices.
    pub price: MicroDollars,
    /// Part for which commitments pay.
    pub paid: MicroDollars,
}

impl Snapshot {
    /// Returns the prices of the on-demand nodes.
    #[must_use]
    pub fn on_demand_cost(&self) -> OnDemandCost {
        let priced = self.nodes.iter().filter(|node| is_on_demand(node) && node.price.is_some());
        priced.fold(OnDemandCost { price: MicroDollars(0), paid: MicroDollars(0) }, |cost, node| {
            let (price, unpaid) = (node.price.unwrap_or_default().0, node.unpaid_price().unwrap_or_default().0);
            OnDemandCost { price: MicroDollars(cost.price.0 + price), paid: MicroDollars(cost.paid.0 + price - unpaid) }
        })
    }

    /// Returns to the commitments what their nodes use of them.
    pub fn release(&mut self, paid: &[PaidShare]) {
        for share in paid {
            let used = self.commitments.iter_mut().find(|it| it.name == share.commitment);
            used.into_iter().for_each(|it| it.left += share.amount);
        }
    }

    /// Lets each commitment, in their order, pay for nodes that no earlier one pays for: as EC2 does, first for those with the greatest
    /// discount. Of equal ones, those come last that disruption would remove.
    pub fn pay_for_nodes(&mut self) {
        for commitment in &mut self.commitments {
            let mut nodes: Vec<usize> = (0..self.nodes.len()).collect();
            nodes.retain(|position| commitment.use_of_node(&self.nodes[*position]).is_some());
            nodes.sort_by_cached_key(|position| {
                let node = &self.nodes[*position];
                let price = node.price.unwrap_or_default().0;
                let discount = share(price, 1000, commitment.use_of_node(node).unwrap_or_default());
                (
                    node.leaving.is_some(),
                    Reverse(discount),
                    node.claim.is_some(),
                    Reverse(load(node)),
                    node.name.clone(),
                )
            });
            for position in nodes {
                let paid = commitment.pay_for(&self.nodes[position]);
                paid.into_iter().for_each(|share| Arc::make_mut(&mut self.nodes[position]).paid.push(share));
            }
        }
    }
}

/// Returns the requested share of a node's CPU or memory, the greater one in thousandths.
fn load(node: &Node) -> i64 {
    let of = |name: &str| share(node.used.get(name), 1000, node.allocatable.get(name));
    of(Resources::CPU).max(of(Resources::MEMORY))
}

/// Returns `amount * part / whole`.
fn share(amount: i64, part: i64, whole: i64) -> i64 {
    let exact = i128::from(amount) * i128::from(part) / i128::from(whole.max(1));
    i64::try_from(exact).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(capacity_type: &str, zone: &str) -> Node {
        let labels = [(label::CAPACITY_TYPE, capacity_type), (label::ZONE, zone)];
        Node {
            instance_type: Some("m5.large".to_owned()),
            labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            price: Some(MicroDollars(96_000)),
            ..Node::default()
        }
    }

    fn commitment(left: i64, zone: Option<&str>) -> Commitment {
        let uses = Arc::new(BTreeMap::from([("m5.large".to_owned(), 60_000)]));
        Commitment { name: "plan".to_owned(), left, uses, zone: zone.map(str::to_owned) }
    }

    fn shares(node: &Node) -> Vec<(&str, i64, i64)> {
        node.paid.iter().map(|it| (it.commitment.as_str(), it.amount, it.price.0)).collect()
    }

    #[test]
    fn pay_for_nodes_pays_in_proportion_to_what_is_left() {
        for (left, expected) in [(100_000, Some((60_000, 96_000))), (30_000, Some((30_000, 48_000))), (0, None)] {
            let nodes = vec![Arc::new(node("on-demand", "a"))];
            let mut snapshot = Snapshot { nodes, commitments: vec![commitment(left, None)], ..Snapshot::default() };
            snapshot.pay_for_nodes();
            let paid = shares(&snapshot.nodes[0]).first().map(|(_, amount, price)| (*amount, *price));
            assert_eq!(paid, expected, "{left} left");
            assert_eq!(snapshot.commitments[0].left, left - expected.map_or(0, |it| it.0));
        }
    }

    #[test]
    fn pay_for_nodes_uses_commitments_in_their_order() {
        let first = Commitment { name: "first".to_owned(), ..commitment(30_000, None) };
        let nodes = vec![Arc::new(node("on-demand", "a"))];
        let commitments = vec![first, commitment(100_000, None)];
        let mut snapshot = Snapshot { nodes, commitments, ..Snapshot::default() };
        snapshot.pay_for_nodes();
        assert_eq!(shares(&snapshot.nodes[0]), [("first", 30_000, 48_000), ("plan", 30_000, 48_000)]);
        assert_eq!(snapshot.nodes[0].unpaid_price(), Some(MicroDollars(0)));
        let paid = snapshot.nodes[0].paid.clone();
        snapshot.release(&paid);
        assert_eq!(snapshot.commitments.iter().map(|it| it.left).collect::<Vec<_>>(), [30_000, 100_000]);
    }

    #[test]
    fn on_demand_cost_counts_priced_nodes_and_what_is_paid() {
        let unpriced = Node { price: None, ..node("on-demand", "a") };
        let unmanaged = Node { labels: BTreeMap::new(), ..node("", "") };
        let nodes = [node("on-demand", "a"), node("spot", "a"), unpriced, unmanaged].map(Arc::new).into();
        let mut snapshot = Snapshot { nodes, commitments: vec![commitment(180_000, None)], ..Snapshot::default() };
        snapshot.pay_for_nodes();
        let cost = snapshot.on_demand_cost();
        assert_eq!((cost.price.0, cost.paid.0), (2 * 96_000, 2 * 96_000));
        snapshot.nodes.push(Arc::new(node("on-demand", "b")));
        assert_eq!(snapshot.on_demand_cost().price.0, 3 * 96_000);
        assert_eq!(snapshot.on_demand_cost().paid.0, 2 * 96_000);
    }

    /// Nodes that Kerf does not manage cannot be removed, and leaving ones are gone soon.
    #[test]
    fn pay_for_nodes_pays_last_for_nodes_that_may_leave() {
        let named = |name: &str, used: i64| Node {
            name: name.to_owned(),
            claim: Some(name.to_owned()),
            allocatable: Resources::from_iter([(Resources::CPU, 2000)]),
            used: Resources::from_iter([(Resources::CPU, used)]),
            ..node("on-demand", "a")
        };
        let leaving = Node { leaving: Some(crate::Leaving::Deleting), ..named("leaving", 2000) };
        let of_group = Node { claim: None, price: None, ..named("of-group", 0) };
        let full = Node { price: None, ..named("full", 2000) };
        let all = [named("idle", 100), leaving, full, of_group];
        for (count, expected) in [(1, vec!["of-group"]), (2, vec!["full", "of-group"])] {
            let nodes = all.iter().cloned().map(|it| Arc::new(Node { price: None, ..it })).collect();
            let commitments = vec![commitment(60_000 * count, None)];
            let mut snapshot = Snapshot { nodes, commitments, ..Snapshot::default() };
            snapshot.pay_for_nodes();
            let paid = snapshot.nodes.iter().filter(|node| !node.paid.is_empty());
            assert_eq!(paid.map(|node| node.name.as_str()).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn use_of_node_counts_on_demand_nodes_of_the_zone_and_the_types() {
        let rows = [
            ("on-demand", "a", None, Some(60_000)),
            ("on-demand", "a", Some("a"), Some(60_000)),
            ("on-demand", "b", Some("a"), None),
            ("spot", "a", None, None),
            ("reserved", "a", None, None),
        ];
        for (capacity_type, zone, own, expected) in rows {
            let used = commitment(1, own).use_of_node(&node(capacity_type, zone));
            assert_eq!(used, expected, "{capacity_type} in {zone}, {own:?}");
        }
        let other = Node { instance_type: Some("m5.xlarge".to_owned()), ..node("on-demand", "a") };
        assert_eq!(commitment(1, None).use_of_node(&other), None);
    }
}

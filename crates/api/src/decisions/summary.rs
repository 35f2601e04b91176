//! Totals of a quarter of an hour, which are kept longer than the decisions themselves.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::money;

/// Totals of a period.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Start of the period.
    pub from: Timestamp,
    /// End of the period.
    pub to: Timestamp,
    /// Time and cost of nodes, by offering.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeHours>,
    /// Disruption commands, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub commands: BTreeMap<String, CommandTotals>,
    /// Disruption commands that an observing controller would have started, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub would_disrupt: BTreeMap<String, CommandTotals>,
    /// Fleet that an observing controller would launch for the same pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_fleet: Option<NewFleet>,
    /// Interruptions by EC2, by NodePool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub interruptions: BTreeMap<String, u64>,
    /// Number of launched instances.
    #[serde(default)]
    pub launched: u64,
    /// Number of launches without an instance.
    #[serde(default)]
    pub launches_failed: u64,
    /// Waits of pods for capacity.
    #[serde(default)]
    pub waits: Durations,
    /// Starts of nodes, from the creation of the NodeClaim to its initialization.
    #[serde(default)]
    pub starts: Durations,
    /// Number of decisions that the log could not keep.
    #[serde(default)]
    pub lost: u64,
}

/// Time and cost of the nodes of one offering.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeHours {
    /// NodePool.
    pub nodepool: String,
    /// Instance type.
    pub instance_type: String,
    /// Availability zone.
    pub zone: String,
    /// Capacity type.
    pub capacity_type: String,
    /// Sum of the nodes' seconds.
    pub seconds: u64,
    /// Sum of the nodes' seconds without a known price.
    #[serde(default)]
    pub unpriced_seconds: u64,
    /// Cost in micro-dollars.
    #[serde(with = "money::required")]
    pub cost: i64,
}

/// Time and cost of the fleet that an observing controller would launch at each moment for the same pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewFleet {
    /// Seconds for which the fleet is known.
    pub seconds: u64,
    /// Sum of its nodes' seconds.
    pub node_seconds: u64,
    /// Its cost in micro-dollars.
    #[serde(with = "money::required")]
    pub cost: i64,
    /// Time and cost of the nodes that the cluster had meanwhile: sum of their seconds.
    pub actual_node_seconds: u64,
    /// Cost of these nodes in micro-dollars.
    #[serde(with = "money::required")]
    pub actual_cost: i64,
    /// Sum of the seconds of pods that have no place in it.
    #[serde(default)]
    pub unplaced_seconds: u64,
}

/// Totals of the disruption commands for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandTotals {
    /// Number of started commands.
    pub started: u64,
    /// Number of commands that were rolled back.
    #[serde(default)]
    pub rolled_back: u64,
    /// Number of nodes.
    pub nodes: u64,
    /// Number of pods to move.
    pub pods: u64,
    /// Expected savings of the started commands, in micro-dollars per hour.
    #[serde(with = "money::required")]
    pub expected_saving: i64,
    /// Savings of the completed commands at the prices of the instances that EC2 launched, in micro-dollars per hour.
    #[serde(default, with = "money::required")]
    pub realised_saving: i64,
}

/// Numbers of durations by their length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Durations(BTreeMap<u64, u64>);

impl Durations {
    /// Upper bounds in seconds. Longer durations count as the last one.
    const BOUNDS: [u64; 18] = [1, 2, 5, 10, 15, 20, 30, 40, 50, 60, 75, 90, 120, 180, 300, 600, 1800, 7200];

    /// Adds a duration.
    pub fn add(&mut self, seconds: u64) {
        let last = Self::BOUNDS[Self::BOUNDS.len() - 1];
        let bound = Self::BOUNDS.into_iter().find(|bound| seconds <= *bound).unwrap_or(last);
        *self.0.entry(bound).or_default() += 1;
    }

    /// Returns the number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// Returns the upper bound of the duration that this many percent do not exceed; `None` without any.
    #[must_use]
    pub fn percentile(&self, percent: u64) -> Option<u64> {
        let wanted = (self.count() * percent).div_ceil(100).max(1);
        let mut counted = 0;
        self.0.iter().find_map(|(bound, count)| {
            counted += count;
            (counted >= wanted).then_some(*bound)
        })
    }

    fn merge(&mut self, more: &Self) {
        for (bound, count) in &more.0 {
            *self.0.entry(*bound).or_default() += count;
        }
    }
}

impl NewFleet {
    fn merge(&mut self, more: &Self) {
        self.seconds += more.seconds;
        self.node_seconds += more.node_seconds;
        self.cost += more.cost;
        self.actual_node_seconds += more.actual_node_seconds;
        self.actual_cost += more.actual_cost;
        self.unplaced_seconds += more.unplaced_seconds;
    }
}

impl CommandTotals {
    fn merge(&mut self, more: &Self) {
        self.started += more.started;
        self.rolled_back += more.rolled_back;
        self.nodes += more.nodes;
        self.pods += more.pods;
        self.expected_saving += more.expected_saving;
        self.realised_saving += more.realised_saving;
    }
}

impl Summary {
    /// Adds another period. The period from the first start to the last end remains.
    pub fn merge(&mut self, more: &Self) {
        self.from = if self.to == Timestamp::default() { more.from } else { self.from.min(more.from) };
        self.to = self.to.max(more.to);
        more.nodes.iter().for_each(|nodes| self.add_nodes(nodes.clone()));
        for (reason, totals) in &more.commands {
            self.commands.entry(reason.clone()).or_default().merge(totals);
        }
        for (reason, totals) in &more.would_disrupt {
            self.would_disrupt.entry(reason.clone()).or_default().merge(totals);
        }
        if let Some(fleet) = &more.new_fleet {
            self.new_fleet.get_or_insert_default().merge(fleet);
        }
        for (pool, count) in &more.interruptions {
            *self.interruptions.entry(pool.clone()).or_default() += count;
        }
        self.launched += more.launched;
        self.launches_failed += more.launches_failed;
        self.waits.merge(&more.waits);
        self.starts.merge(&more.starts);
        self.lost += more.lost;
    }

    /// Adds time and cost of nodes to those of the same offering.
    pub fn add_nodes(&mut self, more: NodeHours) {
        match self.nodes.binary_search_by(|known| offering(known).cmp(&offering(&more))) {
            Ok(position) => {
                let known = &mut self.nodes[position];
                known.seconds += more.seconds;
                known.unpriced_seconds += more.unpriced_seconds;
                known.cost += more.cost;
            }
            Err(position) => self.nodes.insert(position, more),
        }
    }
}

fn offering(nodes: &NodeHours) -> [&str; 4] {
    [&nodes.nodepool, &nodes.instance_type, &nodes.zone, &nodes.capacity_type]
}

#[cfg(test)]
mod tests {
    use super::{CommandTotals, Durations, NodeHours, Summary};
    use jiff::Timestamp;

    fn nodes(pool: &str, seconds: u64) -> NodeHours {
        NodeHours { nodepool: pool.to_owned(), seconds, cost: 10, ..NodeHours::default() }
    }

    #[test]
    fn merge_adds_equal_offerings_and_reasons() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let one = |from, pool| Summary {
            from: at(from),
            to: at(from + 900),
            nodes: vec![nodes(pool, 900)],
            commands: [("Empty".to_owned(), CommandTotals { started: 1, nodes: 2, ..CommandTotals::default() })].into(),
            ..Summary::default()
        };
        let mut sum = Summary::default();
        [one(1800, "b"), one(900, "b"), one(0, "a")].iter().for_each(|summary| sum.merge(summary));
        assert_eq!((sum.from, sum.to), (at(0), at(2700)));
        let expected = [nodes("a", 900), NodeHours { cost: 20, ..nodes("b", 1800) }];
        assert_eq!(sum.nodes, expected);
        assert_eq!(sum.commands["Empty"], CommandTotals { started: 3, nodes: 6, ..CommandTotals::default() });
    }

    #[test]
    fn percentile_is_an_upper_bound() {
        let mut waits = Durations::default();
        assert_eq!(waits.percentile(50), None);
        (0..99).for_each(|_| waits.add(38));
        waits.add(100_000);
        assert_eq!([50, 99, 100].map(|percent| waits.percentile(percent)), [Some(40), Some(40), Some(7200)]);
    }
}

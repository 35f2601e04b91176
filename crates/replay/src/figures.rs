//! Figures of a recording or of its replay: cost, nodes, evictions and waits.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use api::decisions::money;
use api::{NodePool, label};
use jiff::{SignedDuration, Timestamp};
use planner::{Catalogue, Resources};
use serde::Serialize;

use crate::cluster::pool_name;
use crate::history::{Change, History};

/// Number of points of a curve.
const POINTS: i32 = 240;
pub(crate) const MILLIS_PER_HOUR: i128 = 3_600_000;

/// Catalogues by EC2NodeClass, each set from a time on.
#[derive(Clone, Debug, Default)]
pub struct Market {
    /// Sets in the order of their time; the first one also holds before.
    pub catalogues: Vec<(Timestamp, BTreeMap<String, Arc<Catalogue>>)>,
}

/// Time in which one node was paid.
#[derive(Clone, Debug)]
pub(crate) struct NodeSpan {
    pub(crate) class: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) from: Timestamp,
    pub(crate) to: Timestamp,
}

/// Cost of a recording or a replay, with the moves and waits of its pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// Cost in millionths of a dollar, with fees and extras of nodes.
    #[serde(with = "money::required")]
    pub cost: i64,
    /// Cost by NodePool.
    #[serde(serialize_with = "money::by_name")]
    pub cost_by_nodepool: BTreeMap<String, i64>,
    /// Cost by capacity type.
    #[serde(serialize_with = "money::by_name")]
    pub cost_by_capacity_type: BTreeMap<String, i64>,
    /// Paid time of nodes, in seconds.
    pub node_seconds: i64,
    /// Greatest number of nodes at one time.
    pub most_nodes: usize,
    /// Number of launches.
    pub launches: usize,
    /// Number of nodes without a known price, which count as free.
    pub unpriced_nodes: usize,
    /// Number of removed nodes by the reason of their command.
    pub disrupted: BTreeMap<String, usize>,
    /// Number of interruptions by EC2.
    pub interrupted: usize,
    /// Number of evicted pods.
    pub evicted: usize,
    /// Number of pods that needed a node.
    pub pods: usize,
    /// Number of pods without a node at the end.
    pub pending: usize,
    /// Median of the waits for a node, in milliseconds.
    pub wait_p50: i64,
    /// 99th percentile of the waits.
    pub wait_p99: i64,
    /// Longest wait.
    pub wait_max: i64,
    /// Nodes and cost over time.
    pub points: Vec<Point>,
}

/// State at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Point {
    /// Time.
    pub at: Timestamp,
    /// Number of nodes.
    pub nodes: usize,
    /// Cost per hour in millionths of a dollar.
    #[serde(with = "money::required")]
    pub rate: i64,
}

impl Market {
    /// Returns the catalogues at a time, with their begin.
    #[must_use]
    pub fn at(&self, now: Timestamp) -> Option<(Timestamp, &BTreeMap<String, Arc<Catalogue>>)> {
        let later = self.catalogues.partition_point(|(from, _)| *from <= now);
        self.catalogues.get(later.saturating_sub(1)).map(|(from, set)| (*from, set))
    }

    /// Returns the times at which catalogues change.
    pub(crate) fn changes(&self) -> impl Iterator<Item = Timestamp> {
        self.catalogues.iter().skip(1).map(|(from, _)| *from)
    }

    /// Returns the allocatable resources of a node at a time.
    pub(crate) fn allocatable(&self, span: &NodeSpan, now: Timestamp) -> Resources {
        let catalogue = self.at(now).and_then(|(_, set)| set.get(&span.class));
        let kind = catalogue.zip(span.labels.get(label::INSTANCE_TYPE));
        kind.and_then(|(own, kind)| Some(own.instance_type(kind)?.allocatable.clone())).unwrap_or_default()
    }

    /// Returns the price per hour of a node at a time, with its extras, and whether the price of its instance is known.
    pub(crate) fn rate(&self, span: &NodeSpan, now: Timestamp) -> (i64, bool) {
        let catalogue = self.at(now).and_then(|(_, set)| set.get(&span.class));
        let kind = span.labels.get(label::INSTANCE_TYPE);
        let price = catalogue.zip(kind).and_then(|(own, kind)| own.instance_type(kind)?.price_of_node(&span.labels));
        let extras = catalogue.map_or(0, |own| own.node_extras.0);
        (price.map_or(0, |price| price.0) + extras, price.is_some())
    }
}

impl NodeSpan {
    /// Returns the paid time of a recorded node; `None` if it has none in the recording.
    pub(crate) fn recorded(node: &crate::RecordedNode, history: &History) -> Option<Self> {
        let from = node.launched?.max(history.begin);
        let to = node.ended.unwrap_or(history.end);
        let (class, labels) = (node.class.clone(), node.labels.clone());
        (to > from).then_some(Self { class, labels, from, to })
    }
}

/// Fee per hour of each node, by NodePool.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fees(BTreeMap<String, i64>);

impl Fees {
    /// Returns the fees of all NodePools of a recording, in their first state.
    pub(crate) fn of(history: &History) -> Self {
        let mut fees = BTreeMap::new();
        let objects = history.changes.iter().filter_map(|(_, change)| match change {
            Change::Objects(objects) => Some(objects),
            _ => None,
        });
        for pool in objects.flat_map(|objects| &objects.pools) {
            fees.entry(pool_name(pool)).or_insert_with(|| fee(pool));
        }
        Self(fees)
    }

    pub(crate) fn per_hour(&self, span: &NodeSpan) -> i64 {
        span.labels.get(label::NODEPOOL).and_then(|pool| self.0.get(pool)).copied().unwrap_or(0)
    }
}

fn fee(pool: &NodePool) -> i64 {
    pool.node_fee().unwrap_or(0)
}

impl Figures {
    /// Returns the figures of a recording.
    #[must_use]
    pub fn recorded(history: &History, market: &Market) -> Self {
        let spans: Vec<NodeSpan> = history.nodes.iter().filter_map(|node| NodeSpan::recorded(node, history)).collect();
        let new = || history.pods.iter().filter(|pod| pod.created > history.begin);
        let mut waits: Vec<i64> = new().filter_map(|pod| Some(millis(pod.waited()?))).collect();
        let mut disrupted: BTreeMap<String, usize> = BTreeMap::new();
        for reason in history.nodes.iter().filter_map(|node| node.disrupted.clone()) {
            *disrupted.entry(reason).or_default() += 1;
        }
        let pending = |pod: &&crate::RecordedPod| pod.bound.is_none() && pod.leaves.is_none();
        let mut figures = Self {
            launches: history.nodes.iter().filter(|node| node.created > history.begin).count(),
            disrupted,
            interrupted: history.nodes.iter().filter(|node| node.interrupted.is_some()).count(),
            evicted: history.pods.iter().filter(|pod| pod.evicted).count(),
            pods: new().count(),
            pending: history.pods.iter().filter(pending).count(),
            ..Self::default()
        };
        figures.add_waits(&mut waits);
        figures.add_nodes(&spans, &Fees::of(history), market, history.begin..history.end);
        figures
    }

    /// Adds the waits of pods, in milliseconds.
    pub(crate) fn add_waits(&mut self, waits: &mut [i64]) {
        waits.sort_unstable();
        let at = |thousandths: usize| {
            let last = waits.len().checked_sub(1)?;
            waits.get((last * thousandths).div_ceil(1000)).copied()
        };
        let [p50, p99, max] = [500, 990, 1000].map(|share| at(share).unwrap_or(0));
        (self.wait_p50, self.wait_p99, self.wait_max) = (p50, p99, max);
    }

    /// Adds number, cost and curve of nodes in a period.
    pub(crate) fn add_nodes(&mut self, spans: &[NodeSpan], fees: &Fees, market: &Market, period: Range<Timestamp>) {
        for span in spans {
            let (cost, is_known) = cost(span, fees, market);
            let name = |key: &str| span.labels.get(key).cloned().unwrap_or_default();
            *self.cost_by_nodepool.entry(name(label::NODEPOOL)).or_default() += cost;
            *self.cost_by_capacity_type.entry(name(label::CAPACITY_TYPE)).or_default() += cost;
            self.cost += cost;
            self.node_seconds += span.to.duration_since(span.from).as_secs();
            self.unpriced_nodes += usize::from(!is_known);
        }
        let step = period.end.duration_since(period.start) / POINTS;
        let times = (0..POINTS).map(|number| period.start + step * number);
        self.points = times.map(|at| point(at, spans, fees, market)).collect();
        self.most_nodes = most(spans);
    }
}

fn millis(duration: SignedDuration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Returns the cost of a node, and whether its price was always known.
fn cost(span: &NodeSpan, fees: &Fees, market: &Market) -> (i64, bool) {
    let inner = market.changes().filter(|at| *at > span.from && *at < span.to);
    let mut times: Vec<Timestamp> = [span.from].into_iter().chain(inner).collect();
    times.push(span.to);
    let (mut sum, mut is_known) = (0_i128, true);
    for part in times.windows(2) {
        let (rate, known) = market.rate(span, part[0]);
        is_known &= known;
        sum += i128::from(rate + fees.per_hour(span)) * part[1].duration_since(part[0]).as_millis();
    }
    (i64::try_from(sum / MILLIS_PER_HOUR).unwrap_or(i64::MAX), is_known)
}

fn point(at: Timestamp, spans: &[NodeSpan], fees: &Fees, market: &Market) -> Point {
    let present = || spans.iter().filter(|span| span.from <= at && at < span.to);
    let rate = present().map(|span| market.rate(span, at).0 + fees.per_hour(span)).sum();
    Point { at, nodes: present().count(), rate }
}

fn most(spans: &[NodeSpan]) -> usize {
    let mut steps: Vec<(Timestamp, i32)> = spans.iter().flat_map(|span| [(span.from, 1), (span.to, -1)]).collect();
    steps.sort_unstable();
    let mut now = 0;
    let most = steps.into_iter().map(|(_, step)| {
        now += step;
        now
    });
    usize::try_from(most.max().unwrap_or(0)).unwrap_or(0)
}

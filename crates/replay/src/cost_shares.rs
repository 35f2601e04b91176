//! Division of the recorded cost among the owners of pods, such as teams.
//!
//! At each moment the cost of a node belongs to the pods of workloads that it runs. Its unit is the share of the node that a pod
//! requests ([`Resources::share_of`]). Each pod pays for its own requests. The requests of DaemonSets, and what no pod requests, are
//! divided among the pods in the ratio of their requests. A node without such pods is idle.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::objects::{Pod, pod_requests};
use jiff::{SignedDuration, Timestamp};
use planner::Resources;

use crate::figures::{Fees, MILLIS_PER_HOUR, Market, NodeSpan};
use crate::history::{Change, History, RecordedPod};

/// Cost of an owner in one period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostShare {
    /// Begin of the period.
    pub from: Timestamp,
    /// Owner of the pods; `None` for nodes without pods.
    pub owner: Option<String>,
    /// Cost of the pods' own requests, in millionths of a dollar.
    pub requested: i64,
    /// Part of the cost of DaemonSets and static pods.
    pub daemons: i64,
    /// Part of the cost of capacity that no pod requests.
    pub unrequested: i64,
    /// Time of the pods on nodes, in seconds.
    pub pod_seconds: i64,
}

impl CostShare {
    /// Returns the whole cost.
    #[must_use]
    pub fn cost(&self) -> i64 {
        self.requested + self.daemons + self.unrequested
    }
}

/// Returns the cost of each owner in each period of this length, in the order of periods and owners. The sum is the cost of all
/// nodes.
#[must_use]
pub fn cost_shares(
    history: &History,
    market: &Market,
    every: SignedDuration,
    owner: impl Fn(&Pod) -> String,
) -> Vec<CostShare> {
    let stays = Stays::of(history, owner);
    let fees = Fees::of(history);
    let mut ledger = Ledger { every, begin: history.begin, parts: BTreeMap::new() };
    for node in &history.nodes {
        if let Some(span) = NodeSpan::recorded(node, history) {
            let account = NodeAccount { span: &span, fees: &fees, market, stays: stays.on(&node.node) };
            account.enter(&mut ledger);
        }
    }
    ledger.shares()
}

/// Time of a pod on a node.
struct Stay {
    from: Timestamp,
    to: Timestamp,
    requests: Resources,
    /// Owner of the pod; `None` for pods of DaemonSets and static pods.
    owner: Option<String>,
}

/// Times of all pods, by the name of their node.
#[derive(Default)]
struct Stays(BTreeMap<String, Vec<Stay>>);

impl Stays {
    fn of(history: &History, owner: impl Fn(&Pod) -> String) -> Self {
        let mut stays = Self::default();
        for recorded in &history.pods {
            let Some(from) = recorded.bound.map(|bound| bound.max(history.begin)) else { continue };
            let to = left(recorded).unwrap_or(history.end);
            stays.add(
                &recorded.node,
                Stay { from, to, requests: requests(&recorded.pod), owner: Some(owner(&recorded.pod)) },
            );
        }
        stays.add_daemons(history);
        stays
    }

    fn add(&mut self, node: &str, stay: Stay) {
        if stay.from < stay.to && !node.is_empty() {
            self.0.entry(node.to_owned()).or_default().push(stay);
        }
    }

    /// Adds pods of DaemonSets and static pods from their changes.
    fn add_daemons(&mut self, history: &History) {
        let mut present: BTreeMap<String, (Timestamp, Arc<Pod>)> = BTreeMap::new();
        for (at, change) in &history.changes {
            let (name, pod) = match change {
                Change::NodePod(pod) => (format!("{}/{}", pod.namespace(), pod.name()), Some(pod)),
                Change::NodePodGone(name) => (name.clone(), None),
                _ => continue,
            };
            let runs = pod.filter(|pod| pod.is_bound() && !pod.is_terminal());
            match (present.remove(&name), runs) {
                (Some((from, before)), Some(pod)) if before.metadata.uid == pod.metadata.uid => {
                    present.insert(name, (from, Arc::clone(pod)));
                }
                (before, runs) => {
                    before.into_iter().for_each(|(from, pod)| self.add_daemon(&pod, from, *at));
                    present.extend(runs.map(|pod| (name, (*at, Arc::clone(pod)))));
                }
            }
        }
        present.into_values().for_each(|(from, pod)| self.add_daemon(&pod, from, history.end));
    }

    fn add_daemon(&mut self, pod: &Pod, from: Timestamp, to: Timestamp) {
        self.add(&pod.spec.node_name, Stay { from, to, requests: requests(pod), owner: None });
    }

    fn on(&self, node: &str) -> &[Stay] {
        self.0.get(node).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Returns the time from which a pod takes nothing from its node. A pod that ended keeps its place in the list of pods.
fn left(pod: &RecordedPod) -> Option<Timestamp> {
    if pod.succeeded { pod.leaves } else { pod.gone }
}

fn requests(pod: &Pod) -> Resources {
    pod_requests(&pod.spec).unwrap_or_default().into_iter().collect()
}

/// Cost of one node, with its pods.
struct NodeAccount<'a> {
    span: &'a NodeSpan,
    fees: &'a Fees,
    market: &'a Market,
    stays: &'a [Stay],
}

impl NodeAccount<'_> {
    /// Enters the cost of the node, from one change to the next.
    fn enter(&self, ledger: &mut Ledger) {
        let mut times: BTreeSet<Timestamp> = self.market.changes().chain(ledger.periods(self.span)).collect();
        let mut events: BTreeMap<Timestamp, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
        // An earlier node may have had the same name.
        let own = |(_, stay): &(usize, &Stay)| stay.from < self.span.to && stay.to > self.span.from;
        for (number, stay) in self.stays.iter().enumerate().filter(own) {
            events.entry(stay.from.max(self.span.from)).or_default().0.push(number);
            events.entry(stay.to).or_default().1.push(number);
        }
        times.extend(events.keys());
        times.extend([self.span.from, self.span.to]);
        times.retain(|at| (self.span.from..=self.span.to).contains(at));
        let (mut present, mut before) = (BTreeSet::new(), self.span.from);
        for at in times {
            if at > before {
                self.enter_part(ledger, &present, before, at);
                before = at;
            }
            let (come, gone) = events.remove(&at).unwrap_or_default();
            present.extend(come);
            present.retain(|number| !gone.contains(number));
        }
    }

    /// Enters the cost of a time in which nothing changes.
    fn enter_part(&self, ledger: &mut Ledger, present: &BTreeSet<usize>, from: Timestamp, to: Timestamp) {
        let millis = to.duration_since(from).as_millis();
        let cost = self.market.rate(self.span, from).0 + self.fees.per_hour(self.span);
        let cost = i128::from(cost) * millis;
        let allocatable = self.market.allocatable(self.span, from);
        let share = |stay: &Stay| i128::from(stay.requests.share_of(&allocatable));
        let stays = || present.iter().filter_map(|number| self.stays.get(*number));
        let pods: Vec<(&String, i128)> = stays().filter_map(|it| Some((it.owner.as_ref()?, share(it)))).collect();
        let own: i128 = pods.iter().map(|(_, share)| share).sum();
        if own == 0 {
            ledger.parts_of(from, None).unrequested += cost;
        }
        let daemons: i128 = stays().filter(|stay| stay.owner.is_none()).map(share).sum();
        let whole = i128::from(Resources::WHOLE).max(own + daemons);
        for (owner, share) in pods {
            let parts = ledger.parts_of(from, Some(owner));
            parts.pod_millis += millis;
            if own > 0 {
                let requested = cost * share / whole;
                let of_daemons = cost * daemons / whole * share / own;
                parts.requested += requested;
                parts.daemons += of_daemons;
                parts.unrequested += cost * share / own - requested - of_daemons;
            }
        }
    }
}

/// Cost by period and owner, in millionths of a dollar per hour times milliseconds.
struct Ledger {
    every: SignedDuration,
    begin: Timestamp,
    parts: BTreeMap<(Timestamp, Option<String>), Parts>,
}

#[derive(Default)]
struct Parts {
    requested: i128,
    daemons: i128,
    unrequested: i128,
    pod_millis: i128,
}

impl Ledger {
    /// Returns the begin of the period that has this time. Periods of a day begin at midnight UTC.
    fn period(&self, at: Timestamp) -> Timestamp {
        let length = self.every.as_secs().max(1);
        let begin = Timestamp::from_second(at.as_second().div_euclid(length) * length);
        begin.unwrap_or(at).max(self.begin)
    }

    /// Returns the begins of the periods within a span.
    fn periods(&self, span: &NodeSpan) -> impl Iterator<Item = Timestamp> + use<> {
        let (length, end) = (self.every.as_secs().max(1), span.to);
        let first = span.from.as_second().div_euclid(length) + 1;
        let begins = (first..).map_while(move |number| Timestamp::from_second(number.checked_mul(length)?).ok());
        begins.take_while(move |begin| *begin < end)
    }

    fn parts_of(&mut self, at: Timestamp, owner: Option<&String>) -> &mut Parts {
        self.parts.entry((self.period(at), owner.cloned())).or_default()
    }

    fn shares(self) -> Vec<CostShare> {
        let money = |amount: i128| i64::try_from(amount / MILLIS_PER_HOUR).unwrap_or(i64::MAX);
        let share = |((from, owner), parts): ((Timestamp, Option<String>), Parts)| {
            let (requested, daemons) = (money(parts.requested), money(parts.daemons));
            let whole = money(parts.requested + parts.daemons + parts.unrequested);
            let pod_seconds = i64::try_from(parts.pod_millis / 1000).unwrap_or(i64::MAX);
            CostShare { from, owner, requested, daemons, unrequested: whole - requested - daemons, pod_seconds }
        };
        self.parts.into_iter().map(share).collect()
    }
}

#[cfg(test)]
mod tests;

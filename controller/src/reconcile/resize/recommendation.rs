//! Recommended requests of pods that are not resized: the value that utilization `pack` would set, as an event on the owner of
//! the pods and as a metric of the NodePool.

use std::collections::BTreeMap;
use std::time::Duration;

use api::nodepool::Utilization;
use api::objects::Pod;
use api::{NodePool, label, quantity, reason};
use daemon::metric::Metrics;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;
use planner::{Packing, Size, Sizing};

use crate::metrics;
use crate::state::index::Index;
use crate::write::events::{Event, ObjectReference};

/// Interval between two evaluations of all pods.
const PAUSE: Duration = Duration::from_secs(10 * 60);
/// Minimum share of the requests above the recommendation, in thousandths, for an event.
const WORTH_TELLING: i64 = 100;

/// Events and metrics of an evaluation.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recommendation {
    /// Events, one for each owner of pods with too high requests.
    pub notes: Vec<Event>,
    /// Requests of all pods above the recommendation, by NodePool.
    pub spare: BTreeMap<String, Size>,
}

/// Requests and recommendation of one owner's pods, each the maximum of any pod.
struct Need {
    object: ObjectReference,
    pods: usize,
    requested: Size,
    fitting: Size,
}

/// Returns the recommendations for NodePools with utilization `observe`; with `packing` also for `pack`, where pods cannot be
/// resized.
#[must_use]
pub fn advice(index: &Index, packing: bool, now: Timestamp) -> Recommendation {
    let mut all = Recommendation::default();
    let mut needs: BTreeMap<String, Need> = BTreeMap::new();
    for node in index.nodes.values() {
        let pool = node.label(label::NODEPOOL).and_then(|name| Some((name, index.pools.get(name)?)));
        let Some((name, pool)) = pool.filter(|(_, pool)| is_advised(pool, packing)) else { continue };
        let Some(usage) = index.usage_of(node, now) else { continue };
        let lowered = index.claim_of(node).is_some_and(|claim| claim.has_lowered_requests());
        let (of_node, rules) = (snapshot::node_usage(usage), snapshot::packing_rules(pool));
        for pod in index.pods_on(node.name()).filter(|pod| !pod.is_terminal() && !pod.is_terminating()) {
            let requested = if lowered { pod.requested() } else { Ok(None) };
            let sizing = snapshot::sizing(pod, requested, Some(usage));
            let Some((requested, fitting)) = figure(&sizing, &of_node, rules) else { continue };
            let spare = all.spare.entry(name.to_owned()).or_default();
            *spare = spare.plus(requested.minus(fitting));
            add(&mut needs, pod, requested, fitting);
        }
    }
    all.notes = needs.into_values().filter_map(note).collect();
    all
}

fn is_advised(pool: &NodePool, packing: bool) -> bool {
    match pool.utilization() {
        Ok(Utilization::Observe) => true,
        Ok(Utilization::Pack) => packing,
        Ok(Utilization::Ignore) => false,
        // An invalid value counts as absent.
        Err(_) => true,
    }
}

fn figure(sizing: &Sizing, usage: &planner::Usage, rules: Packing) -> Option<(Size, Size)> {
    let fitting = planner::fitting(sizing, usage, rules).ok()?;
    Some((sizing.requested(), fitting.into_iter().fold(Size::default(), Size::plus)))
}

fn add(needs: &mut BTreeMap<String, Need>, pod: &Pod, requested: Size, fitting: Size) {
    let owner = pod.controller().map(|owner| {
        let meta = ObjectMeta {
            namespace: pod.metadata.namespace.clone(),
            name: Some(owner.name.clone()),
            uid: Some(owner.uid.clone()),
            ..ObjectMeta::default()
        };
        (owner.uid.clone(), ObjectReference::new(&owner.api_version, &owner.kind, &meta))
    });
    let own = || (pod.metadata.uid.clone().unwrap_or_default(), ObjectReference::to(pod));
    let (uid, object) = owner.unwrap_or_else(own);
    let nothing = Size::default();
    let need = needs.entry(uid).or_insert(Need { object, pods: 0, requested: nothing, fitting: nothing });
    need.pods += 1;
    need.requested = need.requested.max(requested);
    need.fitting = need.fitting.max(fitting);
}

fn note(need: Need) -> Option<Event> {
    let rows = [
        (quantity::CPU, need.requested.cpu, need.fitting.cpu),
        (quantity::MEMORY, need.requested.memory, need.fitting.memory),
    ];
    let found = rows
        .into_iter()
        .filter(|(_, asked, fits)| (asked - fits).saturating_mul(1000) > asked.saturating_mul(WORTH_TELLING));
    let text = |(name, asked, fits)| {
        format!("{name} {} instead of {}", quantity::text(name, fits), quantity::text(name, asked))
    };
    let found: Vec<String> = found.map(text).collect();
    let message = format!("Recommended requests by utilization: {} (pods evaluated: {})", found.join(", "), need.pods);
    (!found.is_empty()).then(|| Event::normal(need.object, reason::REQUESTS_ABOVE_USE, message))
}

/// Recommender that evaluates at most once per interval.
#[derive(Default)]
pub struct Recommender(Mutex<RecommenderState>);

#[derive(Default)]
struct RecommenderState {
    last: Option<Timestamp>,
    exported: Vec<String>,
}

impl Recommender {
    /// Returns the events that are due; none shortly after the last evaluation.
    pub fn look(&self, index: &Index, packing: bool, metrics: &Metrics, now: Timestamp) -> Vec<Event> {
        let mut state = self.0.lock();
        if state.last.is_some_and(|last| now.duration_since(last).unsigned_abs() < PAUSE) {
            return Vec::new();
        }
        state.last = Some(now);
        let advice = advice(index, packing, now);
        for pool in state.exported.iter().filter(|pool| !advice.spare.contains_key(*pool)) {
            metrics.forget(
                &metrics::REQUESTS_ABOVE_USE
                    .series(&metrics::ByNodePoolResource { nodepool: pool, resource: quantity::CPU }),
            );
            metrics.forget(
                &metrics::REQUESTS_ABOVE_USE
                    .series(&metrics::ByNodePoolResource { nodepool: pool, resource: quantity::MEMORY }),
            );
        }
        for (pool, spare) in &advice.spare {
            metrics.set(
                &metrics::REQUESTS_ABOVE_USE,
                metrics::ByNodePoolResource { nodepool: pool, resource: quantity::CPU },
                spare.cpu as f64 / 1000.0,
            );
            metrics.set(
                &metrics::REQUESTS_ABOVE_USE,
                metrics::ByNodePoolResource { nodepool: pool, resource: quantity::MEMORY },
                spare.memory as f64,
            );
        }
        state.exported = advice.spare.into_keys().collect();
        advice.notes
    }
}

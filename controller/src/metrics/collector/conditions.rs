//! Metrics of conditions and terminations: objects by condition, time since the transition, transitions, and duration of
//! terminations.

use std::collections::BTreeMap;

use api::objects::Node;
use api::{EC2NodeClass, NodeClaim, NodePool};
use daemon::metric::{Metrics, NoLabels};
use jiff::Timestamp;

use super::since;
use crate::metrics::conditions::{self as metrics, Conditions};
use crate::metrics::gauge_set::Sample;
use crate::metrics::{ByTypeStatus, ByTypeStatusReason};
use crate::state::index::{ConditionOwner, ConditionView, Index, Indexed, ObjectEnd, Transition};

fn metrics_of(speaker: ConditionOwner) -> &'static Conditions {
    match speaker {
        ConditionOwner::Claim => &metrics::CLAIMS,
        ConditionOwner::Node => &metrics::NODES,
        ConditionOwner::Pool => &metrics::POOLS,
        ConditionOwner::Class => &metrics::CLASSES,
    }
}

/// Returns the samples of all kinds.
pub(super) fn samples(index: &Index, now: Timestamp) -> Vec<Sample> {
    let mut samples = of_kind::<NodeClaim>(index, now);
    samples.extend(of_kind::<Node>(index, now));
    samples.extend(of_kind::<NodePool>(index, now));
    samples.extend(of_kind::<EC2NodeClass>(index, now));
    samples
}

/// Returns the objects by condition, the time since the oldest transition, and the duration of the longest termination.
fn of_kind<K: Indexed>(index: &Index, now: Timestamp) -> Vec<Sample> {
    let Some(conditions) = K::SPEAKER.map(metrics_of) else { return Vec::new() };
    let mut found: BTreeMap<[String; 3], (f64, f64)> = BTreeMap::new();
    let mut slowest = 0.0;
    for object in K::table(index).values() {
        let said = object.condition_views();
        for ConditionView { type_, status, reason, since: moment } in &said {
            let (count, longest) = found.entry([type_, status, reason].map(|it| (*it).to_owned())).or_default();
            *count += 1.0;
            *longest = longest.max(moment.map_or(0.0, |moment| since(moment, now)));
        }
        let deleted = object.meta().deletion_timestamp.as_ref().filter(|_| !said.is_empty());
        slowest = deleted.map_or(slowest, |moment| since(moment.0, now).max(slowest));
    }
    let each = |([kind, status, reason], (count, longest)): (&[String; 3], &(f64, f64))| {
        let labels = ByTypeStatusReason { kind, status, reason };
        [Sample::new(&conditions.count, labels, *count), Sample::new(&conditions.current, labels, *longest)]
    };
    let mut samples: Vec<Sample> = found.iter().flat_map(each).collect();
    samples.push(Sample::new(&conditions.ending, NoLabels, slowest));
    samples
}

/// Counts transitions of conditions and removed objects.
pub(super) fn count(turned: Vec<Transition>, ended: Vec<ObjectEnd>, metrics: &Metrics) {
    for turn in turned {
        let conditions = metrics_of(turn.speaker);
        let labels = ByTypeStatusReason { kind: &turn.type_, status: &turn.status, reason: &turn.reason };
        metrics.add(&conditions.transitions, labels, 1.0);
        if let Some((status, seconds)) = &turn.before {
            metrics.observe(&conditions.held, ByTypeStatus { kind: &turn.type_, status }, *seconds);
        }
    }
    for ObjectEnd { speaker, took } in ended {
        metrics.observe(&metrics_of(speaker).ended, NoLabels, took);
    }
}

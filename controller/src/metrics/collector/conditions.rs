//! Metrics of conditions and terminations: objects by condition, time since the transition, transitions, and duration of
//! terminations. The detail decides about the labels, and so about the sums.

use std::collections::BTreeMap;

use api::objects::Node;
use api::{EC2NodeClass, NodeClaim, NodePool};
use daemon::metric::{LabelPairs, Metrics, Series};
use jiff::Timestamp;

use super::{labels, since};
use crate::metrics::conditions::{self as metrics, Conditions};
use crate::metrics::detail::MetricsDetail;
use crate::metrics::gauge_set::Sample;
use crate::state::index::{ConditionOwner, ConditionView, Index, Indexed, ObjectEnd, OwnerLabels, Transition};

fn metrics_of(speaker: ConditionOwner) -> &'static Conditions {
    match speaker {
        ConditionOwner::Claim => &metrics::CLAIMS,
        ConditionOwner::Node => &metrics::NODES,
        ConditionOwner::Pool => &metrics::POOLS,
        ConditionOwner::Class => &metrics::CLASSES,
    }
}

/// Object with conditions, as labels name it.
#[derive(Clone, Copy)]
struct Owner<'a> {
    name: &'a str,
    labels: &'a OwnerLabels,
}

/// Type, status and reason of a condition.
#[derive(Clone, Copy, Default)]
struct Status<'a> {
    type_: &'a str,
    status: &'a str,
    reason: &'a str,
}

impl Owner<'_> {
    /// Returns the labels with these names. All kinds with conditions are cluster-scoped, so `namespace` is empty.
    fn labelled(self, names: &'static [&'static str], condition: Status<'_>) -> LabelPairs {
        labels::pairs(names, |name| match name {
            "type" => condition.type_,
            "status" => condition.status,
            "reason" => condition.reason,
            "name" => self.name,
            "karpenter_sh_nodepool" => &self.labels.nodepool,
            "karpenter_k8s_aws_ec2nodeclass" => &self.labels.nodeclass,
            "karpenter_sh_initialized" => &self.labels.initialized,
            _ => "",
        })
    }
}

/// Returns the samples of EC2NodeClasses.
pub(super) fn class_samples(index: &Index, detail: MetricsDetail, now: Timestamp) -> Vec<Sample> {
    of_kind::<EC2NodeClass>(index, detail, now)
}

/// Returns the samples of all other kinds.
pub(super) fn samples(index: &Index, detail: MetricsDetail, now: Timestamp) -> Vec<Sample> {
    let mut samples = of_kind::<NodeClaim>(index, detail, now);
    samples.extend(of_kind::<Node>(index, detail, now));
    samples.extend(of_kind::<NodePool>(index, detail, now));
    samples
}

/// Returns the objects by condition, the time since the oldest transition, and the duration of the longest termination.
fn of_kind<K: Indexed>(index: &Index, detail: MetricsDetail, now: Timestamp) -> Vec<Sample> {
    let Some(conditions) = K::SPEAKER.map(metrics_of) else { return Vec::new() };
    let names = detail.condition_labels(conditions);
    let mut found: BTreeMap<LabelPairs, (f64, f64)> = BTreeMap::new();
    // Without labels there is always a value.
    let mut slowest: BTreeMap<LabelPairs, f64> =
        names.ending.is_empty().then(|| (LabelPairs::new(), 0.0)).into_iter().collect();
    for object in K::table(index).values() {
        let (views, own) = (object.condition_views(), OwnerLabels::from_meta(object.meta()));
        let owner = Owner { name: object.meta().name.as_deref().unwrap_or_default(), labels: &own };
        for ConditionView { type_, status, reason, since: moment } in &views {
            let key = owner.labelled(names.gauge, Status { type_, status, reason });
            let (count, longest) = found.entry(key).or_default();
            *count += 1.0;
            *longest = longest.max(moment.map_or(0.0, |moment| since(moment, now)));
        }
        let deleted = object.meta().deletion_timestamp.as_ref().filter(|_| !views.is_empty());
        if let Some(moment) = deleted {
            let longest = slowest.entry(owner.labelled(names.ending, Status::default())).or_default();
            *longest = longest.max(since(moment.0, now));
        }
    }
    let each = |(labels, (count, longest)): (LabelPairs, (f64, f64))| {
        let count = Sample::labelled(conditions.count.description(), labels.clone(), count);
        [count, Sample::labelled(conditions.current.description(), labels, longest)]
    };
    let ending = |(labels, seconds)| Sample::labelled(conditions.ending.description(), labels, seconds);
    found.into_iter().flat_map(each).chain(slowest.into_iter().map(ending)).collect()
}

/// Counts transitions of conditions and removed objects.
pub(super) fn count(turned: &[Transition], ended: &[ObjectEnd], detail: MetricsDetail, metrics: &Metrics) {
    for Transition { speaker, owner, type_, status, reason, before } in turned {
        let conditions = metrics_of(*speaker);
        let (names, owner) = (detail.condition_labels(conditions), Owner { name: "", labels: owner });
        let labels = owner.labelled(names.transitions, Status { type_, status, reason });
        metrics.add_to_series(&Series { name: conditions.transitions.description().name, labels }, 1.0);
        if let Some((status, seconds)) = before {
            let labels = owner.labelled(names.held, Status { type_, status, reason: "" });
            metrics.observe_series(&Series { name: conditions.held.description().name, labels }, *seconds);
        }
    }
    for ObjectEnd { speaker, owner, took } in ended {
        let conditions = metrics_of(*speaker);
        let owner = Owner { name: "", labels: owner };
        let labels = owner.labelled(detail.condition_labels(conditions).ended, Status::default());
        metrics.observe_series(&Series { name: conditions.ended.description().name, labels }, *took);
    }
}

//! Metrics of conditions and terminations: objects by condition, time since the transition, transitions, and duration of
//! terminations. The detail decides about the labels, and so about the sums.

use std::collections::BTreeMap;

use api::objects::Node;
use api::{EC2NodeClass, NodeClaim, NodePool, condition};
use daemon::metric::{LabelPairs, Metrics, Series};
use jiff::Timestamp;

use super::{labels, since};
use crate::metrics::bounded_names::BoundedNames;
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

/// Index with the names that become labels. Nodes choose the types and reasons of their conditions, and some of their labels;
/// only the controller writes conditions of the other kinds.
#[derive(Clone, Copy)]
pub(super) struct ConditionSource<'a> {
    pub(super) index: &'a Index,
    pub(super) names: &'a BoundedNames,
    pub(super) detail: MetricsDetail,
}

/// Statuses of a condition.
const STATUSES: [&str; 3] = [condition::TRUE, condition::FALSE, condition::UNKNOWN];

impl ConditionSource<'_> {
    fn status<'c>(self, owner: ConditionOwner, condition: Status<'c>) -> Status<'c> {
        if owner != ConditionOwner::Node {
            return condition;
        }
        let Status { type_, status, reason } = condition;
        let type_ = self.names.label("", type_);
        let status = if STATUSES.contains(&status) { status } else { "other" };
        Status { type_, status, reason: self.names.label(type_, reason) }
    }

    fn owner(self, kind: ConditionOwner, labels: OwnerLabels) -> OwnerLabels {
        if kind != ConditionOwner::Node {
            return labels;
        }
        let known = |name: String, is_known: bool| if is_known { name } else { String::new() };
        let has_pool = self.index.pools.get(&labels.nodepool).is_some();
        let has_class = self.index.classes.get(&labels.nodeclass).is_some();
        let is_initialized = labels.initialized == "true";
        OwnerLabels {
            nodepool: known(labels.nodepool, has_pool),
            nodeclass: known(labels.nodeclass, has_class),
            initialized: known(labels.initialized, is_initialized),
        }
    }
}

/// Returns the samples of EC2NodeClasses.
pub(super) fn class_samples(source: ConditionSource<'_>, now: Timestamp) -> Vec<Sample> {
    of_kind::<EC2NodeClass>(source, now)
}

/// Returns the samples of all other kinds.
pub(super) fn samples(source: ConditionSource<'_>, now: Timestamp) -> Vec<Sample> {
    let mut samples = of_kind::<NodeClaim>(source, now);
    samples.extend(of_kind::<Node>(source, now));
    samples.extend(of_kind::<NodePool>(source, now));
    samples
}

/// Returns the objects by condition, the time since the oldest transition, and the duration of the longest termination.
fn of_kind<K: Indexed>(source: ConditionSource<'_>, now: Timestamp) -> Vec<Sample> {
    let Some(kind) = K::SPEAKER else { return Vec::new() };
    let conditions = metrics_of(kind);
    let names = source.detail.condition_labels(conditions);
    let mut found: BTreeMap<LabelPairs, (f64, f64)> = BTreeMap::new();
    // Without labels there is always a value.
    let mut slowest: BTreeMap<LabelPairs, f64> =
        names.ending.is_empty().then(|| (LabelPairs::new(), 0.0)).into_iter().collect();
    for object in K::table(source.index).values() {
        let (views, own) = (object.condition_views(), source.owner(kind, OwnerLabels::from_meta(object.meta())));
        let owner = Owner { name: object.meta().name.as_deref().unwrap_or_default(), labels: &own };
        for ConditionView { type_, status, reason, since: moment } in &views {
            let key = owner.labelled(names.gauge, source.status(kind, Status { type_, status, reason }));
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
pub(super) fn count(source: ConditionSource<'_>, turned: &[Transition], ended: &[ObjectEnd], metrics: &Metrics) {
    for Transition { speaker, owner, type_, status, reason, before } in turned {
        let conditions = metrics_of(*speaker);
        let own = source.owner(*speaker, owner.clone());
        let (names, owner) = (source.detail.condition_labels(conditions), Owner { name: "", labels: &own });
        let condition = source.status(*speaker, Status { type_, status, reason });
        let labels = owner.labelled(names.transitions, condition);
        metrics.add_to_series(&Series { name: conditions.transitions.description().name, labels }, 1.0);
        if let Some((status, seconds)) = before {
            let former = source.status(*speaker, Status { type_, status, reason: "" });
            let labels = owner.labelled(names.held, former);
            metrics.observe_series(&Series { name: conditions.held.description().name, labels }, *seconds);
        }
    }
    for ObjectEnd { speaker, owner, took } in ended {
        let conditions = metrics_of(*speaker);
        let own = source.owner(*speaker, owner.clone());
        let owner = Owner { name: "", labels: &own };
        let labels = owner.labelled(source.detail.condition_labels(conditions).ended, Status::default());
        metrics.observe_series(&Series { name: conditions.ended.description().name, labels }, *took);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{BoundedNames, ConditionSource, Index, Metrics, MetricsDetail, count, samples};
    use crate::fixture::{at, node};
    use crate::metrics::table;

    /// One node writes 10,000 conditions with a type and a reason each, and calls itself a part of another NodePool.
    #[test]
    fn samples_are_bounded_when_a_node_invents_conditions() {
        let (mut index, names, metrics) = (Index::default(), BoundedNames::default(), Metrics::new(&table()));
        for version in 0..100 {
            let invented: Vec<_> = (0..100)
                .map(|number| {
                    let name = format!("Invented{}", 100 * version + number);
                    json!({"type": name, "status": name, "reason": name, "lastTransitionTime": "2026-03-01T12:00:00Z"})
                })
                .collect();
            let pool = format!("invented-{version}");
            let liar = node(&json!({
                "metadata": {"name": "n", "uid": "u", "resourceVersion": version.to_string(),
                             "labels": {"karpenter.sh/nodepool": pool}},
                "status": {"conditions": invented},
            }));
            let _ = index.apply(api::objects::Node::clone(&liar), at(version), true);
            let source = ConditionSource { index: &index, names: &names, detail: MetricsDetail::Aggregated };
            let gauges = samples(source, at(version)).len();
            assert!(gauges < 300, "{gauges} gauges");
            let (turned, ended) = index.turns.take();
            count(source, &turned, &ended, &metrics);
        }
        let series = metrics.render().lines().filter(|line| line.contains("operator_node_")).count();
        assert!(series < 5_000, "{series} series");
    }
}

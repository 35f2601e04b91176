//! Objects with a missing counterpart: budgets that select no pod, and nodes with a NodePool label but without a NodeClaim.
//! Also Nodes with an invalid `do-not-disrupt` annotation.

use std::collections::BTreeMap;

use api::objects::{LabelSelector, PodTemplateSpec};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::nodes::NodeSource;
use crate::records::Records;
use crate::{Input, Problem, annotation_errors};

/// Minimum age of an object before its counterpart counts as missing.
const FRESH: SignedDuration = SignedDuration::from_mins(10);

/// Returns the budgets that match neither a pod nor a workload's template, by name.
pub(crate) fn budgets(input: &Input<'_>, records: &Records) -> Vec<Problem> {
    let idle = records.idle_budgets().filter(|budget| has_settled(&budget.metadata, input.now));
    let told = idle.filter_map(|budget| {
        let namespace = budget.metadata.namespace.as_deref().unwrap_or_default();
        let selector = budget.spec.selector.as_ref();
        let meant = selector.is_some_and(|selector| is_meant(input, namespace, selector));
        (!meant).then(|| Problem::SelectsNothing { budget: budget.full_name(), asks: selector.is_some() })
    });
    told.collect()
}

/// Reports whether the template of a known workload matches, even if the workload has no pods now.
fn is_meant(input: &Input<'_>, namespace: &str, selector: &LabelSelector) -> bool {
    let none = BTreeMap::new();
    let makes = |metadata: &ObjectMeta, template: &PodTemplateSpec| {
        let labels = template.metadata.labels.as_ref().unwrap_or(&none);
        metadata.namespace.as_deref() == Some(namespace) && selector.matches(labels)
    };
    input.deployments.iter().any(|it| makes(&it.metadata, &it.spec.template))
        || input.replica_sets.iter().any(|it| makes(&it.metadata, &it.spec.template))
        || input.stateful_sets.iter().any(|it| makes(&it.metadata, &it.spec.template))
        || input.daemon_sets.iter().any(|it| makes(&it.metadata, &it.spec.template))
}

/// Returns the nodes with a NodePool's label but without a NodeClaim, once per NodePool, and the nodes with an invalid
/// `do-not-disrupt` annotation.
pub(crate) fn nodes(input: &Input<'_>, machines: &[NodeSource<'_>]) -> Vec<Problem> {
    let misread = machines.iter().filter_map(|machine| {
        let (node, text) = (machine.node?, machine.node?.misread_do_not_disrupt()?.to_owned());
        Some(Problem::NodeDoNotDisrupt { node: node.name().to_owned(), others: 0, text })
    });
    let alone = machines.iter().filter(|machine| machine.claim.is_none());
    let told = alone.filter_map(|machine| {
        let (node, pool) = (machine.node?, machine.pool()?);
        let stays = node.metadata.deletion_timestamp.is_none() && has_settled(&node.metadata, input.now);
        stays.then(|| Problem::Unclaimed { node: node.name().to_owned(), others: 0, pool: pool.clone() })
    });
    annotation_errors::once(told.chain(misread).map(|problem| ((), problem)))
}

/// Reports whether an object exists for a while; an object without a creation time does.
fn has_settled(metadata: &ObjectMeta, now: Timestamp) -> bool {
    metadata.creation_timestamp.as_ref().is_none_or(|at| now.duration_since(at.0) >= FRESH)
}

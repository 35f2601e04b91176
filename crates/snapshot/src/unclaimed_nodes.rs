//! Objects whose counterpart is missing: budgets that select no pod, nodes that say whose pool they are and have no claim; and Nodes whose
//! request for peace cannot be read.

use std::collections::BTreeMap;

use api::objects::{LabelSelector, PodTemplateSpec};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::nodes::NodeSource;
use crate::records::Records;
use crate::{Input, Problem, annotation_errors};

/// What belongs to a younger object may still be on its way.
const FRESH: SignedDuration = SignedDuration::from_mins(10);

/// Budgets that protect nothing, by name: neither a pod nor a workload that might make one is as they ask.
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

/// Whether a workload that is known makes such pods, none at present perhaps.
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

/// Nodes with a pool's label and no claim, once a pool, and those that ask to be left in peace in words that protect nothing.
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

/// Whether an object has been there for a while; one that does not say since when has.
fn has_settled(metadata: &ObjectMeta, now: Timestamp) -> bool {
    metadata.creation_timestamp.as_ref().is_none_or(|at| now.duration_since(at.0) >= FRESH)
}

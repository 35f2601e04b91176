//! PodDisruptionBudgets that select no pod.

use std::collections::BTreeMap;

use api::objects::{LabelSelector, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::records::Records;
use crate::{Input, Problem};

/// Returns the budgets that match neither a pod nor a workload's template, by name.
pub(crate) fn problems(input: &Input<'_>, records: &Records) -> Vec<Problem> {
    let idle = records.idle_budgets().filter(|budget| input.is_settled(&budget.metadata));
    let problems = idle.filter_map(|budget| {
        let namespace = budget.metadata.namespace.as_deref().unwrap_or_default();
        let selector = budget.spec.selector.as_ref();
        let is_expected = selector.is_some_and(|selector| selects_a_template(input, namespace, selector));
        (!is_expected).then(|| Problem::SelectsNothing { budget: budget.full_name(), has_selector: selector.is_some() })
    });
    problems.collect()
}

/// Reports whether the template of a known workload matches, even if the workload has no pods now.
fn selects_a_template(input: &Input<'_>, namespace: &str, selector: &LabelSelector) -> bool {
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

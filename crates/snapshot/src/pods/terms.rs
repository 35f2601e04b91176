//! Constraints between pods: selectors, affinity terms and spread constraints.

use std::collections::BTreeMap;

use api::label;
use api::objects::{
    LabelSelector, LabelSelectorOperator, PodAffinity, PodAffinityTerm, PodSpec, TopologySpreadConstraint,
};
use planner::{Operator, PodPreference, PodShape, PodTerm, Requirement, Selector, Spread};

/// Labels of a pod.
pub(crate) type Labels = BTreeMap<String, String>;

/// Sets the pod's constraints on other pods. `labels` are its own labels, which `matchLabelKeys` refers to.
pub(crate) fn fill(shape: &mut PodShape, labels: &Labels, spec: &PodSpec) {
    shape.spread = spec.topology_spread_constraints.iter().map(|it| spread(labels, it)).collect();
    let affinity = spec.affinity.as_ref();
    if let Some(near) = affinity.and_then(|affinity| affinity.pod_affinity.as_ref()) {
        (shape.near, shape.prefers_near) = both(labels, near);
    }
    if let Some(apart) = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref()) {
        (shape.apart, shape.prefers_apart) = both(labels, apart);
    }
}

fn both(labels: &Labels, affinity: &PodAffinity) -> (Vec<PodTerm>, Vec<PodPreference>) {
    let required = affinity.required.iter().map(|it| term(labels, it)).collect();
    let preferred = affinity
        .preferred
        .iter()
        .map(|it| PodPreference { weight: it.weight, term: term(labels, &it.pod_affinity_term) })
        .collect();
    (required, preferred)
}

fn term(labels: &Labels, it: &PodAffinityTerm) -> PodTerm {
    let mut namespaces = it.namespaces.clone();
    namespaces.sort();
    namespaces.dedup();
    let merged = it.label_selector.as_ref().map(|own| {
        let shared = of_own(labels, &it.match_label_keys, Operator::In);
        let others = of_own(labels, &it.mismatch_label_keys, Operator::NotIn);
        selector(own, shared.chain(others))
    });
    PodTerm {
        key: label::canonical(&it.topology_key).to_owned(),
        selector: merged,
        namespaces,
        namespace_selector: it.namespace_selector.as_ref().map(|own| selector(own, std::iter::empty())),
    }
}

fn spread(labels: &Labels, it: &TopologySpreadConstraint) -> Spread {
    let positive = |number: i32| u32::try_from(number).unwrap_or(0).max(1);
    let shared = of_own(labels, &it.match_label_keys, Operator::In);
    Spread {
        key: label::canonical(&it.topology_key).to_owned(),
        max_skew: positive(it.max_skew),
        min_domains: it.min_domains.map(positive),
        // As in kube-scheduler, a constraint without a selector matches no pod, regardless of its `matchLabelKeys`.
        selector: it.label_selector.as_ref().map(|own| selector(own, shared)),
        hard: it.when_unsatisfiable != "ScheduleAnyway",
        honor_affinity: it.node_affinity_policy.as_deref() != Some("Ignore"),
        honor_taints: it.node_taints_policy.as_deref() == Some("Honor"),
    }
}

/// Returns a requirement for the pod's own value of each key. Keys that the pod lacks are omitted.
fn of_own<'a>(labels: &'a Labels, keys: &'a [String], operator: Operator) -> impl Iterator<Item = Requirement> + 'a {
    keys.iter().filter_map(move |key| Some(Requirement::new(key, operator, [labels.get(key)?])))
}

/// Returns a selector with further requirements in canonical order, so that equal selectors compare as equal.
fn selector(own: &LabelSelector, more: impl Iterator<Item = Requirement>) -> Selector {
    let exact = own.match_labels.iter().map(|(key, value)| Requirement::new(key, Operator::In, [value]));
    let others = own.match_expressions.iter().map(|it| Requirement::new(&it.key, operator(it.operator), &it.values));
    let mut all: Vec<Requirement> = exact.chain(others).chain(more).collect();
    all.sort();
    all.dedup();
    Selector(all)
}

fn operator(operator: LabelSelectorOperator) -> Operator {
    match operator {
        LabelSelectorOperator::In => Operator::In,
        LabelSelectorOperator::NotIn => Operator::NotIn,
        LabelSelectorOperator::Exists => Operator::Exists,
        LabelSelectorOperator::DoesNotExist => Operator::DoesNotExist,
    }
}

/// Returns the pod labels that this shape's selectors use.
pub(crate) fn keys(shape: &PodShape) -> impl Iterator<Item = &str> {
    let preferred = shape.prefers_near.iter().chain(&shape.prefers_apart).map(|it| &it.term);
    let terms = shape.near.iter().chain(&shape.apart).chain(preferred);
    let of_terms = terms.filter_map(|it| it.selector.as_ref());
    let all = of_terms.chain(shape.spread.iter().filter_map(|it| it.selector.as_ref()));
    all.flat_map(|selector| &selector.0).map(|it| it.key.as_str())
}

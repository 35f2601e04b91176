//! What the scheduler looks at in a pod, as the planner's shapes, each kept once.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::label;
use api::objects::{NodeSelectorTerm, PodSpec, Toleration, pod_requests};
use planner::{Effect, Operator, PodShape, Requirement, Resources, TolerationOperator};

use crate::ignored::{Constraint, IgnoredReason};

/// Distinct shapes in the order in which they were met.
#[derive(Default)]
pub(crate) struct Shapes {
    list: Vec<Arc<PodShape>>,
    known: BTreeMap<Arc<PodShape>, usize>,
}

impl Shapes {
    /// The position of a shape.
    pub(crate) fn intern(&mut self, shape: PodShape) -> usize {
        if let Some(position) = self.known.get(&shape) {
            return *position;
        }
        let position = self.list.len();
        let shape = Arc::new(shape);
        self.known.insert(Arc::clone(&shape), position);
        self.list.push(shape);
        position
    }

    pub(crate) fn into_list(self) -> Vec<Arc<PodShape>> {
        self.list
    }
}

/// The shape of a pod that must be placed, or why it cannot be one.
pub(crate) fn of_pod(spec: &PodSpec) -> Result<PodShape, IgnoredReason> {
    if let Some(constraint) = unsupported(spec) {
        return Err(IgnoredReason::NotSupported { constraint });
    }
    let shape = translate(spec, &required_terms(spec)?)?;
    let all = || shape.affinity.iter().flatten().chain(&shape.selector);
    if all().any(|it| it.key == label::NODEPOOL && it.operator == Operator::DoesNotExist) {
        return Err(IgnoredReason::OptedOut);
    }
    match all().find(|it| it.key != label::HOSTNAME && label::is_restricted(&it.key)) {
        Some(restricted) => Err(IgnoredReason::RestrictedLabel { key: restricted.key.clone() }),
        None => Ok(shape),
    }
}

/// The shape of a DaemonSet's pod; demands on fields (the node's name) are the DaemonSet controller's own.
pub(crate) fn of_daemon(spec: &PodSpec) -> Result<PodShape, IgnoredReason> {
    let terms = terms(spec).map(|term| requirements(&term.match_expressions)).collect::<Result<_, _>>()?;
    translate(spec, &Terms(terms))
}

/// The constraint of the pod that this solver would silently break.
fn unsupported(spec: &PodSpec) -> Option<Constraint> {
    let affinity = spec.affinity.as_ref();
    let near = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
    let apart = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let containers = || spec.containers.iter().chain(&spec.init_containers);
    let claims = |volume: &api::objects::Volume| volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some();
    let rows = [
        (near.is_some_and(|near| !near.required.is_empty()), Constraint::PodAffinity),
        (apart.is_some_and(|apart| !apart.required.is_empty()), Constraint::PodAntiAffinity),
        (
            spec.topology_spread_constraints.iter().any(|spread| spread.when_unsatisfiable != "ScheduleAnyway"),
            Constraint::TopologySpread,
        ),
        (spec.volumes.iter().any(claims), Constraint::Volumes),
        (containers().any(|it| it.ports.iter().any(|port| port.host_port != 0)), Constraint::HostPorts),
    ];
    rows.into_iter().find(|(present, _)| *present).map(|(_, constraint)| constraint)
}

/// Alternatives of the required node affinity, translated.
struct Terms(Vec<Vec<Requirement>>);

fn terms(spec: &PodSpec) -> impl Iterator<Item = &NodeSelectorTerm> {
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    affinity.and_then(|affinity| affinity.required.as_ref()).into_iter().flat_map(|all| &all.node_selector_terms)
}

/// The alternatives of a pod. Empty ones select nothing, so they fall out; with none left no node will do.
fn required_terms(spec: &PodSpec) -> Result<Terms, IgnoredReason> {
    let mut list = Vec::new();
    for term in terms(spec) {
        if !term.match_fields.is_empty() {
            return Err(IgnoredReason::MatchFields);
        }
        if !term.match_expressions.is_empty() {
            list.push(requirements(&term.match_expressions)?);
        }
    }
    if list.is_empty() && terms(spec).next().is_some() {
        return Err(IgnoredReason::NoNode);
    }
    Ok(Terms(list))
}

fn translate(spec: &PodSpec, terms: &Terms) -> Result<PodShape, IgnoredReason> {
    let amounts = pod_requests(spec).map_err(|invalid| IgnoredReason::Quantity { text: invalid.text })?;
    let mut requests: Resources = amounts.into_iter().collect();
    requests.set(Resources::PODS, 1);
    let selector = spec.node_selector.iter();
    Ok(PodShape {
        requests,
        selector: selector.map(|(key, value)| Requirement::new(label::canonical(key), Operator::In, [value])).collect(),
        affinity: terms.0.clone(),
        tolerations: spec.tolerations.iter().filter_map(toleration).collect(),
        ..PodShape::default()
    })
}

/// Requirements with canonical keys, each checked for what its operator needs.
pub(crate) fn requirements(list: &[api::Requirement]) -> Result<Vec<Requirement>, IgnoredReason> {
    list.iter().map(requirement).collect()
}

fn requirement(it: &api::Requirement) -> Result<Requirement, IgnoredReason> {
    let key = || label::canonical(&it.key).to_owned();
    let operator = operator(it.operator);
    let one_integer = || matches!(it.values.as_slice(), [value] if value.parse::<i64>().is_ok());
    match operator {
        Operator::In | Operator::NotIn if it.values.is_empty() => Err(IgnoredReason::Values { key: key() }),
        Operator::Exists | Operator::DoesNotExist if !it.values.is_empty() => Err(IgnoredReason::Values { key: key() }),
        Operator::Gt | Operator::Gte | Operator::Lt | Operator::Lte if !one_integer() => {
            Err(IgnoredReason::Comparison { key: key() })
        }
        _ => Ok(lenient(it)),
    }
}

fn operator(operator: api::Operator) -> Operator {
    match operator {
        api::Operator::In => Operator::In,
        api::Operator::NotIn => Operator::NotIn,
        api::Operator::Exists => Operator::Exists,
        api::Operator::DoesNotExist => Operator::DoesNotExist,
        api::Operator::Gt => Operator::Gt,
        api::Operator::Lt => Operator::Lt,
        api::Operator::Gte => Operator::Gte,
        api::Operator::Lte => Operator::Lte,
    }
}

/// A toleration; one that can match no taint (an effect or operator that does not exist) is left out.
fn toleration(it: &Toleration) -> Option<planner::Toleration> {
    let operator = match it.operator.as_str() {
        "" | "Equal" => TolerationOperator::Equal,
        "Exists" => TolerationOperator::Exists,
        _ => return None,
    };
    if it.key.is_empty() && operator == TolerationOperator::Equal {
        return None;
    }
    let effect = if it.effect.is_empty() { None } else { Some(effect(&it.effect)?) };
    let key = (!it.key.is_empty()).then(|| it.key.clone());
    Some(planner::Toleration { key, operator, value: it.value.clone(), effect })
}

/// Taints that keep pods away; unknown effects keep nobody away.
pub(crate) fn taint(it: &api::Taint) -> Option<planner::Taint> {
    let effect = effect(&it.effect)?;
    Some(planner::Taint { key: it.key.clone(), value: it.value().to_owned(), effect })
}

fn effect(text: &str) -> Option<Effect> {
    match text {
        api::taint::NO_SCHEDULE => Some(Effect::NoSchedule),
        api::taint::PREFER_NO_SCHEDULE => Some(Effect::PreferNoSchedule),
        api::taint::NO_EXECUTE => Some(Effect::NoExecute),
        _ => None,
    }
}

/// A requirement of a pool or claim, with its canonical key and nothing checked.
pub(crate) fn lenient(it: &api::Requirement) -> Requirement {
    Requirement {
        key: label::canonical(&it.key).to_owned(),
        operator: operator(it.operator),
        values: it.values.clone(),
        min_values: it.min_values.and_then(|count| u32::try_from(count).ok()),
    }
}

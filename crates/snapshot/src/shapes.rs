//! Translation of the scheduling constraints of a pod into the planner's shape.

use api::label;
use api::objects::{NodeSelectorTerm, PodSpec, Toleration, pod_requests};
use planner::{Effect, HostPort, NodePreference, Operator, PodShape, Requirement, Resources, TolerationOperator};

use crate::ignored::IgnoredReason;
use crate::terms::{self, Labels};

/// The shape of a pod without its own labels and volumes, as far as it can be parsed. `refusal` is the reason why the pod
/// cannot be planned.
#[derive(Debug)]
pub(crate) struct ShapeKey {
    pub(crate) shape: PodShape,
    pub(crate) refusal: Option<IgnoredReason>,
}

/// Returns the shape of a pod.
pub(crate) fn of_pod(namespace: &str, labels: &Labels, spec: &PodSpec) -> ShapeKey {
    let (affinity, refusal) = affinity(spec);
    let mut form = translate(namespace, labels, spec, affinity, refusal);
    let all = || form.shape.affinity.iter().flatten().chain(&form.shape.selector);
    if all().any(|it| it.key == label::NODEPOOL && it.operator == Operator::DoesNotExist) {
        form.refusal = Some(IgnoredReason::OptedOut);
    } else if form.refusal.is_none() {
        let restricted = all().find(|it| it.key != label::HOSTNAME && label::is_restricted(&it.key));
        form.refusal = restricted.map(|it| IgnoredReason::RestrictedLabel { key: it.key.clone() });
    }
    form
}

/// Returns the shape of a DaemonSet's pod. Requirements on fields (the node's name) are set by the DaemonSet controller and
/// ignored.
pub(crate) fn of_daemon(namespace: &str, labels: &Labels, spec: &PodSpec) -> ShapeKey {
    let all: Vec<Vec<Requirement>> =
        required(spec).map(|term| term.match_expressions.iter().map(lenient).collect()).collect();
    // A term with only a node name holds on every node, and one term is enough.
    let everywhere = all.iter().any(Vec::is_empty);
    let refusal = required(spec).flat_map(|term| &term.match_expressions).find_map(misused);
    translate(namespace, labels, spec, if everywhere { Vec::new() } else { all }, refusal)
}

fn required(spec: &PodSpec) -> impl Iterator<Item = &NodeSelectorTerm> {
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    affinity.and_then(|affinity| affinity.required.as_ref()).into_iter().flat_map(|all| &all.node_selector_terms)
}

/// Returns the required node affinity terms with the first error. Empty terms select nothing and are dropped; if no other term
/// exists, no node is possible.
fn affinity(spec: &PodSpec) -> (Vec<Vec<Requirement>>, Option<IgnoredReason>) {
    let mut alternatives = Vec::new();
    let mut refusal = None;
    for term in required(spec) {
        let by_field = (!term.match_fields.is_empty()).then_some(IgnoredReason::MatchFields);
        refusal = refusal.or(by_field).or_else(|| term.match_expressions.iter().find_map(misused));
        if !term.match_expressions.is_empty() {
            alternatives.push(term.match_expressions.iter().map(lenient).collect());
        }
    }
    if alternatives.is_empty() && required(spec).next().is_some() {
        refusal = refusal.or(Some(IgnoredReason::NoNode));
    }
    (alternatives, refusal)
}

fn translate(
    namespace: &str,
    labels: &Labels,
    spec: &PodSpec,
    affinity: Vec<Vec<Requirement>>,
    refusal: Option<IgnoredReason>,
) -> ShapeKey {
    let (requests, unread) = match pod_requests(spec) {
        Ok(amounts) => (amounts, None),
        Err(invalid) => (Default::default(), Some(IgnoredReason::Quantity { text: invalid.text })),
    };
    let mut requests: Resources = requests.into_iter().collect();
    requests.set(Resources::PODS, 1);
    let selector = spec.node_selector.iter();
    let mut shape = PodShape {
        requests,
        selector: selector.map(|(key, value)| Requirement::new(label::canonical(key), Operator::In, [value])).collect(),
        affinity,
        tolerations: spec.tolerations.iter().filter_map(toleration).collect(),
        priority: spec.priority.unwrap_or_default(),
        namespace: namespace.to_owned(),
        preferred: preferred(spec),
        ports: spec.host_ports().iter().filter_map(port).collect(),
        ..PodShape::default()
    };
    terms::fill(&mut shape, labels, spec);
    let devices = || (!spec.resource_claims.is_empty()).then_some(IgnoredReason::DeviceClaim);
    ShapeKey { shape, refusal: refusal.or(unread).or_else(devices) }
}

/// Returns the preferred node affinity terms. Terms with fields or invalid values, and terms that all nodes satisfy, have no
/// effect and are omitted.
fn preferred(spec: &PodSpec) -> Vec<NodePreference> {
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let all = affinity.into_iter().flat_map(|affinity| &affinity.preferred);
    let counts = |term: &NodeSelectorTerm| {
        term.match_fields.is_empty()
            && !term.match_expressions.is_empty()
            && !term.match_expressions.iter().any(|it| misused(it).is_some())
    };
    all.filter(|it| counts(&it.preference))
        .map(|it| NodePreference {
            weight: it.weight,
            term: it.preference.match_expressions.iter().map(lenient).collect(),
        })
        .collect()
}

fn port(it: &api::objects::HostPort) -> Option<HostPort> {
    let port = u16::try_from(it.port).ok()?;
    Some(HostPort { ip: it.ip.clone(), port, protocol: it.protocol.clone() })
}

/// Returns the error of a requirement: each operator needs its kind of values.
pub(crate) fn misused(it: &api::Requirement) -> Option<IgnoredReason> {
    let key = || label::canonical(&it.key).to_owned();
    let one_integer = || matches!(it.values.as_slice(), [value] if value.parse::<i64>().is_ok());
    match operator(it.operator) {
        Operator::In | Operator::NotIn if it.values.is_empty() => Some(IgnoredReason::Values { key: key() }),
        Operator::Exists | Operator::DoesNotExist if !it.values.is_empty() => {
            Some(IgnoredReason::Values { key: key() })
        }
        Operator::Gt | Operator::Gte | Operator::Lt | Operator::Lte if !one_integer() => {
            Some(IgnoredReason::Comparison { key: key() })
        }
        _ => None,
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

/// Converts a toleration. A toleration with an unknown effect or operator matches no taint and is omitted.
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

/// Converts a taint. A taint with an unknown effect has no effect and is omitted.
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

/// Converts a requirement of a NodePool or NodeClaim to its canonical key, without validation.
pub(crate) fn lenient(it: &api::Requirement) -> Requirement {
    Requirement {
        key: label::canonical(&it.key).to_owned(),
        operator: operator(it.operator),
        values: it.values.clone(),
        min_values: it.min_values.and_then(|count| u32::try_from(count).ok()),
    }
}

//! Translation of the scheduling constraints of a pod into the planner's shape.

use api::label;
use api::objects::{NodeSelectorTerm, PodSpec, pod_requests};
use planner::{HostPort, NodePreference, Operator, PodShape, Requirement, Resources};

use super::ignored::IgnoredReason;
use super::terms::{self, Labels};
use crate::{requirements, taints};

/// The shape of a pod without its own labels and volumes, as far as it can be parsed. `refusal` is the reason why the pod
/// cannot be planned.
#[derive(Debug)]
pub(crate) struct ParsedShape {
    pub(crate) shape: PodShape,
    pub(crate) refusal: Option<IgnoredReason>,
}

/// Returns the shape of a pod.
pub(crate) fn pod_shape(namespace: &str, labels: &Labels, spec: &PodSpec) -> ParsedShape {
    let (affinity, refusal) = affinity(spec);
    let mut parsed = translate(namespace, labels, spec, affinity, refusal);
    let all = || parsed.shape.affinity.iter().flatten().chain(&parsed.shape.selector);
    if all().any(|it| it.key == label::NODEPOOL && it.operator == Operator::DoesNotExist) {
        parsed.refusal = Some(IgnoredReason::OptedOut);
    } else if parsed.refusal.is_none() {
        let restricted = all().find(|it| it.key != label::HOSTNAME && label::is_restricted(&it.key));
        parsed.refusal = restricted.map(|it| IgnoredReason::RestrictedLabel { key: it.key.clone() });
    }
    parsed
}

/// Returns the shape of a DaemonSet's pod. Requirements on fields (the node's name) are set by the DaemonSet controller and
/// ignored.
pub(crate) fn daemon_shape(namespace: &str, labels: &Labels, spec: &PodSpec) -> ParsedShape {
    let (affinity, refusal) = match daemon_affinity(spec) {
        Ok(affinity) => (affinity, None),
        Err(reason) => (Vec::new(), Some(reason)),
    };
    translate(namespace, labels, spec, affinity, refusal)
}

/// Returns the required node affinity of a DaemonSet's pod, without requirements on fields.
///
/// # Errors
/// Returns an error if a requirement is invalid.
pub(crate) fn daemon_affinity(spec: &PodSpec) -> Result<Vec<Vec<Requirement>>, IgnoredReason> {
    if let Some(reason) = required(spec).flat_map(|term| &term.match_expressions).find_map(requirements::error) {
        return Err(reason);
    }
    let all: Vec<Vec<Requirement>> =
        required(spec).map(|term| term.match_expressions.iter().map(requirements::convert).collect()).collect();
    // A term with only a node name holds on every node, and one term is enough.
    let everywhere = all.iter().any(Vec::is_empty);
    Ok(if everywhere { Vec::new() } else { all })
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
        refusal = refusal.or(by_field).or_else(|| term.match_expressions.iter().find_map(requirements::error));
        if !term.match_expressions.is_empty() {
            alternatives.push(term.match_expressions.iter().map(requirements::convert).collect());
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
) -> ParsedShape {
    let (requests, invalid) = match pod_requests(spec) {
        Ok(amounts) => (amounts, None),
        Err(error) => (Default::default(), Some(IgnoredReason::Quantity { text: error.text })),
    };
    let mut requests: Resources = requests.into_iter().collect();
    requests.set(Resources::PODS, 1);
    let selector = spec.node_selector.iter();
    let mut shape = PodShape {
        requests,
        selector: selector.map(|(key, value)| Requirement::new(label::canonical(key), Operator::In, [value])).collect(),
        affinity,
        tolerations: spec.tolerations.iter().filter_map(taints::toleration).collect(),
        priority: spec.priority.unwrap_or_default(),
        namespace: namespace.to_owned(),
        preferred: preferred(spec),
        ports: spec.host_ports().iter().filter_map(port).collect(),
        ..PodShape::default()
    };
    terms::fill(&mut shape, labels, spec);
    let devices = || (!spec.resource_claims.is_empty()).then_some(IgnoredReason::DeviceClaim);
    ParsedShape { shape, refusal: refusal.or(invalid).or_else(devices) }
}

/// Returns the preferred node affinity terms. Terms with fields or invalid values, and terms that all nodes satisfy, have no
/// effect and are omitted.
fn preferred(spec: &PodSpec) -> Vec<NodePreference> {
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let all = affinity.into_iter().flat_map(|affinity| &affinity.preferred);
    let counts = |term: &NodeSelectorTerm| {
        term.match_fields.is_empty()
            && !term.match_expressions.is_empty()
            && !term.match_expressions.iter().any(|it| requirements::error(it).is_some())
    };
    all.filter(|it| counts(&it.preference))
        .map(|it| NodePreference {
            weight: it.weight,
            term: it.preference.match_expressions.iter().map(requirements::convert).collect(),
        })
        .collect()
}

fn port(it: &api::objects::HostPort) -> Option<HostPort> {
    let port = u16::try_from(it.port).ok()?;
    Some(HostPort { ip: it.ip.clone(), port, protocol: it.protocol.clone() })
}

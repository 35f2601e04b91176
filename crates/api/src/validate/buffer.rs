//! Runtime validation of CapacityBuffers.

use super::Fault;
use crate::resources::capacitybuffer::{CapacityBufferSpec, SCALABLE_KINDS};

/// Returns all problems of a CapacityBuffer; empty if it is valid.
#[must_use]
pub fn capacity_buffer(spec: &CapacityBufferSpec) -> Vec<Fault> {
    let mut found = reference_faults(spec);
    for (name, number) in [("replicas", spec.replicas), ("percentage", spec.percentage)] {
        if number.is_some_and(|number| number < 0) {
            found.push(Fault::new(format!("spec.{name}"), format!("{name} is negative")));
        }
    }
    for (resource, quantity) in spec.limits.iter().flatten() {
        let problem = quantity.amount(resource).err().map(|error| format!("limit of {resource}: {error}"));
        found.extend(problem.map(|problem| Fault::new(format!("spec.limits[{resource}]"), problem)));
    }
    found
}

fn reference_faults(spec: &CapacityBufferSpec) -> Vec<Fault> {
    let mut found = Vec::new();
    let sized = spec.replicas.is_some() || spec.limits.is_some();
    let mut add = |path: &str, problem: &str| found.push(Fault::new(path, problem));
    match (&spec.pod_template_ref, &spec.scalable_ref) {
        (None, None) => add("spec", "neither podTemplateRef nor scalableRef says which pods are to come"),
        (Some(_), Some(_)) => add("spec", "podTemplateRef and scalableRef exclude each other"),
        (Some(_), None) if !sized => add("spec.podTemplateRef", "podTemplateRef needs replicas or limits"),
        (None, Some(_)) if !sized && spec.percentage.is_none() => {
            add("spec.scalableRef", "scalableRef needs percentage, replicas or limits");
        }
        _ => {}
    }
    for named in spec.scalable_ref.iter().filter(|named| !named.is_supported()) {
        let group = named.api_group.as_deref().unwrap_or_default();
        let problem = format!(
            "scalableRef names a {} of group {group:?}: write one of {} of group \"apps\"",
            named.kind,
            SCALABLE_KINDS.join(", ")
        );
        found.push(Fault::new("spec.scalableRef", problem));
    }
    found
}

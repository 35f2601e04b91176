//! What the API server cannot check of a buffer.

use crate::CapacityBufferSpec;
use crate::capacitybuffer::SCALABLE_KINDS;

/// Everything that is wrong with a buffer, one sentence each; empty when nothing is.
#[must_use]
pub fn capacity_buffer(spec: &CapacityBufferSpec) -> Vec<String> {
    let mut found = reference_faults(spec);
    for (name, number) in [("replicas", spec.replicas), ("percentage", spec.percentage)] {
        if number.is_some_and(|number| number < 0) {
            found.push(format!("{name} is negative"));
        }
    }
    for (resource, quantity) in spec.limits.iter().flatten() {
        found.extend(quantity.amount(resource).err().map(|error| format!("limit of {resource}: {error}")));
    }
    found
}

fn reference_faults(spec: &CapacityBufferSpec) -> Vec<String> {
    let mut found = Vec::new();
    let sized = spec.replicas.is_some() || spec.limits.is_some();
    match (&spec.pod_template_ref, &spec.scalable_ref) {
        (None, None) => found.push("neither podTemplateRef nor scalableRef says which pods are to come".to_owned()),
        (Some(_), Some(_)) => found.push("podTemplateRef and scalableRef exclude each other".to_owned()),
        (Some(_), None) if !sized => found.push("podTemplateRef needs replicas or limits".to_owned()),
        (None, Some(_)) if !sized && spec.percentage.is_none() => {
            found.push("scalableRef needs percentage, replicas or limits".to_owned());
        }
        _ => {}
    }
    for named in spec.scalable_ref.iter().filter(|named| !named.is_supported()) {
        let group = named.api_group.as_deref().unwrap_or_default();
        found.push(format!(
            "scalableRef names a {} of group {group:?}: write one of {} of group \"apps\"",
            named.kind,
            SCALABLE_KINDS.join(", ")
        ));
    }
    found
}

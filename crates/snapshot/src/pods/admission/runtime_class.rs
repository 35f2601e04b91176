//! RuntimeClasses: the overhead, node labels and tolerations that a runtime adds to its pods.

use std::collections::BTreeMap;

use api::objects::{PodSpec, ResourceList, RuntimeClass};

use super::error::AdmissionError;

/// Adds what the RuntimeClass of a pod defines.
pub(super) fn apply(class: &RuntimeClass, spec: &mut PodSpec) -> Result<(), AdmissionError> {
    match &class.overhead {
        None => check_without(spec)?,
        Some(overhead) if spec.overhead.is_empty() || is_same(&spec.overhead, &overhead.pod_fixed) => {
            spec.overhead.clone_from(&overhead.pod_fixed);
        }
        Some(_) => return Err(AdmissionError::Overhead { class: class.name().to_owned() }),
    }
    let Some(scheduling) = &class.scheduling else { return Ok(()) };
    for (key, required) in &scheduling.node_selector {
        let own = spec.node_selector.entry(key.clone()).or_insert_with(|| required.clone());
        if own != required {
            return Err(AdmissionError::NodeSelector {
                class: class.name().to_owned(),
                key: key.clone(),
                required: required.clone(),
                own: own.clone(),
            });
        }
    }
    for toleration in &scheduling.tolerations {
        if !spec.tolerations.contains(toleration) {
            spec.tolerations.push(toleration.clone());
        }
    }
    Ok(())
}

/// Checks a pod without a RuntimeClass that defines an overhead: the pod may have none.
pub(super) fn check_without(spec: &PodSpec) -> Result<(), AdmissionError> {
    if spec.overhead.is_empty() { Ok(()) } else { Err(AdmissionError::OverheadWithoutClass) }
}

/// Reports whether two lists have the same amounts, however they are written.
fn is_same(one: &ResourceList, other: &ResourceList) -> bool {
    let amounts = |list: &ResourceList| -> BTreeMap<String, Option<i64>> {
        list.iter().map(|(name, quantity)| (name.clone(), quantity.amount(name).ok())).collect()
    };
    amounts(one) == amounts(other)
}

//! Runtime validation of NodeOverlays.

use super::{Fault, NodePoolKey, annotation_fault, error_chain, numbered, requirement_faults};
use crate::names::annotation;
use crate::resources::nodeoverlay::NodeOverlay;
use crate::resources::requirement::{Operator, Requirement};
use crate::units::quantity::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};

/// Resources that only EC2 defines.
const GIVEN: [&str; 4] = [CPU, MEMORY, EPHEMERAL_STORAGE, PODS];

/// Returns all problems of a NodeOverlay; empty if it is valid.
#[must_use]
pub fn node_overlay(overlay: &NodeOverlay) -> Vec<Fault> {
    let mut found = Vec::new();
    for (path, requirement) in numbered("spec.requirements", overlay.spec.requirements.iter().map(Requirement::from)) {
        found.extend(requirement_faults(&path, &requirement, NodePoolKey::Allowed));
        if requirement.operator == Operator::NotIn && requirement.values.is_empty() {
            let problem = format!("requirement {:?} with NotIn has no values", requirement.key);
            found.push(Fault::new(format!("{path}.values"), problem));
        }
    }
    found.extend(price_faults(overlay));
    found.extend(capacity_faults(overlay));
    found.extend(overlay.performance().err().map(|error| annotation_fault(annotation::PERFORMANCE, &error)));
    found
}

fn price_faults(overlay: &NodeOverlay) -> Vec<Fault> {
    let mut found = Vec::new();
    if overlay.spec.price.is_some() && overlay.spec.price_adjustment.is_some() {
        found.push(Fault::new("spec", "price and priceAdjustment exclude each other"));
    }
    found.extend(overlay.price_change().err().map(|error| Fault::new("spec", error_chain(&error))));
    found
}

fn capacity_faults(overlay: &NodeOverlay) -> Vec<Fault> {
    let mut found = Vec::new();
    for (resource, quantity) in overlay.spec.capacity.iter().flatten() {
        let mut add = |problem| found.push(Fault::new(format!("spec.capacity[{resource}]"), problem));
        if GIVEN.contains(&resource.as_str()) {
            add(format!("capacity may not replace {resource}, which the machine's type states"));
        }
        match quantity.amount(resource) {
            Err(error) => add(format!("capacity of {resource}: {error}")),
            Ok(amount) if amount < 0 => add(format!("capacity of {resource} is negative")),
            Ok(_) => {}
        }
    }
    found
}

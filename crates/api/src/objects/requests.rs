//! What a pod needs of its node: the scheduler's own sum over containers, sidecars, overhead and the pod.

use std::collections::BTreeMap;

use super::ResourceList;
use super::pod::{Container, PodSpec, ResourceRequirements};
use crate::quantity::{CPU, InvalidQuantity, MEMORY};

/// Amounts by resource: millicores for CPU, whole units for the rest.
pub(super) type Amounts = BTreeMap<String, i64>;

/// What a pod needs of its node, by resource: millicores for CPU, whole units for the rest.
///
/// Containers and sidecars are added up. An init container runs beside the sidecars before it only, so it
/// raises the sum to its own peak where that is greater. What the pod as a whole asks for replaces the
/// containers' figure of that resource. Overhead comes on top. A limit stands for an absent request.
///
/// # Errors
/// When an amount is not a quantity; the error names its text.
pub fn pod_requests(spec: &PodSpec) -> Result<Amounts, InvalidQuantity> {
    let mut total = Amounts::new();
    for container in &spec.containers {
        add(&mut total, &container_requests(container)?);
    }
    let (sidecars, peak) = init_requests(&spec.init_containers)?;
    add(&mut total, &sidecars);
    raise(&mut total, &peak);
    if let Some(whole) = &spec.resources {
        replace(&mut total, whole)?;
    }
    add(&mut total, &amounts(&spec.overhead)?);
    Ok(total)
}

/// The sum of all sidecars, and the peak over the init containers.
fn init_requests(containers: &[Container]) -> Result<(Amounts, Amounts), InvalidQuantity> {
    let mut sidecars = Amounts::new();
    let mut peak = Amounts::new();
    for container in containers {
        let own = container_requests(container)?;
        if container.is_sidecar() {
            add(&mut sidecars, &own);
            raise(&mut peak, &sidecars);
        } else {
            let mut together = own;
            add(&mut together, &sidecars);
            raise(&mut peak, &together);
        }
    }
    Ok((sidecars, peak))
}

fn container_requests(container: &Container) -> Result<Amounts, InvalidQuantity> {
    requested(&container.resources)
}

/// Requests, with limits where a request is absent.
fn requested(resources: &ResourceRequirements) -> Result<Amounts, InvalidQuantity> {
    let mut total = amounts(&resources.limits)?;
    total.extend(amounts(&resources.requests)?);
    Ok(total)
}

/// Only CPU, memory and huge pages can be asked for by the pod as a whole.
fn replace(total: &mut Amounts, whole: &ResourceRequirements) -> Result<(), InvalidQuantity> {
    let of_pod = |name: &String| name == CPU || name == MEMORY || name.starts_with("hugepages-");
    let asked = amounts(&whole.requests)?;
    total.extend(asked.into_iter().filter(|(name, _)| of_pod(name)));
    for (name, amount) in amounts(&whole.limits)? {
        if of_pod(&name) && !total.contains_key(&name) {
            total.insert(name, amount);
        }
    }
    Ok(())
}

pub(super) fn amounts(list: &ResourceList) -> Result<Amounts, InvalidQuantity> {
    list.iter().map(|(name, quantity)| Ok((name.clone(), quantity.amount(name)?))).collect()
}

fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = total.entry(name.clone()).or_default();
        *sum = sum.saturating_add(*amount);
    }
}

fn raise(total: &mut Amounts, least: &Amounts) {
    for (name, amount) in least {
        let sum = total.entry(name.clone()).or_default();
        *sum = (*sum).max(*amount);
    }
}

#[cfg(test)]
mod tests;

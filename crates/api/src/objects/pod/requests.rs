//! Resource requests of pods: the scheduler's sum over containers, sidecars, overhead and the pod as a whole.

use std::collections::BTreeMap;

use super::PodSpec;
use super::container::{Container, ResourceRequirements};
use crate::objects::ResourceList;
use crate::units::quantity::{CPU, InvalidQuantity, MEMORY};

/// Amounts by resource: millicores for CPU, whole units for all others.
pub(super) type Amounts = BTreeMap<String, i64>;

/// Returns the resources that a pod requests from its node: millicores for CPU, whole units for all others.
///
/// Containers and sidecars are added up. An init container runs only beside the sidecars that precede it. Its peak raises the
/// sum if it is greater. A request of the pod as a whole replaces the containers' sum of that resource. Overhead is added last.
/// A limit is the default of an absent request.
///
/// # Errors
/// Returns an error with the text if an amount is not a quantity.
pub fn pod_requests(spec: &PodSpec) -> Result<Amounts, InvalidQuantity> {
    let mut total = resource_totals(spec, requested)?;
    if let Some(whole) = &spec.resources {
        replace(&mut total, whole)?;
    }
    add(&mut total, &amounts(&spec.overhead)?);
    Ok(total)
}

/// Returns the sum of amounts over the containers and sidecars of a pod, or the peak of its init containers where that is
/// greater. `amounts_of` returns the amounts of one container: millicores for CPU, whole units for all others.
///
/// # Errors
/// Returns the first error of `amounts_of`.
pub fn resource_totals<E>(
    spec: &PodSpec,
    amounts_of: impl Fn(&ResourceRequirements) -> Result<Amounts, E>,
) -> Result<Amounts, E> {
    let mut total = Amounts::new();
    for container in &spec.containers {
        add(&mut total, &amounts_of(&container.resources)?);
    }
    let (sidecars, peak) = init_totals(&spec.init_containers, amounts_of)?;
    add(&mut total, &sidecars);
    raise(&mut total, &peak);
    Ok(total)
}

/// Returns the sum of all sidecars, and the peak over the init containers.
fn init_totals<E>(
    containers: &[Container],
    amounts_of: impl Fn(&ResourceRequirements) -> Result<Amounts, E>,
) -> Result<(Amounts, Amounts), E> {
    let mut sidecars = Amounts::new();
    let mut peak = Amounts::new();
    for container in containers {
        let own = amounts_of(&container.resources)?;
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

/// Returns the requests, with limits as defaults.
fn requested(resources: &ResourceRequirements) -> Result<Amounts, InvalidQuantity> {
    let mut total = amounts(&resources.limits)?;
    total.extend(amounts(&resources.requests)?);
    Ok(total)
}

/// Replaces the sums by the requests of the pod as a whole, which Kubernetes supports only for CPU, memory and huge pages.
fn replace(total: &mut Amounts, whole: &ResourceRequirements) -> Result<(), InvalidQuantity> {
    let of_pod = |name: &String| name == CPU || name == MEMORY || name.starts_with("hugepages-");
    let requests = amounts(&whole.requests)?;
    total.extend(requests.into_iter().filter(|(name, _)| of_pod(name)));
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

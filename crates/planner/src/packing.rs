//! Requests that a pod needs, from the measured usage of the pod and its node.
//!
//! CPU and memory are independent. A pod needs the 95th percentile of its usage, and a margin. Where the node's total usage is
//! known, each pod's share of it is enough, because pods do not peak together. The share is never less than the pod's median
//! usage. A request never falls below the floor. After a restoration under pressure, the floor rises half of the way to the
//! request, and after the second one to the whole request.

use crate::{ContainerSize, Millis, NotResizedReason, Packing, Size, Sizing, Usage};

/// Time without lower requests on a node after one of its pods regained its requests, in milliseconds.
pub(crate) const REST: i64 = 24 * 3_600_000;
/// Minimum change of a request, in thousandths.
const WORTH_CHANGING: i64 = 100;
/// Tolerated excess over a lowered request before it is raised, in thousandths: reports have a resolution of a twentieth.
const WITHIN_MARGIN: i64 = 50;
/// Step of memory requests: whole MiB.
const MEMORY_STEP: i64 = 1 << 20;

/// Returns the requests that each container of a pod needs, never more than before they were lowered.
///
/// # Errors
/// Returns the reason why the need is unknown or must not be used.
pub fn fitting(sizing: &Sizing, usage: &Usage, rules: Packing) -> Result<Vec<Size>, NotResizedReason> {
    if let Some(fixed) = sizing.fixed {
        return Err(NotResizedReason::Fixed(fixed));
    }
    let used = sizing.used.ok_or(NotResizedReason::Unseen)?;
    if used.hours < rules.history {
        return Err(NotResizedReason::Young { hours: used.hours, asked: rules.history });
    }
    let part = |own: i64, (node, pods): (i64, i64)| {
        let joint = node > 0 && node < pods;
        if joint { scaled(own, node, pods) } else { own }
    };
    let own = Size {
        cpu: part(used.p95.cpu, (usage.cpu, usage.of_pods.cpu)).max(used.median_cpu),
        memory: part(used.p95.memory, (usage.memory, usage.of_pods.memory)),
    };
    let times = |size: Size, thousandths: i64| size.with(size, |own, _| scaled(own, thousandths, 1000));
    let floor = floor(sizing, rules);
    let requested = sizing.requested();
    let needed = times(own, 1000 + i64::from(rules.margin)).max(times(requested, floor)).min(requested);
    Ok(sizing.containers.iter().map(|container| share(container, needed, requested)).collect())
}

/// Returns the lower requests of a pod, in place; `None` where the change is too small.
///
/// # Errors
/// Returns the reason why the requests do not change, other than the pod's need.
pub(crate) fn lowered(sizing: &Sizing, usage: &Usage, rules: Packing) -> Result<Option<Vec<Size>>, NotResizedReason> {
    let fitting = fitting(sizing, usage, rules)?;
    let requests = sizing.requests();
    let together = fitting.iter().fold(Size::default(), |sum, one| sum.plus(*one));
    // A container below its share already leaves too little in total: its requests would have to be raised again.
    let lower = sizing.containers.iter().zip(&fitting).map(|(own, fitting)| own.requests.min(*fitting));
    let left = lower.fold(Size::default(), Size::plus);
    let cpu = is_worth_it(requests.cpu, together.cpu) && left.cpu >= together.cpu;
    let memory = is_worth_it(requests.memory, together.memory) && left.memory >= together.memory;
    let to = sizing.containers.iter().zip(fitting).map(|(container, fitting)| {
        let lower = container.requests.min(fitting);
        Size {
            cpu: if cpu { lower.cpu } else { container.requests.cpu },
            memory: if memory { lower.memory } else { container.requests.memory },
        }
    });
    let to: Vec<Size> = to.collect();
    let changes = to.iter().zip(&sizing.containers).any(|(to, container)| *to != container.requests);
    Ok(changes.then_some(to))
}

fn is_worth_it(from: i64, to: i64) -> bool {
    from > to && (from - to).saturating_mul(1000) >= from.saturating_mul(WORTH_CHANGING)
}

/// Returns the higher requests of a lowered pod after its usage grew; `None` where the growth is within the tolerance.
pub(crate) fn grown(sizing: &Sizing, usage: &Usage, rules: Packing) -> Option<Vec<Size>> {
    let fitting = fitting(sizing, usage, rules).ok()?;
    let requests = sizing.requests();
    let together = fitting.iter().fold(Size::default(), |sum, one| sum.plus(*one));
    let to = sizing.containers.iter().zip(fitting).map(|(container, fitting)| {
        let higher = container.requests.max(fitting);
        Size {
            cpu: if has_grown(requests.cpu, together.cpu) { higher.cpu } else { container.requests.cpu },
            memory: if has_grown(requests.memory, together.memory) { higher.memory } else { container.requests.memory },
        }
    });
    let to: Vec<Size> = to.collect();
    sizing.containers.iter().zip(&to).any(|(container, to)| *to != container.requests).then_some(to)
}

fn has_grown(from: i64, to: i64) -> bool {
    to > from && (to - from).saturating_mul(1000) >= from.saturating_mul(WITHIN_MARGIN)
}

/// Returns the time until which no requests are lowered on a node because of a pod that regained its requests.
pub(crate) fn rests_until(sizing: &Sizing) -> Option<Millis> {
    sizing.given_back.map(|back| Millis(back.last.0.saturating_add(REST)))
}

/// Returns the minimum rest of a request, in thousandths.
fn floor(sizing: &Sizing, rules: Packing) -> i64 {
    let floor = i64::from(rules.floor.min(1000));
    let times = sizing.given_back.map_or(0, |back| i64::from(back.times.min(2)));
    floor + (1000 - floor) * times / 2
}

/// Returns a container's share of the pod's need, in proportion to its share of the pod's requests.
fn share(container: &ContainerSize, needed: Size, requested: Size) -> Size {
    let of = |own: i64, needed: i64, requested: i64| if requested > 0 { scaled(own, needed, requested) } else { own };
    let cpu = of(container.requested.cpu, needed.cpu, requested.cpu);
    let memory = of(container.requested.memory, needed.memory, requested.memory);
    let memory = memory.saturating_add(MEMORY_STEP - 1) / MEMORY_STEP * MEMORY_STEP;
    let to = Size { cpu, memory }.min(container.requested);
    Size {
        cpu: if container.restarts_for_cpu { container.requests.cpu } else { to.cpu },
        memory: if container.restarts_for_memory { container.requests.memory } else { to.memory },
    }
}

/// Returns `amount * by / of`, rounded up.
fn scaled(amount: i64, by: i64, of: i64) -> i64 {
    let of = i128::from(of.max(1));
    let product = i128::from(amount) * i128::from(by);
    i64::try_from((product + of - 1).div_euclid(of)).unwrap_or(i64::MAX)
}

//! Requests of running pods by container, and their utilization as reported by the node's agent.

use api::annotation;
use api::objects::{Container, InvalidRequested, Pod, PodSpec, Requested, pod_requests};
use api::quantity::{CPU, MEMORY};
use api::usage::{PodUsage, Shortage, UNKNOWN, Usage};
use jiff::{SignedDuration, Timestamp};
use planner::{ContainerSize, NotResizable, PodUtilization, Pressure, Resources, RestoredRequests, Size, Sizing};

use crate::millis;

/// Pressure limit of a pod: percentage of time in which it stalls on memory or disk, in the worst five minutes of an hour. The
/// limit is the same as for a node with a slow disk.
const PRESSED: u8 = 25;

/// Time after which constant usage appears in the 95th percentile. The history halves its weights daily, so two hours are a
/// twentieth of its total weight.
const SHOWS_AFTER: SignedDuration = SignedDuration::from_hours(2);

/// Converts the utilization of a node for the planner.
#[must_use]
pub fn node_usage(usage: &Usage) -> planner::Usage {
    let of_pods = usage.pods().iter().map(p95).fold(Size::default(), Size::plus);
    let pressed = usage.shortage().map(pressure);
    planner::Usage { cpu: usage.cpu.p95, memory: usage.memory.p95, pressed, of_pods, newcomers: Size::default() }
}

/// Returns the 95th percentile of the pod's usage, if the node's agent has measured the pod.
pub(super) fn used_by(pod: &Pod, usage: &Usage) -> Option<Size> {
    usage.pod(pod.metadata.uid.as_deref()?).map(p95)
}

/// Returns the usage of pods that are too new to appear in the node's figures.
///
/// A pod that the agent has not measured yet counts with its requests. On a node that is equally new, all measured usage
/// appears. Static pods have existed from the beginning, under other UIDs.
pub(super) fn newcomers<'p>(usage: &Usage, pods: impl Iterator<Item = (&'p Pod, &'p Resources)>) -> Size {
    let is_young = usage.measured_at.duration_since(usage.since) < SHOWS_AFTER;
    let more = |(pod, taken): (&Pod, &Resources)| match pod.metadata.uid.as_deref().and_then(|uid| usage.pod(uid)) {
        _ if pod.is_static() || pod.is_terminating() => Size::default(),
        None => Size::from_resources(taken),
        Some(seen) if !is_young && SignedDuration::from_hours(seen.hours.into()) < SHOWS_AFTER => p95(seen),
        Some(_) => Size::default(),
    };
    pods.map(more).fold(Size::default(), Size::plus)
}

fn pressure(shortage: Shortage) -> Pressure {
    match shortage {
        Shortage::Cpu => Pressure::Cpu,
        Shortage::Memory => Pressure::Memory,
        Shortage::Disk => Pressure::Disk,
        Shortage::Killed => Pressure::Killed,
    }
}

/// Returns the requests and the usage of a pod. `requested` has its requests before Kerf lowered them, and `usage` is its
/// node's, if valid.
#[must_use]
pub fn sizing(pod: &Pod, requested: Result<Option<Requested>, InvalidRequested>, usage: Option<&Usage>) -> Sizing {
    let before = requested.as_ref().ok().and_then(Option::as_ref);
    let containers: Option<Vec<ContainerSize>> =
        pod.spec.containers.iter().map(|container| size(container, before)).collect();
    let least = least(&pod.spec);
    let fixed = match (requested.is_err(), &containers, least) {
        (false, Some(containers), Some(_)) => fixed(pod, containers),
        _ => Some(NotResizable::Unread),
    };
    let seen = usage.zip(pod.metadata.uid.as_deref()).and_then(|(usage, uid)| usage.pod(uid));
    Sizing {
        containers: containers.unwrap_or_default(),
        least: least.unwrap_or_default(),
        fixed,
        used: seen.map(used),
        given_back: restored(pod),
    }
}

fn p95(pod: &PodUsage) -> Size {
    let whole = |amount: u64| i64::try_from(amount).unwrap_or(i64::MAX);
    Size { cpu: whole(pod.cpu_p95.millicores()), memory: whole(pod.memory_p95.bytes()) }
}

fn used(pod: &PodUsage) -> PodUtilization {
    let is_pressed = pod.pressure != UNKNOWN && pod.pressure >= PRESSED;
    PodUtilization {
        median_cpu: i64::try_from(pod.cpu_p50.millicores()).unwrap_or(i64::MAX),
        p95: p95(pod),
        hours: pod.hours.into(),
        pressed: is_pressed || pod.oom_kills > 0,
    }
}

/// Returns a container's current and original requests; `None` if they cannot be parsed.
fn size(container: &Container, before: Option<&Requested>) -> Option<ContainerSize> {
    let requests = &container.resources.requests;
    let amount = |name: &str| requests.get(name).map_or(Some(0), |amount| amount.amount(name).ok());
    let requests = Size { cpu: amount(CPU)?, memory: amount(MEMORY)? };
    let known = |name: &str, now: i64| before.and_then(|all| all.amount(&container.name, name)).unwrap_or(0).max(now);
    Some(ContainerSize {
        name: container.name.clone(),
        requested: Size { cpu: known(CPU, requests.cpu), memory: known(MEMORY, requests.memory) },
        requests,
        restarts_for_cpu: container.resize_policy.cpu,
        restarts_for_memory: container.resize_policy.memory,
    })
}

/// Returns the minimum that all containers count besides the sidecars, because of the init containers before them.
fn least(spec: &PodSpec) -> Option<Size> {
    if spec.init_containers.is_empty() {
        return Some(Size::default());
    }
    let size = |spec: &PodSpec| {
        pod_requests(spec).ok().map(|all| Size::from_resources(&all.into_iter().collect::<Resources>()))
    };
    let before = PodSpec { init_containers: spec.init_containers.clone(), ..PodSpec::default() };
    let sidecars = spec.init_containers.iter().filter(|container| container.is_sidecar()).cloned();
    let beside = PodSpec { containers: sidecars.collect(), ..PodSpec::default() };
    Some(size(&before)?.minus(size(&beside)?))
}

fn fixed(pod: &Pod, containers: &[ContainerSize]) -> Option<NotResizable> {
    let sum = containers.iter().fold(Size::default(), |sum, it| sum.plus(it.requested));
    let restarts = |it: &ContainerSize| {
        (it.restarts_for_cpu || it.requests.cpu == 0) && (it.restarts_for_memory || it.requests.memory == 0)
    };
    let rows = [
        (pod.is_static(), NotResizable::Static),
        (pod.is_daemon(), NotResizable::Daemon),
        (pod.annotation(annotation::RESIZE) == Some(annotation::RESIZE_NEVER), NotResizable::Never),
        (pod.is_guaranteed(), NotResizable::Guaranteed),
        (pod.spec.resources.is_some(), NotResizable::AsAWhole),
        (!sum.is_any(), NotResizable::RequestsNothing),
        (containers.iter().all(restarts), NotResizable::Restarts),
        (pod.is_infeasible(), NotResizable::Infeasible),
    ];
    rows.into_iter().find(|(holds, _)| *holds).map(|(_, why)| why)
}

/// Returns when the pod's requests were restored; ignores times that cannot be parsed.
fn restored(pod: &Pod) -> Option<RestoredRequests> {
    let moments = pod.annotation(annotation::GIVEN_BACK)?.split(',');
    let moments: Vec<Timestamp> = moments.filter_map(|text| text.trim().parse().ok()).collect();
    let last = moments.iter().max()?;
    Some(RestoredRequests { last: millis(*last), times: u32::try_from(moments.len()).unwrap_or(u32::MAX) })
}

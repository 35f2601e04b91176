//! Measured utilization of a node, from its agent's report. The node may be idle, or too busy for moved pods and for its own
//! disruption; otherwise it may receive further usage.

use crate::{BoundPod, Node, Overload, Pressure, Resources, Size};

/// Minimum CPU or memory usage of a busy node, in percent.
pub(crate) const BUSY: i64 = 80;
/// CPU usage below which a node is idle, in percent.
const IDLE: i64 = 10;

/// Returns the overload of a node by its report, if it is busy.
pub(crate) fn overload(node: &Node) -> Option<Overload> {
    let usage = node.usage?;
    let used = Size { cpu: usage.cpu, memory: usage.memory };
    usage.pressed.map(Overload::Short).or_else(|| exceeded(used, Size::from_resources(&node.allocatable)))
}

/// Returns the usage of a pod after its move: the measured one, else its requests.
pub(crate) fn usage_of(pod: &BoundPod) -> Size {
    pod.used.unwrap_or_else(|| Size::from_resources(&pod.shape.requests))
}

/// Usage of a node, including the pods that the plan adds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UtilizationLimit {
    used: Size,
    whole: Size,
    pressed: Option<Pressure>,
}

impl UtilizationLimit {
    /// Returns the present usage, with pods that are too recent for the report; `None` without a report.
    pub(crate) fn new(node: &Node) -> Option<Self> {
        let usage = node.usage?;
        let used = Size { cpu: usage.cpu, memory: usage.memory }.plus(usage.newcomers);
        Some(Self { used, whole: Size::from_resources(&node.allocatable), pressed: usage.pressed })
    }

    /// Adds the usage of a pod.
    pub(crate) fn add(&mut self, used: Size) {
        self.used = self.used.plus(used);
    }

    /// Returns the overload of the node with this additional usage, if any.
    pub(crate) fn overload_with(&self, used: Size) -> Option<Overload> {
        self.pressed.map(Overload::Short).or_else(|| exceeded(self.used.plus(used), self.whole))
    }
}

/// Reports whether a report shows a node as idle.
pub(crate) fn is_idle(node: &Node) -> bool {
    node.usage.is_some_and(|usage| {
        let of_cpu = usage.cpu.saturating_mul(100) < node.allocatable.get(Resources::CPU).saturating_mul(IDLE);
        usage.pressed.is_none() && of_cpu
    })
}

/// Returns the resource whose usage reaches the limit, if any.
pub(crate) fn exceeded(used: Size, whole: Size) -> Option<Overload> {
    let reaches = |used: i64, whole: i64| used.saturating_mul(100) >= whole.saturating_mul(BUSY);
    let percent = |used: i64, whole: i64| used.saturating_mul(100) / whole.max(1);
    if reaches(used.cpu, whole.cpu) {
        return Some(Overload::Cpu(percent(used.cpu, whole.cpu)));
    }
    reaches(used.memory, whole.memory).then(|| Overload::Memory(percent(used.memory, whole.memory)))
}

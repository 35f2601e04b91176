//! How much of a node its pods really use, as its agent reports: whether it is idle, or so busy that nothing should be moved there or
//! away; and how much more may be sent there until it is.

use crate::{BoundPod, Node, Overload, Pressure, Resources, Size};

/// A node whose pods use so much of its CPU or memory, in percent, is busy.
pub(crate) const BUSY: i64 = 80;
/// A node whose pods use less of its CPU, in percent, is idle.
const IDLE: i64 = 10;

/// Why a node is busy by its report, if it is.
pub(crate) fn overload(node: &Node) -> Option<Overload> {
    let usage = node.usage?;
    let used = Size { cpu: usage.cpu, memory: usage.memory };
    usage.pressed.map(Overload::Short).or_else(|| exceeded(used, Size::from_resources(&node.allocatable)))
}

/// What a pod uses once it has moved: what has been seen of it, else what it requests.
pub(crate) fn usage_of(pod: &BoundPod) -> Size {
    pod.used.unwrap_or_else(|| Size::from_resources(&pod.shape.requests))
}

/// What pods use of a node, those that are sent there included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UtilizationLimit {
    used: Size,
    whole: Size,
    pressed: Option<Pressure>,
}

impl UtilizationLimit {
    /// What is there by now, with what came too lately for the report to show; `None` without a report.
    pub(crate) fn new(node: &Node) -> Option<Self> {
        let usage = node.usage?;
        let used = Size { cpu: usage.cpu, memory: usage.memory }.plus(usage.newcomers);
        Some(Self { used, whole: Size::from_resources(&node.allocatable), pressed: usage.pressed })
    }

    /// Sends someone there.
    pub(crate) fn add(&mut self, used: Size) {
        self.used = self.used.plus(used);
    }

    /// What the node would be busy with if someone were sent there.
    pub(crate) fn overload_with(&self, used: Size) -> Option<Overload> {
        self.pressed.map(Overload::Short).or_else(|| exceeded(self.used.plus(used), self.whole))
    }
}

/// Whether a report says that hardly anything happens on a node.
pub(crate) fn is_idle(node: &Node) -> bool {
    node.usage.is_some_and(|usage| {
        let of_cpu = usage.cpu.saturating_mul(100) < node.allocatable.get(Resources::CPU).saturating_mul(IDLE);
        usage.pressed.is_none() && of_cpu
    })
}

/// Of what so much is too much.
pub(crate) fn exceeded(used: Size, whole: Size) -> Option<Overload> {
    let reaches = |used: i64, whole: i64| used.saturating_mul(100) >= whole.saturating_mul(BUSY);
    let percent = |used: i64, whole: i64| used.saturating_mul(100) / whole.max(1);
    if reaches(used.cpu, whole.cpu) {
        return Some(Overload::Cpu(percent(used.cpu, whole.cpu)));
    }
    reaches(used.memory, whole.memory).then(|| Overload::Memory(percent(used.memory, whole.memory)))
}

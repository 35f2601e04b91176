//! What reports of real use say about a node: whether it is idle, or so busy that nothing should be moved there or away.

use crate::{Node, Resources};

/// A node whose pods use so much of it, in percent, is busy.
const BUSY: i64 = 80;
/// A node whose pods use less of it is idle.
const IDLE: i64 = 10;

/// Whether a node uses most of its CPU or memory, or is short of something already.
pub(super) fn is_busy(node: &Node) -> bool {
    node.usage.is_some_and(|usage| {
        let of_cpu = usage.cpu.saturating_mul(100) >= node.allocatable.get(Resources::CPU).saturating_mul(BUSY);
        let of_memory =
            usage.memory.saturating_mul(100) >= node.allocatable.get(Resources::MEMORY).saturating_mul(BUSY);
        usage.pressed || of_cpu || of_memory
    })
}

/// Whether a report says that hardly anything happens on a node.
pub(super) fn is_idle(node: &Node) -> bool {
    node.usage.is_some_and(|usage| {
        let of_cpu = usage.cpu.saturating_mul(100) < node.allocatable.get(Resources::CPU).saturating_mul(IDLE);
        !usage.pressed && of_cpu
    })
}

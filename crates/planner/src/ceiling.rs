//! How much of a node its pods really use, as its agent reports: whether it is idle, or so busy that nothing should be moved there or
//! away.

use crate::{Node, Resources, Size, Strain};

/// A node whose pods use so much of its CPU or memory, in percent, is busy.
pub(crate) const BUSY: i64 = 80;
/// A node whose pods use less of its CPU, in percent, is idle.
const IDLE: i64 = 10;

/// Why a node is busy by its report, if it is.
pub(crate) fn strain(node: &Node) -> Option<Strain> {
    let usage = node.usage?;
    let used = Size { cpu: usage.cpu, memory: usage.memory };
    usage.pressed.map(Strain::Short).or_else(|| over(used, Size::of(&node.allocatable)))
}

/// Whether a report says that hardly anything happens on a node.
pub(crate) fn is_idle(node: &Node) -> bool {
    node.usage.is_some_and(|usage| {
        let of_cpu = usage.cpu.saturating_mul(100) < node.allocatable.get(Resources::CPU).saturating_mul(IDLE);
        usage.pressed.is_none() && of_cpu
    })
}

/// Of what so much is too much.
fn over(used: Size, whole: Size) -> Option<Strain> {
    let reaches = |used: i64, whole: i64| used.saturating_mul(100) >= whole.saturating_mul(BUSY);
    let percent = |used: i64, whole: i64| used.saturating_mul(100) / whole.max(1);
    if reaches(used.cpu, whole.cpu) {
        return Some(Strain::Cpu(percent(used.cpu, whole.cpu)));
    }
    reaches(used.memory, whole.memory).then(|| Strain::Memory(percent(used.memory, whole.memory)))
}

//! Bounds of measured amounts, as a share of the estimate. Where no two other nodes contradict them, two nodes that an attacker
//! controls can agree on any amount, which then counts for all nodes of their type. The bounds are wider than what users' own images
//! and kubelet settings change. Where nodes contradict each other, no amount is above the estimate.

use api::nodeclass::AmiFamily;
use planner::Resources;

use super::measured::{MEMORY, Measured, VOLUMES};

/// kubelet's default for the number of pods. Images with own settings have fewer pods than the estimate, which can be 737.
const DEFAULT_MAX_PODS: i64 = 110;
/// Maximum ratio of the disk of an image, whose size the EC2NodeClass does not set, to the assumed disk.
const LARGEST_IMAGE: i64 = 8;

/// Returns the memory of the kernel that counts, after nodes have reported some.
pub(super) fn memory(measured: &Measured, estimate: i64) -> Option<i64> {
    measured.memory.map(|reported| reported.min(measured.most(MEMORY, estimate, i64::MAX)))
}

/// Returns the allocatable amount of a resource that counts, after nodes have reported `reported`.
pub(super) fn allocatable(measured: &Measured, family: AmiFamily, name: &str, estimate: i64) -> i64 {
    let (least, most) = match name {
        Resources::EPHEMERAL_STORAGE if family == AmiFamily::Custom => {
            (estimate / LARGEST_IMAGE, estimate.saturating_mul(LARGEST_IMAGE))
        }
        Resources::EPHEMERAL_STORAGE => (estimate / 4, estimate.saturating_add(estimate / 4)),
        Resources::PODS => (estimate.min(DEFAULT_MAX_PODS) / 4, estimate),
        _ => (estimate / 4, estimate),
    };
    measured.allocatable.get(name).clamp(least, measured.most(name, estimate, most))
}

/// Returns the bytes of huge pages that count on an instance with this capacity and allocatable memory, less those of other sizes.
/// EC2 has no amount of them. Kubelet takes huge pages from the allocatable memory, so that two nodes that lie can claim only what
/// they also report as missing there.
pub(super) fn huge_pages(reported: i64, capacity: &Resources, allocatable: &Resources, others: i64) -> i64 {
    let missing = capacity.get(Resources::MEMORY) - allocatable.get(Resources::MEMORY) - others;
    reported.clamp(0, missing.max(0))
}

/// Returns the number of volumes that counts, of at most `slots`.
pub(super) fn volumes(measured: &Measured, estimate: i64, slots: i64) -> Option<i64> {
    let most = measured.most(VOLUMES, estimate, slots);
    measured.volumes.map(|reported| reported.clamp((estimate / 4).min(most), most))
}

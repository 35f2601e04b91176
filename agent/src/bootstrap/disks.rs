//! What becomes of instance store disks, as a value: the machine's own tool makes the arrays and mounts them.

use machine::nodeconfig::{DisabledMount, LocalStorage, LocalStorageStrategy};

use super::plan::Plan;

/// Where disks are mounted unless the NodeConfig says otherwise.
const MOUNT_PATH: &str = "/mnt/k8s-disks/";

/// What to do with all instance store disks together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalDisks {
    /// One array, or each disk by itself.
    pub strategy: LocalStorageStrategy,
    /// The folder below which they are mounted.
    pub mount_path: String,
    /// What is not moved onto the array.
    pub disabled_mounts: Vec<DisabledMount>,
}

pub(super) fn add(plan: &mut Plan, storage: &LocalStorage) {
    plan.disks = local_disks(storage);
    if storage.strategy == Some(LocalStorageStrategy::Mount) && !storage.disabled_mounts.is_empty() {
        plan.warn("spec.instance.localStorage.disabledMounts has no effect where each disk is mounted by itself");
    }
}

fn local_disks(storage: &LocalStorage) -> Option<LocalDisks> {
    let mount_path = match storage.mount_path.as_str() {
        "" => MOUNT_PATH.to_owned(),
        path => path.to_owned(),
    };
    storage.strategy.map(|strategy| LocalDisks {
        strategy,
        mount_path,
        disabled_mounts: storage.disabled_mounts.clone(),
    })
}

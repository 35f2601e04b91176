//! Plan for instance store disks, as a value. A program of the machine image makes the arrays and mounts them.

use machine::nodeconfig::{DisabledMount, LocalStorage, LocalStorageStrategy, NodeConfigError};
use machine::quote::quote;

use super::{BootstrapPlan, folders};

/// Default mount path, unless the NodeConfig sets another.
const MOUNT_PATH: &str = "/mnt/k8s-disks/";

/// Setup of all instance store disks together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalDisks {
    /// One array, or each disk by itself.
    pub strategy: LocalStorageStrategy,
    /// Folder below which the disks are mounted.
    pub mount_path: String,
    /// Data that is not moved onto the array.
    pub disabled_mounts: Vec<DisabledMount>,
}

impl LocalDisks {
    /// Returns the arguments of the setup program of EKS images. The strategy comes first: a program that does not support one
    /// of the other arguments uses the strategy alone.
    pub(in crate::bootstrap) fn arguments(&self) -> Vec<&str> {
        [self.strategy_word(), "--dir", &self.mount_path].into_iter().chain(self.kept_words()).collect()
    }

    pub(in crate::bootstrap) fn strategy_word(&self) -> &'static str {
        match self.strategy {
            LocalStorageStrategy::Raid0 => "raid0",
            LocalStorageStrategy::Raid10 => "raid10",
            LocalStorageStrategy::Mount => "mount",
        }
    }

    pub(in crate::bootstrap) fn kept_words(&self) -> Vec<&'static str> {
        let words = self.disabled_mounts.iter().map(|mount| match mount {
            DisabledMount::Containerd => "--no-bind-containerd",
            DisabledMount::PodLogs => "--no-bind-pods-logs",
            DisabledMount::Soci => "--no-bind-soci-snapshotter",
        });
        words.collect()
    }
}

/// Plans the instance store disks of a NodeConfig.
///
/// # Errors
/// [`NodeConfigError::Invalid`] for a mount path that is no folder for disks.
pub(super) fn add(plan: &mut BootstrapPlan, storage: &LocalStorage) -> Result<(), NodeConfigError> {
    plan.disks = local_disks(storage)?;
    if storage.strategy == Some(LocalStorageStrategy::Mount) && !storage.disabled_mounts.is_empty() {
        plan.warn("spec.instance.localStorage.disabledMounts has no effect with strategy Mount");
    }
    Ok(())
}

fn local_disks(storage: &LocalStorage) -> Result<Option<LocalDisks>, NodeConfigError> {
    let Some(strategy) = storage.strategy else { return Ok(None) };
    let mount_path = match storage.mount_path.as_str() {
        "" => MOUNT_PATH.to_owned(),
        path => folders::mount_point(path).ok_or_else(|| NodeConfigError::Invalid {
            field: "spec.instance.localStorage.mountPath",
            value: quote(path),
            cure: "write the path of a folder for disks, such as /mnt/k8s-disks",
        })?,
    };
    Ok(Some(LocalDisks { strategy, mount_path, disabled_mounts: storage.disabled_mounts.clone() }))
}

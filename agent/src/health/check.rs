//! Problems of a machine: condition, reason and severity of each check, in one place. Conditions and reasons are those of the
//! EKS node monitoring agent where it has them, so that programs which repair nodes by them understand ours.

use std::borrow::Cow;
use std::time::Duration;

use api::condition::{
    ACCELERATED_HARDWARE_READY, CONTAINER_RUNTIME_READY, KERNEL_READY, NETWORKING_READY, STORAGE_READY,
};
use api::reason;

use super::Quota;

/// A kind of problem.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Check {
    /// The condition to which the problem belongs.
    pub condition: &'static str,
    /// Reason in CamelCase.
    pub reason: Cow<'static, str>,
    /// Set where the problem makes the condition `False`; otherwise the problem is only reported.
    pub fatal: bool,
}

impl Check {
    const fn fatal(condition: &'static str, reason: &'static str) -> Self {
        Self { condition, reason: Cow::Borrowed(reason), fatal: true }
    }

    const fn warning(condition: &'static str, reason: &'static str) -> Self {
        Self { condition, reason: Cow::Borrowed(reason), fatal: false }
    }

    /// Returns the check for this error number of the NVIDIA driver. Errors that a workload can cause by itself are warnings.
    #[must_use]
    pub fn xid(number: u32) -> Self {
        const FATAL: [u32; 14] = [64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158];
        if number == 48 {
            return Self::fatal(ACCELERATED_HARDWARE_READY, "NvidiaDoubleBitError");
        }
        let fatal = FATAL.contains(&number);
        let weight = if fatal { "Error" } else { "Warning" };
        let reason = Cow::Owned(format!("NvidiaXID{number}{weight}"));
        Self { condition: ACCELERATED_HARDWARE_READY, reason, fatal }
    }

    /// Returns the check of which this problem is a sign when it recurs, and the number of recurrences.
    #[must_use]
    pub fn again(&self) -> Option<(Self, Quota)> {
        let often = Quota { times: 6, within: Duration::from_secs(30 * 60) };
        (*self == NO_API).then_some((API_UNSTABLE, often))
    }

    /// Returns how long a problem must be observed, or be absent, before the condition changes.
    #[must_use]
    pub fn patience(&self) -> Duration {
        if let Some((_, patience)) = LASTING.iter().find(|(check, _)| check == self) {
            return *patience;
        }
        match self.condition {
            // Units are restarted, and they start one after another at boot.
            CONTAINER_RUNTIME_READY => Duration::from_secs(60),
            NETWORKING_READY => Duration::from_secs(60),
            _ => Duration::from_secs(30),
        }
    }
}

/// Problems that are reported as a warning at once and repair a node only when they last. Such a problem may end by itself, or
/// affect all nodes.
const LASTING: [(Check, Duration); 3] = [
    (TASK_HUNG, Duration::from_secs(5 * 60)),
    (DISK_HUNG, Duration::from_secs(5 * 60)),
    (NAMES_LOST, Duration::from_secs(10 * 60)),
];

/// kubelet's unit is not running.
pub const KUBELET_FAILED: Check = Check::fatal(CONTAINER_RUNTIME_READY, "KubeletFailed");
/// The container runtime accepts no connection.
pub const RUNTIME_FAILED: Check = Check::fatal(CONTAINER_RUNTIME_READY, "ContainerRuntimeFailed");
/// kubelet restarts repeatedly.
pub const KUBELET_RESTARTS: Check = Check::warning(CONTAINER_RUNTIME_READY, "KubeletRepeatedRestart");
/// The container runtime restarts repeatedly.
pub const RUNTIME_RESTARTS: Check = Check::warning(CONTAINER_RUNTIME_READY, "ContainerRuntimeRepeatedRestart");
/// A file system that pods need is full.
pub const DISK_FULL: Check = Check::fatal(STORAGE_READY, "DiskFull");
/// A file system that pods need is not writable.
pub const READ_ONLY: Check = Check::fatal(STORAGE_READY, reason::READONLY_FILESYSTEM);
/// The kernel has shut down a file system.
pub const SHUT_DOWN: Check = Check::fatal(STORAGE_READY, reason::FILESYSTEM_SHUTDOWN);
/// A disk needs seconds per request.
pub const DISK_SLOW: Check = Check::warning(STORAGE_READY, "IODelays");
/// A disk needs ten seconds or more per request, or completes none, for minutes.
pub const DISK_HUNG: Check = Check::fatal(STORAGE_READY, "DiskUnresponsive");
/// A disk fails to read or write.
pub const DISK_ERROR: Check = Check::warning(STORAGE_READY, "BlockDeviceIOError");
/// The machine has no default route.
pub const NO_ROUTE: Check = Check::fatal(NETWORKING_READY, "MissingDefaultRoutes");
/// Names cannot be resolved.
pub const NO_DNS: Check = Check::warning(NETWORKING_READY, "DNSUnreachable");
/// Names cannot be resolved for many minutes.
pub const NAMES_LOST: Check = Check::fatal(NETWORKING_READY, "DNSLost");
/// The instance metadata service does not respond.
pub const NO_IMDS: Check = Check::warning(NETWORKING_READY, "IMDSUnreachable");
/// The API server does not respond; reported once it responds again.
pub const NO_API: Check = Check::warning(NETWORKING_READY, "APIServerUnreachable");
/// The API server becomes unreachable repeatedly. A long outage shows in the Node's `Ready`, because the agent cannot report it
/// here.
pub const API_UNSTABLE: Check = Check::fatal(NETWORKING_READY, "APIServerUnstable");
/// The kernel's connection tracking table is full.
pub const CONNTRACK: Check = Check::warning(KERNEL_READY, "ConntrackExceededKernel");
/// The machine's root file system is not writable.
pub const READ_ONLY_ROOT: Check = Check::fatal(KERNEL_READY, reason::READONLY_FILESYSTEM);
/// The machine as a whole runs out of memory repeatedly.
pub const OOM_LOOP: Check = Check::fatal(KERNEL_READY, "OOMLoop");
/// A task is blocked in the kernel.
pub const HUNG_TASK: Check = Check::warning(KERNEL_READY, "AppBlocked");
/// A task that the kernel reported as blocked is still blocked minutes later.
pub const TASK_HUNG: Check = Check::fatal(KERNEL_READY, "TaskHung");
/// A CPU is stuck in the kernel.
pub const SOFT_LOCKUP: Check = Check::warning(KERNEL_READY, "SoftLockup");
/// The kernel detected a bug of its own.
pub const KERNEL_BUG: Check = Check::warning(KERNEL_READY, "KernelBug");
/// An NVIDIA GPU no longer responds.
pub const NVIDIA_LOST: Check = Check::fatal(ACCELERATED_HARDWARE_READY, reason::NVIDIA_DEVICE_COUNT_MISMATCH);
/// A Neuron device no longer responds.
pub const NEURON_LOST: Check = Check::fatal(ACCELERATED_HARDWARE_READY, reason::NEURON_DEVICE_COUNT_MISMATCH);
/// A Neuron device reports errors that it cannot correct.
pub const NEURON_ERRORS: [(&str, Check); 4] = [
    ("SRAM_UNCORRECTABLE", Check::fatal(ACCELERATED_HARDWARE_READY, "NeuronSRAMUncorrectableError")),
    ("HBM_UNCORRECTABLE", Check::fatal(ACCELERATED_HARDWARE_READY, "NeuronHBMUncorrectableError")),
    ("NC_UNCORRECTABLE", Check::fatal(ACCELERATED_HARDWARE_READY, "NeuronNCUncorrectableError")),
    ("DMA_ERROR", Check::fatal(ACCELERATED_HARDWARE_READY, "NeuronDMAError")),
];

//! What can be wrong with a machine: each trouble's condition, reason and weight, once. Conditions and reasons are the EKS node
//! monitoring agent's where it has them, so that whoever repairs nodes by those understands ours.

use std::borrow::Cow;
use std::time::Duration;

use api::condition::{
    ACCELERATED_HARDWARE_READY, CONTAINER_RUNTIME_READY, KERNEL_READY, NETWORKING_READY, STORAGE_READY,
};

use super::Quota;

/// A kind of trouble.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Check {
    /// The condition that it belongs to.
    pub condition: &'static str,
    /// In one word.
    pub reason: Cow<'static, str>,
    /// Whether the condition becomes False; else it is only reported.
    pub fatal: bool,
}

impl Check {
    const fn fatal(condition: &'static str, reason: &'static str) -> Self {
        Self { condition, reason: Cow::Borrowed(reason), fatal: true }
    }

    const fn warning(condition: &'static str, reason: &'static str) -> Self {
        Self { condition, reason: Cow::Borrowed(reason), fatal: false }
    }

    /// The NVIDIA driver reports an error of this number. Those that a workload brings about by itself are warnings.
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

    /// What it is a sign of when it comes again and again, and how often that is.
    #[must_use]
    pub fn again(&self) -> Option<(Self, Quota)> {
        let often = Quota { times: 6, within: Duration::from_secs(30 * 60) };
        (*self == NO_API).then_some((API_UNSTABLE, often))
    }

    /// How long a look at the machine must find this trouble, or not find it any more, before it counts.
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

/// What is reported as a warning at once and repairs a node only when it lasts: it may go by itself, or be everybody's trouble.
const LASTING: [(Check, Duration); 3] = [
    (TASK_HUNG, Duration::from_secs(5 * 60)),
    (DISK_HUNG, Duration::from_secs(5 * 60)),
    (NAMES_LOST, Duration::from_secs(10 * 60)),
];

/// kubelet's unit is not running.
pub const KUBELET_FAILED: Check = Check::fatal(CONTAINER_RUNTIME_READY, "KubeletFailed");
/// The container runtime takes no connection.
pub const RUNTIME_FAILED: Check = Check::fatal(CONTAINER_RUNTIME_READY, "ContainerRuntimeFailed");
/// kubelet starts again and again.
pub const KUBELET_RESTARTS: Check = Check::warning(CONTAINER_RUNTIME_READY, "KubeletRepeatedRestart");
/// The container runtime starts again and again.
pub const RUNTIME_RESTARTS: Check = Check::warning(CONTAINER_RUNTIME_READY, "ContainerRuntimeRepeatedRestart");
/// A file system that pods need has no room.
pub const DISK_FULL: Check = Check::fatal(STORAGE_READY, "DiskFull");
/// A file system that pods need cannot be written.
pub const READ_ONLY: Check = Check::fatal(STORAGE_READY, "ReadonlyFilesystem");
/// The kernel has given a file system up.
pub const SHUT_DOWN: Check = Check::fatal(STORAGE_READY, "FilesystemShutdown");
/// A disk takes seconds for what it is asked.
pub const DISK_SLOW: Check = Check::warning(STORAGE_READY, "IODelays");
/// A disk takes ten seconds and more, or finishes nothing, for minutes.
pub const DISK_HUNG: Check = Check::fatal(STORAGE_READY, "DiskUnresponsive");
/// A disk fails to read or write.
pub const DISK_ERROR: Check = Check::warning(STORAGE_READY, "BlockDeviceIOError");
/// There is no way out.
pub const NO_ROUTE: Check = Check::fatal(NETWORKING_READY, "MissingDefaultRoutes");
/// Names cannot be resolved.
pub const NO_DNS: Check = Check::warning(NETWORKING_READY, "DNSUnreachable");
/// Names cannot be resolved for many minutes.
pub const NAMES_LOST: Check = Check::fatal(NETWORKING_READY, "DNSLost");
/// Instance metadata does not answer.
pub const NO_IMDS: Check = Check::warning(NETWORKING_READY, "IMDSUnreachable");
/// The API server does not answer; reported once it does.
pub const NO_API: Check = Check::warning(NETWORKING_READY, "APIServerUnreachable");
/// The API server is lost again and again. That it is lost for long shows in the Node's `Ready`: nobody could be told here.
pub const API_UNSTABLE: Check = Check::fatal(NETWORKING_READY, "APIServerUnstable");
/// The kernel's table of connections is full.
pub const CONNTRACK: Check = Check::warning(KERNEL_READY, "ConntrackExceededKernel");
/// The machine's own root cannot be written.
pub const READ_ONLY_ROOT: Check = Check::fatal(KERNEL_READY, "ReadonlyFilesystem");
/// The machine as a whole runs out of memory again and again.
pub const OOM_LOOP: Check = Check::fatal(KERNEL_READY, "OOMLoop");
/// A task hangs in the kernel.
pub const HUNG_TASK: Check = Check::warning(KERNEL_READY, "AppBlocked");
/// A task that the kernel called hung hangs for minutes more.
pub const TASK_HUNG: Check = Check::fatal(KERNEL_READY, "TaskHung");
/// A CPU is stuck in the kernel.
pub const SOFT_LOCKUP: Check = Check::warning(KERNEL_READY, "SoftLockup");
/// The kernel met a bug of its own.
pub const KERNEL_BUG: Check = Check::warning(KERNEL_READY, "KernelBug");
/// An NVIDIA GPU does not answer any more.
pub const NVIDIA_LOST: Check = Check::fatal(ACCELERATED_HARDWARE_READY, "NvidiaDeviceCountMismatch");
/// A Neuron device does not answer any more.
pub const NEURON_LOST: Check = Check::fatal(ACCELERATED_HARDWARE_READY, "NeuronDeviceCountMismatch");
/// A Neuron device reports errors that it cannot correct.
pub const NEURON_ERRORS: [(&str, Check); 4] = [
    ("SRAM_UNCORRECTABLE", Check::fatal(ACCELERATED_HARDWARE_READY, "NeuronSRAMUncorrectableError")),
    ("HBM_UNCORRECTABLE", Check::fatal(ACCELERATED_HARDWARE_READY, "NeuronHBMUncorrectableError")),
    ("NC_UNCORRECTABLE", Check::fatal(ACCELERATED_HARDWARE_READY, "NeuronNCUncorrectableError")),
    ("DMA_ERROR", Check::fatal(ACCELERATED_HARDWARE_READY, "NeuronDMAError")),
];

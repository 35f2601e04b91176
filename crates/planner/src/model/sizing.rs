//! Requests and measured usage of a running pod, container by container: the input for lower requests.

use serde::{Deserialize, Serialize};

use super::{Millis, Resources};

/// Amount of CPU and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Size {
    /// CPU in millicores.
    pub cpu: i64,
    /// Memory in bytes.
    pub memory: i64,
}

/// Requests and usage of a running pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Sizing {
    /// Containers, without init containers and sidecars, whose requests do not change.
    pub containers: Vec<ContainerSize>,
    /// Minimum total of the containers, however little they request: the scheduler reserves the requests of init containers.
    pub least: Size,
    /// Reason why its requests never change, independent of its usage.
    pub fixed: Option<NotResizable>,
    /// Usage measured by its node's agent; `None` without a measurement or a valid report.
    pub used: Option<PodUtilization>,
    /// Last restoration of its requests, under pressure or because kubelet could not lower them.
    pub given_back: Option<RestoredRequests>,
}

/// Requests of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerSize {
    /// Name of the container.
    pub name: String,
    /// Requests before they were lowered, and after recreation of the pod.
    pub requested: Size,
    /// Present requests.
    pub requests: Size,
    /// True if another CPU request requires a restart.
    pub restarts_for_cpu: bool,
    /// True if another memory request requires a restart.
    pub restarts_for_memory: bool,
}

/// Usage of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodUtilization {
    /// Median of the CPU usage.
    pub median_cpu: i64,
    /// 95th percentile of the usage.
    pub p95: Size,
    /// Hours of history of these values.
    pub hours: u32,
    /// True if the pod often waits for memory or a disk, or had an OOM kill.
    pub pressed: bool,
}

/// Time and number of restorations of a pod's requests, under pressure or because kubelet could not lower them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RestoredRequests {
    /// Time of the last restoration.
    pub last: Millis,
    /// Number of restorations.
    pub times: u32,
}

/// Reason why requests of a pod never change, independent of its usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NotResizable {
    /// Static pod: it comes from a file of its node.
    Static,
    /// Pod of a DaemonSet: the requests of its template determine new nodes.
    Daemon,
    /// Annotation `kerf.sh/resize: never`.
    Never,
    /// QoS class Guaranteed, which would change.
    Guaranteed,
    /// CPU or memory is requested for the whole pod, not by container.
    AsAWhole,
    /// Every container would have to be restarted.
    Restarts,
    /// No CPU or memory requests.
    RequestsNothing,
    /// kubelet reports that it can never grant the present requests.
    Infeasible,
    /// The annotation about its requests is invalid.
    Unread,
}

impl Size {
    /// Returns CPU and memory of these resources.
    #[must_use]
    pub fn from_resources(resources: &Resources) -> Self {
        Self { cpu: resources.get(Resources::CPU), memory: resources.get(Resources::MEMORY) }
    }

    /// Converts to resources; zero amounts have no entry.
    #[must_use]
    pub fn resources(self) -> Resources {
        let both = [(Resources::CPU, self.cpu), (Resources::MEMORY, self.memory)];
        both.into_iter().filter(|(_, amount)| *amount != 0).collect()
    }

    /// Computes CPU from both CPU amounts and memory from both memory amounts.
    #[must_use]
    pub fn with(self, other: Self, of: impl Fn(i64, i64) -> i64) -> Self {
        Self { cpu: of(self.cpu, other.cpu), memory: of(self.memory, other.memory) }
    }

    /// Returns the sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.with(other, i64::saturating_add)
    }

    /// Returns the difference; amounts may become negative.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.with(other, i64::saturating_sub)
    }

    /// Returns the lesser of each.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        self.with(other, i64::min)
    }

    /// Returns the greater of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        self.with(other, i64::max)
    }

    /// Reports whether either amount is more than zero.
    #[must_use]
    pub fn is_any(self) -> bool {
        self.cpu > 0 || self.memory > 0
    }

    /// Reports whether neither amount exceeds the other's.
    #[must_use]
    pub fn is_within(self, other: Self) -> bool {
        self.cpu <= other.cpu && self.memory <= other.memory
    }
}

impl Sizing {
    /// Returns the containers' requests before they were lowered.
    #[must_use]
    pub fn requested(&self) -> Size {
        self.containers.iter().fold(Size::default(), |sum, it| sum.plus(it.requested))
    }

    /// Returns the containers' present requests.
    #[must_use]
    pub fn requests(&self) -> Size {
        self.containers.iter().fold(Size::default(), |sum, it| sum.plus(it.requests))
    }

    /// Returns the capacity that the pod releases when its containers request `to` instead of `from` in total.
    #[must_use]
    pub fn gain(&self, from: Size, to: Size) -> Size {
        from.max(self.least).minus(to.max(self.least))
    }

    /// Returns the capacity that the pod releases because its requests were lowered.
    #[must_use]
    pub fn spared(&self) -> Size {
        self.gain(self.requested(), self.requests())
    }
}

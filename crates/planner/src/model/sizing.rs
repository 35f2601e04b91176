//! What a running pod requests, container by container, and what it really uses: all that decides whether it could do with less.

use serde::{Deserialize, Serialize};

use super::{Millis, Resources};

/// An amount of CPU and one of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Size {
    /// Millicores.
    pub cpu: i64,
    /// Bytes.
    pub memory: i64,
}

/// What a running pod requests and uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Sizing {
    /// Its containers, without those that only prepare it and without sidecars, whose requests stay.
    pub containers: Vec<ContainerSize>,
    /// What they count for at least, however little they request: the scheduler keeps room for what prepared them.
    pub least: Size,
    /// Why its requests stay as they are, whatever it uses.
    pub fixed: Option<NotResizable>,
    /// What it uses, as its node's agent has seen; `None` where it has not, or where the report does not count.
    pub used: Option<PodUtilization>,
    /// When it got its requests back because something was short, or because kubelet could not lower them.
    pub given_back: Option<RestoredRequests>,
}

/// What a container requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerSize {
    /// Its name.
    pub name: String,
    /// What it requested before it was lowered, and would when made anew.
    pub requested: Size,
    /// What it requests now.
    pub requests: Size,
    /// Whether it would have to be restarted for another CPU request.
    pub restarts_for_cpu: bool,
    /// Whether it would have to be restarted for another memory request.
    pub restarts_for_memory: bool,
}

/// What a pod uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodUtilization {
    /// CPU that it stays within half of the time.
    pub median_cpu: i64,
    /// What it stays within for 95 % of the time.
    pub p95: Size,
    /// Hours of history behind that.
    pub hours: u32,
    /// Whether it waits much for memory or a disk, or has lost a process for want of memory.
    pub pressed: bool,
}

/// When and how often a pod got its requests back because something was short, or because kubelet could not lower them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RestoredRequests {
    /// The last time.
    pub last: Millis,
    /// How often.
    pub times: u32,
}

/// Why requests of a pod stay as they are, whatever it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NotResizable {
    /// It comes from a file of its node.
    Static,
    /// It is a DaemonSet's: new nodes are chosen by what its template requests.
    Daemon,
    /// It says `kerf.sh/resize: never`.
    Never,
    /// Its quality of service is Guaranteed, and would not be any more.
    Guaranteed,
    /// It requests CPU or memory as a whole, not by container.
    AsAWhole,
    /// Every container would have to be restarted.
    Restarts,
    /// It requests neither CPU nor memory.
    RequestsNothing,
    /// kubelet has said that it can never grant what the pod requests now.
    Infeasible,
    /// What it says of its requests cannot be read.
    Unread,
}

impl Size {
    /// CPU and memory of these resources.
    #[must_use]
    pub fn from_resources(resources: &Resources) -> Self {
        Self { cpu: resources.get(Resources::CPU), memory: resources.get(Resources::MEMORY) }
    }

    /// As resources; what is zero is not named.
    #[must_use]
    pub fn resources(self) -> Resources {
        let both = [(Resources::CPU, self.cpu), (Resources::MEMORY, self.memory)];
        both.into_iter().filter(|(_, amount)| *amount != 0).collect()
    }

    /// Works out CPU from CPU and memory from memory.
    #[must_use]
    pub fn with(self, other: Self, of: impl Fn(i64, i64) -> i64) -> Self {
        Self { cpu: of(self.cpu, other.cpu), memory: of(self.memory, other.memory) }
    }

    /// Both added up.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.with(other, i64::saturating_add)
    }

    /// What is left without the other; amounts may become negative.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.with(other, i64::saturating_sub)
    }

    /// The lesser of each.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        self.with(other, i64::min)
    }

    /// The greater of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        self.with(other, i64::max)
    }

    /// Whether either is more than zero.
    #[must_use]
    pub fn is_any(self) -> bool {
        self.cpu > 0 || self.memory > 0
    }

    /// Whether neither is more than the other's.
    #[must_use]
    pub fn is_within(self, other: Self) -> bool {
        self.cpu <= other.cpu && self.memory <= other.memory
    }
}

impl Sizing {
    /// What its containers requested before they were lowered.
    #[must_use]
    pub fn requested(&self) -> Size {
        self.containers.iter().fold(Size::default(), |sum, it| sum.plus(it.requested))
    }

    /// What its containers request now.
    #[must_use]
    pub fn requests(&self) -> Size {
        self.containers.iter().fold(Size::default(), |sum, it| sum.plus(it.requests))
    }

    /// How much less of its node the pod takes when its containers request `to` and not `from` together.
    #[must_use]
    pub fn gain(&self, from: Size, to: Size) -> Size {
        from.max(self.least).minus(to.max(self.least))
    }

    /// How much less of its node the pod takes because it was lowered.
    #[must_use]
    pub fn spared(&self) -> Size {
        self.gain(self.requested(), self.requests())
    }
}

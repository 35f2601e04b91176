//! In-place changes of pod requests, and reasons against changes.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use crate::model::{NotResizable, Size};

/// Pod whose requests change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resize {
    /// UID of the pod.
    pub uid: String,
    /// `namespace/name`.
    pub pod: String,
    /// Node on which the pod runs, before and after the change.
    pub node: String,
    /// Containers whose requests change; none where the pod only receives a mark.
    pub containers: Vec<ContainerResize>,
    /// Reason of the change.
    pub why: ResizeReason,
    /// True if the pod receives a mark that its requests were to be restored: under pressure, or because kubelet could not
    /// lower them.
    pub marks: bool,
}

/// Container whose requests change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerResize {
    /// Name of the container.
    pub name: String,
    /// Requests before they were first lowered.
    pub requested: Size,
    /// Present requests.
    pub from: Size,
    /// New requests.
    pub to: Size,
}

/// Reason why requests change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ResizeReason {
    /// The node is under pressure: the pod regains its original requests.
    Pressure,
    /// The usage grew after the requests were lowered.
    Grown,
    /// The NodePool or the pod does not permit lower requests any more, or kubelet cannot apply them.
    Unpacked,
    /// The pod uses less, and pods of a removable node then fit on its node.
    MakesRoom,
    /// The original requests should be restored, but none of them fits on the node now.
    NoRoom,
}

/// Pod whose requests do not change although its NodePool has utilization `Pack`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NotResized {
    /// `namespace/name`.
    pub pod: String,
    /// Node on which the pod runs.
    pub node: String,
    /// Reason against a change.
    pub why: NotResizedReason,
}

/// Reason why requests do not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NotResizedReason {
    /// The requests never change, independent of the usage.
    Fixed(NotResizable),
    /// No valid report has the usage of the pod.
    Unseen,
    /// The usage history is too short.
    Young {
        /// Hours of history.
        hours: u32,
        /// Hours that the NodePool requires.
        asked: u32,
    },
    /// The node is under pressure.
    Pressed,
    /// Pods of the node regained their requests recently.
    Rests {
        /// Milliseconds until requests may be lowered there again.
        remaining: i64,
    },
}

impl Display for ResizeReason {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Pressure => "its node is under pressure, original requests are restored",
            Self::Grown => "its usage grew after its requests were lowered",
            Self::Unpacked => "its requests may no longer be lowered",
            Self::MakesRoom => "it uses less, and pods of a removed node then fit",
            Self::NoRoom => "its original requests do not fit on its node now",
        })
    }
}

impl Display for NotResizedReason {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(why) => why.fmt(out),
            Self::Unseen => out.write_str("no usage report of its node"),
            Self::Young { hours, asked } => {
                write!(out, "usage history is {hours} h, the NodePool requires {asked} h")
            }
            Self::Pressed => out.write_str("its node is under pressure"),
            Self::Rests { remaining } => {
                let minutes = (remaining + 59_999) / 60_000;
                write!(out, "requests on its node were restored recently, no resize for {minutes} min")
            }
        }
    }
}

impl Display for NotResizable {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Static => "static pod",
            Self::Daemon => "pod of a DaemonSet, whose template sizes new nodes",
            Self::Never => "annotation kerf.sh/resize is never",
            Self::Guaranteed => "QoS class Guaranteed would be lost",
            Self::AsAWhole => "requests are set for the whole pod",
            Self::Restarts => "resizePolicy requires a restart",
            Self::RequestsNothing => "no CPU or memory requests",
            Self::Infeasible => "kubelet reports the current requests as infeasible",
            Self::Unread => "its annotation of original requests is invalid",
        })
    }
}

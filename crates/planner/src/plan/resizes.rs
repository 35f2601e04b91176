//! Requests that change while their pods run, and why others do not.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use crate::model::{NotResizable, Size};

/// A pod whose requests change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resize {
    /// The pod's UID.
    pub uid: String,
    /// `namespace/name`.
    pub pod: String,
    /// The node on which it runs and stays.
    pub node: String,
    /// Its containers whose requests change; none where the pod has but to remember something.
    pub containers: Vec<ContainerResize>,
    /// Why.
    pub why: ResizeReason,
    /// Whether the pod is to remember that it was to get its requests back: something was short, or kubelet could not lower them.
    pub marks: bool,
}

/// A container whose requests change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerResize {
    /// Its name.
    pub name: String,
    /// What it requested before it was first lowered.
    pub requested: Size,
    /// What it requests now.
    pub from: Size,
    /// What it will request.
    pub to: Size,
}

/// Why requests change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ResizeReason {
    /// Something is short on the node: the pod gets back what it requested.
    Pressure,
    /// It uses more than when it was lowered.
    Grown,
    /// Its pool, or it, does not want it lowered any more, or kubelet cannot do it.
    Unpacked,
    /// It uses less, and pods of a node that can go then have room beside it.
    MakesRoom,
    /// It should get back what it requested, and nothing of that has room on its node now.
    NoRoom,
}

/// A pod whose requests stay though its pool packs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NotResized {
    /// `namespace/name`.
    pub pod: String,
    /// Where it runs.
    pub node: String,
    /// Why.
    pub why: NotResizedReason,
}

/// Why requests stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NotResizedReason {
    /// Whatever the pod uses.
    Fixed(NotResizable),
    /// No report that counts tells what it uses.
    Unseen,
    /// It has not been watched for long enough.
    Young {
        /// Hours of history.
        hours: u32,
        /// As many as the pool asks for.
        asked: u32,
    },
    /// Something is short on its node.
    Pressed,
    /// Pods of its node got their requests back not long ago.
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

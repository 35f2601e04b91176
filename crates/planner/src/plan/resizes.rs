//! Requests that change while their pods run, and why others do not.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use crate::model::{Size, WhyFixed};

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
    pub why: WhyResize,
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
pub enum WhyResize {
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
pub struct Unpacked {
    /// `namespace/name`.
    pub pod: String,
    /// Where it runs.
    pub node: String,
    /// Why.
    pub why: WhyUnpacked,
}

/// Why requests stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WhyUnpacked {
    /// Whatever the pod uses.
    Fixed(WhyFixed),
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

impl Display for WhyResize {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Pressure => "something is short on its node, so it gets back what it requested",
            Self::Grown => "it uses more than when its requests were lowered",
            Self::Unpacked => "its requests are not to be lowered any more",
            Self::MakesRoom => "it uses less, and pods of a node that can go then have room beside it",
            Self::NoRoom => "it should get back what it requested, but its node has no room for that now",
        })
    }
}

impl Display for WhyUnpacked {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(why) => why.fmt(out),
            Self::Unseen => out.write_str("no report of its node tells what it uses"),
            Self::Young { hours, asked } => {
                write!(out, "it has been watched for {hours} h, the pool asks for {asked} h")
            }
            Self::Pressed => out.write_str("something is short on its node"),
            Self::Rests { remaining } => {
                let minutes = (remaining + 59_999) / 60_000;
                write!(out, "pods of its node got their requests back, and keep them for another {minutes} min")
            }
        }
    }
}

impl Display for WhyFixed {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Static => "it comes from a file of its node",
            Self::Daemon => "new nodes are chosen by what its DaemonSet requests",
            Self::Never => "it says kerf.sh/resize: never",
            Self::Guaranteed => "its quality of service is Guaranteed and would not be any more",
            Self::AsAWhole => "it requests CPU or memory as a whole pod",
            Self::Restarts => "its containers would have to be restarted",
            Self::RequestsNothing => "it requests neither CPU nor memory",
            Self::Infeasible => "kubelet cannot grant what it requests now",
            Self::Unread => "what it says of its requests cannot be read",
        })
    }
}

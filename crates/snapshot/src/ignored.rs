//! Pods that need a place and that the planner does not get to see, with the reason.

use std::fmt;

/// A pod that stays out of the snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// `namespace/name`.
    pub pod: String,
    /// The pod's UID.
    pub uid: String,
    /// Why.
    pub reason: IgnoredReason,
}

impl Ignored {
    /// Whether the pod's owner should hear of it: opting out and gates are no news, and waiting pods have a place still
    /// or are promised one.
    #[must_use]
    pub fn deserves_event(&self) -> bool {
        !matches!(
            self.reason,
            IgnoredReason::OptedOut
                | IgnoredReason::Gated { .. }
                | IgnoredReason::Preempting { .. }
                | IgnoredReason::DoNotDisrupt
                | IgnoredReason::BlockedByBudget
        )
    }
}

/// Why a pod stays out of the snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IgnoredReason {
    /// It asks for nodes without `karpenter.sh/nodepool`.
    OptedOut,
    /// It has scheduling gates, which others lift.
    Gated {
        /// The first gate by name.
        gate: String,
    },
    /// The scheduler is making room for it on a node.
    Preempting {
        /// The node.
        node: String,
    },
    /// It claims devices by name (dynamic resource allocation).
    DeviceClaim,
    /// A request is not a quantity.
    Quantity {
        /// The text of the amount.
        text: String,
    },
    /// Its node affinity selects by field.
    MatchFields,
    /// It compares a label with something that is not one integer.
    Comparison {
        /// The label's key.
        key: String,
    },
    /// A list of values is missing, or stands where none belongs.
    Values {
        /// The label's key.
        key: String,
    },
    /// It asks for a label that belongs to Karpenter alone.
    RestrictedLabel {
        /// The label's key.
        key: String,
    },
    /// Every alternative of its required node affinity is empty, which selects no node at all.
    NoNode,
    /// One of its volumes is not ready to be placed.
    Volume {
        /// `namespace/name` of the claim.
        claim: String,
        /// What is the matter with it.
        trouble: VolumeError,
    },
    /// It runs on a leaving node and asks not to be disturbed, so it waits for the deadline.
    DoNotDisrupt,
    /// It runs on a leaving node and its PodDisruptionBudgets can never allow an eviction, so it waits for the deadline.
    BlockedByBudget,
}

/// What is the matter with a volume claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeError {
    /// There is no such claim.
    Missing,
    /// The claim is being deleted.
    Terminating,
    /// The claim's volume has been lost for good.
    Lost,
    /// The claim is bound to a volume that does not exist.
    VolumeMissing {
        /// The volume.
        volume: String,
    },
    /// The claim is bound to a volume that is being deleted.
    VolumeTerminating {
        /// The volume.
        volume: String,
    },
    /// The claim names a volume, and the binding is not complete.
    Binding {
        /// The volume.
        volume: String,
    },
    /// The volume's node affinity selects no node at all.
    Nowhere {
        /// The volume.
        volume: String,
    },
    /// The claim is unbound and wants no class, so nobody makes a volume for it.
    NoClass,
    /// The claim is unbound and names no class, and there is no default one.
    NoDefaultClass,
    /// The claim's class does not exist.
    ClassMissing {
        /// The class.
        class: String,
    },
    /// The claim is for one pod in the whole cluster (`ReadWriteOncePod`), and another one has it.
    InUse {
        /// `namespace/name` of the other pod.
        pod: String,
    },
    /// The claim's class makes volumes at once, wherever its driver likes, and has not made this one yet.
    Immediate {
        /// The class.
        class: String,
    },
}

impl fmt::Display for VolumeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => out.write_str("does not exist: create it"),
            Self::Terminating => out.write_str("is being deleted: create it again after its deletion"),
            Self::Lost => out.write_str("has lost its volume: restore the data into a new claim"),
            Self::VolumeMissing { volume } => {
                write!(
                    out,
                    "is bound to volume {volume}, which does not exist: restore the volume or create the claim again"
                )
            }
            Self::VolumeTerminating { volume } => {
                write!(out, "is bound to volume {volume}, which is being deleted: create the claim again")
            }
            Self::Binding { volume } => {
                write!(out, "names volume {volume} but is not bound to it yet: check the events of the claim")
            }
            Self::Nowhere { volume } => {
                write!(out, "is bound to volume {volume}, whose node affinity selects no node: correct the volume")
            }
            Self::NoClass => {
                out.write_str("is unbound and has no storage class: create a volume for it or set a class")
            }
            Self::NoDefaultClass => {
                out.write_str("has no storage class and no default class exists: set one or mark one as default")
            }
            Self::ClassMissing { class } => write!(out, "has storage class {class}, which does not exist: create it"),
            Self::InUse { pod } => {
                write!(out, "is ReadWriteOncePod and used by pod {pod}: it is free after the deletion of that pod")
            }
            Self::Immediate { class } => write!(
                out,
                "is not bound yet though storage class {class} binds immediately: check its provisioner, or use \
                 WaitForFirstConsumer"
            ),
        }
    }
}

impl fmt::Display for IgnoredReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OptedOut => out.write_str("it requires nodes without a NodePool"),
            Self::Gated { gate } => write!(out, "it has scheduling gate {gate}"),
            Self::Preempting { node } => write!(out, "kube-scheduler preempts pods for it on node {node}"),
            Self::DeviceClaim => {
                out.write_str("ResourceClaims are not supported: request an extended resource instead")
            }
            Self::Quantity { text } => write!(out, "invalid request {text:?}: not a quantity"),
            Self::MatchFields => out.write_str("its node affinity uses matchFields, which no new node can satisfy"),
            Self::Comparison { key } => write!(out, "its requirement on label {key} needs exactly one integer"),
            Self::Values { key } => {
                write!(out, "its requirement on label {key} has an invalid list of values")
            }
            Self::RestrictedLabel { key } => write!(out, "label {key} is restricted"),
            Self::NoNode => out.write_str("its required node affinity has only empty terms, which select no node"),
            Self::Volume { claim, trouble } => write!(out, "volume claim {claim} {trouble}"),
            Self::DoNotDisrupt => {
                out.write_str("its node is being removed, but it has annotation karpenter.sh/do-not-disrupt")
            }
            Self::BlockedByBudget => {
                out.write_str("its node is being removed, but its PodDisruptionBudgets never allow an eviction")
            }
        }
    }
}

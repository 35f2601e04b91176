//! Pods that need a node but are not part of the snapshot, with the reason.

use std::fmt;

use crate::pods::admission::AdmissionError;

/// A pod that is not part of the snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// Name of the pod, `namespace/name`.
    pub pod: String,
    /// UID of the pod.
    pub uid: String,
    /// Reason.
    pub reason: IgnoredReason,
}

impl Ignored {
    /// Reports whether the pod gets an event. Opted-out and gated pods get none, because their owners chose that state. Pods
    /// that still run or have a nominated node get none either.
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

/// The reason why a pod is not part of the snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IgnoredReason {
    /// The pod requires nodes without `karpenter.sh/nodepool`.
    OptedOut,
    /// The pod has scheduling gates, which other programs remove.
    Gated {
        /// First gate by name.
        gate: String,
    },
    /// The pod consumes a ProvisioningRequest whose capacity does not exist.
    AwaitsRequest {
        /// The request as `namespace/name`.
        request: String,
    },
    /// kube-scheduler preempts other pods for it on a node.
    Preempting {
        /// Name of the node.
        node: String,
    },
    /// The pod has ResourceClaims (dynamic resource allocation).
    DeviceClaim,
    /// A request is not a valid quantity.
    Quantity {
        /// Text of the quantity.
        text: String,
    },
    /// The API server refuses the pod, so it never exists.
    Refused(AdmissionError),
    /// The node affinity uses `matchFields`.
    MatchFields,
    /// A `Gt` or `Lt` requirement does not have exactly one integer.
    Comparison {
        /// Key of the label.
        key: String,
    },
    /// A list of values is missing, or is present where it is not allowed.
    Values {
        /// Key of the label.
        key: String,
    },
    /// The pod requires a label that is restricted to Karpenter.
    RestrictedLabel {
        /// Key of the label.
        key: String,
    },
    /// Every term of the required node affinity is empty and therefore selects no node.
    NoNode,
    /// A volume of the pod cannot be placed yet.
    Volume {
        /// Name of the claim, `namespace/name`.
        claim: String,
        /// Problem of the claim.
        error: VolumeError,
    },
    /// The pod runs on a leaving node until the deadline, because of its annotation `karpenter.sh/do-not-disrupt`.
    DoNotDisrupt,
    /// The pod runs on a leaving node until the deadline, because its PodDisruptionBudgets never allow an eviction.
    BlockedByBudget,
}

/// The problem of a volume claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeError {
    /// The claim does not exist.
    Missing,
    /// The claim is being deleted.
    Terminating,
    /// The volume of the claim is permanently lost.
    Lost,
    /// The claim is bound to a volume that does not exist.
    VolumeMissing {
        /// Name of the volume.
        volume: String,
    },
    /// The claim is bound to a volume that is being deleted.
    VolumeTerminating {
        /// Name of the volume.
        volume: String,
    },
    /// The claim names a volume, but is not bound yet.
    Binding {
        /// Name of the volume.
        volume: String,
    },
    /// The volume's node affinity selects no node.
    Nowhere {
        /// Name of the volume.
        volume: String,
    },
    /// The claim is unbound and requests no class, so no provisioner creates a volume for it.
    NoClass,
    /// The claim is unbound without a class, and the cluster has no default class.
    NoDefaultClass,
    /// The claim's StorageClass does not exist.
    ClassMissing {
        /// Name of the StorageClass.
        class: String,
    },
    /// The claim allows one pod in the whole cluster (`ReadWriteOncePod`), and another pod uses it.
    InUse {
        /// Name of the other pod, `namespace/name`.
        pod: String,
    },
    /// The claim's StorageClass binds immediately, in a zone of its driver's choice, and has not created the volume yet.
    Immediate {
        /// Name of the StorageClass.
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
            Self::AwaitsRequest { request } => {
                write!(out, "it waits for the capacity of ProvisioningRequest {request}; see its conditions")
            }
            Self::DeviceClaim => {
                out.write_str("ResourceClaims are not supported: request an extended resource instead")
            }
            Self::Quantity { text } => write!(out, "invalid request {text:?}: not a quantity"),
            Self::Refused(error) => write!(out, "the API server refuses it: {error}"),
            Self::MatchFields => out.write_str("its node affinity uses matchFields, which no new node can satisfy"),
            Self::Comparison { key } => write!(out, "its requirement on label {key} needs exactly one integer"),
            Self::Values { key } => {
                write!(out, "its requirement on label {key} has an invalid list of values")
            }
            Self::RestrictedLabel { key } => write!(out, "label {key} is restricted"),
            Self::NoNode => out.write_str("its required node affinity has only empty terms, which select no node"),
            Self::Volume { claim, error } => write!(out, "volume claim {claim} {error}"),
            Self::DoNotDisrupt => {
                out.write_str("its node is being removed, but it has annotation karpenter.sh/do-not-disrupt")
            }
            Self::BlockedByBudget => {
                out.write_str("its node is being removed, but its PodDisruptionBudgets never allow an eviction")
            }
        }
    }
}

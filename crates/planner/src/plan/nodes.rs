//! Verdicts on nodes.

use serde::{Deserialize, Serialize};

use super::CommandReason;
use crate::model::{CapacityHolder, MicroDollars, Pressure};

/// Reason why a managed node is removed or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NodeVerdict {
    /// The plan removes the node.
    Remove(CommandReason),
    /// The node is already being removed.
    Leaving,
    /// The node is not initialized yet.
    NotInitialized,
    /// No cheaper capacity exists for its pods.
    Cheapest {
        /// Number of these pods.
        pods: usize,
    },
    /// No cheaper capacity exists for its pods alone. Multi-node consolidation needs so much effort that a plan covers only a
    /// part of the nodes; a later plan covers this one.
    ByTurns {
        /// Number of these pods.
        pods: usize,
    },
    /// Pods of candidates will fit on nodes that are not quiet yet, so nothing is launched for this one.
    RoomSoon {
        /// Milliseconds until the node waits no longer.
        remaining: i64,
    },
    /// Nodes of the NodePool that are not quiet yet can be removed with this one. Until then its pods may be bound to them, and
    /// would be evicted again.
    RemovedTogether {
        /// Milliseconds until the node waits no longer.
        remaining: i64,
    },
    /// A pod on the node has no other place.
    NoPlace {
        /// First such pod, as `namespace/name`.
        pod: String,
    },
    /// A pod on the node fits only on nodes that it would overload.
    AboveCeiling {
        /// First such pod, as `namespace/name`.
        pod: String,
        /// One of these nodes.
        node: String,
        /// Its overload.
        strain: Overload,
    },
    /// New nodes that cost less would be overloaded by its pods.
    CheaperIsBusy {
        /// Overload of the least loaded of them.
        strain: Overload,
    },
    /// Cheaper capacity exists, but its savings are too small for the disruption.
    NotWorthIt {
        /// Savings per hour.
        saving: MicroDollars,
        /// Required savings per hour.
        asked: MicroDollars,
        /// Part of them for work that evicted pods would do again, if it is more than the minimum savings.
        #[serde(skip_serializing_if = "Option::is_none")]
        work: Option<MicroDollars>,
    },
    /// A commitment pays for the node, so that its removal saves nothing.
    Paid {
        /// Name of the commitment.
        commitment: String,
    },
    /// Cheaper capacity exists if each pod is bound where the plan places it. With kube-scheduler's placement, launches for
    /// pods without capacity would cost the savings.
    Scattered {
        /// Number of pods without capacity.
        pods: usize,
    },
    /// A spot node is replaced by cheaper spot only with the feature gate, and only with enough types.
    SpotToSpot {
        /// Number of cheaper types; `None` while the feature gate is disabled.
        types: Option<usize>,
    },
    /// The NodePool compares savings with disruption, and the balance is too low.
    Unbalanced {
        /// Lowest score of its NodePools, see [`crate::Balance`].
        score: i64,
    },
    /// The node is unhealthy and due for repair, but too many nodes of its NodePool are unhealthy at once for a fault of their
    /// own.
    ManyUnhealthy {
        /// Number of unhealthy nodes.
        unhealthy: usize,
        /// Number of nodes.
        nodes: usize,
    },
    /// Pods on the node would need another place, and the NodePool consolidates only empty nodes.
    InUse {
        /// Number of these pods.
        pods: usize,
    },
    /// A ProvisioningRequest keeps capacity on the node, or a CapacityBuffer and the NodePool consolidates only empty nodes.
    HoldsCapacity {
        /// Object that keeps the capacity.
        holder: CapacityHolder,
    },
    /// The price of the node is unknown.
    UnknownPrice,
    /// The node is busy or under pressure.
    Busy {
        /// Kind of the overload.
        strain: Overload,
    },
    /// This plan or a recent one nominated the node for pods.
    Nominated,
    /// The places of pending pods depend on pods of this node, or the reverse.
    Watched,
    /// The node changed too recently.
    Quiet {
        /// Milliseconds until the node is consolidatable.
        remaining: i64,
    },
    /// The NodePool has consolidation disabled.
    ConsolidationDisabled,
    /// The node is a replica of a static NodePool.
    Static,
    /// The node is a replica of a static NodePool, whose limits or insufficient capacity allow no replacement now.
    NoReplica,
    /// A command would launch in a NodePool where an earlier replacement is not initialized yet.
    AwaitsReplacement {
        /// Name of the NodePool.
        pool: String,
        /// NodeClaim of the earlier replacement; `None` if this plan launches the replacement.
        claim: Option<String>,
    },
    /// A command would launch in a NodePool whose replacements failed, and the next attempt is not due yet.
    ReplacementsFail {
        /// Name of the NodePool.
        pool: String,
        /// Number of attempts that failed in a row.
        failures: u32,
        /// Milliseconds until the next attempt.
        remaining: i64,
    },
    /// The node has drifted, but the canary nodes of its NodePool come first.
    AwaitsCanary {
        /// Name of the NodePool.
        pool: String,
        /// Number of canary nodes that have been healthy for long enough.
        healthy: usize,
        /// Number of canary nodes.
        nodes: u32,
        /// Milliseconds until enough of them will have been healthy for long enough; `None` while some are missing or starting.
        remaining: Option<i64>,
    },
    /// The node has drifted, but a node with the new configuration is unhealthy.
    CanaryUnhealthy {
        /// Name of the NodePool.
        pool: String,
        /// Name of the unhealthy node.
        node: String,
    },
    /// The instance reboots and is expected back.
    Rebooting,
    /// The node has the annotation `karpenter.sh/do-not-disrupt`.
    DoNotDisrupt,
    /// One of its pods has the annotation `karpenter.sh/do-not-disrupt`.
    PodDoNotDisrupt {
        /// The pod as `namespace/name`.
        pod: String,
        /// Milliseconds until the annotation ends, where it names a time.
        remaining: Option<i64>,
    },
    /// A PodDisruptionBudget blocks the eviction of one of its pods.
    PodHeld {
        /// The pod as `namespace/name`.
        pod: String,
        /// Names of the PodDisruptionBudgets.
        budgets: Vec<String>,
    },
    /// The workload of one of its pods has a minimum interval between disruptions, and was disrupted recently or changed by
    /// itself.
    Resting {
        /// The pod as `namespace/name`.
        pod: String,
        /// Milliseconds until the pod may be moved.
        remaining: i64,
    },
    /// The workload of one of its pods has a minimum interval between disruptions, and another command disrupts it now.
    Disturbed {
        /// The pod as `namespace/name`.
        pod: String,
        /// Workload, as `Kind namespace/name`.
        workload: String,
    },
    /// The node can be removed after requests of pods elsewhere are lowered.
    AfterResize {
        /// Nodes on which requests are lowered, by name.
        nodes: Vec<String>,
    },
    /// The node can be removed after another node of this plan: the places of their pods depend on each other.
    AfterMove {
        /// Name of that node.
        node: String,
    },
    /// The NodePool's budget for this reason is exhausted.
    Budget {
        /// Reason of the removal.
        reason: CommandReason,
    },
    /// The NodePool is unknown or not ready.
    NoPool,
    /// The commands of this plan together failed validation, so the command of this node waits for the next plan.
    LeftOut {
        /// Reason of the removal.
        reason: CommandReason,
        /// Finding of the validation.
        finding: String,
    },
    /// The step budget `Policy::max_steps` was exhausted before the node was evaluated.
    Postponed,
}

/// Overload of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Overload {
    /// CPU usage of its pods, in percent.
    Cpu(i64),
    /// Memory usage of its pods, in percent.
    Memory(i64),
    /// Pressure, independent of the usage of its pods.
    Short(Pressure),
}

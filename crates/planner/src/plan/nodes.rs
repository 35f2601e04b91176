//! Why a node stays or goes.

use serde::{Deserialize, Serialize};

use super::CommandReason;
use crate::model::{MicroDollars, Pressure};

/// Why a managed node stays or goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NodeVerdict {
    /// It goes.
    Remove(CommandReason),
    /// It is on its way out already.
    Leaving,
    /// Not initialized yet.
    NotInitialized,
    /// Nothing cheaper would do for its pods.
    Cheapest {
        /// How many.
        pods: usize,
    },
    /// Nothing cheaper would do for its pods alone. What would do for those of several nodes, or what several nodes would, takes so much
    /// looking for that not all have their turn in each plan; its own comes.
    ByTurns {
        /// How many.
        pods: usize,
    },
    /// A pod there has no other place.
    NoPlace {
        /// `namespace/name` of the first.
        pod: String,
    },
    /// A pod there has no other place but on nodes that would be busy then.
    AboveCeiling {
        /// `namespace/name` of the first.
        pod: String,
        /// One of those nodes.
        node: String,
        /// What it would be busy with.
        strain: Overload,
    },
    /// New nodes that cost less would be busy with its pods.
    CheaperIsBusy {
        /// What the least busy of them would be busy with.
        strain: Overload,
    },
    /// There is a cheaper way, which saves too little for what it disturbs.
    NotWorthIt {
        /// What it would save per hour.
        saving: MicroDollars,
        /// What it would have to.
        asked: MicroDollars,
    },
    /// There is a cheaper way, if each pod went where the plan has it; as kube-scheduler puts them, what is bought for those that find
    /// no room takes the saving.
    Scattered {
        /// How many find none.
        pods: usize,
    },
    /// Spot may be replaced by cheaper spot only with the feature gate, and only with choice enough.
    SpotToSpot {
        /// How many cheaper types there are; `None` while the gate is closed.
        types: Option<usize>,
    },
    /// The pool weighs savings against disruption, and this one does not hold.
    Unbalanced {
        /// The least score of its pools, see [`crate::Balance`].
        score: i64,
    },
    /// It is unhealthy and ought to go, but too many nodes of its pool are unhealthy at once for that to be their own fault.
    ManySick {
        /// How many are.
        sick: usize,
        /// Of how many.
        nodes: usize,
    },
    /// Pods run there that would need another place, and the pool gives back only nodes on which nothing runs.
    InUse {
        /// How many.
        pods: usize,
    },
    /// What it costs is not known.
    UnknownPrice,
    /// It is busy, or short of something.
    Busy {
        /// Of what.
        strain: Overload,
    },
    /// This plan or a recent one sends pods there.
    Nominated,
    /// The places of pods that wait rest on pods that run there, or the other way round.
    Watched,
    /// It could go, but not yet: something happened there not long ago.
    Quiet {
        /// Milliseconds until it may go.
        remaining: i64,
    },
    /// The pool never consolidates.
    ConsolidationDisabled,
    /// The pool keeps a fixed number of nodes.
    Static,
    /// The pool keeps a fixed number of nodes, and its limits or EC2 allow none in place of this one now.
    NoReplica,
    /// `karpenter.sh/do-not-disrupt` on the node.
    DoNotDisrupt,
    /// `karpenter.sh/do-not-disrupt` on one of its pods.
    PodDoNotDisrupt {
        /// `namespace/name`.
        pod: String,
        /// Milliseconds until that ends, where it names a time.
        remaining: Option<i64>,
    },
    /// A PodDisruptionBudget lets one of its pods not go.
    PodHeld {
        /// `namespace/name` of the pod.
        pod: String,
        /// Names of the budgets.
        budgets: Vec<String>,
    },
    /// The workload of one of its pods asks to be disturbed but once in a while, and was not long ago, or has changed by itself.
    Resting {
        /// `namespace/name` of the pod.
        pod: String,
        /// Milliseconds until it may be moved.
        remaining: i64,
    },
    /// The workload of one of its pods asks to be disturbed but once in a while, and another move disturbs it just now.
    Disturbed {
        /// `namespace/name` of the pod.
        pod: String,
        /// The workload, `Kind namespace/name`.
        workload: String,
    },
    /// It can go once requests of pods elsewhere are lowered.
    AfterResize {
        /// The nodes on which they are lowered, by name.
        nodes: Vec<String>,
    },
    /// It can go once another node of this plan has gone: the places of their pods rest on each other.
    AfterMove {
        /// That node's name.
        node: String,
    },
    /// The pool's budget for this reason is used up.
    Budget {
        /// For which it would go.
        reason: CommandReason,
    },
    /// The pool is unknown or not ready.
    NoPool,
    /// The checker found a rule broken by the moves of this plan together, so its own waits for the next plan.
    LeftOut {
        /// For which it would go.
        reason: CommandReason,
        /// What the checker found.
        finding: String,
    },
    /// `Policy::max_steps` was used up before its turn came.
    Postponed,
}

/// What a node has enough to do with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Overload {
    /// Its pods use so many percent of its CPU.
    Cpu(i64),
    /// Its pods use so many percent of its memory.
    Memory(i64),
    /// It is short of something, however much its pods use.
    Short(Pressure),
}

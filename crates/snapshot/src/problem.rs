//! Objects that could not be read in full, each with what was done about it.

use api::duration::{InvalidDuration, InvalidSpan};
use api::nodepool::DisruptionFault;
use api::objects::Unevictable;
use api::reason;

/// One thing that an operator should repair. Nothing stops because of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A pool whose node class offers nothing (yet).
    #[error("NodePool {pool}: EC2NodeClass {class} has no instance types yet; check its conditions")]
    NoCatalogue {
        /// The pool.
        pool: String,
        /// Its node class.
        class: String,
    },
    /// An amount that is not a quantity; it counts as absent.
    #[error(
        "{kind} {name}: the amount of {resource} is not a quantity and is ignored; write an integer or decimal \
         with an optional suffix"
    )]
    Quantity {
        /// Such as `Node`.
        kind: &'static str,
        /// The object's name.
        name: String,
        /// The resource.
        resource: String,
    },
    /// A bound pod whose requests cannot be read; its node's room is overestimated.
    #[error(
        "Pod {pod}: a request is not a quantity, so the free capacity of node {node} is overestimated; delete \
             the pod"
    )]
    BoundPod {
        /// `namespace/name`.
        pod: String,
        /// Where it runs.
        node: String,
    },
    /// A DaemonSet that cannot be translated; its overhead is not reserved on new nodes.
    #[error("DaemonSet {name}: {reason}; its overhead is not reserved on new nodes until the template is corrected")]
    Daemon {
        /// `namespace/name`.
        name: String,
        /// What is wrong with its template.
        reason: super::IgnoredReason,
    },
    /// Something that a pool says of disruption cannot be read.
    #[error("NodePool {pool}: {fault}")]
    Disruption {
        /// The pool.
        pool: String,
        /// What, and what it counts as.
        fault: DisruptionFault,
    },
    /// A duration of a claim that cannot be read counts as absent.
    #[error("NodeClaim {claim}: {field} is ignored: {error}")]
    Claim {
        /// The claim.
        claim: String,
        /// Such as `spec.expireAfter`.
        field: &'static str,
        /// What is wrong with it.
        error: InvalidDuration,
    },
    /// A pod's request to be left in peace that cannot be read protects nothing.
    #[error(
        "Pod {pod}{}: annotation karpenter.sh/do-not-disrupt is ignored: {text:?} is neither true nor a duration \
         above 0 since the start of the pod, such as 4h",
        and_others(*.others)
    )]
    DoNotDisrupt {
        /// `namespace/name` of the first pod that says it.
        pod: String,
        /// How many pods of the same workload say the same.
        others: usize,
        /// What it says.
        text: String,
    },
    /// A pod's time of rest that cannot be read counts as none.
    #[error("Pod {pod}{}: annotation kerf.sh/disrupt-at-most-once-per is ignored: {error}", and_others(*.others))]
    Rest {
        /// `namespace/name` of the first pod that says it.
        pod: String,
        /// How many pods of the same workload say the same.
        others: usize,
        /// What is wrong with it.
        error: InvalidSpan,
    },
    /// What a pod requested before it was lowered cannot be read, so its requests stay as they are.
    #[error("Pod {pod}: {error}; the pod is not resized until then")]
    Requested {
        /// `namespace/name`.
        pod: String,
        /// What is wrong with it.
        error: api::objects::InvalidRequested,
    },
    /// What a pod says of changes of its requests cannot be read.
    #[error("Pod {pod}{}: annotation kerf.sh/resize is ignored: unknown value {text:?}; write never", and_others(*.others))]
    Resize {
        /// `namespace/name` of the first pod that says it.
        pod: String,
        /// How many pods of the same workload say the same.
        others: usize,
        /// What it says.
        text: String,
    },
    /// What a pod says of a copy before it goes cannot be read.
    #[error("Pod {pod}{}: annotation kerf.sh/surge is ignored: {text:?} is neither true nor false", and_others(*.others))]
    Surge {
        /// `namespace/name` of the first pod that says it.
        pod: String,
        /// How many pods of the same workload say the same.
        others: usize,
        /// What it says.
        text: String,
    },
    /// A `consolidateAfter` that is not a duration counts as `Never`.
    #[error(
        "NodePool {pool}: consolidateAfter {text:?} is not a duration, so no node is consolidated; write 30s, 10m \
         or Never"
    )]
    ConsolidateAfter {
        /// The pool.
        pool: String,
        /// What it says.
        text: String,
    },
    /// A node fee that is not a price counts as none.
    #[error("NodePool {pool}: annotation kerf.sh/node-fee is ignored: {error}")]
    NodeFee {
        /// The pool.
        pool: String,
        /// What is wrong with it.
        error: api::price::InvalidPrice,
    },
    /// What a pod says of its workload's split cannot be read and does not count.
    #[error("Pod {pod}{}: {error}; the annotation is ignored until then", and_others(*.others))]
    Mix {
        /// `namespace/name` of the first pod that says it.
        pod: String,
        /// How many pods of the same workload say the same.
        others: usize,
        /// What is wrong with it.
        error: api::InvalidMix,
    },
    /// A Node's request to be left in peace that cannot be read protects nothing.
    #[error(
        "Node {node}{}: annotation karpenter.sh/do-not-disrupt is ignored: {text:?} is not true, and durations are \
         supported on pods only",
        and_others(*.others)
    )]
    NodeDoNotDisrupt {
        /// The first of them, by name.
        node: String,
        /// How many more Nodes say the same.
        others: usize,
        /// What they say.
        text: String,
    },
    /// A pod that no eviction will ever take, for the API server would refuse each.
    #[error("Pod {pod}{}: can never be evicted, so its node cannot be disrupted: {why}", and_others(*.others))]
    NeverEvicted {
        /// `namespace/name` of the first of them.
        pod: String,
        /// How many more pods the same budgets hold so.
        others: usize,
        /// Whose word that is, and what to do.
        why: Unevictable,
    },
    /// A PodDisruptionBudget that is about no pod.
    #[error("PodDisruptionBudget {budget}: selects no pod: {}", missing(*.asks))]
    SelectsNothing {
        /// `namespace/name`.
        budget: String,
        /// Whether it has a selector.
        asks: bool,
    },
    /// A Node that says whose pool it is, and has no NodeClaim.
    #[error(
        "Node {node}{}: label karpenter.sh/nodepool is {pool:?}, but no NodeClaim exists, so it is never \
         disrupted; add its NodeClaim, or delete the Node, or remove the label",
        and_others(*.others)
    )]
    Unclaimed {
        /// The first of them, by name.
        node: String,
        /// How many more Nodes of the pool are like it.
        others: usize,
        /// The pool.
        pool: String,
    },
    /// What an agent says of its node's use does not count.
    #[error("NodeUsage {node}{}: ignored: {why}", and_others(*.others))]
    Usage {
        /// The first of the Nodes, by name.
        node: String,
        /// How many more reports are like it.
        others: usize,
        /// Why.
        why: UsageError,
    },
    /// Performance factors that cannot be read do not count.
    #[error("NodePool {pool}: annotation kerf.sh/performance-factors is ignored: {error}{}", cause(error))]
    PerformanceFactors {
        /// The pool.
        pool: String,
        /// What is wrong with them.
        error: api::performance::InvalidFactors,
    },
}

/// Why a report of use does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsageError {
    /// It was measured too long ago: the agent is silent, or a dump is old.
    #[error("report is older than 15 minutes")]
    Stale,
    /// It was measured later than now: a clock is wrong.
    #[error("report is more than 2 minutes in the future, check the clocks")]
    Ahead,
    /// It names another machine.
    #[error("report belongs to another instance that had the same name")]
    OtherInstance,
}

/// An object that a problem speaks of: of several that say the same the first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// Such as `Pod`.
    pub kind: &'static str,
    /// `namespace/name`, or the name where the kind has no namespaces.
    pub name: String,
}

impl Subject {
    fn new(kind: &'static str, name: &str) -> Self {
        Self { kind, name: name.to_owned() }
    }
}

impl Problem {
    /// Whom it speaks of: where someone would look for it. Of several budgets that hold a pod any might be changed, so it is all of
    /// them; the pods hear of it one by one.
    #[must_use]
    pub fn about(&self) -> Vec<Subject> {
        const BUDGET: &str = "PodDisruptionBudget";
        let (kind, name) = match self {
            Self::NeverEvicted { pod, why, .. } => {
                let budgets: Vec<Subject> = why.budgets().iter().map(|name| Subject::new(BUDGET, name)).collect();
                return if budgets.is_empty() { vec![Subject::new("Pod", pod)] } else { budgets };
            }
            Self::NoCatalogue { pool, .. }
            | Self::Disruption { pool, .. }
            | Self::ConsolidateAfter { pool, .. }
            | Self::NodeFee { pool, .. }
            | Self::PerformanceFactors { pool, .. } => ("NodePool", pool),
            Self::Quantity { kind, name, .. } => (*kind, name),
            Self::Daemon { name, .. } => ("DaemonSet", name),
            Self::Claim { claim, .. } => ("NodeClaim", claim),
            Self::SelectsNothing { budget, .. } => (BUDGET, budget),
            Self::NodeDoNotDisrupt { node, .. } | Self::Unclaimed { node, .. } => ("Node", node),
            Self::Usage { node, .. } => ("NodeUsage", node),
            Self::BoundPod { pod, .. }
            | Self::DoNotDisrupt { pod, .. }
            | Self::Rest { pod, .. }
            | Self::Requested { pod, .. }
            | Self::Resize { pod, .. }
            | Self::Surge { pod, .. }
            | Self::Mix { pod, .. } => ("Pod", pod),
        };
        vec![Subject::new(kind, name)]
    }

    /// The word for it in an event.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoCatalogue { .. } => reason::NO_COMPATIBLE_INSTANCE_TYPES,
            Self::Disruption { .. } | Self::ConsolidateAfter { .. } => reason::DISRUPTION_INVALID,
            Self::Mix { .. } => reason::INVALID_SPLIT_ANNOTATION,
            Self::SelectsNothing { .. } => reason::SELECTS_NOTHING,
            Self::NeverEvicted { .. } => reason::NEVER_EVICTED,
            Self::Unclaimed { .. } => reason::NODE_CLAIM_MISSING,
            Self::Usage { .. } => reason::USAGE_IGNORED,
            Self::DoNotDisrupt { .. } | Self::NodeDoNotDisrupt { .. } => reason::INVALID_DO_NOT_DISRUPT_ANNOTATION,
            Self::Rest { .. }
            | Self::Requested { .. }
            | Self::Resize { .. }
            | Self::Surge { .. }
            | Self::NodeFee { .. }
            | Self::PerformanceFactors { .. } => reason::INVALID_ANNOTATION,
            Self::Quantity { .. } | Self::BoundPod { .. } | Self::Daemon { .. } | Self::Claim { .. } => {
                reason::INVALID_FIELD
            }
        }
    }

    /// What it says, whomever it speaks of; `None` where it is told of each object by itself.
    pub(crate) fn of_nobody(&self) -> Option<String> {
        let mut same = self.clone();
        let (name, others) = same.shared()?;
        (*name, *others) = (String::new(), 0);
        Some(same.to_string())
    }

    /// Speaks of one object more.
    pub(crate) fn count_another(&mut self) {
        if let Some((_, others)) = self.shared() {
            *others += 1;
        }
    }

    /// The first whom it speaks of, and how many others.
    fn shared(&mut self) -> Option<(&mut String, &mut usize)> {
        match self {
            Self::DoNotDisrupt { pod, others, .. }
            | Self::NeverEvicted { pod, others, .. }
            | Self::Rest { pod, others, .. }
            | Self::Resize { pod, others, .. }
            | Self::Surge { pod, others, .. }
            | Self::Mix { pod, others, .. } => Some((pod, others)),
            Self::NodeDoNotDisrupt { node, others, .. }
            | Self::Unclaimed { node, others, .. }
            | Self::Usage { node, others, .. } => Some((node, others)),
            _ => None,
        }
    }
}

/// What a budget's author should look at.
fn missing(asks: bool) -> &'static str {
    match asks {
        true => "compare its selector with the labels of its pods, unless they are scaled to zero",
        false => "set spec.selector; an empty one, {}, selects all pods of its namespace",
    }
}

/// How many are not named.
fn and_others(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => " and 1 other".to_owned(),
        count => format!(" and {count} others"),
    }
}

/// The rest of the story, for errors that leave it to their source.
fn cause(error: &dyn std::error::Error) -> String {
    error.source().map(|source| format!(": {source}")).unwrap_or_default()
}

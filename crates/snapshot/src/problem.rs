//! Objects that could not be translated completely, and the effect of each problem.

mod event;
mod without_effect;

use std::collections::BTreeMap;

use api::duration::{InvalidDuration, InvalidSpan};
use api::ineffective::Ineffective;
use api::nodepool::DisruptionFault;
use api::objects::Unevictable;

use crate::pods::ignored::IgnoredReason;
pub use event::Subject;
pub use without_effect::{
    ineffective_in_buffer, ineffective_in_class, ineffective_in_overlay, ineffective_in_pool, ineffective_in_request,
};

/// A problem that an operator should correct. A problem stops nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The EC2NodeClass of a NodePool has no catalogue (yet).
    #[error("NodePool {pool}: EC2NodeClass {class} has no instance types yet; check its conditions")]
    NoCatalogue {
        /// Name of the NodePool.
        pool: String,
        /// Name of its EC2NodeClass.
        class: String,
    },
    /// An amount is not a valid quantity and counts as absent.
    #[error(
        "{kind} {name}: the amount of {resource} is not a quantity and is ignored; write an integer or decimal \
         with an optional suffix"
    )]
    Quantity {
        /// Kind of the object, such as `Node`.
        kind: &'static str,
        /// Name of the object.
        name: String,
        /// Name of the resource.
        resource: String,
    },
    /// Requests of a bound pod cannot be parsed, so the free capacity of its node is overestimated.
    #[error(
        "Pod {pod}: a request is not a quantity, so the free capacity of node {node} is overestimated; delete \
             the pod"
    )]
    BoundPod {
        /// Name of the pod, `namespace/name`.
        pod: String,
        /// Node of the pod.
        node: String,
    },
    /// A DaemonSet cannot be translated, so new nodes do not reserve its overhead.
    #[error("DaemonSet {name}: {reason}; its overhead is not reserved on new nodes until the template is corrected")]
    Daemon {
        /// Name of the DaemonSet, `namespace/name`.
        name: String,
        /// Error of its template.
        reason: IgnoredReason,
    },
    /// A disruption setting of a NodePool cannot be parsed.
    #[error("NodePool {pool}: {fault}")]
    Disruption {
        /// Name of the NodePool.
        pool: String,
        /// The setting, and the value that counts instead.
        fault: DisruptionFault,
    },
    /// A duration of a NodeClaim cannot be parsed and counts as absent.
    #[error("NodeClaim {claim}: {field} is ignored: {error}")]
    Claim {
        /// Name of the NodeClaim.
        claim: String,
        /// Field, such as `spec.expireAfter`.
        field: &'static str,
        /// Error of the duration.
        error: InvalidDuration,
    },
    /// A pod's annotation `karpenter.sh/do-not-disrupt` cannot be parsed and protects nothing.
    #[error(
        "Pod {pod}{}: annotation karpenter.sh/do-not-disrupt is ignored: {text:?} is neither true nor a duration \
         above 0 since the start of the pod, such as 4h",
        and_others(*.others)
    )]
    DoNotDisrupt {
        /// Name of the first pod with this value, `namespace/name`.
        pod: String,
        /// Number of other pods of the workload with this value.
        others: usize,
        /// Value of the annotation.
        text: String,
    },
    /// A pod's annotation `kerf.sh/disrupt-at-most-once-per` cannot be parsed and is ignored.
    #[error("Pod {pod}{}: annotation kerf.sh/disrupt-at-most-once-per is ignored: {error}", and_others(*.others))]
    Rest {
        /// Name of the first pod with this value, `namespace/name`.
        pod: String,
        /// Number of other pods of the workload with this value.
        others: usize,
        /// Error of the annotation.
        error: InvalidSpan,
    },
    /// A pod's original requests cannot be parsed, so its requests are not changed.
    #[error("Pod {pod}: {error}; the pod is not resized until then")]
    Requested {
        /// Name of the pod, `namespace/name`.
        pod: String,
        /// Error of the annotation.
        error: api::objects::InvalidRequested,
    },
    /// A pod's annotation `kerf.sh/resize` cannot be parsed.
    #[error("Pod {pod}{}: annotation kerf.sh/resize is ignored: unknown value {text:?}; write never", and_others(*.others))]
    Resize {
        /// Name of the first pod with this value, `namespace/name`.
        pod: String,
        /// Number of other pods of the workload with this value.
        others: usize,
        /// Value of the annotation.
        text: String,
    },
    /// A pod's annotation `kerf.sh/surge` cannot be parsed.
    #[error("Pod {pod}{}: annotation kerf.sh/surge is ignored: {text:?} is neither true nor false", and_others(*.others))]
    Surge {
        /// Name of the first pod with this value, `namespace/name`.
        pod: String,
        /// Number of other pods of the workload with this value.
        others: usize,
        /// Value of the annotation.
        text: String,
    },
    /// A pod requests a copy, which the controller has no permission to start.
    #[error(
        "Pod {pod}{}: annotation kerf.sh/surge has no effect, because the controller may not patch pods: set \
         kerf.surge.enabled=true in the values of the chart, or remove the annotation",
        and_others(*.others)
    )]
    SurgeNotPermitted {
        /// Name of the first such pod, `namespace/name`.
        pod: String,
        /// Number of other such pods.
        others: usize,
    },
    /// A `consolidateAfter` is not a duration and counts as `Never`.
    #[error(
        "NodePool {pool}: consolidateAfter {text:?} is not a duration, so no node is consolidated; write 30s, 10m \
         or Never"
    )]
    ConsolidateAfter {
        /// Name of the NodePool.
        pool: String,
        /// Value of the field.
        text: String,
    },
    /// A node fee is not a price and counts as zero.
    #[error("NodePool {pool}: annotation kerf.sh/node-fee is ignored: {error}")]
    NodeFee {
        /// Name of the NodePool.
        pool: String,
        /// Error of the annotation.
        error: api::price::InvalidPrice,
    },
    /// A limit of the cost is no price, and the NodePool launches nothing.
    #[error("NodePool {pool}: kerf.sh/max-cost-per-hour permits no launch until it is corrected: {error}")]
    CostLimit {
        /// Name of the NodePool.
        pool: String,
        /// Error of the annotation or limit.
        error: api::price::InvalidPrice,
    },
    /// A SpendPolicy is invalid, and its NodePools launch nothing.
    #[error("SpendPolicy {policy}: permits no launch until it is corrected: {fault}")]
    SpendPolicy {
        /// Name of the SpendPolicy.
        policy: String,
        /// Problem of the policy.
        fault: api::FieldFault,
    },
    /// A Commitment is invalid and pays for nothing.
    #[error("Commitment {commitment}: pays for nothing until it is corrected: {fault}")]
    Commitment {
        /// Name of the Commitment.
        commitment: String,
        /// Problem of the Commitment.
        fault: api::FieldFault,
    },
    /// No node can use a Commitment.
    #[error("Commitment {commitment}: no EC2NodeClass has an on-demand instance type for which it pays")]
    CommitmentWithoutTypes {
        /// Name of the Commitment.
        commitment: String,
    },
    /// Active times cannot be read, and the NodePool is always active.
    #[error("NodePool {pool}: annotation kerf.sh/active-times is ignored: {error}")]
    ActiveTimes {
        /// Name of the NodePool.
        pool: String,
        /// Error of the annotation.
        error: api::schedule::InvalidTimes,
    },
    /// A premium for preferences is invalid, and that of the settings applies.
    #[error("NodePool {pool}: annotation kerf.sh/preference-premium is ignored: {error}")]
    PreferencePremium {
        /// Name of the NodePool.
        pool: String,
        /// Error of the annotation.
        error: api::price::InvalidPremium,
    },
    /// An annotation for the split of a pod's workload cannot be parsed and is ignored.
    #[error("Pod {pod}{}: {error}; the annotation is ignored until then", and_others(*.others))]
    Mix {
        /// Name of the first pod with this value, `namespace/name`.
        pod: String,
        /// Number of other pods of the workload with this value.
        others: usize,
        /// Error of the annotation.
        error: api::InvalidSplit,
    },
    /// Annotations of a pod name no group, so the pod is planned alone.
    #[error("Pod {pod}{}: {error}", and_others(*.others))]
    PodGroup {
        /// Name of the first such pod, `namespace/name`.
        pod: String,
        /// Number of other such pods.
        others: usize,
        /// Error of the annotations.
        error: api::objects::InvalidGroup,
    },
    /// A Node's annotation `karpenter.sh/do-not-disrupt` cannot be parsed and protects nothing.
    #[error(
        "Node {node}{}: annotation karpenter.sh/do-not-disrupt is ignored: {text:?} is not true, and durations are \
         supported on pods only",
        and_others(*.others)
    )]
    NodeDoNotDisrupt {
        /// Name of the first Node with this value.
        node: String,
        /// Number of other Nodes with this value.
        others: usize,
        /// Value of the annotation.
        text: String,
    },
    /// A pod can never be evicted, because the API server refuses every eviction.
    #[error("Pod {pod}{}: can never be evicted, so its node cannot be disrupted: {why}", and_others(*.others))]
    NeverEvicted {
        /// Name of the first such pod, `namespace/name`.
        pod: String,
        /// Number of other pods that the same budgets block.
        others: usize,
        /// Reason with a hint.
        why: Unevictable,
    },
    /// A PodDisruptionBudget selects no pod.
    #[error("PodDisruptionBudget {budget}: selects no pod: {}", missing(*.has_selector))]
    SelectsNothing {
        /// Name of the budget, `namespace/name`.
        budget: String,
        /// True if the budget has a selector.
        has_selector: bool,
    },
    /// A Node has the label of a NodePool but no NodeClaim.
    #[error(
        "Node {node}{}: label karpenter.sh/nodepool is {pool:?}, but no NodeClaim exists, so it is never \
         disrupted; add its NodeClaim, or delete the Node, or remove the label",
        and_others(*.others)
    )]
    Unclaimed {
        /// Name of the first such Node.
        node: String,
        /// Number of other such Nodes in the NodePool.
        others: usize,
        /// Name of the NodePool.
        pool: String,
    },
    /// A setting has no effect, because nothing reads it.
    #[error("{kind} {name}{}: {setting}", and_others(*.others))]
    Ineffective {
        /// Kind of the object, such as `Pod`.
        kind: &'static str,
        /// Name of the first such object, with the namespace if there is one.
        name: String,
        /// Number of other objects of the same owner.
        others: usize,
        /// The setting, and the fix.
        setting: Ineffective,
    },
    /// A Node that is not initialized has a taint that its NodePool does not declare, so pending pods get another node.
    #[error(
        "Node {node}{}: taint {taint} is neither in taints nor in startupTaints of NodePool {pool}, so pods that do not tolerate it \
         get another node meanwhile; add it to spec.template.spec.startupTaints",
        and_others(*.others)
    )]
    UndeclaredTaint {
        /// Name of the first such Node.
        node: String,
        /// Number of other such Nodes of the NodePool.
        others: usize,
        /// Key and effect of the taint.
        taint: String,
        /// Name of the NodePool.
        pool: String,
    },
    /// An agent's report of its node's utilization is ignored.
    #[error("NodeUsage {node}{}: ignored: {why}", and_others(*.others))]
    Usage {
        /// Name of the first such Node.
        node: String,
        /// Number of other such reports.
        others: usize,
        /// Reason.
        why: UsageError,
    },
    /// Performance factors cannot be parsed and are ignored.
    #[error("NodePool {pool}: annotation kerf.sh/performance-factors is ignored: {error}{}", cause(error))]
    PerformanceFactors {
        /// Name of the NodePool.
        pool: String,
        /// Error of the annotation.
        error: api::performance::InvalidFactors,
    },
}

/// The reason why a utilization report is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsageError {
    /// The report is too old: the agent is silent, or a dump is old.
    #[error("report is older than 15 minutes")]
    Stale,
    /// The report is from the future: a clock is wrong.
    #[error("report is more than 2 minutes in the future, check the clocks")]
    Ahead,
    /// The report is from another instance.
    #[error("report belongs to another instance that had the same name")]
    OtherInstance,
}

impl Problem {
    /// Returns the message without the object's name; `None` if the problem is reported separately for each object.
    pub(crate) fn text_without_name(&self) -> Option<String> {
        let mut same = self.clone();
        let (name, others) = same.shared()?;
        (*name, *others) = (String::new(), 0);
        Some(same.to_string())
    }

    /// Counts one more object with the same problem.
    pub(crate) fn count_another(&mut self) {
        if let Some((_, others)) = self.shared() {
            *others += 1;
        }
    }

    /// Returns the name of the first object and the number of others.
    fn shared(&mut self) -> Option<(&mut String, &mut usize)> {
        match self {
            Self::DoNotDisrupt { pod, others, .. }
            | Self::NeverEvicted { pod, others, .. }
            | Self::Rest { pod, others, .. }
            | Self::Resize { pod, others, .. }
            | Self::Surge { pod, others, .. }
            | Self::PodGroup { pod, others, .. }
            | Self::SurgeNotPermitted { pod, others }
            | Self::Mix { pod, others, .. } => Some((pod, others)),
            Self::Ineffective { name, others, .. } => Some((name, others)),
            Self::NodeDoNotDisrupt { node, others, .. }
            | Self::Unclaimed { node, others, .. }
            | Self::UndeclaredTaint { node, others, .. }
            | Self::Usage { node, others, .. } => Some((node, others)),
            _ => None,
        }
    }
}

/// Returns a problem for each setting of an object that has no effect.
pub(crate) fn ineffective(kind: &'static str, name: Option<&str>, settings: Vec<Ineffective>) -> Vec<Problem> {
    let name = name.unwrap_or_default();
    let problem = |setting| Problem::Ineffective { kind, name: name.to_owned(), others: 0, setting };
    settings.into_iter().map(problem).collect()
}

/// Merges problems of a group that differ only in the object that they name.
pub(crate) fn merge_equal<G: Ord>(problems: impl Iterator<Item = (G, Problem)>) -> Vec<Problem> {
    let mut known: BTreeMap<(G, String), usize> = BTreeMap::new();
    let mut all: Vec<Problem> = Vec::new();
    for (group, problem) in problems {
        let Some(text) = problem.text_without_name() else {
            all.push(problem);
            continue;
        };
        let position = *known.entry((group, text)).or_insert(all.len());
        match all.get_mut(position) {
            Some(first) => first.count_another(),
            None => all.push(problem),
        }
    }
    all
}

/// Returns a hint for the owner of the budget.
fn missing(has_selector: bool) -> &'static str {
    match has_selector {
        true => "compare its selector with the labels of its pods, unless they are scaled to zero",
        false => "set spec.selector; an empty one, {}, selects all pods of its namespace",
    }
}

/// Returns a text for the number of objects that are not named.
fn and_others(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => " and 1 other".to_owned(),
        count => format!(" and {count} others"),
    }
}

/// Returns the source of errors whose message does not contain it.
fn cause(error: &dyn std::error::Error) -> String {
    error.source().map(|source| format!(": {source}")).unwrap_or_default()
}

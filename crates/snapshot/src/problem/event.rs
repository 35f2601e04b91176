//! Events about problems: their objects and reasons.

use api::reason;

use super::Problem;

/// The object of a problem; the first of several with the same problem.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// Kind, such as `Pod`.
    pub kind: &'static str,
    /// Name, `namespace/name` or only the name for cluster-scoped kinds.
    pub name: String,
}

impl Subject {
    fn new(kind: &'static str, name: &str) -> Self {
        Self { kind, name: name.to_owned() }
    }
}

impl Problem {
    /// Returns the objects of the problem, which get the event. If several budgets block a pod, each of them is an object,
    /// because a change of any could help. The blocked pods get their own events.
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
            | Self::CostLimit { pool, .. }
            | Self::ActiveTimes { pool, .. }
            | Self::PreferencePremium { pool, .. }
            | Self::PerformanceFactors { pool, .. } => ("NodePool", pool),
            Self::Quantity { kind, name, .. } | Self::Ineffective { kind, name, .. } => (*kind, name),
            Self::Daemon { name, .. } => ("DaemonSet", name),
            Self::Claim { claim, .. } => ("NodeClaim", claim),
            Self::SpendPolicy { policy, .. } => ("SpendPolicy", policy),
            Self::Commitment { commitment, .. } | Self::CommitmentWithoutTypes { commitment } => {
                ("Commitment", commitment)
            }
            Self::SelectsNothing { budget, .. } => (BUDGET, budget),
            Self::NodeDoNotDisrupt { node, .. } | Self::Unclaimed { node, .. } | Self::UndeclaredTaint { node, .. } => {
                ("Node", node)
            }
            Self::Usage { node, .. } => ("NodeUsage", node),
            Self::BoundPod { pod, .. }
            | Self::DoNotDisrupt { pod, .. }
            | Self::Rest { pod, .. }
            | Self::Requested { pod, .. }
            | Self::Resize { pod, .. }
            | Self::Surge { pod, .. }
            | Self::SurgeNotPermitted { pod, .. }
            | Self::PodGroup { pod, .. }
            | Self::Mix { pod, .. } => ("Pod", pod),
        };
        vec![Subject::new(kind, name)]
    }

    /// Returns the reason of the event.
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
            Self::Ineffective { .. } | Self::CommitmentWithoutTypes { .. } => reason::NO_EFFECT,
            Self::UndeclaredTaint { .. } => reason::UNDECLARED_TAINT,
            Self::SurgeNotPermitted { .. } => reason::PERMISSION_MISSING,
            Self::DoNotDisrupt { .. } | Self::NodeDoNotDisrupt { .. } => reason::INVALID_DO_NOT_DISRUPT_ANNOTATION,
            Self::Rest { .. }
            | Self::Requested { .. }
            | Self::Resize { .. }
            | Self::Surge { .. }
            | Self::PodGroup { .. }
            | Self::NodeFee { .. }
            | Self::CostLimit { .. }
            | Self::ActiveTimes { .. }
            | Self::PreferencePremium { .. }
            | Self::PerformanceFactors { .. } => reason::INVALID_ANNOTATION,
            Self::Quantity { .. }
            | Self::BoundPod { .. }
            | Self::Daemon { .. }
            | Self::Claim { .. }
            | Self::Commitment { .. }
            | Self::SpendPolicy { .. } => reason::INVALID_FIELD,
        }
    }
}

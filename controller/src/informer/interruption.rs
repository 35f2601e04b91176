//! Notices of EC2 that the controller receives: messages of EventBridge from the account's SQS queue, and EC2's instance status
//! checks. Optional beside agents, which receive the notices of their own instance.
//!
//! A notice decides nothing here. The notice is stored for its NodeClaim, whose reconcile reads it together with the agent's
//! condition. So there is one decision and one replacement, from either source. The source of the notice receives a signal once
//! it is handled.

pub mod maintenance;
pub mod message;
pub mod notice_limit;
mod notices;
pub mod queue;
pub mod status_checks;

use api::reason;
use jiff::Timestamp;

pub use notices::Notices;

/// Kind of a notice, with the names of Karpenter's metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoticeKind {
    /// Spot interruption warning.
    SpotInterrupted,
    /// Recommendation to leave a spot instance.
    RebalanceRecommendation,
    /// Instance that is stopping or stopped.
    InstanceStopped,
    /// Instance that is terminating or terminated.
    InstanceTerminated,
    /// Change of the instance that AWS has scheduled.
    ScheduledChange,
    /// Interruption of the capacity reservation of the instance.
    CapacityReservationInterrupted,
    /// Failed status check of the instance.
    InstanceStatus,
    /// Failed status check of the instance's host.
    SystemStatus,
    /// Scheduled event from DescribeInstanceStatus.
    EventStatus,
}

impl NoticeKind {
    /// Returns the label value in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SpotInterrupted => "spot_interrupted",
            Self::RebalanceRecommendation => "rebalance_recommendation",
            Self::InstanceStopped => "instance_stopped",
            Self::InstanceTerminated => "instance_terminated",
            Self::ScheduledChange => "scheduled_change",
            Self::CapacityReservationInterrupted => "capacity_reservation_interrupted",
            Self::InstanceStatus => "instance_status",
            Self::SystemStatus => "system_status",
            Self::EventStatus => "event_status",
        }
    }

    /// Reports whether EC2 announces the end of the instance. A failed status check announces nothing.
    #[must_use]
    pub fn is_announced(self) -> bool {
        !matches!(self, Self::InstanceStatus | Self::SystemStatus)
    }

    /// Returns the reason of the event.
    #[must_use]
    pub fn event(self) -> &'static str {
        match self {
            Self::SpotInterrupted => reason::SPOT_INTERRUPTED,
            Self::RebalanceRecommendation => reason::SPOT_REBALANCE_RECOMMENDATION,
            Self::InstanceStopped => reason::INSTANCE_STOPPING,
            Self::InstanceTerminated => reason::INSTANCE_TERMINATING,
            Self::CapacityReservationInterrupted => reason::CAPACITY_RESERVATION_INSTANCE_INTERRUPTED,
            Self::ScheduledChange | Self::InstanceStatus | Self::SystemStatus | Self::EventStatus => {
                reason::INSTANCE_UNHEALTHY
            }
        }
    }

    /// Returns the message of the event.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Self::SpotInterrupted => "spot interruption warning",
            Self::RebalanceRecommendation => "rebalance recommendation",
            Self::InstanceStopped => "instance is stopping",
            Self::InstanceTerminated => "instance is terminating",
            Self::ScheduledChange => "scheduled change of the instance",
            Self::CapacityReservationInterrupted => "capacity reservation interruption warning",
            Self::InstanceStatus => "instance status check failed",
            Self::SystemStatus => "system status check failed",
            Self::EventStatus => "scheduled event of the instance",
        }
    }
}

/// Reason to remove a NodeClaim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Kind of the notice.
    pub kind: NoticeKind,
    /// Time at which pods are deleted by force; `None` leaves the time to the NodeClaim.
    pub deadline: Option<Timestamp>,
}

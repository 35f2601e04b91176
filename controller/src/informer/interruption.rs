//! Notices of EC2 that reach the controller itself: the account's queue of EventBridge's messages, and what EC2 says of its
//! instances' health (aws 6). Optional beside agents, which hear of the end of their machine by themselves.
//!
//! A notice decides nothing here. It is laid beside the claim that it is about, where the claim's next look finds it next to
//! the agent's condition: one decision, so one replacement, whoever was first. Whoever laid it there hears when it is done.

pub mod message;
mod notices;
pub mod queue;
pub mod status_checks;

use api::reason;
use jiff::Timestamp;

pub use notices::Notices;

/// What a notice is about, in the words of Karpenter's metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoticeKind {
    /// EC2 takes a spot instance back.
    SpotInterrupted,
    /// EC2 recommends to leave a spot instance.
    RebalanceRecommendation,
    /// The instance stops or has stopped.
    InstanceStopped,
    /// The instance ends or has ended.
    InstanceTerminated,
    /// AWS is going to do something to the instance.
    ScheduledChange,
    /// The reservation that the instance runs in is taken back.
    CapacityReservationInterrupted,
    /// The instance fails its own checks.
    InstanceStatus,
    /// The host of the instance fails its checks.
    SystemStatus,
    /// DescribeInstanceStatus has an event ahead.
    EventStatus,
}

impl NoticeKind {
    /// The word in metrics.
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

    /// The event's reason.
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

    /// The event's sentence.
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

/// A reason to give a claim up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// What it is about.
    pub kind: NoticeKind,
    /// When pods are ended by force; `None` leaves it to the claim.
    pub deadline: Option<Timestamp>,
}

//! Which announcements the agent acts on, and how early. Spot interruptions are no choice: they are always acted on.

use serde::{Deserialize, Serialize};

use super::span::Span;

/// What to do about announcements.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NoticeSettings {
    /// What a rebalance recommendation does, where the Node's annotation `kerf.sh/rebalance` says nothing.
    pub rebalance: Rebalance,
    /// Scheduled maintenance.
    pub maintenance: Maintenance,
    /// Auto Scaling groups.
    pub auto_scaling: AutoScaling,
    /// A shutdown that only the operating system announces: a stop or an end by the EC2 console or API.
    pub shutdown: Shutdown,
}

/// What to do about a machine at elevated risk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Rebalance {
    /// Nothing but tell.
    #[default]
    Ignore,
    /// Take no new pods.
    Cordon,
    /// Take no new pods, and drain once the controller approves, which it does when there is a place for the pods.
    Replace,
}

impl Rebalance {
    /// The policy of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "ignore" => Some(Self::Ignore),
            "cordon" => Some(Self::Cordon),
            "replace" => Some(Self::Replace),
            _ => None,
        }
    }
}

/// Maintenance that EC2 has scheduled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Maintenance {
    /// `false` only tells of it.
    pub enabled: bool,
    /// The drain begins so long before the window opens.
    pub lead: Span,
}

impl Default for Maintenance {
    fn default() -> Self {
        Self { enabled: true, lead: Span::seconds(30 * 60) }
    }
}

/// An Auto Scaling group that lets the machine go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AutoScaling {
    /// `false` leaves it to somebody else.
    pub enabled: bool,
    /// The drain has so long; keep it below the lifecycle hook's heartbeat time-out, and below two minutes without a hook.
    pub within: Span,
    /// Tells the group that the machine may go once it is drained: the agent's only call to AWS. It needs
    /// `autoscaling:CompleteLifecycleAction` in the instance's role.
    pub complete: Option<LifecycleHook>,
}

impl Default for AutoScaling {
    fn default() -> Self {
        Self { enabled: true, within: Span::seconds(10 * 60), complete: None }
    }
}

/// The lifecycle hook to complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LifecycleHook {
    /// `LifecycleHookName`.
    pub hook: String,
    /// `AutoScalingGroupName`; left out, the instance's tag `aws:autoscaling:groupName` says it, where tags are in the metadata.
    #[serde(default)]
    pub group: Option<String>,
}

/// The operating system goes down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Shutdown {
    /// `false` lets it go on at once, and leaves the pods to kubelet.
    pub enabled: bool,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self { enabled: true }
    }
}

//! Notices that the agent handles, and its lead times. Spot interruptions are always handled.

use serde::{Deserialize, Serialize};

use super::span::Span;

/// Treatment of notices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NoticeSettings {
    /// Treatment of a rebalance recommendation, unless the Node's annotation `kerf.sh/rebalance` overrides it.
    pub rebalance: Rebalance,
    /// Scheduled maintenance.
    pub maintenance: Maintenance,
    /// Auto Scaling groups.
    pub auto_scaling: AutoScaling,
    /// A shutdown that only the operating system announces: a stop or termination by the EC2 console or API.
    pub shutdown: Shutdown,
    /// A reboot of the operating system or by scheduled maintenance, after which the instance returns.
    pub reboot: Reboot,
}

/// Treatment of an instance at elevated risk of interruption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Rebalance {
    /// Only report it.
    #[default]
    Ignore,
    /// Cordon the node.
    Cordon,
    /// Cordon the node, and drain it once the controller approves, which it does if the pods have a place.
    Replace,
}

impl Rebalance {
    /// Parses the name of a policy.
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
    /// `false` only reports it.
    pub enabled: bool,
    /// Time before the start of the maintenance window at which the drain begins.
    pub lead: Span,
}

impl Default for Maintenance {
    fn default() -> Self {
        Self { enabled: true, lead: Span::seconds(30 * 60) }
    }
}

/// Termination of the instance by its Auto Scaling group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AutoScaling {
    /// `false` if another program handles it.
    pub enabled: bool,
    /// Time for the drain; keep it below the lifecycle hook's heartbeat timeout, and below two minutes without a hook.
    pub within: Span,
    /// Lifecycle hook that the agent completes after the drain, so that the group terminates the instance: the agent's only
    /// call to AWS. The call needs `autoscaling:CompleteLifecycleAction` in the instance's role.
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
    /// `AutoScalingGroupName`; the default is the instance's tag `aws:autoscaling:groupName`, if tags are in the metadata.
    #[serde(default)]
    pub group: Option<String>,
}

/// Shutdown of the operating system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Shutdown {
    /// `false` does not delay the shutdown, and leaves the pods to kubelet.
    pub enabled: bool,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self { enabled: true }
    }
}

/// Reboot of the instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Reboot {
    /// `false` only cordons the node: its pods stay, and kubelet starts them again after the reboot.
    pub drain: bool,
}

impl Default for Reboot {
    fn default() -> Self {
        Self { drain: true }
    }
}

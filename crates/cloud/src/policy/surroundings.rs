//! The environment of the controller's policies: the node role's policies, and the EventBridge rules of the interruption queue.

/// An AWS managed policy of the node role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodePolicy {
    /// Name of the policy below `arn:PARTITION:iam::aws:policy/`.
    pub name: &'static str,
    /// Parameter that excludes the policy, with its description; `None` for a policy that every node needs.
    pub optional: Option<(&'static str, &'static str)>,
}

/// Policies for kubelet, the network and access to nodes. The agent needs none: it signs a token and reads IMDS.
pub const NODE_POLICIES: &[NodePolicy] = &[
    NodePolicy { name: "AmazonEKSWorkerNodePolicy", optional: None },
    NodePolicy { name: "AmazonEC2ContainerRegistryPullOnly", optional: None },
    NodePolicy {
        name: "AmazonEKS_CNI_Policy",
        optional: Some(("NodesRunVpcCni", "false when the VPC CNI has a role of its own, or another network is used")),
    },
    NodePolicy {
        name: "AmazonSSMManagedInstanceCore",
        optional: Some(("SessionManager", "false to disable access through Session Manager")),
    },
];

/// An EventBridge rule that sends events to the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Name of the rule and of its resource.
    pub name: &'static str,
    /// Source service, such as `aws.ec2`.
    pub source: &'static str,
    /// Detail type of the events.
    pub detail_type: &'static str,
    /// Filters on fields of `detail`; an empty list matches all events.
    pub detail: &'static [(&'static str, &'static [&'static str])],
}

/// Rules for all events that the controller reads, as specific as EventBridge patterns allow.
pub const RULES: &[Rule] = &[
    Rule {
        name: "ScheduledChangeRule",
        source: "aws.health",
        detail_type: "AWS Health Event",
        detail: &[("service", &["EC2"]), ("eventTypeCategory", &["scheduledChange"])],
    },
    Rule {
        name: "SpotInterruptionRule",
        source: "aws.ec2",
        detail_type: "EC2 Spot Instance Interruption Warning",
        detail: &[],
    },
    Rule {
        name: "RebalanceRule",
        source: "aws.ec2",
        detail_type: "EC2 Instance Rebalance Recommendation",
        detail: &[],
    },
    Rule {
        name: "InstanceStateChangeRule",
        source: "aws.ec2",
        detail_type: "EC2 Instance State-change Notification",
        detail: &[("state", &["stopping", "stopped", "shutting-down", "terminated"])],
    },
    Rule {
        name: "CapacityReservationInterruptionRule",
        source: "aws.ec2",
        detail_type: "EC2 Capacity Reservation Instance Interruption Warning",
        detail: &[],
    },
];

/// Retention time of the queue's messages in seconds. Older notices are useless.
pub const RETENTION: u32 = 300;

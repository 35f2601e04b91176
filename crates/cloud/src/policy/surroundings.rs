//! What stands beside the controller's policies: the nodes' role, who may be the controller, and the rules that fill the queue.

/// A policy of Amazon's that the nodes' role holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodePolicy {
    /// Its name below `arn:PARTITION:iam::aws:policy/`.
    pub name: &'static str,
    /// The parameter that leaves it out, and what people should know before they do; `None` for what every node needs.
    pub optional: Option<(&'static str, &'static str)>,
}

/// What kubelet, the network and people on a node need. The agent asks for none: it signs a token and reads the machine's metadata.
pub const NODE_POLICIES: &[NodePolicy] = &[
    NodePolicy { name: "AmazonEKSWorkerNodePolicy", optional: None },
    NodePolicy { name: "AmazonEC2ContainerRegistryPullOnly", optional: None },
    NodePolicy {
        name: "AmazonEKS_CNI_Policy",
        optional: Some(("NodesRunVpcCni", "false when the VPC CNI has a role of its own, or another network is used")),
    },
    NodePolicy {
        name: "AmazonSSMManagedInstanceCore",
        optional: Some(("SessionManager", "false when nobody should reach nodes through Session Manager")),
    },
];

/// A rule of EventBridge that sends to the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name, and its resource's.
    pub name: &'static str,
    /// The service that tells, such as `aws.ec2`.
    pub source: &'static str,
    /// What it tells.
    pub detail_type: &'static str,
    /// What of it concerns us, field by field of `detail`; all of it when there is none.
    pub detail: &'static [(&'static str, &'static [&'static str])],
}

/// Everything that the controller reads from its queue, and as little else as a rule can tell apart.
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

/// How long the queue keeps a message, in seconds: what is older is no news.
pub const RETENTION: u32 = 300;

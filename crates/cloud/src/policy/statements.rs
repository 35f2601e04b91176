//! Policy statements: the tightest resources and tags that the requests of [`crate::launch`] and [`crate::nodeclass`] satisfy.

use super::{Condition, Operator, Policy, Statement};
use crate::tags::{CLUSTER_TAG, NODE_CLAIM_TAG, NODE_CLAIM_UID_TAG};

/// Keys of the tags that an instance gets when it is a node.
pub const LATER_TAGS: &[&str] = &["Name", CLUSTER_TAG, NODE_CLAIM_TAG, NODE_CLAIM_UID_TAG];

const fn equals(key: &'static str, values: &'static [&'static str]) -> Condition {
    Condition { operator: Operator::Equals, key, values }
}

/// Returns a condition that the key exists with any value.
const fn given(key: &'static str) -> Condition {
    Condition { operator: Operator::Like, key, values: &["*"] }
}

const OWNED: Condition = equals("aws:ResourceTag/kubernetes.io/cluster/${CLUSTER}", &["owned"]);
const OF_A_POOL: Condition = given("aws:ResourceTag/karpenter.sh/nodepool");
const BECOMES_OWNED: Condition = equals("aws:RequestTag/kubernetes.io/cluster/${CLUSTER}", &["owned"]);
const NAMES_CLUSTER: Condition = equals("aws:RequestTag/eks:eks-cluster-name", &["${CLUSTER}"]);
const NAMES_POOL: Condition = given("aws:RequestTag/karpenter.sh/nodepool");
const NAMES_REGION: Condition = equals("aws:RequestTag/topology.kubernetes.io/region", &["${REGION}"]);
const NAMES_CLASS: Condition = given("aws:RequestTag/karpenter.k8s.aws/ec2nodeclass");

/// Resources that a launch creates, which belong to the account even in shared subnets of another account.
const MADE: &[&str] = &[
    "arn:${PARTITION}:ec2:${REGION}:${ACCOUNT}:fleet/*",
    "arn:${PARTITION}:ec2:${REGION}:${ACCOUNT}:instance/*",
    "arn:${PARTITION}:ec2:${REGION}:${ACCOUNT}:launch-template/*",
    "arn:${PARTITION}:ec2:${REGION}:${ACCOUNT}:network-interface/*",
    "arn:${PARTITION}:ec2:${REGION}:${ACCOUNT}:spot-instances-request/*",
    "arn:${PARTITION}:ec2:${REGION}:${ACCOUNT}:volume/*",
];
const INSTANCES: &str = "arn:${PARTITION}:ec2:${REGION}:${ACCOUNT}:instance/*";
const TEMPLATES: &str = "arn:${PARTITION}:ec2:${REGION}:${ACCOUNT}:launch-template/*";
/// Path of all instance profiles of the cluster's EC2NodeClasses.
const OWN_PROFILES: &str = "arn:${PARTITION}:iam::${ACCOUNT}:instance-profile/karpenter/${REGION}/${CLUSTER}/*";

/// All statements, ordered by policy.
pub const STATEMENTS: &[Statement] = &[
    Statement {
        policy: Policy::NodeLifecycle,
        sid: "AllowScopedEC2InstanceAccessActions",
        actions: &["ec2:CreateFleet", "ec2:RunInstances"],
        // Resources that a launch only uses may belong to other accounts. ARNs of images and snapshots have no account.
        resources: &[
            "arn:${PARTITION}:ec2:${REGION}::image/*",
            "arn:${PARTITION}:ec2:${REGION}::snapshot/*",
            "arn:${PARTITION}:ec2:${REGION}:*:capacity-reservation/*",
            "arn:${PARTITION}:ec2:${REGION}:*:placement-group/*",
            "arn:${PARTITION}:ec2:${REGION}:*:security-group/*",
            "arn:${PARTITION}:ec2:${REGION}:*:subnet/*",
        ],
        conditions: &[],
    },
    Statement {
        policy: Policy::NodeLifecycle,
        sid: "AllowScopedEC2LaunchTemplateAccessActions",
        actions: &["ec2:CreateFleet", "ec2:RunInstances"],
        resources: &[TEMPLATES],
        conditions: &[OWNED, OF_A_POOL],
    },
    Statement {
        policy: Policy::NodeLifecycle,
        sid: "AllowScopedEC2InstanceActionsWithTags",
        actions: &["ec2:CreateFleet", "ec2:CreateLaunchTemplate", "ec2:RunInstances"],
        resources: MADE,
        conditions: &[BECOMES_OWNED, NAMES_CLUSTER, NAMES_POOL],
    },
    Statement {
        policy: Policy::NodeLifecycle,
        sid: "AllowScopedResourceCreationTagging",
        actions: &["ec2:CreateTags"],
        resources: MADE,
        conditions: &[
            BECOMES_OWNED,
            NAMES_CLUSTER,
            NAMES_POOL,
            equals("ec2:CreateAction", &["CreateFleet", "CreateLaunchTemplate", "RunInstances"]),
        ],
    },
    Statement {
        policy: Policy::NodeLifecycle,
        sid: "AllowScopedResourceTagging",
        actions: &["ec2:CreateTags"],
        resources: &[INSTANCES],
        conditions: &[
            OWNED,
            OF_A_POOL,
            Condition {
                operator: Operator::EqualsIfExists,
                key: "aws:RequestTag/eks:eks-cluster-name",
                values: &["${CLUSTER}"],
            },
            Condition { operator: Operator::AllEqual, key: "aws:TagKeys", values: LATER_TAGS },
        ],
    },
    Statement {
        policy: Policy::NodeLifecycle,
        sid: "AllowScopedDeletion",
        actions: &["ec2:DeleteLaunchTemplate", "ec2:TerminateInstances"],
        resources: &[INSTANCES, TEMPLATES],
        conditions: &[OWNED, OF_A_POOL],
    },
    Statement {
        policy: Policy::IamIntegration,
        sid: "AllowPassingInstanceRole",
        actions: &["iam:PassRole"],
        resources: &["arn:${PARTITION}:iam::${ACCOUNT}:role/${NODE_ROLE}"],
        conditions: &[equals("iam:PassedToService", &["ec2.amazonaws.com", "ec2.amazonaws.com.cn"])],
    },
    Statement {
        policy: Policy::IamIntegration,
        sid: "AllowScopedInstanceProfileCreationActions",
        actions: &["iam:CreateInstanceProfile"],
        resources: &[OWN_PROFILES],
        conditions: &[BECOMES_OWNED, NAMES_CLUSTER, NAMES_REGION, NAMES_CLASS],
    },
    // A new profile has no tags yet, so its path identifies the cluster.
    Statement {
        policy: Policy::IamIntegration,
        sid: "AllowScopedInstanceProfileTagActions",
        actions: &["iam:TagInstanceProfile"],
        resources: &[OWN_PROFILES],
        conditions: &[BECOMES_OWNED, NAMES_CLUSTER, NAMES_REGION, NAMES_CLASS],
    },
    Statement {
        policy: Policy::IamIntegration,
        sid: "AllowScopedInstanceProfileActions",
        actions: &["iam:AddRoleToInstanceProfile", "iam:DeleteInstanceProfile", "iam:RemoveRoleFromInstanceProfile"],
        resources: &[OWN_PROFILES],
        conditions: &[
            OWNED,
            equals("aws:ResourceTag/topology.kubernetes.io/region", &["${REGION}"]),
            given("aws:ResourceTag/karpenter.k8s.aws/ec2nodeclass"),
        ],
    },
    Statement {
        policy: Policy::EksIntegration,
        sid: "AllowAPIServerEndpointDiscovery",
        actions: &["eks:DescribeCluster"],
        resources: &["arn:${PARTITION}:eks:${REGION}:${ACCOUNT}:cluster/${CLUSTER}"],
        conditions: &[],
    },
    Statement {
        policy: Policy::Interruption,
        sid: "AllowInterruptionQueueActions",
        actions: &["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"],
        resources: &["arn:${PARTITION}:sqs:${REGION}:${ACCOUNT}:${QUEUE}"],
        conditions: &[],
    },
    // ARC has ARNs only for load balancers; a key of the request identifies the cluster.
    Statement {
        policy: Policy::ZonalShift,
        sid: "AllowZonalShiftStatusReadOnly",
        actions: &["arc-zonal-shift:GetManagedResource"],
        resources: &["*"],
        conditions: &[equals(
            "arc-zonal-shift:ResourceIdentifier",
            &["arn:${PARTITION}:eks:${REGION}:${ACCOUNT}:cluster/${CLUSTER}"],
        )],
    },
    Statement {
        policy: Policy::ResourceDiscovery,
        sid: "AllowRegionalReadActions",
        actions: &[
            "ec2:DescribeCapacityReservations",
            "ec2:DescribeImages",
            "ec2:DescribeInstanceStatus",
            "ec2:DescribeInstanceTypeOfferings",
            "ec2:DescribeInstanceTypes",
            "ec2:DescribeInstances",
            "ec2:DescribeLaunchTemplates",
            "ec2:DescribePlacementGroups",
            "ec2:DescribeSecurityGroups",
            "ec2:DescribeSpotPriceHistory",
            "ec2:DescribeSubnets",
        ],
        resources: &["*"],
        conditions: &[equals("aws:RequestedRegion", &["${REGION}"])],
    },
    Statement {
        policy: Policy::ResourceDiscovery,
        sid: "AllowSSMReadActions",
        actions: &["ssm:GetParameter"],
        resources: &["arn:${PARTITION}:ssm:${REGION}::parameter/aws/service/*"],
        conditions: &[],
    },
    // Price lists have no ARN, and their API is in other regions.
    Statement {
        policy: Policy::ResourceDiscovery,
        sid: "AllowPricingReadActions",
        actions: &["pricing:GetProducts"],
        resources: &["*"],
        conditions: &[],
    },
    Statement {
        policy: Policy::ResourceDiscovery,
        sid: "AllowInstanceProfileReadActions",
        actions: &["iam:GetInstanceProfile", "iam:ListInstanceProfiles"],
        // An EC2NodeClass may name a profile on any path.
        resources: &["arn:${PARTITION}:iam::${ACCOUNT}:instance-profile/*"],
        conditions: &[],
    },
];

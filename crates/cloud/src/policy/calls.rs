//! What each call needs.

use super::Need;

/// The statements of a launch: what it uses, what it makes, their tags, and the role that it hands over.
const LAUNCH: &[&str] = &[
    "AllowScopedEC2InstanceAccessActions",
    "AllowScopedEC2LaunchTemplateAccessActions",
    "AllowScopedEC2InstanceActionsWithTags",
    "AllowScopedResourceCreationTagging",
    "AllowPassingInstanceRole",
];
/// CreateFleet asks for RunInstances in our name; a dry run is evaluated as the call itself.
const FLEET: &[&str] = &["ec2:CreateFleet", "ec2:RunInstances", "ec2:CreateTags", "iam:PassRole"];
const READ: &[&str] = &["AllowRegionalReadActions"];
const QUEUE: &[&str] = &["AllowInterruptionQueueActions"];
const PROFILE: &[&str] = &["AllowScopedInstanceProfileActions"];
const DELETION: &[&str] = &["AllowScopedDeletion"];

const fn need(
    method: &'static str,
    call: &'static str,
    actions: &'static [&'static str],
    statements: &'static [&'static str],
) -> Need {
    Need { method, call, actions, statements }
}

/// Every method of [`Cloud`](crate::Cloud), in its order.
pub const CALLS: &[Need] = &[
    need("instance_types", "DescribeInstanceTypes", &["ec2:DescribeInstanceTypes"], READ),
    need("type_offerings", "DescribeInstanceTypeOfferings", &["ec2:DescribeInstanceTypeOfferings"], READ),
    need("spot_prices", "DescribeSpotPriceHistory", &["ec2:DescribeSpotPriceHistory"], READ),
    need("on_demand_prices", "GetProducts", &["pricing:GetProducts"], &["AllowPricingReadActions"]),
    need("subnets", "DescribeSubnets", &["ec2:DescribeSubnets"], READ),
    need("security_groups", "DescribeSecurityGroups", &["ec2:DescribeSecurityGroups"], READ),
    need("images", "DescribeImages", &["ec2:DescribeImages"], READ),
    need("capacity_reservations", "DescribeCapacityReservations", &["ec2:DescribeCapacityReservations"], READ),
    need("placement_group", "DescribePlacementGroups", &["ec2:DescribePlacementGroups"], READ),
    need("parameter", "GetParameter", &["ssm:GetParameter"], &["AllowSSMReadActions"]),
    need("launch_templates", "DescribeLaunchTemplates", &["ec2:DescribeLaunchTemplates"], READ),
    need(
        "create_launch_template",
        "CreateLaunchTemplate",
        &["ec2:CreateLaunchTemplate", "ec2:CreateTags"],
        &["AllowScopedEC2InstanceActionsWithTags", "AllowScopedResourceCreationTagging"],
    ),
    need("delete_launch_template", "DeleteLaunchTemplate", &["ec2:DeleteLaunchTemplate"], DELETION),
    need("create_fleet", "CreateFleet", FLEET, LAUNCH),
    need("dry_run_create_fleet", "CreateFleet(DryRun)", FLEET, LAUNCH),
    need(
        "dry_run_run_instances",
        "RunInstances(DryRun)",
        &["ec2:RunInstances", "ec2:CreateTags", "iam:PassRole"],
        LAUNCH,
    ),
    need("instances", "DescribeInstances", &["ec2:DescribeInstances"], READ),
    need("instances_by_id", "DescribeInstances", &["ec2:DescribeInstances"], READ),
    need("instance_statuses", "DescribeInstanceStatus", &["ec2:DescribeInstanceStatus"], READ),
    need("terminate_instances", "TerminateInstances", &["ec2:TerminateInstances"], DELETION),
    need("create_tags", "CreateTags", &["ec2:CreateTags"], &["AllowScopedResourceTagging"]),
    need("instance_profile", "GetInstanceProfile", &["iam:GetInstanceProfile"], &["AllowInstanceProfileReadActions"]),
    need(
        "instance_profiles",
        "ListInstanceProfiles",
        &["iam:ListInstanceProfiles"],
        &["AllowInstanceProfileReadActions"],
    ),
    // Tags that come with a new profile want the right to tag as well.
    need(
        "create_instance_profile",
        "CreateInstanceProfile",
        &["iam:CreateInstanceProfile", "iam:TagInstanceProfile"],
        &["AllowScopedInstanceProfileCreationActions", "AllowScopedInstanceProfileTagActions"],
    ),
    // Whoever puts a role into a profile hands it over.
    need(
        "add_role_to_instance_profile",
        "AddRoleToInstanceProfile",
        &["iam:AddRoleToInstanceProfile", "iam:PassRole"],
        &["AllowScopedInstanceProfileActions", "AllowPassingInstanceRole"],
    ),
    need(
        "remove_role_from_instance_profile",
        "RemoveRoleFromInstanceProfile",
        &["iam:RemoveRoleFromInstanceProfile"],
        PROFILE,
    ),
    need("delete_instance_profile", "DeleteInstanceProfile", &["iam:DeleteInstanceProfile"], PROFILE),
    need("cluster", "DescribeCluster", &["eks:DescribeCluster"], &["AllowAPIServerEndpointDiscovery"]),
    need("queue_url", "GetQueueUrl", &["sqs:GetQueueUrl"], QUEUE),
    need("receive_messages", "ReceiveMessage", &["sqs:ReceiveMessage"], QUEUE),
    // A batch has no action of its own.
    need("delete_messages", "DeleteMessageBatch", &["sqs:DeleteMessage"], QUEUE),
];

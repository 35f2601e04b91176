//! IAM permissions of each AWS call.

use super::Need;

/// Statements of a launch: the resources that it uses and creates, their tags, and the role that it passes.
const LAUNCH: &[&str] = &[
    "AllowScopedEC2InstanceAccessActions",
    "AllowScopedEC2LaunchTemplateAccessActions",
    "AllowScopedEC2InstanceActionsWithTags",
    "AllowScopedResourceCreationTagging",
    "AllowPassingInstanceRole",
];
/// IAM actions of CreateFleet, which calls RunInstances on Kerf's behalf. A dry run needs the same permissions.
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

/// The permissions of every method of [`Cloud`](crate::Cloud), in the order of the trait.
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
    // Tags of a new profile need the permission to tag as well.
    need(
        "create_instance_profile",
        "CreateInstanceProfile",
        &["iam:CreateInstanceProfile", "iam:TagInstanceProfile"],
        &["AllowScopedInstanceProfileCreationActions", "AllowScopedInstanceProfileTagActions"],
    ),
    // AddRoleToInstanceProfile passes the role, so IAM requires PassRole.
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
    need(
        "zonal_shifts",
        "GetManagedResource",
        &["arc-zonal-shift:GetManagedResource"],
        &["AllowZonalShiftStatusReadOnly"],
    ),
    need("queue_url", "GetQueueUrl", &["sqs:GetQueueUrl"], QUEUE),
    need("receive_messages", "ReceiveMessage", &["sqs:ReceiveMessage"], QUEUE),
    // The batch call has no IAM action of its own.
    need("delete_messages", "DeleteMessageBatch", &["sqs:DeleteMessage"], QUEUE),
];

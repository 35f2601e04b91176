//! Dispatch of EC2 actions by name.

use super::answer::{Failure, Reply, dry_run, invalid};
use super::form::Form;
use super::{Shared, account, describe, images, instances, launch, places, statuses, types};

/// Runs the call in `form`. A dry run ends before any change.
pub(super) async fn act(shared: &Shared, action: &str, form: &Form) -> Result<Reply, Failure> {
    let cloud = &shared.cloud;
    match action {
        "CreateFleet(DryRun)" => launch::rehearse_fleet(cloud, form).await,
        "RunInstances(DryRun)" => launch::probe(cloud, form).await,
        asked if asked.ends_with("(DryRun)") => Err(dry_run()),
        "DescribeAvailabilityZones" => account::zones(cloud).await,
        "DescribeInstanceTypes" => types::describe(cloud, form).await,
        "DescribeInstanceTypeOfferings" => describe::type_offerings(cloud, form).await,
        "DescribeSpotPriceHistory" => describe::spot_prices(cloud, form).await,
        "DescribeSubnets" => describe::subnets(cloud, form).await,
        "DescribeSecurityGroups" => describe::security_groups(cloud, form).await,
        "DescribeImages" => images::describe(cloud, form).await,
        "CopyImage" => images::copy(cloud, form),
        "EnableImageDeprecation" => images::deprecate(cloud, form),
        "DescribeCapacityReservations" => places::reservations(cloud, form).await,
        "DescribePlacementGroups" => places::groups(cloud, form).await,
        "DescribeInstanceStatus" => statuses::describe(cloud, form).await,
        "DescribeLaunchTemplates" => launch::describe_templates(cloud, form).await,
        "CreateLaunchTemplate" => launch::create_template(cloud, &shared.templates, form).await,
        "DeleteLaunchTemplate" => launch::delete_template(cloud, form).await,
        "CreateFleet" => launch::create_fleet(cloud, form).await,
        "DescribeInstances" => instances::describe(cloud, form).await,
        "TerminateInstances" => instances::terminate(cloud, form).await,
        "CreateTags" => instances::create_tags(cloud, form).await,
        _ => Err(invalid("InvalidAction", format!("The action {action} is not valid for this web service."))),
    }
}

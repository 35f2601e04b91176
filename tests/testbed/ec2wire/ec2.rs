//! Actions of EC2 by name: those that Kerf uses, and those that Karpenter's own suites use besides.

mod attached;
mod describe;
mod images;
mod instances;
mod launch;
mod launch_tags;
mod networks;
mod places;
mod quota;
mod reservations;
mod statuses;
mod template;
mod types;

pub(super) use launch::Tokens;
pub(super) use launch_tags::LaunchTags;
pub(super) use networks::VPC;
pub(super) use quota::Quota;

use super::Shared;
use super::answer::{Failure, Reply, dry_run, invalid};
use super::form::Form;
use super::xml::Xml;

/// Runs the call in `form`. A dry run ends before any change.
pub(super) async fn act(shared: &Shared, action: &str, form: &Form) -> Result<Reply, Failure> {
    match action {
        "CreateFleet(DryRun)" => launch::rehearse_fleet(&shared.cloud, form).await,
        "RunInstances(DryRun)" => launch::probe(&shared.cloud, form).await,
        asked if asked.ends_with("(DryRun)") => Err(dry_run()),
        asked if asked.starts_with("Describe") => describe(shared, action, form).await,
        _ => change(shared, action, form).await,
    }
}

async fn describe(shared: &Shared, action: &str, form: &Form) -> Result<Reply, Failure> {
    let cloud = &shared.cloud;
    match action {
        "DescribeAvailabilityZones" => places::zones(cloud).await,
        "DescribeInstanceTypes" => types::describe(cloud, form).await,
        "DescribeInstanceTypeOfferings" => describe::type_offerings(cloud, form).await,
        "DescribeSpotPriceHistory" => describe::spot_prices(cloud, form).await,
        "DescribeSubnets" => networks::subnets(cloud, form).await,
        "DescribeSecurityGroups" => networks::security_groups(cloud, form).await,
        "DescribeImages" => images::describe(cloud, form).await,
        "DescribeCapacityReservations" => reservations::describe(cloud, form).await,
        "DescribePlacementGroups" => places::groups(cloud, form).await,
        "DescribeInstanceStatus" => statuses::describe(cloud, form).await,
        "DescribeLaunchTemplates" => launch::describe_templates(cloud, form).await,
        "DescribeInstances" => instances::describe(cloud, form).await,
        "DescribeInstanceAttribute" => instances::attribute(cloud, form),
        "DescribeVolumes" => attached::volumes(shared, form),
        "DescribeNetworkInterfaces" => attached::interfaces(shared, form),
        "DescribeSpotInstanceRequests" => attached::spot_requests(shared, form),
        _ => Err(unknown(action)),
    }
}

async fn change(shared: &Shared, action: &str, form: &Form) -> Result<Reply, Failure> {
    let cloud = &shared.cloud;
    match action {
        "CopyImage" => images::copy(cloud, form),
        "EnableImageDeprecation" => images::deprecate(cloud, form),
        "CreateLaunchTemplate" => launch::create_template(shared, form).await,
        "DeleteLaunchTemplate" => launch::delete_template(cloud, form).await,
        "CreateFleet" => launch::create_fleet(shared, form).await,
        "StopInstances" => instances::stop(cloud, form),
        "TerminateInstances" => instances::terminate(cloud, form).await,
        "CreateTags" => instances::create_tags(cloud, form).await,
        "DeleteTags" => instances::delete_tags(cloud, form),
        "CreateSecurityGroup" => networks::create_security_group(cloud, form),
        "DeleteSecurityGroup" => networks::delete_security_group(cloud, form),
        "ModifySubnetAttribute" => networks::modify_subnet(cloud, form),
        "CreateCapacityReservation" => reservations::create(cloud, form),
        "CancelCapacityReservation" => reservations::cancel(cloud, form),
        "CreateInterruptibleCapacityReservationAllocation" => reservations::allocate(cloud, form),
        "UpdateInterruptibleCapacityReservationAllocation" => reservations::reclaim(cloud, form),
        "CreatePlacementGroup" => places::create_group(cloud, form),
        "DeletePlacementGroup" => places::delete_group(cloud, form),
        _ => Err(unknown(action)),
    }
}

fn unknown(action: &str) -> Failure {
    invalid("InvalidAction", format!("The action {action} is not valid for this web service."))
}

/// Returns the response to a change that has no other result.
fn done(action: &str, summary: impl Into<String>) -> Reply {
    Reply { body: Xml::response(action, |xml| xml.text("return", true)), summary: summary.into() }
}

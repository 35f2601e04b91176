//! Listing, termination and tagging of instances.

use aws_sdk_ec2::Client;
use aws_sdk_ec2::primitives::DateTimeFormat;
use aws_sdk_ec2::types as ec2;
use cloud::batcher::MAX_DESCRIBED;
use cloud::{CloudError, Instance, Tags};

use crate::ec2::tags;
use crate::failure::failure;

/// States in which an instance still costs money or holds a name.
const ALIVE: [&str; 5] = ["pending", "running", "stopping", "stopped", "shutting-down"];

/// Instances per page.
const PAGE: i32 = 1000;

pub(crate) async fn list(client: &Client, tags: &Tags) -> Result<Vec<Instance>, CloudError> {
    let mut filters = tags::filters(tags);
    filters.push(tags::filter("instance-state-name", ALIVE));
    pages(client, filters).await
}

/// Returns instances by id. Ids are a filter: as a direct parameter, one deleted id would be an error for all.
pub(crate) async fn by_id(client: &Client, ids: &[String]) -> Result<Vec<Instance>, CloudError> {
    let mut found = Vec::new();
    for some in ids.chunks(MAX_DESCRIBED) {
        let filter = tags::filter("instance-id", some.iter().map(String::as_str));
        found.extend(pages(client, vec![filter]).await?);
    }
    Ok(found)
}

async fn pages(client: &Client, filters: Vec<ec2::Filter>) -> Result<Vec<Instance>, CloudError> {
    let request = client.describe_instances().set_filters(Some(filters)).max_results(PAGE);
    let mut pages = request.into_paginator().send();
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| failure("DescribeInstances", error))?;
        found.extend(of_reservations(page.reservations));
    }
    Ok(found)
}

/// Terminates instances. EC2 refuses a call without ids; here an empty list is no error.
pub(crate) async fn terminate(client: &Client, ids: &[String]) -> Result<(), CloudError> {
    if ids.is_empty() {
        return Ok(());
    }
    let request = client.terminate_instances().set_instance_ids(Some(ids.to_vec()));
    request.send().await.map(drop).map_err(|error| failure("TerminateInstances", error))
}

/// Tags instances. As with [`terminate`], no tags or no instances are no error.
pub(crate) async fn create_tags(client: &Client, ids: &[String], tags: &Tags) -> Result<(), CloudError> {
    if ids.is_empty() || tags.is_empty() {
        return Ok(());
    }
    let request = client.create_tags().set_resources(Some(ids.to_vec())).set_tags(Some(tags::to_ec2(tags)));
    request.send().await.map(drop).map_err(|error| failure("CreateTags", error))
}

fn of_reservations(reservations: Option<Vec<ec2::Reservation>>) -> impl Iterator<Item = Instance> {
    let groups = reservations.unwrap_or_default().into_iter();
    groups.flat_map(|reservation| reservation.instances.unwrap_or_default()).map(of_ec2)
}

fn of_ec2(instance: ec2::Instance) -> Instance {
    let spot = instance.spot_instance_request_id.is_some()
        || instance.instance_lifecycle == Some(ec2::InstanceLifecycleType::Spot);
    let launched = instance.launch_time.and_then(|time| time.fmt(DateTimeFormat::DateTime).ok());
    let groups = instance.security_groups.unwrap_or_default();
    let said = instance.capacity_reservation_specification;
    let preference = said.and_then(|said| said.capacity_reservation_preference);
    let partition = instance.placement.as_ref().and_then(|placement| placement.partition_number);
    Instance {
        id: instance.instance_id.unwrap_or_default(),
        state: instance.state.and_then(|state| state.name).map_or_else(String::new, |name| name.as_str().to_owned()),
        instance_type: instance.instance_type.map_or_else(String::new, |name| name.as_str().to_owned()),
        zone: instance.placement.and_then(|placement| placement.availability_zone).unwrap_or_default(),
        subnet_id: instance.subnet_id.unwrap_or_default(),
        image_id: instance.image_id.unwrap_or_default(),
        spot,
        launched: launched.unwrap_or_default(),
        private_dns_name: instance.private_dns_name.unwrap_or_default(),
        private_ip: instance.private_ip_address.unwrap_or_default(),
        capacity_reservation_id: instance.capacity_reservation_id,
        capacity_reservation_preference: preference.map(|preference| preference.as_str().to_owned()),
        placement_partition: partition.and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0),
        security_group_ids: groups.into_iter().filter_map(|group| group.group_id).collect(),
        tags: tags::from_ec2(instance.tags),
    }
}

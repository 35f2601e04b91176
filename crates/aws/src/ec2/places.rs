//! Capacity reservations and placement groups.

use aws_sdk_ec2::Client;
use aws_sdk_ec2::primitives::DateTimeFormat;
use aws_sdk_ec2::types as ec2;
use cloud::{CapacityReservation, CloudError, ErrorKind, PlacementGroup, PlacementGroupQuery, ReservationFilter};

use crate::ec2::describe::count;
use crate::ec2::tags;
use crate::failure::failure;

/// Reservations per page.
const PAGE: i32 = 1000;

/// Returns capacity reservations. EC2 refuses ids together with a page size, so a query by id is one page.
pub(crate) async fn reservations(
    client: &Client,
    filter: &ReservationFilter,
) -> Result<Vec<CapacityReservation>, CloudError> {
    let call = client.describe_capacity_reservations().set_filters(Some(filters(filter)));
    let call = match filter.ids.is_empty() {
        true => call.max_results(PAGE),
        false => call.set_capacity_reservation_ids(Some(filter.ids.clone())),
    };
    let mut pages = call.into_paginator().send();
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let page = match page.map_err(|error| failure("DescribeCapacityReservations", error)) {
            // One unknown id makes the whole response an error: existing ids are queried one by one.
            Err(error) if error.kind == ErrorKind::NotFound && filter.ids.len() > 1 => {
                return one_by_one(client, filter).await;
            }
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(Vec::new()),
            page => page?,
        };
        found.extend(page.capacity_reservations.unwrap_or_default().into_iter().map(reservation));
    }
    Ok(found)
}

async fn one_by_one(client: &Client, filter: &ReservationFilter) -> Result<Vec<CapacityReservation>, CloudError> {
    let mut found = Vec::new();
    for id in &filter.ids {
        let one = ReservationFilter { ids: vec![id.clone()], ..filter.clone() };
        found.extend(Box::pin(reservations(client, &one)).await?);
    }
    Ok(found)
}

fn filters(filter: &ReservationFilter) -> Vec<ec2::Filter> {
    let mut filters = tags::filters(&filter.tags);
    filters.push(tags::filter("state", ["active"]));
    for (name, value) in [("owner-id", &filter.owner), ("instance-match-criteria", &filter.match_criteria)] {
        filters.extend(value.as_deref().map(|value| tags::filter(name, [value])));
    }
    filters
}

fn reservation(one: ec2::CapacityReservation) -> CapacityReservation {
    CapacityReservation {
        id: one.capacity_reservation_id.unwrap_or_default(),
        owner: one.owner_id.unwrap_or_default(),
        instance_type: one.instance_type.unwrap_or_default(),
        zone: one.availability_zone.unwrap_or_default(),
        match_criteria: one.instance_match_criteria.map_or_else(String::new, |word| word.as_str().to_owned()),
        capacity_block: one.reservation_type == Some(ec2::CapacityReservationType::CapacityBlock),
        interruptible: one.interruptible.unwrap_or_default(),
        state: one.state.map_or_else(String::new, |state| state.as_str().to_owned()),
        total: count(one.total_instance_count),
        available: count(one.available_instance_count),
        ends: one.end_date.and_then(|time| time.fmt(DateTimeFormat::DateTime).ok()),
        tags: tags::from_ec2(one.tags),
    }
}

/// Returns the placement group. The name is a filter: as a direct parameter, a deleted group would be an error.
pub(crate) async fn group(client: &Client, query: &PlacementGroupQuery) -> Result<Option<PlacementGroup>, CloudError> {
    let filter = match query {
        PlacementGroupQuery::Name(name) => tags::filter("group-name", [name.as_str()]),
        PlacementGroupQuery::Id(id) => tags::filter("group-id", [id.as_str()]),
    };
    let answer = client.describe_placement_groups().filters(filter).send().await;
    let groups = answer.map_err(|error| failure("DescribePlacementGroups", error))?.placement_groups;
    Ok(groups.unwrap_or_default().into_iter().next().map(|group| PlacementGroup {
        id: group.group_id.unwrap_or_default(),
        name: group.group_name.unwrap_or_default(),
        strategy: group.strategy.map_or_else(String::new, |word| word.as_str().to_owned()),
        state: group.state.map_or_else(String::new, |word| word.as_str().to_owned()),
        partitions: count(group.partition_count),
    }))
}

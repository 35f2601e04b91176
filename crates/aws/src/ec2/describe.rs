//! Offers of a region (instance types, their zones and prices), and the resources that a node class may select.

mod types;

use std::collections::BTreeMap;
use std::time::SystemTime;

use aws_sdk_ec2::Client;
use aws_sdk_ec2::primitives::{DateTime, DateTimeFormat};
use aws_sdk_ec2::types as ec2;
use cloud::data::scaled;
use cloud::{AnswerLimit, CloudError, Filter, Image, InstanceTypeInfo, SecurityGroup, SpotPrice, Subnet, TypeOffering};

use crate::ec2::tags;
use crate::failure::failure;

pub(crate) use types::count;

/// Rows per page; EC2 allows a thousand, but only a hundred for the large instance types.
const PAGE: i32 = 1000;
const TYPES_PAGE: i32 = 100;

/// Decimal digits of a dollar in micro-dollars.
const MICRO: usize = 6;

/// Products with spot prices of Linux, in a VPC and, for accounts that still have it, outside.
const LINUX: [&str; 2] = ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"];

pub(crate) async fn instance_types(client: &Client) -> Result<Vec<InstanceTypeInfo>, CloudError> {
    let call = client
        .describe_instance_types()
        .filters(tags::filter("supported-virtualization-type", ["hvm"]))
        .filters(tags::filter("processor-info.supported-architecture", ["x86_64", "arm64"]))
        .max_results(TYPES_PAGE);
    let mut pages = call.into_paginator().send();
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| failure("DescribeInstanceTypes", error))?;
        found.extend(page.instance_types.unwrap_or_default().into_iter().map(types::of_ec2));
    }
    Ok(found)
}

pub(crate) async fn type_offerings(client: &Client) -> Result<Vec<TypeOffering>, CloudError> {
    let call =
        client.describe_instance_type_offerings().location_type(ec2::LocationType::AvailabilityZone).max_results(PAGE);
    let mut pages = call.into_paginator().send();
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| failure("DescribeInstanceTypeOfferings", error))?;
        found.extend(page.instance_type_offerings.unwrap_or_default().into_iter().filter_map(offering));
    }
    Ok(found)
}

fn offering(offering: ec2::InstanceTypeOffering) -> Option<TypeOffering> {
    let instance_type = offering.instance_type?.as_str().to_owned();
    Some(TypeOffering { instance_type, zone: offering.location? })
}

/// Returns the current spot prices, because the history starts now. Of several prices for a capacity pool, the newest applies.
pub(crate) async fn spot_prices(client: &Client) -> Result<Vec<SpotPrice>, CloudError> {
    let call = client
        .describe_spot_price_history()
        .start_time(DateTime::from(SystemTime::now()))
        .set_product_descriptions(Some(LINUX.map(str::to_owned).to_vec()))
        .max_results(PAGE);
    let mut pages = call.into_paginator().send();
    let (mut newest, mut limit) = (BTreeMap::new(), AnswerLimit::spot_prices());
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| failure("DescribeSpotPriceHistory", error))?;
        let rows = page.spot_price_history.unwrap_or_default();
        limit.add_page(rows.iter().map(|row| row.availability_zone.as_ref().map_or(0, String::len)))?;
        rows.into_iter().for_each(|row| keep_newest(&mut newest, row));
    }
    let price = |((instance_type, zone), (_, micro_dollars))| SpotPrice { instance_type, zone, micro_dollars };
    Ok(newest.into_iter().map(price).collect())
}

/// Prices by instance type and zone, each with the start of its validity in seconds since 1970.
type Newest = BTreeMap<(String, String), (i64, i64)>;

fn keep_newest(newest: &mut Newest, row: ec2::SpotPrice) {
    let (Some(name), Some(zone)) = (row.instance_type, row.availability_zone) else { return };
    let Some(price) = row.spot_price.as_deref().and_then(|price| scaled(price, MICRO)) else { return };
    let since = row.timestamp.map_or(i64::MIN, |time| time.secs());
    let entry = newest.entry((name.as_str().to_owned(), zone)).or_insert((since, price));
    if since > entry.0 {
        *entry = (since, price);
    }
}

pub(crate) async fn subnets(client: &Client, filter: &Filter) -> Result<Vec<Subnet>, CloudError> {
    let filters = selection(filter, "subnet-id", "tag:Name");
    let mut pages = client.describe_subnets().set_filters(filters).max_results(PAGE).into_paginator().send();
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| failure("DescribeSubnets", error))?;
        found.extend(page.subnets.unwrap_or_default().into_iter().map(subnet));
    }
    Ok(found)
}

fn subnet(subnet: ec2::Subnet) -> Subnet {
    Subnet {
        id: subnet.subnet_id.unwrap_or_default(),
        zone: subnet.availability_zone.unwrap_or_default(),
        zone_id: subnet.availability_zone_id.unwrap_or_default(),
        free_addresses: count(subnet.available_ip_address_count),
        tags: tags::from_ec2(subnet.tags),
    }
}

pub(crate) async fn security_groups(client: &Client, filter: &Filter) -> Result<Vec<SecurityGroup>, CloudError> {
    let filters = selection(filter, "group-id", "group-name");
    let mut pages = client.describe_security_groups().set_filters(filters).max_results(PAGE).into_paginator().send();
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| failure("DescribeSecurityGroups", error))?;
        found.extend(page.security_groups.unwrap_or_default().into_iter().map(security_group));
    }
    Ok(found)
}

fn security_group(group: ec2::SecurityGroup) -> SecurityGroup {
    SecurityGroup {
        id: group.group_id.unwrap_or_default(),
        name: group.group_name.unwrap_or_default(),
        tags: tags::from_ec2(group.tags),
    }
}

pub(crate) async fn images(client: &Client, filter: &Filter) -> Result<Vec<Image>, CloudError> {
    let mut filters = selection(filter, "image-id", "name").unwrap_or_default();
    filters.push(tags::filter("state", ["available"]));
    let owners = Some(filter.owners.clone()).filter(|owners| !owners.is_empty());
    let call = client
        .describe_images()
        .set_owners(owners)
        .set_filters(Some(filters))
        .include_deprecated(true)
        .max_results(PAGE);
    let now = DateTime::from(SystemTime::now());
    let mut pages = call.into_paginator().send();
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| failure("DescribeImages", error))?;
        found.extend(page.images.unwrap_or_default().into_iter().map(|entry| image(entry, &now)));
    }
    Ok(found)
}

fn image(image: ec2::Image, now: &DateTime) -> Image {
    let deprecation = image.deprecation_time.as_deref();
    let deprecated = deprecation.and_then(|time| DateTime::from_str(time, DateTimeFormat::DateTime).ok());
    Image {
        id: image.image_id.unwrap_or_default(),
        name: image.name.unwrap_or_default(),
        architecture: image.architecture.map_or_else(String::new, |name| name.as_str().to_owned()),
        created: image.creation_date.unwrap_or_default(),
        deprecated: deprecated.is_some_and(|time| time <= *now),
        owner: image.owner_id.unwrap_or_default(),
        tags: tags::from_ec2(image.tags),
    }
}

/// Converts a filter for EC2, or returns `None` if it is empty. Ids are a filter too: as a direct parameter, a deleted id would
/// be an error instead of a missing row.
fn selection(filter: &Filter, id: &str, name: &str) -> Option<Vec<ec2::Filter>> {
    let mut filters = tags::filters(&filter.tags);
    for (field, values) in [(id, &filter.ids), (name, &filter.names)] {
        if !values.is_empty() {
            filters.push(tags::filter(field, values.iter().map(String::as_str)));
        }
    }
    (!filters.is_empty()).then_some(filters)
}

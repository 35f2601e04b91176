//! Zones and placement groups.

use std::collections::BTreeMap;

use cloud::fake::FakeCloud;
use cloud::{Cloud, Filter, PlacementGroup, PlacementGroupQuery};

use super::describe::Select;
use super::done;
use crate::ec2wire::answer::{Failure, Reply, invalid};
use crate::ec2wire::form::Form;
use crate::ec2wire::xml::Xml;

/// Returns the zones of all subnets. Kerf does not use them; other clients do.
pub(super) async fn zones(cloud: &FakeCloud) -> Result<Reply, Failure> {
    let region = cloud.region();
    let subnets = cloud.subnets(&Filter::default()).await?;
    let zones: BTreeMap<&str, &str> =
        subnets.iter().map(|subnet| (subnet.zone.as_str(), subnet.zone_id.as_str())).collect();
    let body = Xml::response("DescribeAvailabilityZones", |xml| {
        xml.items("availabilityZoneInfo", &zones, |xml, (zone, id)| {
            let is_local = zone.strip_prefix(&region).is_some_and(|rest| rest.starts_with('-'));
            xml.text("zoneName", zone);
            xml.text("zoneId", id);
            xml.text("zoneState", "available");
            xml.text("zoneType", if is_local { "local-zone" } else { "availability-zone" });
            xml.text("optInStatus", if is_local { "opted-in" } else { "opt-in-not-required" });
            xml.text("regionName", &region);
        });
    });
    Ok(Reply { body, summary: format!("{} zones", zones.len()) })
}

/// Returns placement groups by name or by id, as filters.
pub(super) async fn groups(cloud: &dyn Cloud, form: &Form) -> Result<Reply, Failure> {
    let filter = Select::read(form).filter("group-id", "group-name")?;
    let queries = filter.ids.into_iter().map(PlacementGroupQuery::Id);
    let mut found = Vec::new();
    for query in queries.chain(filter.names.into_iter().map(PlacementGroupQuery::Name)) {
        found.extend(cloud.placement_group(&query).await?);
    }
    let summary = format!("{} placement groups", found.len());
    let body = Xml::response("DescribePlacementGroups", |xml| xml.items("placementGroupSet", &found, group));
    Ok(Reply { body, summary })
}

fn group(xml: &mut Xml, row: &PlacementGroup) {
    xml.text("groupId", &row.id);
    xml.text("groupName", &row.name);
    xml.text("strategy", &row.strategy);
    xml.text("state", &row.state);
    xml.some("partitionCount", (row.partitions > 0).then_some(row.partitions));
}

pub(super) fn create_group(cloud: &FakeCloud, form: &Form) -> Result<Reply, Failure> {
    let (name, strategy) = (form.text("GroupName"), form.text("Strategy"));
    let partitions = form.read("PartitionCount").unwrap_or(if strategy == "partition" { 2 } else { 0 });
    let created = cloud.account().create_placement_group(name, strategy, partitions);
    let body = Xml::response("CreatePlacementGroup", |xml| {
        xml.element("placementGroup", |xml| group(xml, &created));
    });
    Ok(Reply { body, summary: created.id })
}

pub(super) fn delete_group(cloud: &FakeCloud, form: &Form) -> Result<Reply, Failure> {
    let name = form.text("GroupName");
    if !cloud.account().delete_placement_group(name) {
        return Err(invalid("InvalidPlacementGroup.Unknown", format!("The Placement Group '{name}' is unknown.")));
    }
    Ok(done("DeletePlacementGroup", name))
}

//! DescribeCapacityReservations and DescribePlacementGroups.

use cloud::{CapacityReservation, Cloud, PlacementGroup, PlacementGroupQuery, ReservationFilter};

use super::answer::{Failure, Reply, invalid, page};
use super::describe::Select;
use super::form::Form;
use super::xml::Xml;

const PAGE: usize = 1000;

pub(super) async fn reservations(cloud: &dyn Cloud, form: &Form) -> Result<Reply, Failure> {
    let mut select = Select::read(form);
    let one = |values: Option<Vec<String>>| values.and_then(|values| values.into_iter().next());
    let states = select.take("state").unwrap_or_default();
    let (owner, match_criteria) = (one(select.take("owner-id")), one(select.take("instance-match-criteria")));
    let ids = form.texts("CapacityReservationId");
    let tags = select.filter("instance-type", "availability-zone")?.tags;
    if !ids.is_empty() && form.get("MaxResults").is_some() {
        return Err(invalid("InvalidParameterCombination", "ids and MaxResults exclude each other".to_owned()));
    }
    let filter = ReservationFilter { ids: ids.clone(), owner, match_criteria, tags };
    let mut found = cloud.capacity_reservations(&filter).await?;
    if let Some(unknown) = ids.iter().find(|id| found.iter().all(|one| one.id != **id)) {
        let message = format!("The capacity reservation ID '{unknown}' does not exist");
        return Err(invalid("InvalidCapacityReservationId.NotFound", message));
    }
    found.retain(|one| states.is_empty() || states.contains(&one.state));
    let summary = format!("{} reservations", found.len());
    let (rows, next) = page(found, form, PAGE)?;
    let body = Xml::response("DescribeCapacityReservations", |xml| {
        xml.items("capacityReservationSet", &rows, reservation);
        xml.some("nextToken", next);
    });
    Ok(Reply { body, summary })
}

fn reservation(xml: &mut Xml, row: &CapacityReservation) {
    xml.text("capacityReservationId", &row.id);
    xml.text("ownerId", &row.owner);
    xml.text("instanceType", &row.instance_type);
    xml.text("availabilityZone", &row.zone);
    xml.text("instanceMatchCriteria", &row.match_criteria);
    xml.text("reservationType", if row.capacity_block { "capacity-block" } else { "default" });
    xml.text("interruptible", row.interruptible);
    xml.text("state", &row.state);
    xml.text("totalInstanceCount", row.total);
    xml.text("availableInstanceCount", row.available);
    xml.some("endDate", row.ends.as_ref());
    xml.tags(&row.tags);
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

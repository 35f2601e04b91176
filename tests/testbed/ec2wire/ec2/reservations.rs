//! Capacity reservations, and interruptible capacity that they lend.

use cloud::fake::FakeCloud;
use cloud::{CapacityReservation, Cloud, ReservationFilter};

use super::describe::{Select, tags_of};
use super::done;
use crate::ec2wire::answer::{Failure, Reply, invalid, page};
use crate::ec2wire::form::Form;
use crate::ec2wire::xml::Xml;

const PAGE: usize = 1000;

pub(super) async fn describe(cloud: &FakeCloud, form: &Form) -> Result<Reply, Failure> {
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
    // By id, EC2 returns reservations in every state.
    let ended = ids.iter().filter_map(|id| cloud.reservation(id)).filter(|one| one.state != "active");
    found.extend(ended.collect::<Vec<_>>());
    if let Some(unknown) = ids.iter().find(|id| found.iter().all(|one| one.id != **id)) {
        let message = format!("The capacity reservation ID '{unknown}' does not exist");
        return Err(invalid("InvalidCapacityReservationId.NotFound", message));
    }
    found.retain(|one| states.is_empty() || states.contains(&one.state));
    let summary = format!("{} reservations", found.len());
    let (rows, next) = page(found, form, PAGE)?;
    let body = Xml::response("DescribeCapacityReservations", |xml| {
        xml.items("capacityReservationSet", &rows, |xml, row| {
            reservation(xml, row, cloud.account().interruptible_of(&row.id))
        });
        xml.some("nextToken", next);
    });
    Ok(Reply { body, summary })
}

/// Writes a reservation, and the interruptible one that uses its capacity.
fn reservation(xml: &mut Xml, row: &CapacityReservation, interruptible: Option<String>) {
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
    if let Some(id) = interruptible {
        xml.element("interruptibleCapacityAllocation", |xml| {
            xml.text("interruptibleCapacityReservationId", id);
            xml.text("status", "active");
        });
    }
    xml.tags(&row.tags);
}

pub(super) fn create(cloud: &FakeCloud, form: &Form) -> Result<Reply, Failure> {
    let Some(total) = form.read("InstanceCount") else {
        return Err(invalid("MissingParameter", "The request must contain the parameter InstanceCount".to_owned()));
    };
    let criteria = form.get("InstanceMatchCriteria").unwrap_or("open");
    let created = cloud.account().create_reservation(CapacityReservation {
        instance_type: form.owned("InstanceType"),
        zone: form.owned("AvailabilityZone"),
        match_criteria: criteria.to_owned(),
        total,
        ends: form.get("EndDate").map(str::to_owned),
        tags: form.list("TagSpecifications").iter().flat_map(tags_of).collect(),
        ..CapacityReservation::default()
    });
    let body = Xml::response("CreateCapacityReservation", |xml| {
        xml.element("capacityReservation", |xml| reservation(xml, &created, None));
    });
    Ok(Reply { body, summary: created.id })
}

pub(super) fn cancel(cloud: &FakeCloud, form: &Form) -> Result<Reply, Failure> {
    let id = form.text("CapacityReservationId");
    if cloud.account().interruptible_of(id).is_some() {
        let message = format!("{id} has an active interruptible capacity allocation");
        return Err(invalid("InvalidCapacityReservationState", message));
    }
    if !cloud.account().cancel_reservation(id) {
        return Err(missing(id));
    }
    Ok(done("CancelCapacityReservation", id))
}

/// Makes a part of a reservation interruptible.
pub(super) fn allocate(cloud: &FakeCloud, form: &Form) -> Result<Reply, Failure> {
    let source = form.text("CapacityReservationId");
    let count = form.read("InstanceCount").unwrap_or(1);
    let tags = form.list("TagSpecification").iter().flat_map(tags_of).collect();
    let Some(id) = cloud.account().allocate_interruptible(source, count, tags) else { return Err(missing(source)) };
    Ok(allocation("CreateInterruptibleCapacityReservationAllocation", source, count, id))
}

/// Takes interruptible capacity back; only a target of zero is known here.
pub(super) fn reclaim(cloud: &FakeCloud, form: &Form) -> Result<Reply, Failure> {
    let source = form.text("CapacityReservationId");
    if form.text("TargetInstanceCount") != "0" {
        return Err(invalid("InvalidParameterValue", "only a TargetInstanceCount of 0 is known here".to_owned()));
    }
    let id = cloud.account().interruptible_of(source).unwrap_or_default();
    if !cloud.account().reclaim_interruptible(source) {
        let message = format!("{source} doesn't have an active interruptible capacity allocation");
        return Err(invalid("InvalidCapacityReservationState", message));
    }
    Ok(allocation("UpdateInterruptibleCapacityReservationAllocation", source, 0, id))
}

fn allocation(action: &str, source: &str, target: u32, id: String) -> Reply {
    let body = Xml::response(action, |xml| {
        xml.text("interruptibleCapacityReservationId", &id);
        xml.text("sourceCapacityReservationId", source);
        xml.text("targetInstanceCount", target);
        xml.text("status", "active");
        xml.text("interruptionType", "adhoc");
    });
    Reply { body, summary: id }
}

fn missing(id: &str) -> Failure {
    let message = format!("The capacity reservation ID '{id}' does not exist or is not active");
    invalid("InvalidCapacityReservationId.NotFound", message)
}

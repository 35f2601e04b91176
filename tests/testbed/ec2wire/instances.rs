//! DescribeInstances, TerminateInstances and CreateTags.

use cloud::{Cloud, Instance, Tags};

use super::answer::{Failure, Reply, invalid, page};
use super::describe::{Select, tags_of};
use super::form::Form;
use super::xml::Xml;

const PAGE: usize = 1000;

/// Returns instances by id as EC2 does it (an unknown id is an error), or all instances that match the filters.
pub(super) async fn describe(cloud: &dyn Cloud, form: &Form) -> Result<Reply, Failure> {
    let ids = form.texts("InstanceId");
    let found = if ids.is_empty() { by_filters(cloud, form).await? } else { by_ids(cloud, &ids).await? };
    let summary = format!("{} instances", found.len());
    let (rows, next) = page(found, form, PAGE)?;
    let body = Xml::response("DescribeInstances", |xml| {
        xml.items("reservationSet", &rows, |xml, row| {
            xml.text("reservationId", row.id.replacen("i-", "r-", 1));
            xml.items("instancesSet", [row], instance);
        });
        xml.some("nextToken", next);
    });
    Ok(Reply { body, summary })
}

async fn by_filters(cloud: &dyn Cloud, form: &Form) -> Result<Vec<Instance>, Failure> {
    let mut select = Select::read(form);
    let states = select.take("instance-state-name");
    let filter = select.filter("instance-id", "private-dns-name")?;
    let mut found = match filter.ids.as_slice() {
        [] => cloud.instances(&filter.tags).await?,
        ids => cloud.instances_by_id(ids).await?,
    };
    found.retain(|instance| states.as_ref().is_none_or(|states| states.contains(&instance.state)));
    found.retain(|instance| filter.names.is_empty() || filter.names.contains(&instance.private_dns_name));
    Ok(found)
}

async fn by_ids(cloud: &dyn Cloud, ids: &[String]) -> Result<Vec<Instance>, Failure> {
    let found = cloud.instances_by_id(ids).await?;
    match ids.iter().find(|id| !found.iter().any(|instance| instance.id == **id)) {
        None => Ok(found),
        Some(id) => Err(invalid("InvalidInstanceID.NotFound", format!("The instance ID '{id}' does not exist"))),
    }
}

fn instance(xml: &mut Xml, row: &Instance) {
    xml.text("instanceId", &row.id);
    xml.text("imageId", &row.image_id);
    xml.element("instanceState", |xml| state(xml, &row.state));
    xml.text("privateDnsName", &row.private_dns_name);
    xml.text("instanceType", &row.instance_type);
    xml.text("launchTime", &row.launched);
    xml.element("placement", |xml| {
        xml.text("availabilityZone", &row.zone);
        xml.some("partitionNumber", row.placement_partition);
    });
    xml.some("capacityReservationId", row.capacity_reservation_id.as_ref());
    if let Some(preference) = &row.capacity_reservation_preference {
        xml.element("capacityReservationSpecification", |xml| xml.text("capacityReservationPreference", preference));
    }
    xml.text("subnetId", &row.subnet_id);
    xml.text("privateIpAddress", &row.private_ip);
    xml.items("groupSet", &row.security_group_ids, |xml, id| xml.text("groupId", id));
    if row.spot {
        xml.text("instanceLifecycle", "spot");
        xml.text("spotInstanceRequestId", row.id.replacen("i-", "sir-", 1));
    }
    xml.tags(&row.tags);
}

/// Writes EC2's code and name of a state.
fn state(xml: &mut Xml, name: &str) {
    let code = match name {
        "pending" => 0,
        "running" => 16,
        "shutting-down" => 32,
        "terminated" => 48,
        "stopping" => 64,
        _ => 80,
    };
    xml.text("code", code);
    xml.text("name", name);
}

pub(super) async fn terminate(cloud: &dyn Cloud, form: &Form) -> Result<Reply, Failure> {
    let ids = form.texts("InstanceId");
    given(&ids, "instanceId")?;
    cloud.terminate_instances(&ids).await?;
    let body = Xml::response("TerminateInstances", |xml| {
        xml.items("instancesSet", &ids, |xml, id| {
            xml.text("instanceId", id);
            xml.element("currentState", |xml| state(xml, "shutting-down"));
        });
    });
    Ok(Reply { body, summary: format!("{} instances end", ids.len()) })
}

fn given(ids: &[String], parameter: &str) -> Result<(), Failure> {
    if !ids.is_empty() {
        return Ok(());
    }
    Err(invalid("MissingParameter", format!("The request must contain the parameter {parameter}")))
}

pub(super) async fn create_tags(cloud: &dyn Cloud, form: &Form) -> Result<Reply, Failure> {
    let ids = form.texts("ResourceId");
    let tags: Tags = tags_of(form);
    given(&ids, "resourceIdSet")?;
    cloud.create_tags(&ids, &tags).await?;
    let body = Xml::response("CreateTags", |xml| xml.text("return", true));
    Ok(Reply { body, summary: "tagged".to_owned() })
}

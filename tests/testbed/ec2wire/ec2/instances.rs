//! Instances: described, stopped, terminated and tagged.

use cloud::fake::{FakeCloud, FakeInstance};
use cloud::{Cloud, Instance, Tags};

use super::describe::{Select, tags_of};
use super::{attached, done};
use crate::ec2wire::account::ACCOUNT;
use crate::ec2wire::answer::{Failure, Reply, invalid, page};
use crate::ec2wire::form::Form;
use crate::ec2wire::xml::Xml;

const PAGE: usize = 1000;

/// Public address of every instance that has one.
const PUBLIC_ADDRESS: &str = "203.0.113.1";

/// Returns instances by id as EC2 does it (an unknown id is an error), or all instances that match the filters.
pub(super) async fn describe(cloud: &FakeCloud, form: &Form) -> Result<Reply, Failure> {
    let ids = form.texts("InstanceId");
    let found = if ids.is_empty() { by_filters(cloud, form).await? } else { by_ids(cloud, &ids).await? };
    let summary = format!("{} instances", found.len());
    let (rows, next) = page(found, form, PAGE)?;
    let body = Xml::response("DescribeInstances", |xml| {
        xml.items("reservationSet", &rows, |xml, row| {
            xml.text("reservationId", row.id.replacen("i-", "r-", 1));
            xml.items("instancesSet", [row], |xml, row| instance(xml, row, cloud));
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
        Some(id) => Err(missing(id)),
    }
}

fn missing(id: &str) -> Failure {
    invalid("InvalidInstanceID.NotFound", format!("The instance ID '{id}' does not exist"))
}

fn instance(xml: &mut Xml, row: &Instance, cloud: &FakeCloud) {
    let machine = cloud.machine(&row.id);
    xml.text("instanceId", &row.id);
    xml.text("imageId", &row.image_id);
    xml.element("instanceState", |xml| state(xml, &row.state));
    xml.text("privateDnsName", &row.private_dns_name);
    xml.text("instanceType", &row.instance_type);
    xml.text("launchTime", &row.launched);
    xml.element("placement", |xml| {
        xml.text("availabilityZone", &row.zone);
        let group = machine.as_ref().and_then(|machine| machine.template.placement.group_id.as_deref());
        xml.some("groupId", group);
        xml.some("groupName", group.and_then(|id| cloud.account().placement_group_of(id)).map(|group| group.name));
        xml.some("partitionNumber", row.placement_partition);
    });
    xml.some("capacityReservationId", row.capacity_reservation_id.as_ref());
    if let Some(preference) = &row.capacity_reservation_preference {
        xml.element("capacityReservationSpecification", |xml| xml.text("capacityReservationPreference", preference));
    }
    xml.text("subnetId", &row.subnet_id);
    xml.text("privateIpAddress", &row.private_ip);
    xml.items("groupSet", &row.security_group_ids, |xml, id| {
        xml.text("groupId", id);
        xml.some("groupName", cloud.account().security_group_name(id));
    });
    if row.spot {
        xml.text("instanceLifecycle", "spot");
        xml.text("spotInstanceRequestId", row.id.replacen("i-", "sir-", 1));
    }
    if let Some(machine) = &machine {
        configuration(xml, machine);
    }
    xml.tags(&row.tags);
}

/// Writes what the launch template configured.
fn configuration(xml: &mut Xml, machine: &FakeInstance) {
    let template = &machine.template;
    xml.element("iamInstanceProfile", |xml| {
        xml.text("arn", format!("arn:aws:iam::{ACCOUNT}:instance-profile/{}", template.instance_profile));
        xml.text("id", "AIPAFAKEFAKEFAKEFAKE1");
    });
    xml.element("monitoring", |xml| {
        xml.text("state", if template.detailed_monitoring { "enabled" } else { "disabled" });
    });
    xml.element("metadataOptions", |xml| {
        let options = &template.metadata;
        xml.text("state", "applied");
        xml.text("httpEndpoint", &options.http_endpoint);
        xml.text("httpProtocolIpv6", options.http_protocol_ipv6.as_deref().unwrap_or("disabled"));
        xml.text("httpPutResponseHopLimit", options.hop_limit);
        xml.text("httpTokens", &options.http_tokens);
        xml.text("instanceMetadataTags", "disabled");
    });
    if let Some(nested) = template.nested_virtualization {
        xml.element("cpuOptions", |xml| {
            xml.text("nestedVirtualization", if nested { "enabled" } else { "disabled" });
        });
    }
    let interfaces = attached::interfaces_of(machine);
    let is_public = interfaces.iter().any(|interface| interface.associate_public_ip == Some(true));
    xml.some("ipAddress", is_public.then_some(PUBLIC_ADDRESS));
    let id = &machine.instance.id;
    xml.items("blockDeviceMapping", attached::volumes_of(machine).iter().enumerate(), |xml, (position, volume)| {
        xml.text("deviceName", &volume.device);
        xml.element("ebs", |xml| {
            xml.text("volumeId", attached::attached_id("vol", id, position));
            xml.text("status", "attached");
            xml.text("deleteOnTermination", volume.delete_on_termination.unwrap_or(true));
        });
    });
    xml.items("networkInterfaceSet", interfaces.iter().enumerate(), |xml, (position, interface)| {
        xml.text("networkInterfaceId", attached::attached_id("eni", id, position));
        xml.text("status", "in-use");
        xml.text("interfaceType", attached::interface_type(interface));
        let address = machine.ipv6().filter(|_| position == 0);
        xml.items("ipv6AddressesSet", address, |xml, address| {
            xml.text("ipv6Address", address);
            xml.text("isPrimaryIpv6", interface.primary_ipv6.unwrap_or_default());
        });
        xml.element("attachment", |xml| {
            xml.text("deviceIndex", interface.device);
            xml.text("networkCardIndex", interface.card);
            xml.text("status", "attached");
        });
    });
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

/// Returns the user data of an instance.
pub(super) fn attribute(cloud: &FakeCloud, form: &Form) -> Result<Reply, Failure> {
    let (id, attribute) = (form.text("InstanceId"), form.text("Attribute"));
    if attribute != "userData" {
        return Err(invalid("InvalidParameterValue", format!("the attribute '{attribute}' is not known here")));
    }
    let machine = cloud.machine(id).ok_or_else(|| missing(id))?;
    let body = Xml::response("DescribeInstanceAttribute", |xml| {
        xml.text("instanceId", id);
        xml.element("userData", |xml| xml.text("value", &machine.template.user_data));
    });
    Ok(Reply { body, summary: id.to_owned() })
}

pub(super) fn stop(cloud: &FakeCloud, form: &Form) -> Result<Reply, Failure> {
    let ids = form.texts("InstanceId");
    given(&ids, "instanceId")?;
    if let Some(id) = ids.iter().find(|id| !cloud.account().stop(id)) {
        return Err(match cloud.machine(id) {
            None => missing(id),
            Some(_) => invalid("IncorrectInstanceState", format!("The instance '{id}' is not running.")),
        });
    }
    let body = Xml::response("StopInstances", |xml| changed(xml, &ids, "stopping"));
    Ok(Reply { body, summary: format!("{} instances stop", ids.len()) })
}

fn changed(xml: &mut Xml, ids: &[String], to: &str) {
    xml.items("instancesSet", ids, |xml, id| {
        xml.text("instanceId", id);
        xml.element("currentState", |xml| state(xml, to));
    });
}

pub(super) async fn terminate(cloud: &dyn Cloud, form: &Form) -> Result<Reply, Failure> {
    let ids = form.texts("InstanceId");
    given(&ids, "instanceId")?;
    cloud.terminate_instances(&ids).await?;
    let body = Xml::response("TerminateInstances", |xml| changed(xml, &ids, "shutting-down"));
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
    Ok(done("CreateTags", "tagged"))
}

/// Removes tags by their keys; the values are not compared.
pub(super) fn delete_tags(cloud: &FakeCloud, form: &Form) -> Result<Reply, Failure> {
    let ids = form.texts("ResourceId");
    given(&ids, "resourceIdSet")?;
    let keys: Vec<String> = tags_of(form).into_keys().collect();
    cloud.account().delete_tags(&ids, &keys).map_err(|id| missing(&id))?;
    Ok(done("DeleteTags", "untagged"))
}

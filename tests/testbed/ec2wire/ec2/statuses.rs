//! DescribeInstanceStatus: each filter requires one reason for an instance to be in the response.

use cloud::{Cloud, InstanceStatus};

use super::describe::Select;
use crate::ec2wire::answer::{Failure, Reply, page};
use crate::ec2wire::form::Form;
use crate::ec2wire::xml::Xml;

const PAGE: usize = 1000;

pub(super) async fn describe(cloud: &dyn Cloud, form: &Form) -> Result<Reply, Failure> {
    let mut select = Select::read(form);
    let own = select.take("instance-status.status").is_some();
    let system = select.take("system-status.status").is_some();
    let codes = select.take("event.code");
    let mut found = cloud.instance_statuses().await?;
    found.retain(|one| !own || one.instance_impaired_since.is_some());
    found.retain(|one| !system || one.system_impaired_since.is_some());
    found.retain(|one| codes.as_ref().is_none_or(|codes| one.events.iter().any(|event| codes.contains(&event.code))));
    let summary = format!("{} instances", found.len());
    let (rows, next) = page(found, form, PAGE)?;
    let body = Xml::response("DescribeInstanceStatus", |xml| {
        xml.items("instanceStatusSet", &rows, status);
        xml.some("nextToken", next);
    });
    Ok(Reply { body, summary })
}

fn status(xml: &mut Xml, row: &InstanceStatus) {
    xml.text("instanceId", &row.instance);
    summary(xml, "instanceStatus", row.instance_impaired_since.as_deref());
    summary(xml, "systemStatus", row.system_impaired_since.as_deref());
    xml.items("eventsSet", &row.events, |xml, event| {
        xml.text("code", &event.code);
        xml.text("description", &event.description);
        xml.some("notBefore", event.not_before.as_ref());
    });
}

fn summary(xml: &mut Xml, name: &str, since: Option<&str>) {
    xml.element(name, |xml| {
        xml.text("status", if since.is_some() { "impaired" } else { "ok" });
        xml.items("details", since, |xml, since| {
            xml.text("name", "reachability");
            xml.text("status", "failed");
            xml.text("impairedSince", since);
        });
    });
}

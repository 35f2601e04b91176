//! Subnets and security groups.

use cloud::Cloud;
use cloud::fake::FakeCloud;

use super::describe::{Select, tags_of};
use super::done;
use crate::ec2wire::account::ACCOUNT;
use crate::ec2wire::answer::{Failure, Reply, invalid, page};
use crate::ec2wire::form::Form;
use crate::ec2wire::xml::Xml;

/// VPC of all subnets and security groups.
pub(in crate::ec2wire) const VPC: &str = "vpc-00000000000000001";

const PAGE: usize = 1000;

pub(super) async fn subnets(cloud: &dyn Cloud, form: &Form) -> Result<Reply, Failure> {
    let filter = Select::read(form).filter("subnet-id", "cidr-block")?;
    let found = cloud.subnets(&filter).await?;
    let summary = format!("{} subnets", found.len());
    let (rows, next) = page(found, form, PAGE)?;
    let body = Xml::response("DescribeSubnets", |xml| {
        xml.items("subnetSet", &rows, |xml, row| {
            xml.text("subnetId", &row.id);
            xml.text("state", "available");
            xml.text("availableIpAddressCount", row.free_addresses);
            xml.text("availabilityZone", &row.zone);
            xml.text("availabilityZoneId", &row.zone_id);
            xml.text("ownerId", ACCOUNT);
            xml.text("vpcId", VPC);
            xml.tags(&row.tags);
        });
        xml.some("nextToken", next);
    });
    Ok(Reply { body, summary })
}

pub(super) async fn security_groups(cloud: &dyn Cloud, form: &Form) -> Result<Reply, Failure> {
    let filter = Select::read(form).filter("group-id", "group-name")?;
    let found = cloud.security_groups(&filter).await?;
    let summary = format!("{} security groups", found.len());
    let (rows, next) = page(found, form, PAGE)?;
    let body = Xml::response("DescribeSecurityGroups", |xml| {
        xml.items("securityGroupInfo", &rows, |xml, row| {
            xml.text("ownerId", ACCOUNT);
            xml.text("groupId", &row.id);
            xml.text("groupName", &row.name);
            xml.text("vpcId", VPC);
            xml.tags(&row.tags);
        });
        xml.some("nextToken", next);
    });
    Ok(Reply { body, summary })
}

/// Creates a security group without rules.
pub(super) fn create_security_group(cloud: &FakeCloud, form: &Form) -> Result<Reply, Failure> {
    let name = form.text("GroupName");
    let tags = form.list("TagSpecification").iter().flat_map(tags_of).collect();
    let Some(id) = cloud.account().create_security_group(name, tags) else {
        let message = format!("The security group '{name}' already exists for VPC '{VPC}'");
        return Err(invalid("InvalidGroup.Duplicate", message));
    };
    let body = Xml::response("CreateSecurityGroup", |xml| {
        xml.text("return", true);
        xml.text("groupId", &id);
    });
    Ok(Reply { body, summary: id })
}

pub(super) fn delete_security_group(cloud: &FakeCloud, form: &Form) -> Result<Reply, Failure> {
    let id = form.text("GroupId");
    if !cloud.account().delete_security_group(id) {
        return Err(invalid("InvalidGroup.NotFound", format!("The security group '{id}' does not exist")));
    }
    Ok(done("DeleteSecurityGroup", id))
}

/// Changes how future instances of a subnet are named. Other attributes have no effect on what the fake shows.
pub(super) fn modify_subnet(cloud: &FakeCloud, form: &Form) -> Result<Reply, Failure> {
    let id = form.text("SubnetId");
    let known = match form.text("PrivateDnsHostnameTypeOnLaunch") {
        "" => cloud.subnet(id).is_some(),
        kind => cloud.account().name_by_resource(id, kind == "resource-name"),
    };
    if !known {
        return Err(invalid("InvalidSubnetID.NotFound", format!("The subnet ID '{id}' does not exist")));
    }
    Ok(done("ModifySubnetAttribute", id))
}

//! Launch templates: the common settings of all instances of a class.

mod data;

use aws_sdk_ec2::Client;
use aws_sdk_ec2::types as ec2;
use cloud::{CloudError, LaunchTemplate, LaunchTemplateRequest, Tags};

use crate::ec2::tags;
use crate::failure::{failure, incomplete};
use data::data;

/// Launch templates per page.
const PAGE: i32 = 200;

pub(crate) async fn list(client: &Client, tags: &Tags) -> Result<Vec<LaunchTemplate>, CloudError> {
    let filters = Some(tags::filters(tags)).filter(|filters| !filters.is_empty());
    let mut pages = client.describe_launch_templates().set_filters(filters).max_results(PAGE).into_paginator().send();
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| failure("DescribeLaunchTemplates", error))?;
        found.extend(page.launch_templates.unwrap_or_default().into_iter().map(of_ec2));
    }
    Ok(found)
}

pub(crate) async fn create(client: &Client, request: &LaunchTemplateRequest) -> Result<LaunchTemplate, CloudError> {
    const CALL: &str = "CreateLaunchTemplate";
    let call = client
        .create_launch_template()
        .launch_template_name(&request.name)
        .launch_template_data(data(request))
        .set_tag_specifications(tags::specifications(&[ec2::ResourceType::LaunchTemplate], &request.tags));
    let answer = call.send().await.map_err(|error| failure(CALL, error))?;
    answer.launch_template.map(of_ec2).ok_or_else(|| incomplete(CALL, "launch template"))
}

pub(crate) async fn delete(client: &Client, name: &str) -> Result<(), CloudError> {
    let call = client.delete_launch_template().launch_template_name(name);
    call.send().await.map(drop).map_err(|error| failure("DeleteLaunchTemplate", error))
}

fn of_ec2(template: ec2::LaunchTemplate) -> LaunchTemplate {
    LaunchTemplate {
        id: template.launch_template_id.unwrap_or_default(),
        name: template.launch_template_name.unwrap_or_default(),
        tags: tags::from_ec2(template.tags),
    }
}

//! Launch templates: what every instance of a class has in common (aws 4.4).

use aws_sdk_ec2::Client;
use aws_sdk_ec2::types as ec2;
use cloud::{BlockDevice, CloudError, LaunchTemplate, LaunchTemplateRequest, MetadataOptions, Tags};

use crate::failure::{failure, incomplete};
use crate::tags;

/// Templates a page.
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

fn data(request: &LaunchTemplateRequest) -> ec2::RequestLaunchTemplateData {
    let profile = (!request.instance_profile.is_empty()).then(|| {
        let name = &request.instance_profile;
        ec2::LaunchTemplateIamInstanceProfileSpecificationRequest::builder().name(name).build()
    });
    let monitoring = ec2::LaunchTemplatesMonitoringRequest::builder().enabled(request.detailed_monitoring).build();
    let devices = request.block_devices.iter().map(device).collect::<Vec<_>>();
    ec2::RequestLaunchTemplateData::builder()
        .image_id(&request.image_id)
        .set_iam_instance_profile(profile)
        .user_data(&request.user_data)
        .monitoring(monitoring)
        .metadata_options(metadata(&request.metadata))
        .network_interfaces(primary_interface(request))
        .set_block_device_mappings(Some(devices).filter(|devices| !devices.is_empty()))
        .set_tag_specifications(interface_tags(&request.tags))
        .build()
}

/// Security groups go on the interface: a template with an interface may not have them at its top.
fn primary_interface(
    request: &LaunchTemplateRequest,
) -> ec2::LaunchTemplateInstanceNetworkInterfaceSpecificationRequest {
    ec2::LaunchTemplateInstanceNetworkInterfaceSpecificationRequest::builder()
        .device_index(0)
        .set_groups(Some(request.security_group_ids.clone()))
        .set_associate_public_ip_address(request.associate_public_ip)
        .build()
}

fn interface_tags(tags: &Tags) -> Option<Vec<ec2::LaunchTemplateTagSpecificationRequest>> {
    let specification = || {
        ec2::LaunchTemplateTagSpecificationRequest::builder()
            .resource_type(ec2::ResourceType::NetworkInterface)
            .set_tags(Some(tags::to_ec2(tags)))
            .build()
    };
    (!tags.is_empty()).then(|| vec![specification()])
}

fn metadata(options: &MetadataOptions) -> ec2::LaunchTemplateInstanceMetadataOptionsRequest {
    ec2::LaunchTemplateInstanceMetadataOptionsRequest::builder()
        .http_endpoint(options.http_endpoint.as_str().into())
        .set_http_protocol_ipv6(options.http_protocol_ipv6.as_deref().map(Into::into))
        .http_put_response_hop_limit(bounded(options.hop_limit))
        .http_tokens(options.http_tokens.as_str().into())
        .instance_metadata_tags(ec2::LaunchTemplateInstanceMetadataTagsState::Disabled)
        .build()
}

fn device(device: &BlockDevice) -> ec2::LaunchTemplateBlockDeviceMappingRequest {
    let volume = ec2::LaunchTemplateEbsBlockDeviceRequest::builder()
        .set_volume_size(device.size_gib.map(bounded))
        .set_volume_type(device.volume_type.as_deref().map(Into::into))
        .set_encrypted(device.encrypted)
        .set_iops(device.iops.map(bounded))
        .set_throughput(device.throughput.map(bounded))
        .set_kms_key_id(device.kms_key_id.clone())
        .set_snapshot_id(device.snapshot_id.clone())
        .set_delete_on_termination(device.delete_on_termination)
        .build();
    ec2::LaunchTemplateBlockDeviceMappingRequest::builder().device_name(&device.device).ebs(volume).build()
}

/// EC2 counts in signed words; whatever does not fit is far beyond its limits, and it says so itself.
fn bounded(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

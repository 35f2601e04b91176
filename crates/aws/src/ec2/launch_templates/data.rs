//! Conversion of the content of a launch template for EC2.

use aws_sdk_ec2::types as ec2;
use cloud::{
    BlockDevice, ConnectionTracking, InterfaceKind, LaunchTemplateRequest, MetadataOptions, NetworkInterface,
    Placement, ReservationSpecification, Tags,
};

use crate::ec2::tags;

type Interface = ec2::LaunchTemplateInstanceNetworkInterfaceSpecificationRequest;

/// Converts all of `request` except its name and its own tags.
pub(super) fn data(request: &LaunchTemplateRequest) -> ec2::RequestLaunchTemplateData {
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
        .set_network_interfaces(Some(interfaces(request)))
        .set_block_device_mappings(Some(devices).filter(|devices| !devices.is_empty()))
        .set_tag_specifications(resource_tags(request))
        .set_placement(placement(&request.placement))
        .set_cpu_options(request.nested_virtualization.map(cpu))
        .set_enclave_options(enclave(request.enclave))
        .set_capacity_reservation_specification(request.capacity_reservation.as_ref().map(reservation))
        .set_instance_market_options(request.market_type.as_deref().map(market))
        .build()
}

/// Returns the network interfaces with the security groups: a template with an interface may not have security groups at its
/// top.
fn interfaces(request: &LaunchTemplateRequest) -> Vec<Interface> {
    if request.network_interfaces.is_empty() {
        let primary = Interface::builder()
            .device_index(0)
            .set_groups(Some(request.security_group_ids.clone()))
            .set_associate_public_ip_address(request.associate_public_ip)
            .set_connection_tracking_specification(request.connection_tracking.map(tracking));
        return vec![primary.build()];
    }
    request.network_interfaces.iter().map(|one| interface(one, request)).collect()
}

/// Converts a network interface. An interface without IP has no connections to track.
fn interface(one: &NetworkInterface, request: &LaunchTemplateRequest) -> Interface {
    let tracked = request.connection_tracking.filter(|_| one.kind != InterfaceKind::EfaOnly);
    Interface::builder()
        .network_card_index(bounded(one.card))
        .device_index(bounded(one.device))
        .interface_type(one.kind.as_str())
        .set_groups(Some(request.security_group_ids.clone()))
        .set_associate_public_ip_address(one.associate_public_ip)
        .set_ipv4_prefix_count(one.ipv4_prefixes.map(bounded))
        .set_ipv6_prefix_count(one.ipv6_prefixes.map(bounded))
        .set_ipv6_address_count(one.ipv6_addresses.map(bounded))
        .set_primary_ipv6(one.primary_ipv6)
        .set_connection_tracking_specification(tracked.map(tracking))
        .build()
}

fn tracking(seconds: ConnectionTracking) -> ec2::ConnectionTrackingSpecificationRequest {
    ec2::ConnectionTrackingSpecificationRequest::builder()
        .set_tcp_established_timeout(seconds.tcp_established.map(bounded))
        .set_udp_stream_timeout(seconds.udp_stream.map(bounded))
        .set_udp_timeout(seconds.udp.map(bounded))
        .build()
}

/// Returns the tags of resources that the tags of CreateFleet do not cover.
fn resource_tags(request: &LaunchTemplateRequest) -> Option<Vec<ec2::LaunchTemplateTagSpecificationRequest>> {
    let mut kinds = vec![ec2::ResourceType::NetworkInterface];
    if request.spot {
        kinds.push(ec2::ResourceType::SpotInstancesRequest);
    }
    let one = |kind: ec2::ResourceType| specification(kind, &request.tags);
    (!request.tags.is_empty()).then(|| kinds.into_iter().map(one).collect())
}

fn specification(kind: ec2::ResourceType, tags: &Tags) -> ec2::LaunchTemplateTagSpecificationRequest {
    let tags = Some(tags::to_ec2(tags));
    ec2::LaunchTemplateTagSpecificationRequest::builder().resource_type(kind).set_tags(tags).build()
}

fn placement(place: &Placement) -> Option<ec2::LaunchTemplatePlacementRequest> {
    let request = || {
        ec2::LaunchTemplatePlacementRequest::builder()
            .set_tenancy(place.tenancy.as_deref().map(Into::into))
            .set_group_id(place.group_id.clone())
            .set_partition_number(place.partition.map(bounded))
            .build()
    };
    (*place != Placement::default()).then(request)
}

fn cpu(nested: bool) -> ec2::LaunchTemplateCpuOptionsRequest {
    let word = match nested {
        true => ec2::NestedVirtualizationSpecification::Enabled,
        false => ec2::NestedVirtualizationSpecification::Disabled,
    };
    ec2::LaunchTemplateCpuOptionsRequest::builder().nested_virtualization(word).build()
}

fn enclave(enabled: bool) -> Option<ec2::LaunchTemplateEnclaveOptionsRequest> {
    enabled.then(|| ec2::LaunchTemplateEnclaveOptionsRequest::builder().enabled(true).build())
}

fn reservation(said: &ReservationSpecification) -> ec2::LaunchTemplateCapacityReservationSpecificationRequest {
    let target =
        said.id.as_ref().map(|id| ec2::CapacityReservationTarget::builder().capacity_reservation_id(id).build());
    ec2::LaunchTemplateCapacityReservationSpecificationRequest::builder()
        .capacity_reservation_preference(said.preference.as_str().into())
        .set_capacity_reservation_target(target)
        .build()
}

fn market(kind: &str) -> ec2::LaunchTemplateInstanceMarketOptionsRequest {
    ec2::LaunchTemplateInstanceMarketOptionsRequest::builder().market_type(kind.into()).build()
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
        .set_volume_initialization_rate(device.initialization_rate.map(bounded))
        .build();
    ec2::LaunchTemplateBlockDeviceMappingRequest::builder().device_name(&device.device).ebs(volume).build()
}

/// Converts a number for EC2, which uses signed integers. A number that does not fit is far beyond EC2's limits, and EC2
/// reports it.
fn bounded(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use cloud::{ConnectionTracking, InterfaceKind, LaunchTemplateRequest, NetworkInterface};

    use super::data;
    use super::ec2::LaunchTemplateInstanceMetadataTagsState as MetadataTags;

    /// Tags may have characters that the path of instance metadata cannot have: an instance with such a tag would not start.
    #[test]
    fn data_disables_tags_in_instance_metadata() {
        let data = data(&LaunchTemplateRequest::default());
        assert_eq!(data.metadata_options().unwrap().instance_metadata_tags(), Some(&MetadataTags::Disabled));
    }

    #[test]
    fn data_tracks_connections_when_the_interface_has_ip() {
        let kinds = [InterfaceKind::Interface, InterfaceKind::Efa, InterfaceKind::EfaOnly];
        let request = LaunchTemplateRequest {
            network_interfaces: kinds.map(|kind| NetworkInterface { kind, ..NetworkInterface::default() }).into(),
            connection_tracking: Some(ConnectionTracking { udp: Some(30), ..ConnectionTracking::default() }),
            ..LaunchTemplateRequest::default()
        };
        let tracked: Vec<bool> = data(&request)
            .network_interfaces()
            .iter()
            .map(|one| one.connection_tracking_specification().is_some())
            .collect();
        assert_eq!(tracked, [true, true, false]);
    }
}

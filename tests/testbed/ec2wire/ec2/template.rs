//! Conversion of CreateLaunchTemplate's fields into a [`LaunchTemplateRequest`].

use cloud::{
    BlockDevice, ConnectionTracking, InterfaceKind, LaunchTemplateRequest, MetadataOptions, NetworkInterface,
    Placement, ReservationSpecification, Tags,
};

use crate::ec2wire::form::Form;

/// Returns the template that CreateLaunchTemplate requests; `tags` are those of the template itself.
pub(super) fn request(form: &Form, tags: &Tags) -> LaunchTemplateRequest {
    let data = form.at("LaunchTemplateData");
    let interfaces = data.list("NetworkInterface");
    let first = data.at("NetworkInterface.1");
    let option = data.at("CapacityReservationSpecification");
    LaunchTemplateRequest {
        name: form.owned("LaunchTemplateName"),
        image_id: data.owned("ImageId"),
        instance_profile: data.owned("IamInstanceProfile.Name"),
        security_group_ids: first.texts("SecurityGroupId"),
        user_data: data.owned("UserData"),
        block_devices: data.list("BlockDeviceMapping").iter().map(block_device).collect(),
        metadata: metadata(&data.at("MetadataOptions")),
        associate_public_ip: if plain(&interfaces) { first.read("AssociatePublicIpAddress") } else { None },
        detailed_monitoring: data.read("Monitoring.Enabled").unwrap_or_default(),
        network_interfaces: if plain(&interfaces) { Vec::new() } else { interfaces.iter().map(interface).collect() },
        connection_tracking: connection_tracking(&first.at("ConnectionTrackingSpecification")),
        placement: Placement {
            tenancy: data.read("Placement.Tenancy"),
            group_id: data.read("Placement.GroupId"),
            partition: data.read("Placement.PartitionNumber"),
        },
        nested_virtualization: data.get("CpuOptions.NestedVirtualization").map(|word| word == "enabled"),
        enclave: data.read("EnclaveOptions.Enabled").unwrap_or_default(),
        capacity_reservation: option.get("CapacityReservationPreference").map(|preference| ReservationSpecification {
            preference: preference.to_owned(),
            id: option.read("CapacityReservationTarget.CapacityReservationId"),
        }),
        market_type: data.read("InstanceMarketOptions.MarketType"),
        spot: data.list("TagSpecification").iter().any(|one| one.text("ResourceType") == "spot-instances-request"),
        tags: tags.clone(),
    }
}

/// Reports whether the interfaces are the default of a template without own interfaces: a single one without a type.
fn plain(interfaces: &[Form]) -> bool {
    matches!(interfaces, [one] if one.get("InterfaceType").is_none())
}

fn interface(form: &Form) -> NetworkInterface {
    NetworkInterface {
        card: form.read("NetworkCardIndex").unwrap_or_default(),
        device: form.read("DeviceIndex").unwrap_or_default(),
        kind: match form.text("InterfaceType") {
            "efa" => InterfaceKind::Efa,
            "efa-only" => InterfaceKind::EfaOnly,
            _ => InterfaceKind::Interface,
        },
        associate_public_ip: form.read("AssociatePublicIpAddress"),
        ipv4_prefixes: form.read("Ipv4PrefixCount"),
        ipv6_prefixes: form.read("Ipv6PrefixCount"),
        ipv6_addresses: form.read("Ipv6AddressCount"),
        primary_ipv6: form.read("PrimaryIpv6"),
    }
}

fn connection_tracking(form: &Form) -> Option<ConnectionTracking> {
    let tracking = ConnectionTracking {
        tcp_established: form.read("TcpEstablishedTimeout"),
        udp_stream: form.read("UdpStreamTimeout"),
        udp: form.read("UdpTimeout"),
    };
    (tracking != ConnectionTracking::default()).then_some(tracking)
}

fn block_device(mapping: &Form) -> BlockDevice {
    let volume = mapping.at("Ebs");
    BlockDevice {
        device: mapping.owned("DeviceName"),
        size_gib: volume.read("VolumeSize"),
        volume_type: volume.read("VolumeType"),
        encrypted: volume.read("Encrypted"),
        iops: volume.read("Iops"),
        throughput: volume.read("Throughput"),
        kms_key_id: volume.read("KmsKeyId"),
        snapshot_id: volume.read("SnapshotId"),
        delete_on_termination: volume.read("DeleteOnTermination"),
        initialization_rate: volume.read("VolumeInitializationRate"),
    }
}

fn metadata(options: &Form) -> MetadataOptions {
    MetadataOptions {
        http_endpoint: options.owned("HttpEndpoint"),
        http_protocol_ipv6: options.read("HttpProtocolIpv6"),
        hop_limit: options.read("HttpPutResponseHopLimit").unwrap_or(1),
        http_tokens: options.owned("HttpTokens"),
    }
}

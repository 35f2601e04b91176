//! Launch templates: the shared settings of all instances with one image and one maximum number of pods.

use api::label;
use api::nodeclass::{AmiFamily, BlockDeviceMapping, EC2NodeClassSpec, InterfaceType, Toggle, TokensRequirement};
use machine::userdata::{self, RenderError};
use planner::CapacityType;

use super::reserved::ReservationKind;
use super::{LaunchOffer, LaunchRequest};
use crate::calls::{
    BlockDevice, ConnectionTracking, InterfaceKind, LaunchTemplateRequest, MetadataOptions, NetworkInterface,
    Placement, ReservationSpecification, Tags,
};
use crate::nodeclass::user_data::{self, NodeUserData};
use crate::settings::Settings;
use crate::tags::{CLUSTER_TAG, TEMPLATE_PREFIX, fingerprint};
use crate::types::EFA;

/// Resource name whose request enables Nitro Enclaves.
const ENCLAVE_SLOTS: &str = "eks.amazonaws.com/nip-slots";
const DEFAULT_TENANCY: &str = "default";
const DEDICATED: &str = "dedicated";
const GIB: i64 = 1 << 30;

/// Regions whose EC2 does not support the IPv6 endpoint of IMDS. A request in these regions must omit the option.
const WITHOUT_METADATA_IPV6: [&str; 6] =
    ["us-iso-east-1", "us-iso-west-1", "us-isob-east-1", "us-isob-west-1", "us-isof-south-1", "us-isof-east-1"];

/// Properties that determine a launch template, besides the EC2NodeClass and the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TemplateSource<'a> {
    pub(super) image_id: &'a str,
    pub(super) max_pods: u32,
    /// Number of EFA interfaces, 0 unless the NodeClaim requests EFA.
    pub(super) efa: u32,
    /// Reservation to launch into.
    pub(super) reservation: Option<(&'a str, ReservationKind)>,
}

/// Returns the request for a launch template; its name is a hash of all other fields.
pub(super) fn template_request(
    request: &LaunchRequest,
    offer: &LaunchOffer<'_>,
    capacity_type: CapacityType,
    source: TemplateSource<'_>,
) -> Result<LaunchTemplateRequest, RenderError> {
    let class = offer.class;
    let TemplateSource { image_id, max_pods, efa, reservation } = source;
    let machine = NodeUserData { capacity_type: capacity_type.as_str(), image_id, max_pods };
    let text = user_data::render(class, offer.settings, request.registration(), machine)?;
    let market_type = reservation.and_then(|(_, kind)| kind.market_type());
    let mut template = LaunchTemplateRequest {
        name: String::new(),
        image_id: image_id.to_owned(),
        instance_profile: class.instance_profile.clone(),
        security_group_ids: class.security_groups.iter().map(|group| group.id.clone()).collect(),
        user_data: userdata::encode(&text),
        block_devices: block_devices(&class.spec, class.family),
        metadata: metadata_options(&class.spec, &offer.settings.region),
        associate_public_ip: class.spec.associate_public_ip_address,
        detailed_monitoring: class.spec.detailed_monitoring.unwrap_or(false),
        network_interfaces: interfaces(offer, efa),
        connection_tracking: connection_tracking(offer),
        placement: placement(request, offer),
        nested_virtualization: nested_virtualization(offer),
        enclave: request.requests.get(ENCLAVE_SLOTS) > 0,
        capacity_reservation: reservation_specification(offer.settings, reservation),
        market_type: market_type.map(str::to_owned),
        spot: capacity_type == CapacityType::Spot,
        tags: tags(request, offer),
    };
    template.name = format!("{TEMPLATE_PREFIX}{}", fingerprint(&template));
    Ok(template)
}

/// Returns the block devices of the EC2NodeClass, or the defaults of the AMI family if it lists none.
#[must_use]
pub fn block_devices(spec: &EC2NodeClassSpec, family: AmiFamily) -> Vec<BlockDevice> {
    if !spec.block_device_mappings.is_empty() {
        return spec.block_device_mappings.iter().map(block_device).collect();
    }
    let usual: &[(&str, u32)] = match family {
        AmiFamily::Al2 | AmiFamily::Al2023 => &[("/dev/xvda", 20)],
        // The first volume is for the operating system; the second is for container images, logs and pod data.
        AmiFamily::Bottlerocket => &[("/dev/xvda", 4), ("/dev/xvdb", 20)],
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => &[("/dev/sda1", 50)],
        AmiFamily::Custom => &[],
    };
    usual.iter().map(|(device, size_gib)| usual_disk(device, *size_gib)).collect()
}

fn usual_disk(device: &str, size_gib: u32) -> BlockDevice {
    BlockDevice {
        device: device.to_owned(),
        size_gib: Some(size_gib),
        volume_type: Some("gp3".to_owned()),
        encrypted: Some(true),
        delete_on_termination: Some(true),
        ..BlockDevice::default()
    }
}

fn block_device(mapping: &BlockDeviceMapping) -> BlockDevice {
    let ebs = mapping.ebs.clone().unwrap_or_default();
    let number = |amount: Option<i64>| amount.and_then(|amount| u32::try_from(amount).ok());
    let gib = |bytes: i64| (bytes + GIB - 1) / GIB;
    BlockDevice {
        device: mapping.device_name.clone().unwrap_or_default(),
        size_gib: number(ebs.volume_size.and_then(|size| size.units().ok()).map(gib)),
        volume_type: ebs.volume_type.map(|kind| kind.as_str().to_owned()),
        encrypted: ebs.encrypted,
        iops: number(ebs.iops),
        throughput: number(ebs.throughput),
        kms_key_id: ebs.kms_key_id,
        snapshot_id: ebs.snapshot_id,
        delete_on_termination: ebs.delete_on_termination,
        initialization_rate: ebs.volume_initialization_rate.and_then(|rate| u32::try_from(rate).ok()),
    }
}

/// Returns the IMDS options. Absent fields have the defaults of the CRD schema.
#[must_use]
pub fn metadata_options(spec: &EC2NodeClassSpec, region: &str) -> MetadataOptions {
    let options = spec.metadata_options.clone().unwrap_or_default();
    let toggle = |toggle: Option<Toggle>, default: Toggle| toggle.unwrap_or(default).as_str().to_owned();
    MetadataOptions {
        http_endpoint: toggle(options.http_endpoint, Toggle::Enabled),
        http_protocol_ipv6: (!WITHOUT_METADATA_IPV6.contains(&region))
            .then(|| toggle(options.http_protocol_ipv6, Toggle::Disabled)),
        hop_limit: options.http_put_response_hop_limit.and_then(|hops| u32::try_from(hops).ok()).unwrap_or(1),
        http_tokens: options.http_tokens.unwrap_or(TokensRequirement::Required).as_str().to_owned(),
    }
}

/// Returns the network interfaces: those of the EC2NodeClass, else one per requested EFA, else an empty list.
///
/// With an empty list EC2 creates the one default interface. An explicit interface replaces the default where the cluster is
/// IPv6 or the EC2NodeClass sets IP prefixes.
fn interfaces(offer: &LaunchOffer<'_>, efa: u32) -> Vec<NetworkInterface> {
    let spec = &offer.class.spec;
    let number = |index: i32| u32::try_from(index).unwrap_or(0);
    let listed = spec.network_interfaces.as_deref().unwrap_or_default();
    let interface = |(card, device, kind)| NetworkInterface { card, device, kind, ..NetworkInterface::default() };
    let interfaces: Vec<NetworkInterface> = match (listed, efa) {
        ([], 0) => vec![interface((0, 0, InterfaceKind::Interface))],
        ([], efa) => (0..efa).map(|card| interface((card, u32::from(card > 0), InterfaceKind::Efa))).collect(),
        (listed, _) => {
            let kind = |kind| match kind {
                InterfaceType::Interface => InterfaceKind::Interface,
                InterfaceType::EfaOnly => InterfaceKind::EfaOnly,
            };
            let of_class = listed.iter().map(|one| {
                interface((number(one.network_card_index), number(one.device_index), kind(one.interface_type)))
            });
            of_class.collect()
        }
    };
    let prefixes = spec.ip_prefix_count.and_then(|count| u32::try_from(count).ok());
    let ipv6 = is_ipv6(offer.settings);
    if interfaces.len() == 1 && listed.is_empty() && efa == 0 && prefixes.is_none() && !ipv6 {
        return Vec::new();
    }
    let configured = |one: NetworkInterface| match one.kind {
        InterfaceKind::EfaOnly => one,
        InterfaceKind::Interface | InterfaceKind::Efa => NetworkInterface {
            associate_public_ip: spec.associate_public_ip_address,
            ipv4_prefixes: prefixes.filter(|_| !ipv6),
            ipv6_prefixes: prefixes.filter(|_| ipv6),
            ipv6_addresses: ipv6.then_some(1),
            primary_ipv6: ipv6.then_some(true),
            ..one
        },
    };
    interfaces.into_iter().map(configured).collect()
}

/// Reports whether the cluster uses IPv6, from the address of cluster DNS or else the cluster CIDR.
fn is_ipv6(settings: &Settings) -> bool {
    settings.cluster_dns.first().unwrap_or(&settings.cluster_cidr).contains(':')
}

fn connection_tracking(offer: &LaunchOffer<'_>) -> Option<ConnectionTracking> {
    let seconds = |time: Option<i32>| time.and_then(|time| u32::try_from(time).ok());
    offer.class.spec.connection_tracking.as_ref().map(|options| ConnectionTracking {
        tcp_established: seconds(options.tcp_established_timeout),
        udp_stream: seconds(options.udp_stream_timeout),
        udp: seconds(options.udp_timeout),
    })
}

/// Returns the placement group of the EC2NodeClass with the first partition that the request allows. Without a requested
/// partition EC2 distributes the instances over the partitions.
pub(super) fn placement(request: &LaunchRequest, offer: &LaunchOffer<'_>) -> Placement {
    let group = offer.class.placement_group.as_ref();
    let requirement = request.requirements.get(label::PLACEMENT_GROUP_PARTITION);
    let partitions = group.map_or(0, |group| group.partitions);
    let allowed = |number: &u32| requirement.is_some_and(|requirement| requirement.allows(Some(&number.to_string())));
    Placement {
        tenancy: tenancy(request),
        group_id: group.map(|group| group.id.clone()),
        partition: (1..=partitions).find(allowed),
    }
}

/// Returns `dedicated` if the request excludes `default`.
fn tenancy(request: &LaunchRequest) -> Option<String> {
    let requirement = request.requirements.get(label::INSTANCE_TENANCY)?;
    let dedicated = !requirement.allows(Some(DEFAULT_TENANCY)) && requirement.allows(Some(DEDICATED));
    dedicated.then(|| DEDICATED.to_owned())
}

fn nested_virtualization(offer: &LaunchOffer<'_>) -> Option<bool> {
    Some(offer.class.spec.cpu_options.as_ref()?.nested_virtualization? == Toggle::Enabled)
}

/// Returns the capacity reservation settings of the template.
///
/// With the ReservedCapacity feature gate an instance uses a reservation only if the launch targets one. Reservations for other
/// purposes are then not used by accident. Without the gate EC2 decides, as by default.
fn reservation_specification(
    settings: &Settings,
    reservation: Option<(&str, ReservationKind)>,
) -> Option<ReservationSpecification> {
    let specification = |preference: &str, id: Option<&str>| ReservationSpecification {
        preference: preference.to_owned(),
        id: id.map(str::to_owned),
    };
    match reservation {
        Some((id, _)) => Some(specification("capacity-reservations-only", Some(id))),
        None => settings.reserved_capacity.then(|| specification("none", None)),
    }
}

/// Returns the number of EFA interfaces: `max_efa` if the NodeClaim requests EFA, else 0.
pub(super) fn requested_efa(request: &LaunchRequest, max_efa: i64) -> u32 {
    if request.requests.get(EFA) > 0 { u32::try_from(max_efa).unwrap_or(0) } else { 0 }
}

/// Returns the tags of all resources that are launched for a NodePool and an EC2NodeClass.
pub(super) fn tags(request: &LaunchRequest, offer: &LaunchOffer<'_>) -> Tags {
    let cluster = &offer.settings.cluster_name;
    let mut tags = offer.class.spec.tags.clone();
    tags.insert(format!("kubernetes.io/cluster/{cluster}"), "owned".to_owned());
    tags.insert(CLUSTER_TAG.to_owned(), cluster.clone());
    tags.insert(label::NODEPOOL.to_owned(), request.pool.clone());
    tags.insert(label::EC2_NODE_CLASS.to_owned(), offer.class.name.clone());
    tags
}

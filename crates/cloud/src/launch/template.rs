//! Launch templates: what all machines of one image and one number of pods have in common (aws 2.4, 2.6, 4.4).

use api::nodeclass::{AmiFamily, BlockDeviceMapping, EC2NodeClassSpec, InstanceStorePolicy, Toggle, TokensRequirement};
use api::{Taint, label, taint};
use machine::userdata::{self, Al2023, RenderError};
use planner::CapacityType;
use serde_json::{Map, Value};

use super::token::fingerprint;
use super::{Ask, CLUSTER_TAG, Offer, TEMPLATE_PREFIX};
use crate::calls::{BlockDevice, LaunchTemplateRequest, MetadataOptions, Tags};
use crate::nodeclass::ResolvedClass;
use crate::settings::Settings;

const GIB: i64 = 1 << 30;

/// The launch template for an image and a number of pods; its name is a hash of everything else.
pub(super) fn request(
    ask: &Ask,
    offer: &Offer<'_>,
    capacity_type: CapacityType,
    image_id: &str,
    max_pods: u32,
) -> Result<LaunchTemplateRequest, RenderError> {
    let class = offer.class;
    let text = user_data(class, offer.settings, ask, capacity_type.as_str(), max_pods)?;
    let mut template = LaunchTemplateRequest {
        name: String::new(),
        image_id: image_id.to_owned(),
        instance_profile: class.instance_profile.clone(),
        security_group_ids: class.security_groups.iter().map(|group| group.id.clone()).collect(),
        user_data: userdata::encode(&text),
        block_devices: block_devices(&class.spec, class.family),
        metadata: metadata(&class.spec),
        associate_public_ip: class.spec.associate_public_ip_address,
        detailed_monitoring: class.spec.detailed_monitoring.unwrap_or(false),
        tags: tags(ask, offer),
        ..LaunchTemplateRequest::default()
    };
    template.name = format!("{TEMPLATE_PREFIX}{}", fingerprint(&template));
    Ok(template)
}

/// Tags of everything that is launched for a pool and class.
pub(super) fn tags(ask: &Ask, offer: &Offer<'_>) -> Tags {
    let cluster = &offer.settings.cluster_name;
    let mut tags = offer.class.spec.tags.clone();
    tags.insert(format!("kubernetes.io/cluster/{cluster}"), "owned".to_owned());
    tags.insert(CLUSTER_TAG.to_owned(), cluster.clone());
    tags.insert(label::NODEPOOL.to_owned(), ask.pool.clone());
    tags.insert(label::EC2_NODE_CLASS.to_owned(), offer.class.name.clone());
    tags
}

/// What the machine is told, before base64. Images of family Custom get the class's user data as it is.
///
/// A class whose images carry the agent adds the agent's startup taint here: only at registration can a node get taints.
///
/// # Errors
/// When the class's user data cannot be merged, or the result is too large for EC2.
pub fn user_data(
    class: &ResolvedClass,
    settings: &Settings,
    ask: &Ask,
    capacity_type: &str,
    max_pods: u32,
) -> Result<String, RenderError> {
    let own = class.spec.user_data.clone();
    if class.family == AmiFamily::Custom {
        let own = own.unwrap_or_default();
        return userdata::check_size(own.len()).map(|()| own);
    }
    let mut labels = ask.labels.clone();
    labels.insert(label::CAPACITY_TYPE.to_owned(), capacity_type.to_owned());
    userdata::render_al2023(&Al2023 {
        cluster_name: settings.cluster_name.clone(),
        cluster_endpoint: settings.cluster_endpoint.clone(),
        cluster_ca: settings.cluster_ca.clone(),
        cluster_cidr: settings.cluster_cidr.clone(),
        labels,
        taints: taints(class, ask),
        max_pods: Some(max_pods),
        cluster_dns: cluster_dns(class, settings),
        kubelet: kubelet(&class.spec),
        raid0: class.spec.instance_store_policy == Some(InstanceStorePolicy::Raid0),
        user_data: own,
        agent: class.agent_settings.clone(),
    })
}

fn taints(class: &ResolvedClass, ask: &Ask) -> Vec<Taint> {
    let mut all: Vec<Taint> = ask.taints.iter().chain(&ask.startup_taints).cloned().collect();
    let agent = Taint::new(taint::AGENT_NOT_READY, taint::NO_EXECUTE);
    if class.agent && !all.iter().any(|one| one.matches(&agent)) {
        all.push(agent);
    }
    all
}

fn cluster_dns(class: &ResolvedClass, settings: &Settings) -> Vec<String> {
    let own = class.spec.kubelet.as_ref().and_then(|kubelet| kubelet.cluster_dns.clone());
    own.unwrap_or_else(|| settings.cluster_dns.clone())
}

/// The class's kubelet block as KubeletConfiguration fields, without those that have a place of their own.
fn kubelet(spec: &EC2NodeClassSpec) -> Map<String, Value> {
    let mut fields = match serde_json::to_value(&spec.kubelet) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    fields.remove("maxPods");
    fields.remove("clusterDNS");
    fields
}

fn block_devices(spec: &EC2NodeClassSpec, family: AmiFamily) -> Vec<BlockDevice> {
    if !spec.block_device_mappings.is_empty() {
        return spec.block_device_mappings.iter().map(block_device).collect();
    }
    if family != AmiFamily::Al2023 {
        return Vec::new();
    }
    vec![BlockDevice {
        device: "/dev/xvda".to_owned(),
        size_gib: Some(20),
        volume_type: Some("gp3".to_owned()),
        encrypted: Some(true),
        delete_on_termination: Some(true),
        ..BlockDevice::default()
    }]
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

fn metadata(spec: &EC2NodeClassSpec) -> MetadataOptions {
    let said = spec.metadata_options.clone().unwrap_or_default();
    let toggle = |toggle: Option<Toggle>, default: Toggle| toggle.unwrap_or(default).as_str().to_owned();
    MetadataOptions {
        http_endpoint: toggle(said.http_endpoint, Toggle::Enabled),
        http_protocol_ipv6: toggle(said.http_protocol_ipv6, Toggle::Disabled),
        hop_limit: said.http_put_response_hop_limit.and_then(|hops| u32::try_from(hops).ok()).unwrap_or(1),
        http_tokens: said.http_tokens.unwrap_or(TokensRequirement::Required).as_str().to_owned(),
    }
}

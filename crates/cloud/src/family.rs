//! What a machine has where its class says nothing: disks by image family, and the metadata service (aws 2.3).

use api::nodeclass::{AmiFamily, BlockDeviceMapping, EC2NodeClassSpec, Toggle, TokensRequirement};

use crate::calls::{BlockDevice, MetadataOptions};

const GIB: i64 = 1 << 30;

/// The machine's disks: the class's, else those that the family's images are used with.
#[must_use]
pub fn block_devices(spec: &EC2NodeClassSpec, family: AmiFamily) -> Vec<BlockDevice> {
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

/// How the machine's metadata service answers. Absent fields are what the resource's schema defaults them to.
#[must_use]
pub fn metadata(spec: &EC2NodeClassSpec) -> MetadataOptions {
    let said = spec.metadata_options.clone().unwrap_or_default();
    let toggle = |toggle: Option<Toggle>, default: Toggle| toggle.unwrap_or(default).as_str().to_owned();
    MetadataOptions {
        http_endpoint: toggle(said.http_endpoint, Toggle::Enabled),
        http_protocol_ipv6: toggle(said.http_protocol_ipv6, Toggle::Disabled),
        hop_limit: said.http_put_response_hop_limit.and_then(|hops| u32::try_from(hops).ok()).unwrap_or(1),
        http_tokens: said.http_tokens.unwrap_or(TokensRequirement::Required).as_str().to_owned(),
    }
}

//! Defaults of an EC2NodeClass: block devices by AMI family, and IMDS options.

use api::nodeclass::{AmiFamily, BlockDeviceMapping, EC2NodeClassSpec, Toggle, TokensRequirement};

use crate::calls::{BlockDevice, MetadataOptions};

const GIB: i64 = 1 << 30;

/// Regions whose EC2 does not support the IPv6 endpoint of IMDS. A request in these regions must omit the option.
const WITHOUT_METADATA_IPV6: [&str; 6] =
    ["us-iso-east-1", "us-iso-west-1", "us-isob-east-1", "us-isob-west-1", "us-isof-south-1", "us-isof-east-1"];

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
pub fn metadata(spec: &EC2NodeClassSpec, region: &str) -> MetadataOptions {
    let said = spec.metadata_options.clone().unwrap_or_default();
    let toggle = |toggle: Option<Toggle>, default: Toggle| toggle.unwrap_or(default).as_str().to_owned();
    MetadataOptions {
        http_endpoint: toggle(said.http_endpoint, Toggle::Enabled),
        http_protocol_ipv6: (!WITHOUT_METADATA_IPV6.contains(&region))
            .then(|| toggle(said.http_protocol_ipv6, Toggle::Disabled)),
        hop_limit: said.http_put_response_hop_limit.and_then(|hops| u32::try_from(hops).ok()).unwrap_or(1),
        http_tokens: said.http_tokens.unwrap_or(TokensRequirement::Required).as_str().to_owned(),
    }
}

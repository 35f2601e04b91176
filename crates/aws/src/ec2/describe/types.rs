//! Conversion of one entry of DescribeInstanceTypes.

use aws_sdk_ec2::types as ec2;
use cloud::{Accelerator, InstanceTypeInfo, NetworkCard};

/// Converts a count of EC2, which is signed and may be absent. Absent and negative counts are 0.
pub(crate) fn count(value: Option<i32>) -> u32 {
    u32::try_from(value.unwrap_or_default()).unwrap_or_default()
}

fn size(value: Option<i64>) -> u64 {
    u64::try_from(value.unwrap_or_default()).unwrap_or_default()
}

fn mib(value: Option<i32>) -> u64 {
    u64::from(count(value))
}

/// Converts the parts of `info` that Kerf uses.
pub(crate) fn of_ec2(info: ec2::InstanceTypeInfo) -> InstanceTypeInfo {
    let processor = info.processor_info.unwrap_or_else(|| ec2::ProcessorInfo::builder().build());
    let architectures = processor.supported_architectures.unwrap_or_default();
    let features = processor.supported_features.unwrap_or_default();
    let strategies = info.placement_group_info.and_then(|info| info.supported_strategies).unwrap_or_default();
    let classes = info.supported_usage_classes.unwrap_or_default();
    let network = network(info.network_info);
    let neuron = info.neuron_info.and_then(|neuron| neuron.neuron_devices).unwrap_or_default();
    let first_device = neuron.first().and_then(|device| device.core_info.as_ref());
    let cores = count(first_device.and_then(|cores| cores.count));
    let storage = info.instance_storage_info;
    let ebs = info.ebs_info.as_ref();
    let limit = ebs.and_then(|ebs| ebs.attachment_limit_type.as_ref());
    InstanceTypeInfo {
        name: info.instance_type.map_or_else(String::new, |name| name.as_str().to_owned()),
        vcpus: count(info.v_cpu_info.and_then(|cpu| cpu.default_v_cpus)),
        memory_mib: size(info.memory_info.and_then(|memory| memory.size_in_mib)),
        architectures: architectures.iter().map(|name| name.as_str().to_owned()).collect(),
        usage_classes: classes.iter().map(|name| name.as_str().to_owned()).collect(),
        hypervisor: info.hypervisor.map_or_else(String::new, |name| name.as_str().to_owned()),
        bare_metal: info.bare_metal.unwrap_or_default(),
        cpu_manufacturer: processor.manufacturer.unwrap_or_default(),
        clock_mhz: megahertz(processor.sustained_clock_speed_in_ghz),
        max_interfaces: network.interfaces,
        ipv4_per_interface: network.ipv4,
        max_efa: network.efa,
        encryption_in_transit: network.encrypted,
        ebs_attachments: count(ebs.and_then(|ebs| ebs.maximum_ebs_attachments)),
        ebs_attachments_shared: limit == Some(&ec2::AttachmentLimitType::Shared),
        ebs_mbps: ebs_mbps(info.ebs_info),
        local_storage_gb: size(storage.as_ref().and_then(|storage| storage.total_size_in_gb)),
        local_nvme: storage.and_then(|storage| storage.nvme_support).is_some_and(offers_nvme),
        gpus: gpus(info.gpu_info),
        accelerators: accelerators(info.inference_accelerator_info, neuron),
        neuron_cores_per_device: cores,
        network_cards: network.cards,
        ena: network.ena,
        placement_strategies: strategies.iter().map(|name| name.as_str().to_owned()).collect(),
        processor_features: features.iter().map(|name| name.as_str().to_owned()).collect(),
    }
}

struct Network {
    interfaces: u32,
    ipv4: u32,
    efa: u32,
    encrypted: bool,
    ena: bool,
    cards: Vec<NetworkCard>,
}

/// Converts the network data. Pods receive addresses only from the default card, and types with several cards have a limit for
/// each card.
fn network(info: Option<ec2::NetworkInfo>) -> Network {
    let info = info.unwrap_or_else(|| ec2::NetworkInfo::builder().build());
    let default_card = info.default_network_card_index.unwrap_or_default();
    let cards = info.network_cards.unwrap_or_default();
    let card = cards.iter().find(|card| card.network_card_index.unwrap_or_default() == default_card);
    let interfaces = card.and_then(|card| card.maximum_network_interfaces).or(info.maximum_network_interfaces);
    let known = |card: &ec2::NetworkCardInfo| NetworkCard {
        index: count(card.network_card_index),
        max_interfaces: count(card.maximum_network_interfaces),
    };
    Network {
        cards: cards.iter().map(known).collect(),
        ena: info.ena_support.is_some_and(|support| support != ec2::EnaSupport::Unsupported),
        interfaces: count(interfaces),
        ipv4: count(info.ipv4_addresses_per_interface),
        efa: count(info.efa_info.and_then(|efa| efa.maximum_efa_interfaces)),
        encrypted: info.encryption_in_transit_supported.unwrap_or_default(),
    }
}

fn megahertz(gigahertz: Option<f64>) -> u32 {
    (gigahertz.unwrap_or_default() * 1000.0).round() as u32
}

fn ebs_mbps(info: Option<ec2::EbsInfo>) -> u32 {
    let by_default = |info: &ec2::EbsInfo| info.ebs_optimized_support == Some(ec2::EbsOptimizedSupport::Default);
    let optimized = info.filter(by_default).and_then(|info| info.ebs_optimized_info);
    count(optimized.and_then(|optimized| optimized.maximum_bandwidth_in_mbps))
}

fn offers_nvme(support: ec2::EphemeralNvmeSupport) -> bool {
    support != ec2::EphemeralNvmeSupport::Unsupported
}

fn gpus(info: Option<ec2::GpuInfo>) -> Vec<Accelerator> {
    let devices = info.and_then(|info| info.gpus).unwrap_or_default();
    let one = |gpu: ec2::GpuDeviceInfo| Accelerator {
        name: gpu.name.unwrap_or_default(),
        manufacturer: gpu.manufacturer.unwrap_or_default(),
        count: count(gpu.count),
        memory_mib: mib(gpu.memory_info.and_then(|memory| memory.size_in_mib)),
    };
    devices.into_iter().map(one).collect()
}

/// Converts the accelerators. Inference chips appear in both lists of EC2; the Neuron list has more data and takes precedence.
fn accelerators(
    inference: Option<ec2::InferenceAcceleratorInfo>,
    neuron: Vec<ec2::NeuronDeviceInfo>,
) -> Vec<Accelerator> {
    if !neuron.is_empty() {
        return neuron.into_iter().map(neuron_device).collect();
    }
    let devices = inference.and_then(|info| info.accelerators).unwrap_or_default();
    let one = |device: ec2::InferenceDeviceInfo| Accelerator {
        name: device.name.unwrap_or_default(),
        manufacturer: device.manufacturer.unwrap_or_default(),
        count: count(device.count),
        memory_mib: mib(device.memory_info.and_then(|memory| memory.size_in_mib)),
    };
    devices.into_iter().map(one).collect()
}

/// Converts a Neuron device. The list has no manufacturer: it is always AWS.
fn neuron_device(device: ec2::NeuronDeviceInfo) -> Accelerator {
    Accelerator {
        name: device.name.unwrap_or_default(),
        manufacturer: "AWS".to_owned(),
        count: count(device.count),
        memory_mib: mib(device.memory_info.and_then(|memory| memory.size_in_mib)),
    }
}

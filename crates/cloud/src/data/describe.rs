//! The JSON of EC2's DescribeInstanceTypes, with the fields that Kerf uses: the format of the captured file.

use serde::Deserialize;

use super::scaled;
use crate::calls::{Accelerator, InstanceTypeInfo, NetworkCard};

/// Limit type of volumes that share their attachments with network interfaces.
const SHARED: &str = "shared";

/// A parse error with its position (from 1) in the list.
pub(super) struct ParseError {
    pub(super) row: usize,
    pub(super) problem: String,
}

/// Parses `{"InstanceTypes": [...]}`. Omits types that Kerf cannot use (other architectures, no hvm).
pub(super) fn parse(json: &str) -> Result<Vec<InstanceTypeInfo>, ParseError> {
    let answer: Answer =
        serde_json::from_str(json).map_err(|error| ParseError { row: error.line(), problem: error.to_string() })?;
    let mut types = Vec::with_capacity(answer.instance_types.len());
    for (index, row) in answer.instance_types.into_iter().enumerate() {
        let usable = row.processor_info.supported_architectures.iter().any(|arch| arch == "x86_64" || arch == "arm64");
        if usable && row.supported_virtualization_types.iter().any(|kind| kind == "hvm") {
            let name = row.instance_type.clone();
            let info =
                row.info().map_err(|problem| ParseError { row: index + 1, problem: format!("{name}: {problem}") });
            types.push(info?);
        }
    }
    Ok(types)
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    instance_types: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Row {
    instance_type: String,
    supported_usage_classes: Vec<String>,
    supported_virtualization_types: Vec<String>,
    bare_metal: bool,
    #[serde(default)]
    hypervisor: String,
    processor_info: Processor,
    #[serde(rename = "VCpuInfo")]
    vcpu_info: Vcpu,
    memory_info: Size,
    ebs_info: Ebs,
    network_info: Network,
    instance_storage_info: Option<Storage>,
    gpu_info: Option<Gpus>,
    inference_accelerator_info: Option<Inference>,
    neuron_info: Option<Neuron>,
    placement_group_info: Option<Placement>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Placement {
    supported_strategies: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Processor {
    #[serde(default)]
    manufacturer: String,
    supported_architectures: Vec<String>,
    #[serde(default)]
    supported_features: Vec<String>,
    sustained_clock_speed_in_ghz: Option<serde_json::Number>,
}

#[derive(Deserialize)]
struct Vcpu {
    #[serde(rename = "DefaultVCpus")]
    default: u32,
}

#[derive(Deserialize)]
struct Size {
    #[serde(rename = "SizeInMiB")]
    mib: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Ebs {
    ebs_optimized_support: String,
    ebs_optimized_info: Option<Optimized>,
    #[serde(default)]
    maximum_ebs_attachments: u32,
    #[serde(default)]
    attachment_limit_type: String,
}

#[derive(Deserialize)]
struct Optimized {
    #[serde(rename = "MaximumBandwidthInMbps")]
    mbps: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Network {
    #[serde(default)]
    default_network_card_index: u32,
    network_cards: Vec<Card>,
    ipv4_addresses_per_interface: u32,
    #[serde(default)]
    encryption_in_transit_supported: bool,
    #[serde(default)]
    ena_support: String,
    efa_info: Option<Efa>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Card {
    network_card_index: u32,
    maximum_network_interfaces: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Efa {
    maximum_efa_interfaces: u32,
}

#[derive(Deserialize)]
struct Storage {
    #[serde(rename = "TotalSizeInGB")]
    gb: u64,
    #[serde(rename = "NvmeSupport")]
    nvme: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Gpus {
    gpus: Vec<Device>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Inference {
    accelerators: Vec<Device>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Neuron {
    neuron_devices: Vec<Device>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Device {
    name: String,
    /// Empty for Neuron devices.
    #[serde(default)]
    manufacturer: String,
    count: u32,
    memory_info: Option<Size>,
    core_info: Option<Cores>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Cores {
    count: u32,
}

impl Row {
    fn info(self) -> Result<InstanceTypeInfo, String> {
        let network = self.network_info;
        let card =
            network.network_cards.iter().find(|card| card.network_card_index == network.default_network_card_index);
        let card = card.ok_or("the default network card is not in the list")?;
        let clock_mhz = match &self.processor_info.sustained_clock_speed_in_ghz {
            Some(ghz) => clock(ghz)?,
            None => 0,
        };
        let cores = self.neuron_info.as_ref().map_or(0, Neuron::cores_per_device);
        Ok(InstanceTypeInfo {
            name: self.instance_type,
            vcpus: self.vcpu_info.default,
            memory_mib: self.memory_info.mib,
            architectures: self.processor_info.supported_architectures,
            usage_classes: self.supported_usage_classes,
            hypervisor: self.hypervisor,
            bare_metal: self.bare_metal,
            cpu_manufacturer: self.processor_info.manufacturer,
            clock_mhz,
            max_interfaces: card.maximum_network_interfaces,
            ipv4_per_interface: network.ipv4_addresses_per_interface,
            max_efa: network.efa_info.map_or(0, |efa| efa.maximum_efa_interfaces),
            encryption_in_transit: network.encryption_in_transit_supported,
            ebs_mbps: self.ebs_info.default_mbps(),
            ebs_attachments: self.ebs_info.maximum_ebs_attachments,
            ebs_attachments_shared: self.ebs_info.attachment_limit_type == SHARED,
            local_storage_gb: self.instance_storage_info.as_ref().map_or(0, |storage| storage.gb),
            local_nvme: self.instance_storage_info.is_some_and(|storage| storage.nvme != "unsupported"),
            gpus: self.gpu_info.map_or_else(Vec::new, |info| devices(info.gpus)),
            accelerators: accelerators(self.neuron_info, self.inference_accelerator_info),
            neuron_cores_per_device: cores,
            network_cards: network.network_cards.iter().map(Card::known).collect(),
            ena: matches!(network.ena_support.as_str(), "required" | "supported"),
            placement_strategies: self.placement_group_info.map_or_else(Vec::new, |info| info.supported_strategies),
            processor_features: self.processor_info.supported_features,
        })
    }
}

impl Card {
    fn known(&self) -> NetworkCard {
        NetworkCard { index: self.network_card_index, max_interfaces: self.maximum_network_interfaces }
    }
}

impl Neuron {
    fn cores_per_device(&self) -> u32 {
        self.neuron_devices.first().and_then(|device| device.core_info.as_ref()).map_or(0, |cores| cores.count)
    }
}

impl Ebs {
    fn default_mbps(&self) -> u32 {
        let info = self.ebs_optimized_info.as_ref().filter(|_| self.ebs_optimized_support == "default");
        info.map_or(0, |info| info.mbps)
    }
}

fn clock(ghz: &serde_json::Number) -> Result<u32, String> {
    let mhz = scaled(&ghz.to_string(), 3).and_then(|mhz| u32::try_from(mhz).ok());
    mhz.ok_or_else(|| format!("{ghz} is not a clock speed"))
}

/// Merges both accelerator lists. EC2 lists Inferentia in both; the Neuron list takes precedence, so that no device counts
/// twice.
fn accelerators(neuron: Option<Neuron>, inference: Option<Inference>) -> Vec<Accelerator> {
    match (neuron, inference) {
        (Some(neuron), _) => {
            let mut found = devices(neuron.neuron_devices);
            for device in &mut found {
                "AWS".clone_into(&mut device.manufacturer);
            }
            found
        }
        (None, Some(inference)) => devices(inference.accelerators),
        (None, None) => Vec::new(),
    }
}

fn devices(devices: Vec<Device>) -> Vec<Accelerator> {
    let each = |device: Device| Accelerator {
        name: device.name,
        manufacturer: device.manufacturer,
        count: device.count,
        memory_mib: device.memory_info.map_or(0, |size| size.mib),
    };
    devices.into_iter().map(each).collect()
}

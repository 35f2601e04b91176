//! DescribeInstanceTypes: the largest of EC2's responses, rebuilt from the fields that Kerf stores.

use cloud::{Accelerator, Cloud, InstanceTypeInfo};

use super::describe::Select;
use crate::ec2wire::answer::{Failure, Reply, page};
use crate::ec2wire::form::Form;
use crate::ec2wire::xml::Xml;

/// Most types per page, as in EC2.
const PAGE: usize = 100;

pub(super) async fn describe(cloud: &dyn Cloud, form: &Form) -> Result<Reply, Failure> {
    let mut select = Select::read(form);
    let virtualization = select.take("supported-virtualization-type");
    let architectures = select.take("processor-info.supported-architecture");
    let mut names = select.filter("instance-type", "instance-type")?.ids;
    names.extend(form.texts("InstanceType"));
    let mut found = cloud.instance_types().await?;
    found.retain(|_| virtualization.as_ref().is_none_or(|kinds| kinds.iter().any(|kind| kind == "hvm")));
    found.retain(|info| {
        architectures.as_ref().is_none_or(|wanted| info.architectures.iter().any(|arch| wanted.contains(arch)))
    });
    found.retain(|info| names.is_empty() || names.contains(&info.name));
    let summary = format!("{} types", found.len());
    let (rows, next) = page(found, form, PAGE)?;
    let body = Xml::response("DescribeInstanceTypes", |xml| {
        xml.items("instanceTypeSet", &rows, info);
        xml.some("nextToken", next);
    });
    Ok(Reply { body, summary })
}

fn info(xml: &mut Xml, info: &InstanceTypeInfo) {
    xml.text("instanceType", &info.name);
    xml.texts("supportedUsageClasses", &info.usage_classes);
    xml.texts("supportedVirtualizationTypes", ["hvm"]);
    xml.text("bareMetal", info.bare_metal);
    xml.some("hypervisor", Some(&info.hypervisor).filter(|name| !name.is_empty()));
    xml.element("processorInfo", |xml| {
        xml.texts("supportedArchitectures", &info.architectures);
        xml.some("sustainedClockSpeedInGhz", gigahertz(info.clock_mhz));
        xml.text("manufacturer", &info.cpu_manufacturer);
        xml.texts("supportedFeatures", &info.processor_features);
    });
    xml.element("vCpuInfo", |xml| xml.text("defaultVCpus", info.vcpus));
    xml.element("memoryInfo", |xml| xml.text("sizeInMiB", info.memory_mib));
    xml.text("instanceStorageSupported", info.local_storage_gb > 0);
    if info.local_storage_gb > 0 {
        xml.element("instanceStorageInfo", |xml| {
            xml.text("totalSizeInGB", info.local_storage_gb);
            xml.text("nvmeSupport", if info.local_nvme { "required" } else { "unsupported" });
        });
    }
    ebs(xml, info);
    network(xml, info);
    if !info.gpus.is_empty() {
        xml.element("gpuInfo", |xml| xml.items("gpus", &info.gpus, accelerator));
    }
    accelerators(xml, info);
    xml.element("placementGroupInfo", |xml| xml.texts("supportedStrategies", &info.placement_strategies));
}

fn gigahertz(mhz: u32) -> Option<String> {
    (mhz > 0).then(|| format!("{}.{:03}", mhz / 1000, mhz % 1000))
}

fn ebs(xml: &mut Xml, info: &InstanceTypeInfo) {
    let mbps = info.ebs_mbps;
    xml.element("ebsInfo", |xml| {
        xml.text("maximumEbsAttachments", info.ebs_attachments);
        xml.text("attachmentLimitType", if info.ebs_attachments_shared { "shared" } else { "dedicated" });
        xml.text("ebsOptimizedSupport", if mbps > 0 { "default" } else { "unsupported" });
        if mbps > 0 {
            xml.element("ebsOptimizedInfo", |xml| xml.text("maximumBandwidthInMbps", mbps));
        }
    });
}

fn network(xml: &mut Xml, info: &InstanceTypeInfo) {
    xml.element("networkInfo", |xml| {
        xml.text("maximumNetworkInterfaces", info.max_interfaces);
        xml.text("defaultNetworkCardIndex", 0);
        xml.text("enaSupport", if info.ena { "required" } else { "unsupported" });
        xml.items("networkCards", &info.network_cards, |xml, card| {
            xml.text("networkCardIndex", card.index);
            xml.text("maximumNetworkInterfaces", card.max_interfaces);
        });
        xml.text("ipv4AddressesPerInterface", info.ipv4_per_interface);
        xml.text("efaSupported", info.max_efa > 0);
        if info.max_efa > 0 {
            xml.element("efaInfo", |xml| xml.text("maximumEfaInterfaces", info.max_efa));
        }
        xml.text("encryptionInTransitSupported", info.encryption_in_transit);
    });
}

/// Writes the accelerators. Devices with cores are Neuron devices. EC2's Neuron list has no manufacturer, and the entries of
/// the list of inference accelerators are `member`.
fn accelerators(xml: &mut Xml, info: &InstanceTypeInfo) {
    if info.neuron_cores_per_device > 0 {
        xml.element("neuronInfo", |xml| {
            xml.items("neuronDevices", &info.accelerators, |xml, device| {
                xml.text("count", device.count);
                xml.text("name", &device.name);
                xml.element("coreInfo", |xml| xml.text("count", info.neuron_cores_per_device));
                memory(xml, device.memory_mib);
            });
        });
    } else if !info.accelerators.is_empty() {
        xml.element("inferenceAcceleratorInfo", |xml| {
            xml.element("accelerators", |xml| {
                for device in &info.accelerators {
                    xml.element("member", |xml| accelerator(xml, device));
                }
            });
        });
    }
}

fn accelerator(xml: &mut Xml, device: &Accelerator) {
    xml.text("name", &device.name);
    xml.text("manufacturer", &device.manufacturer);
    xml.text("count", device.count);
    memory(xml, device.memory_mib);
}

fn memory(xml: &mut Xml, mib: u64) {
    xml.element("memoryInfo", |xml| xml.text("sizeInMiB", mib));
}

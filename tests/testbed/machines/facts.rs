//! Instance metadata from the state of the fake EC2.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cloud::data::region_of_zone;
use cloud::fake::FakeInstance;
use machine::nodeconfig::LocalStorageStrategy;

use crate::imds::{Facts, Interruption};

/// Returns the node name that the cluster expects: the private DNS name, or the instance id if the NodeConfig enables that
/// feature gate. The simulator needs the name because it signs the certificate, as EKS maps a role to a user.
#[must_use]
pub fn node_name(machine: &FakeInstance) -> String {
    let config = machine::userdata::parse(&user_data(machine)).ok();
    let by_id = config.is_some_and(|user_data| user_data.config.gate("InstanceIdNodeName"));
    if by_id { machine.instance.id.clone() } else { machine.instance.private_dns_name.clone() }
}

/// Returns the decoded user data of the template. Invalid base64 is returned unchanged; EC2 would have rejected it.
pub fn user_data(machine: &FakeInstance) -> Vec<u8> {
    let encoded = &machine.template.user_data;
    STANDARD.decode(encoded).unwrap_or_else(|_| encoded.clone().into_bytes())
}

/// Reports whether the user data combines the instance store disks to one for kubelet and containerd.
pub fn has_striped_disks(machine: &FakeInstance) -> bool {
    let data = user_data(machine);
    let strategy =
        machine::userdata::parse(&data).ok().and_then(|found| found.config.spec.instance.local_storage.strategy);
    // Bottlerocket has a command for it.
    strategy == Some(LocalStorageStrategy::Raid0) || String::from_utf8_lossy(&data).contains("ephemeral-storage")
}

/// Returns the metadata of an instance.
#[must_use]
pub fn facts(machine: &FakeInstance, zone_id: &str) -> Facts {
    let instance = &machine.instance;
    Facts {
        instance_id: instance.id.clone(),
        instance_type: instance.instance_type.clone(),
        image_id: instance.image_id.clone(),
        architecture: machine.architecture.clone(),
        zone: instance.zone.clone(),
        zone_id: zone_id.to_owned(),
        region: region_of_zone(&instance.zone).to_owned(),
        local_hostname: instance.private_dns_name.clone(),
        local_ipv4: instance.private_ip.clone(),
        ipv6: machine.ipv6().map(|address| address.to_string()).unwrap_or_default(),
        mac: hardware_address(&instance.private_ip),
        spot: instance.spot,
        user_data: Some(user_data(machine)).filter(|bytes| !bytes.is_empty()),
        interruption: machine.interruption.map(|time| Interruption { action: "terminate".to_owned(), time }),
        rebalance: machine.rebalance,
        disabled: machine.template.metadata.http_endpoint == "disabled",
        ..Facts::default()
    }
}

/// Updates the values that may change on a running machine; other changes by a test are kept.
pub fn refresh(facts: &mut Facts, machine: &FakeInstance) {
    facts.interruption = machine.interruption.map(|time| Interruption { action: "terminate".to_owned(), time });
    facts.rebalance = machine.rebalance;
}

/// Returns a locally administered address that contains the private one.
fn hardware_address(ip: &str) -> String {
    let numbers = ip.split('.').map(|number| format!("{:02x}", number.parse::<u8>().unwrap_or(0)));
    std::iter::once("02:00".to_owned()).chain(numbers).collect::<Vec<_>>().join(":")
}

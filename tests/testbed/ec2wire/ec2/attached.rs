//! Volumes, network interfaces and spot requests of instances. Their ids contain the instance's id, so that a lookup needs no
//! state of its own.

use cloud::fake::{FakeCloud, FakeInstance};
use cloud::{BlockDevice, ConnectionTracking, InterfaceKind, NetworkInterface};

use crate::ec2wire::answer::{Failure, Reply, invalid};
use crate::ec2wire::form::Form;
use crate::ec2wire::xml::Xml;
use crate::ec2wire::{Shared, lock};

/// Root volume of an image, for templates without block devices: device name and GiB.
const ROOT: (&str, u32) = ("/dev/xvda", 20);

/// Returns the volumes of an instance.
pub(super) fn volumes_of(machine: &FakeInstance) -> Vec<BlockDevice> {
    match machine.template.block_devices.as_slice() {
        [] => vec![BlockDevice { device: ROOT.0.to_owned(), size_gib: Some(ROOT.1), ..BlockDevice::default() }],
        own => own.to_vec(),
    }
}

/// Returns the network interfaces of an instance.
pub(super) fn interfaces_of(machine: &FakeInstance) -> Vec<NetworkInterface> {
    let template = &machine.template;
    match template.network_interfaces.as_slice() {
        [] => {
            vec![NetworkInterface { associate_public_ip: template.associate_public_ip, ..NetworkInterface::default() }]
        }
        own => own.to_vec(),
    }
}

/// Returns the idle timeouts of an interface.
fn tracking_of<'m>(machine: &'m FakeInstance, interface: &NetworkInterface) -> Option<&'m ConnectionTracking> {
    machine.template.connection_tracking.as_ref().filter(|_| interface.kind != InterfaceKind::EfaOnly)
}

pub(super) fn interface_type(interface: &NetworkInterface) -> &'static str {
    match interface.kind {
        InterfaceKind::Interface => "interface",
        InterfaceKind::Efa => "efa",
        InterfaceKind::EfaOnly => "efa-only",
    }
}

/// Returns the id of the nth volume or interface of an instance: `i-0...` becomes `vol-3...`.
pub(super) fn attached_id(kind: &str, instance: &str, position: usize) -> String {
    format!("{kind}-{position:x}{}", instance.strip_prefix("i-0").unwrap_or(instance))
}

/// Returns the machine and the position in an id.
fn owner(cloud: &FakeCloud, kind: &str, id: &str) -> Option<(FakeInstance, usize)> {
    let rest = id.strip_prefix(kind)?.strip_prefix('-')?;
    let (position, instance) = rest.split_at_checked(1)?;
    Some((cloud.machine(&format!("i-0{instance}"))?, usize::from_str_radix(position, 16).ok()?))
}

pub(super) fn volumes(shared: &Shared, form: &Form) -> Result<Reply, Failure> {
    let found = form.texts("VolumeId").into_iter().map(|id| {
        let volume = owner(&shared.cloud, "vol", &id);
        let volume = volume.and_then(|(machine, position)| {
            volumes_of(&machine).into_iter().nth(position).map(|volume| (id.clone(), machine, volume))
        });
        volume.ok_or_else(|| invalid("InvalidVolume.NotFound", format!("The volume '{id}' does not exist.")))
    });
    let found = found.collect::<Result<Vec<_>, _>>()?;
    let body = Xml::response("DescribeVolumes", |xml| {
        xml.items("volumeSet", &found, |xml, (id, machine, volume)| {
            xml.text("volumeId", id);
            xml.text("size", volume.size_gib.unwrap_or(ROOT.1));
            xml.text("availabilityZone", &machine.instance.zone);
            xml.text("status", "in-use");
            xml.text("encrypted", volume.encrypted.unwrap_or_default());
            xml.text("volumeType", volume.volume_type.as_deref().unwrap_or("gp3"));
            xml.some("iops", volume.iops);
            xml.some("throughput", volume.throughput);
            xml.some("kmsKeyId", volume.kms_key_id.as_ref());
            xml.some("snapshotId", volume.snapshot_id.as_ref());
            xml.tags(&lock(&shared.launch_tags).of(&machine.instance.id, "volume"));
        });
    });
    Ok(Reply { body, summary: format!("{} volumes", found.len()) })
}

pub(super) fn interfaces(shared: &Shared, form: &Form) -> Result<Reply, Failure> {
    let found = form.texts("NetworkInterfaceId").into_iter().map(|id| {
        let interface = owner(&shared.cloud, "eni", &id);
        let interface = interface.and_then(|(machine, position)| {
            interfaces_of(&machine).into_iter().nth(position).map(|interface| (id.clone(), machine, interface))
        });
        let message = || format!("The networkInterface ID '{id}' does not exist");
        interface.ok_or_else(|| invalid("InvalidNetworkInterfaceID.NotFound", message()))
    });
    let found = found.collect::<Result<Vec<_>, _>>()?;
    let body = Xml::response("DescribeNetworkInterfaces", |xml| {
        xml.items("networkInterfaceSet", &found, |xml, (id, machine, interface)| {
            xml.text("networkInterfaceId", id);
            xml.text("subnetId", &machine.instance.subnet_id);
            xml.text("availabilityZone", &machine.instance.zone);
            xml.text("status", "in-use");
            xml.text("interfaceType", interface_type(interface));
            if let Some(tracking) = tracking_of(machine, interface) {
                xml.element("connectionTrackingConfiguration", |xml| {
                    xml.some("tcpEstablishedTimeout", tracking.tcp_established);
                    xml.some("udpStreamTimeout", tracking.udp_stream);
                    xml.some("udpTimeout", tracking.udp);
                });
            }
            xml.tags(&lock(&shared.launch_tags).of(&machine.instance.id, "network-interface"));
        });
    });
    Ok(Reply { body, summary: format!("{} interfaces", found.len()) })
}

pub(super) fn spot_requests(shared: &Shared, form: &Form) -> Result<Reply, Failure> {
    let found = form.texts("SpotInstanceRequestId").into_iter().map(|id| {
        let machine = shared.cloud.machine(&id.replacen("sir-", "i-", 1)).filter(|machine| machine.instance.spot);
        let message = || format!("The spot instance request ID '{id}' does not exist");
        let machine = machine.ok_or_else(|| invalid("InvalidSpotInstanceRequestID.NotFound", message()))?;
        Ok((id, machine))
    });
    let found = found.collect::<Result<Vec<_>, Failure>>()?;
    let body = Xml::response("DescribeSpotInstanceRequests", |xml| {
        xml.items("spotInstanceRequestSet", &found, |xml, (id, machine)| {
            xml.text("spotInstanceRequestId", id);
            xml.text("instanceId", &machine.instance.id);
            xml.text("type", "one-time");
            xml.text("state", "active");
            xml.tags(&lock(&shared.launch_tags).of(&machine.instance.id, "spot-instances-request"));
        });
    });
    Ok(Reply { body, summary: format!("{} requests", found.len()) })
}

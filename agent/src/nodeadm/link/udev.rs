//! Handler of udev events of interfaces: chooses the manager of an interface once, records it, and configures the interface.

use anyhow::Context as _;

use super::network::InterfaceSettings;
use super::{Owner, Record, mac_of, read_record, record_path};
use crate::bootstrap::prepare::MARKER;
use crate::nodeadm::Machine;
use crate::nodeadm::command::{Action, UdevNetManager};

/// Drop-in that disables EC2's default configuration: networkd ignores interfaces that match only this default from then on.
const DEFAULT_OFF: &str = "/run/systemd/network/80-ec2.network.d/10-eks-disable.conf";
const DEFAULT_OFF_CONTENT: &str = "# Written by kerf-agent: interfaces without a file of their own belong to the network plugin.\n\
                                   [Link]\nUnmanaged=yes\n";
const NETWORKD: &str = "systemd-networkd.service";

pub(in crate::nodeadm) async fn run(machine: &Machine, options: &UdevNetManager) -> anyhow::Result<()> {
    let changed = match options.action {
        Action::Add => add(machine, options.interface.as_str()).await?,
        Action::Remove => machine.host.remove(&network_path(options.interface.as_str()))?,
    };
    if changed { reload(machine).await } else { Ok(()) }
}

fn network_path(interface: &str) -> String {
    format!("/run/systemd/network/70-eks-{interface}.network")
}

/// Handles a new interface. Reports whether files of networkd changed.
async fn add(machine: &Machine, interface: &str) -> anyhow::Result<bool> {
    let mac = mac_of(&machine.host, interface);
    let mac = mac.with_context(|| format!("this machine has no network interface {interface}"))?;
    let primary = machine.metadata().mac().await?.eq_ignore_ascii_case(&mac);
    let instance = machine.metadata().identity().await?.instance_id;
    let known = read_record(&machine.host, &instance, interface)?;
    let owner = owner(known.as_ref(), &mac, machine.host.exists(MARKER));
    machine.host.write(&record_path(&instance, interface), format!("{}\n{mac}\n", owner.name()).as_bytes(), 0o644)?;
    log::info!(interface, mac = mac.as_str(), owner = owner.name(); "configured the manager of an interface");
    match owner {
        Owner::Plugin => Ok(false),
        Owner::Networkd => {
            let described = describe(machine, mac, primary).await?;
            configure(machine, interface, &described)
        }
    }
}

/// Returns the recorded manager if the record is of this interface. Otherwise networkd manages interfaces that appear before
/// the daemons start.
fn owner(known: Option<&Record>, mac: &str, started: bool) -> Owner {
    match known.filter(|record| record.is_of(mac)) {
        Some(record) => record.owner,
        None if started => Owner::Plugin,
        None => Owner::Networkd,
    }
}

async fn describe(machine: &Machine, mac: String, primary: bool) -> anyhow::Result<InterfaceSettings> {
    let item = async |name: &str| {
        let path = format!("meta-data/network/interfaces/macs/{mac}/{name}");
        machine.metadata().optional(&path).await
    };
    let number = |name: &'static str, text: Option<String>| match text {
        None => Ok(0),
        Some(text) => text.parse().with_context(|| format!("metadata has `{text}` for the {name} of {mac}")),
    };
    let device = number("device-number", item("device-number").await?)?;
    let card = number("network-card", item("network-card").await?)?;
    let addresses = if primary { None } else { item("local-ipv4s").await? };
    let ipv4 = addresses.and_then(|addresses| addresses.split_whitespace().next().map(str::to_owned));
    Ok(InterfaceSettings { mac, card, device, primary, ipv4 })
}

fn configure(machine: &Machine, interface: &str, described: &InterfaceSettings) -> anyhow::Result<bool> {
    let content = described.network_file();
    let mut changed = machine.host.write(&network_path(interface), content.as_bytes(), 0o644)?;
    if described.primary {
        changed |= machine.host.write(DEFAULT_OFF, DEFAULT_OFF_CONTENT.as_bytes(), 0o644)?;
    }
    Ok(changed)
}

/// Lets networkd read its files again; an inactive networkd reads them when it starts.
async fn reload(machine: &Machine) -> anyhow::Result<()> {
    if machine.host.systemctl(&["is-active", "--quiet", NETWORKD]).await.is_err() {
        log::info!("{NETWORKD} is not active and will read its files when it starts");
        return Ok(());
    }
    machine.host.output("networkctl", &["reload"]).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_is_networkd_when_daemons_have_not_started() {
        let record = |owner, mac: Option<&str>| Record { owner, mac: mac.map(str::to_owned) };
        for (known, started, expected) in [
            (None, false, Owner::Networkd),
            (None, true, Owner::Plugin),
            (Some(record(Owner::Networkd, None)), true, Owner::Networkd),
            (Some(record(Owner::Networkd, Some("a"))), true, Owner::Networkd),
            (Some(record(Owner::Networkd, Some("b"))), true, Owner::Plugin),
            (Some(record(Owner::Plugin, Some("a"))), false, Owner::Plugin),
        ] {
            assert_eq!(owner(known.as_ref(), "a", started), expected, "{known:?} {started}");
        }
    }
}

//! A boot may go on when every interface is where it belongs: configured, if systemd-networkd manages it, and left
//! alone by it otherwise. A caller that asks for the network earlier sees addresses come and go.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Context as _;
use serde::Deserialize;

use super::{OWNERS, Owner, mac_of, read_record};
use crate::host::Host;
use crate::nodeadm::Machine;

/// How often and for how long to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HookTimeouts {
    /// Between two looks.
    pub poll: Duration,
    /// In all.
    pub limit: Duration,
}

impl HookTimeouts {
    /// That of EKS's bootstrap: every 50 ms, for a minute.
    pub const NODEADM: Self = Self { poll: Duration::from_millis(50), limit: Duration::from_secs(60) };
}

/// What `networkctl list --json=short` prints.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Links {
    /// All links of the machine.
    #[serde(default)]
    pub interfaces: Vec<Link>,
}

/// One link as networkd sees it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Such as `configured`, `configuring` or `unmanaged`.
    pub administrative_state: String,
}

pub(in crate::nodeadm) async fn run(machine: &Machine) -> anyhow::Result<()> {
    let HookTimeouts { poll, limit } = machine.links;
    let mut awaited = "no response from metadata".to_owned();
    let settling = async {
        let boot =
            Boot { mac: machine.metadata().mac().await?, instance: machine.metadata().identity().await?.instance_id };
        while let Err(what) = boot.settled(&machine.host).await {
            awaited = format!("{what:#}");
            tokio::time::sleep(poll).await;
        }
        Ok(())
    };
    let settled = tokio::time::timeout(limit, settling).await;
    settled.unwrap_or_else(|_| {
        Err(anyhow::anyhow!("the network is not configured after {} s: {awaited}", limit.as_secs()))
    })
}

/// Which machine it is that boots.
struct Boot {
    /// Hardware address of the primary interface.
    mac: String,
    /// The instance's id.
    instance: String,
}

impl Boot {
    /// Looks once; the error says what is still to come.
    async fn settled(&self, host: &Host) -> anyhow::Result<()> {
        let managed = self.managed(host)?;
        let printed = host.output("networkctl", &["list", "--json=short"]).await?;
        let links = machine::document::read_json(printed.as_bytes()).context("networkctl printed no list of links")?;
        match awaited_of(&links, &managed) {
            None => Ok(()),
            Some(what) => Err(anyhow::Error::msg(what)),
        }
    }

    /// The primary interface, and those that are written down as networkd's.
    fn managed(&self, host: &Host) -> anyhow::Result<BTreeSet<String>> {
        let mut managed = BTreeSet::new();
        for name in host.list("/sys/class/net")? {
            if mac_of(host, &name).is_some_and(|mac| mac.eq_ignore_ascii_case(&self.mac)) {
                managed.insert(name);
            }
        }
        anyhow::ensure!(!managed.is_empty(), "no interface has the primary hardware address {}", self.mac);
        for name in host.list(&format!("{OWNERS}/{}", self.instance))? {
            let Some(record) = read_record(host, &self.instance, &name)? else { continue };
            if record.owner == Owner::Networkd && mac_of(host, &name).is_none_or(|mac| record.is_of(&mac)) {
                managed.insert(name);
            }
        }
        Ok(managed)
    }
}

/// What is still to come before all links are where they belong; `None` when they are.
#[must_use]
pub fn awaited_of(links: &Links, managed: &BTreeSet<String>) -> Option<String> {
    let wanted = |name: &str| if managed.contains(name) { "configured" } else { "unmanaged" };
    let absent = managed.iter().filter(|name| !links.interfaces.iter().any(|link| link.name == **name));
    let absent = absent.map(|name| format!("{name} is missing"));
    let others = links.interfaces.iter().filter(|link| link.administrative_state != wanted(&link.name));
    let others =
        others.map(|link| format!("{} is {}, not {}", link.name, link.administrative_state, wanted(&link.name)));
    let all: Vec<String> = absent.chain(others).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

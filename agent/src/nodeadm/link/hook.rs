//! Boot hook: waits until every interface is in its final state. An interface of systemd-networkd must be configured, any other
//! must be unmanaged. A program that uses the network earlier may see addresses change.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Context as _;
use serde::Deserialize;

use super::{OWNERS, Owner, mac_of, read_record};
use crate::host::Host;
use crate::nodeadm::Machine;

/// Interval and time limit of the wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HookTimeouts {
    /// Interval between two checks.
    pub poll: Duration,
    /// Time limit.
    pub limit: Duration,
}

impl HookTimeouts {
    /// Timeouts of EKS's bootstrap: every 50 ms, for a minute.
    pub const NODEADM: Self = Self { poll: Duration::from_millis(50), limit: Duration::from_secs(60) };
}

/// Output of `networkctl list --json=short`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Links {
    /// All links of the machine.
    #[serde(default)]
    pub interfaces: Vec<Link>,
}

/// One link in the state of networkd.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Link {
    /// Name of the link.
    pub name: String,
    /// State, such as `configured`, `configuring` or `unmanaged`.
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

/// The machine that boots.
struct Boot {
    /// Hardware address of the primary interface.
    mac: String,
    /// Id of the instance.
    instance: String,
}

impl Boot {
    /// Checks once; the error names the unfinished links.
    async fn settled(&self, host: &Host) -> anyhow::Result<()> {
        let managed = self.managed(host)?;
        let printed = host.output("networkctl", &["list", "--json=short"]).await?;
        let links = machine::document::read_json(printed.as_bytes()).context("networkctl printed no list of links")?;
        match awaited_of(&links, &managed) {
            None => Ok(()),
            Some(what) => Err(anyhow::Error::msg(what)),
        }
    }

    /// Returns the primary interface, and those that are recorded as networkd's.
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

/// Returns the links that are not in their final state; `None` when all are.
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

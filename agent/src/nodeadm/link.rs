//! Network interfaces and their managers. systemd-networkd manages the interfaces of the boot. Later interfaces belong to the
//! network plugin, and networkd would remove their addresses.

pub mod hook;
pub mod network;
pub mod udev;

use serde::Deserialize;

use crate::host::{Host, HostError};

/// Folder of records of managers, by instance (an image may be made from a machine) and interface name.
const OWNERS: &str = "/etc/eks/nodeadm/udev-net-manager";

/// Manager of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// systemd-networkd.
    Networkd,
    /// The network plugin.
    Plugin,
}

impl Owner {
    /// Returns the name in records; the first one is systemd's own name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Networkd => "io.systemd.Network",
            Self::Plugin => "cni",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        [Self::Networkd, Self::Plugin].into_iter().find(|owner| owner.name() == name)
    }
}

/// Record of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    owner: Owner,
    /// Hardware address, where the record has one: names are reused for other interfaces.
    mac: Option<String>,
}

#[derive(Deserialize)]
struct JsonRecord {
    manager: String,
    #[serde(default)]
    mac: Option<String>,
}

impl Record {
    /// Parses a line with the manager and an optional line with the hardware address, or the JSON of later releases of EKS's
    /// program. Other text counts as no record.
    fn parse(text: &str) -> Option<Self> {
        if let Ok(JsonRecord { manager, mac }) = machine::document::read_json(text.as_bytes()) {
            return Some(Self { owner: Owner::parse(&manager)?, mac });
        }
        let mut lines = text.lines().map(str::trim);
        let owner = Owner::parse(lines.next()?)?;
        Some(Self { owner, mac: lines.next().filter(|mac| !mac.is_empty()).map(str::to_owned) })
    }

    fn is_of(&self, mac: &str) -> bool {
        self.mac.as_ref().is_none_or(|known| known.eq_ignore_ascii_case(mac))
    }
}

fn record_path(instance: &str, interface: &str) -> String {
    format!("{OWNERS}/{instance}/{interface}")
}

fn read_record(host: &Host, instance: &str, interface: &str) -> Result<Option<Record>, HostError> {
    let text = host.read_text(&record_path(instance, interface))?;
    Ok(text.and_then(|text| Record::parse(&text)))
}

/// Returns the hardware address of an interface of this machine; `None` when the machine has no such interface.
fn mac_of(host: &Host, interface: &str) -> Option<String> {
    let address = host.read_text(&format!("/sys/class/net/{interface}/address")).ok()??;
    Some(address.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_parses_old_and_new_formats() {
        let record = |owner, mac: Option<&str>| Some(Record { owner, mac: mac.map(str::to_owned) });
        for (text, expected) in [
            ("io.systemd.Network", record(Owner::Networkd, None)),
            ("cni\n", record(Owner::Plugin, None)),
            ("cni\n02:00:00:00:00:02\n", record(Owner::Plugin, Some("02:00:00:00:00:02"))),
            (r#"{"mac":"02:00:00:00:00:02","manager":"cni"}"#, record(Owner::Plugin, Some("02:00:00:00:00:02"))),
            (r#"{"manager":"someone"}"#, None),
            ("someone", None),
            ("", None),
        ] {
            assert_eq!(Record::parse(text), expected, "{text:?}");
        }
        let known = Record { owner: Owner::Plugin, mac: Some("0E:00:00:00:00:02".to_owned()) };
        assert!(known.is_of("0e:00:00:00:00:02") && !known.is_of("0e:00:00:00:00:03"));
    }
}

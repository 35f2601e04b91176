//! Arguments of EKS's own programs, under their names, so that units and scripts for those programs need no change.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::source::Source;

/// Other names under which this program may be called; each is one of its subcommands too.
const NAMES: [&str; 2] = ["nodeadm", "nodeadm-internal"];

/// Returns the arguments with an explicit subcommand where the program was called under another name.
#[must_use]
pub fn spelt_out(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let called = arguments.first().and_then(|program| Path::new(program).file_name()).map(OsString::from);
    if let Some(name) = called.filter(|name| NAMES.iter().any(|known| name == known)) {
        arguments.insert(1, name);
    }
    arguments
}

/// Command of `nodeadm`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nodeadm {
    /// Configuration of this machine as a node and start of its daemons, once; any failure ends the command.
    Init(Init),
    /// Reading of NodeConfigs without a change of the machine.
    Config(Config),
}

/// Command on NodeConfigs alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Config {
    /// Validation: fails unless the merge of all sources is a valid NodeConfig without unknown fields.
    Check(Sources),
    /// Output of the merge of all sources as YAML.
    Dump(Sources),
}

/// Sources of NodeConfigs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sources {
    /// imds://user-data, or file:// and a path to a file or folder; read and merged in order.
    pub sources: Vec<Source>,
}

/// Options of `nodeadm init`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Init {
    /// Sources of the NodeConfig.
    pub sources: Sources,
    /// File that caches the last NodeConfig and the facts about the machine.
    pub config_cache: Option<PathBuf>,
    /// Phases to skip.
    pub skip: Vec<Phase>,
    /// Daemons to configure and start; an empty name means none.
    pub daemons: Vec<String>,
    /// Log output as text for users.
    pub development: bool,
}

impl Init {
    /// Reports whether a phase is skipped.
    #[must_use]
    pub fn skips(&self, phase: Phase) -> bool {
        self.skip.contains(&phase)
    }
}

/// A phase of `nodeadm init`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Creation of files.
    Config,
    /// Preparation of disks and start of daemons.
    Run,
}

/// Command of `nodeadm-internal`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Internal {
    /// Wait for the links: those that systemd-networkd manages must be configured, the others unmanaged.
    BootHook,
    /// Choice of the manager of a network interface that udev reports, and configuration of the interface if the manager is
    /// systemd-networkd.
    UdevNetManager(UdevNetManager),
}

/// Options of `nodeadm-internal udev-net-manager`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UdevNetManager {
    /// Event of the interface.
    pub action: Action,
    /// Name of the interface.
    pub interface: Interface,
}

/// Event that udev reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The interface appeared.
    Add,
    /// The interface disappeared.
    Remove,
}

impl FromStr for Phase {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "config" => Ok(Self::Config),
            "run" => Ok(Self::Run),
            _ => Err("write config or run"),
        }
    }
}

impl FromStr for Action {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "add" => Ok(Self::Add),
            "remove" => Ok(Self::Remove),
            _ => Err("write add or remove"),
        }
    }
}

/// Name of a network interface, valid by the kernel's own rule: the name becomes part of paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface(String);

impl Interface {
    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Interface {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let usable = !name.is_empty() && name.len() < 16 && name != "." && name != "..";
        let plain = usable && !name.contains(|character: char| character == '/' || character.is_whitespace());
        if plain { Ok(Self(name.to_owned())) } else { Err("unknown network interface") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelt_out_adds_the_subcommand_when_called_by_its_name() {
        for (given, expected) in [
            (vec!["/usr/bin/nodeadm", "init"], vec!["/usr/bin/nodeadm", "nodeadm", "init"]),
            (vec!["nodeadm-internal", "boot-hook"], vec!["nodeadm-internal", "nodeadm-internal", "boot-hook"]),
            (vec!["/opt/nodeadm/kerf-agent", "run"], vec!["/opt/nodeadm/kerf-agent", "run"]),
            (vec![], vec![]),
        ] {
            assert_eq!(spelt_out(given.iter().map(OsString::from)), expected);
        }
    }

    #[test]
    fn interface_from_str_rejects_invalid_names() {
        for (name, good) in
            [("eth0", true), ("ens5.100", true), ("", false), ("..", false), ("a/b", false), ("a b", false)]
        {
            assert_eq!(Interface::from_str(name).is_ok(), good, "{name:?}");
        }
        assert!(Interface::from_str("sixteen-letters-").is_err());
    }
}

//! The arguments that EKS's own programs take, under their names, so that units and scripts written for those need no
//! change.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::source::Source;

/// The names under which this program may be called instead of its own; each is one of its subcommands too.
const NAMES: [&str; 2] = ["nodeadm", "nodeadm-internal"];

/// Arguments with the subcommand spelt out where the program was called under another name.
#[must_use]
pub fn spelt_out(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let called = arguments.first().and_then(|program| Path::new(program).file_name()).map(OsString::from);
    if let Some(name) = called.filter(|name| NAMES.iter().any(|known| name == known)) {
        arguments.insert(1, name);
    }
    arguments
}

/// What `nodeadm` is asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nodeadm {
    /// Configure this machine as a node and start its daemons, once; any failure ends it.
    Init(Init),
    /// Look at NodeConfigs without following them.
    Config(Config),
}

/// What is done with NodeConfigs alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Config {
    /// Fail unless all sources together are a NodeConfig that a machine can follow, without unknown fields.
    Check(Sources),
    /// Print what all sources together say, as YAML.
    Dump(Sources),
}

/// Where NodeConfigs come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sources {
    /// imds://user-data, or file:// and a path to a file or folder; read and merged in order.
    pub sources: Vec<Source>,
}

/// Options of `nodeadm init`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Init {
    /// Where to find the NodeConfig.
    pub sources: Sources,
    /// File that keeps the last NodeConfig and what was found out about the machine.
    pub config_cache: Option<PathBuf>,
    /// Phases to leave out.
    pub skip: Vec<Phase>,
    /// The daemons to configure and start; an empty name is none.
    pub daemons: Vec<String>,
    /// Log as text for people.
    pub development: bool,
}

impl Init {
    /// Whether a phase is to be left out.
    #[must_use]
    pub fn skips(&self, phase: Phase) -> bool {
        self.skip.contains(&phase)
    }
}

/// A phase of `nodeadm init`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Write files.
    Config,
    /// Prepare disks and start daemons.
    Run,
}

/// What `nodeadm-internal` is asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Internal {
    /// Wait until the links that systemd-networkd manages are configured and it leaves the others alone.
    BootHook,
    /// Say who manages a network interface that udev reports, and configure it if that is systemd-networkd.
    UdevNetManager(UdevNetManager),
}

/// Options of `nodeadm-internal udev-net-manager`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UdevNetManager {
    /// What happened to the interface.
    pub action: Action,
    /// Its name.
    pub interface: Interface,
}

/// What udev reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The interface appeared.
    Add,
    /// The interface is gone.
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

/// The name of a network interface, by the kernel's own rule: it becomes part of paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface(String);

impl Interface {
    /// The name.
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
    fn a_called_name_becomes_a_subcommand() {
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
    fn interface_names() {
        for (name, good) in
            [("eth0", true), ("ens5.100", true), ("", false), ("..", false), ("a/b", false), ("a b", false)]
        {
            assert_eq!(Interface::from_str(name).is_ok(), good, "{name:?}");
        }
        assert!(Interface::from_str("sixteen-letters-").is_err());
    }
}

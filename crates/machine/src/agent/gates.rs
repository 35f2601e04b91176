//! Gates that a node must pass before it may run pods. The gates for bootstrap and kubelet always exist, and the CNI gate
//! exists by default. The settings list the other gates.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::span::Span;

/// Gates in addition to bootstrap and kubelet, which every node has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", try_from = "Unchecked")]
pub struct GateSettings {
    /// Pod network.
    pub cni: CniGate,
    /// CSI drivers, such as `ebs.csi.aws.com`, that must have registered on this node.
    pub csi_drivers: Vec<String>,
    /// Extended resources, such as `nvidia.com/gpu`, of which the node must have more than zero.
    pub devices: Vec<String>,
    /// DaemonSets whose pods on this node must be Ready.
    pub daemon_sets: Vec<DaemonSetGate>,
    /// Custom probes.
    pub probes: Vec<Probe>,
}

/// Condition for the pod network: a configuration, and a binary for each plugin of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CniGate {
    /// `false` for nodes without a CNI plugin.
    pub enabled: bool,
    /// Folder of the configurations.
    pub config_dir: String,
    /// Folders of the plugins.
    pub binary_dirs: Vec<String>,
}

impl Default for CniGate {
    fn default() -> Self {
        Self {
            enabled: true,
            config_dir: "/etc/cni/net.d".to_owned(),
            binary_dirs: vec!["/opt/cni/bin".to_owned(), "/usr/libexec/cni".to_owned()],
        }
    }
}

/// A DaemonSet, by the labels of its pods: a node has permission to read its own pods, but not DaemonSets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DaemonSetGate {
    /// Name for messages.
    pub name: String,
    /// Namespace of the DaemonSet.
    #[serde(default = "system")]
    pub namespace: String,
    /// Labels of its pods.
    pub selector: BTreeMap<String, String>,
}

fn system() -> String {
    "kube-system".to_owned()
}

/// A custom probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "WrittenProbe", into = "WrittenProbe")]
pub struct Probe {
    /// Name for messages.
    pub name: String,
    /// Target of the probe.
    pub target: Target,
    /// Delay before the first attempt.
    pub initial_delay: Span,
    /// Interval between two attempts.
    pub period: Span,
    /// Timeout of an attempt.
    pub timeout: Span,
    /// Number of consecutive successes that open the gate.
    pub success_threshold: u32,
    /// Number of consecutive failures that close the gate.
    pub failure_threshold: u32,
}

/// Target of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A file that must exist.
    File(FileTarget),
    /// A Unix socket that must accept a connection.
    Socket(FileTarget),
    /// A port that must accept a connection.
    Tcp(TcpTarget),
    /// A GET request that must return 2xx or 3xx.
    Http(HttpTarget),
}

/// A path on the instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileTarget {
    /// Absolute path.
    pub path: String,
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpTarget {
    /// Name or address; the default is the instance itself.
    #[serde(default = "loopback")]
    pub host: String,
    /// Port from 1 to 65535.
    #[serde(deserialize_with = "port")]
    pub port: u16,
}

/// A URL without TLS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpTarget {
    /// Name or address; the default is the instance itself.
    #[serde(default = "loopback")]
    pub host: String,
    /// Port from 1 to 65535.
    #[serde(deserialize_with = "port")]
    pub port: u16,
    /// Path and query.
    #[serde(default = "top")]
    pub path: String,
}

fn port<'de, D: Deserializer<'de>>(number: D) -> Result<u16, D::Error> {
    let number = i64::deserialize(number)?;
    let port = u16::try_from(number).ok().filter(|port| *port > 0);
    port.ok_or_else(|| D::Error::custom(format!("{number} is not a port; write 1 to 65535")))
}

fn loopback() -> String {
    "127.0.0.1".to_owned()
}

fn top() -> String {
    "/".to_owned()
}

/// Gates as written; [`GateSettings`] are validated by the rules that types cannot express.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Unchecked {
    cni: CniGate,
    csi_drivers: Vec<String>,
    devices: Vec<String>,
    daemon_sets: Vec<DaemonSetGate>,
    probes: Vec<Probe>,
}

impl TryFrom<Unchecked> for GateSettings {
    type Error = String;

    fn try_from(written: Unchecked) -> Result<Self, String> {
        let Unchecked { cni, csi_drivers, devices, daemon_sets, probes } = written;
        absolute("cni.configDir", &cni.config_dir)?;
        cni.binary_dirs.iter().try_for_each(|folder| absolute("cni.binaryDirs", folder))?;
        unique("csiDrivers", csi_drivers.iter())?;
        unique("devices", devices.iter())?;
        unique("daemonSets", daemon_sets.iter().map(|set| &set.name))?;
        unique("probes", probes.iter().map(|probe| &probe.name))?;
        if let Some(invalid) = devices.iter().find(|name| !name.contains('/')) {
            return Err(format!("devices: {invalid:?} is not an extended resource; write one such as nvidia.com/gpu"));
        }
        if let Some(all) = daemon_sets.iter().find(|set| set.selector.is_empty()) {
            let name = &all.name;
            return Err(format!("daemonSets: the selector of {name:?} is empty; write the labels of its pods"));
        }
        Ok(Self { cni, csi_drivers, devices, daemon_sets, probes })
    }
}

/// Validates that names are not empty and unique, because messages identify a closed gate by its name.
fn unique<'a>(field: &str, names: impl Iterator<Item = &'a String>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for name in names {
        if name.trim().is_empty() {
            return Err(format!("{field}: a name is empty; write one"));
        }
        if !seen.insert(name) {
            return Err(format!("{field}: {name:?} is repeated; remove or rename one"));
        }
    }
    Ok(())
}

fn absolute(field: &str, path: &str) -> Result<(), String> {
    let is_absolute = path.starts_with('/');
    is_absolute.then_some(()).ok_or_else(|| format!("{field}: {path:?} is not an absolute path; begin it with /"))
}

/// A probe as written: exactly one of the four targets must be set.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenProbe {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<FileTarget>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    socket: Option<FileTarget>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tcp: Option<TcpTarget>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    http: Option<HttpTarget>,
    #[serde(default)]
    initial_delay: Span,
    #[serde(default = "period")]
    period: Span,
    #[serde(default = "second")]
    timeout: Span,
    #[serde(default = "one")]
    success_threshold: u32,
    #[serde(default = "three")]
    failure_threshold: u32,
}

// The default values are those of kubelet's probes.
const fn period() -> Span {
    Span::seconds(10)
}

const fn second() -> Span {
    Span::seconds(1)
}

const fn one() -> u32 {
    1
}

const fn three() -> u32 {
    3
}

impl TryFrom<WrittenProbe> for Probe {
    type Error = String;

    fn try_from(written: WrittenProbe) -> Result<Self, String> {
        let name = written.name.clone();
        let target = target(&written).map_err(|problem| format!("probe {name:?}: {problem}"))?;
        let probe = Self {
            name: written.name,
            target,
            initial_delay: written.initial_delay,
            period: written.period,
            timeout: written.timeout,
            success_threshold: written.success_threshold,
            failure_threshold: written.failure_threshold,
        };
        let counts = [probe.success_threshold, probe.failure_threshold];
        if counts.contains(&0) {
            return Err(format!("probe {name:?}: successThreshold and failureThreshold must be 1 or more"));
        }
        if probe.period < Span::seconds(1) || probe.timeout.0.is_zero() {
            return Err(format!("probe {name:?}: period must be at least 1s and timeout more than 0s"));
        }
        Ok(probe)
    }
}

fn target(written: &WrittenProbe) -> Result<Target, String> {
    let targets = [
        written.file.clone().map(Target::File),
        written.socket.clone().map(Target::Socket),
        written.tcp.clone().map(Target::Tcp),
        written.http.clone().map(Target::Http),
    ];
    let mut given = targets.into_iter().flatten();
    let (Some(target), None) = (given.next(), given.next()) else {
        return Err("exactly one of file, socket, tcp and http is required".to_owned());
    };
    match &target {
        Target::File(at) | Target::Socket(at) => absolute("path", &at.path)?,
        Target::Http(page) => absolute("path", &page.path)?,
        Target::Tcp(_) => {}
    }
    Ok(target)
}

impl From<Probe> for WrittenProbe {
    fn from(probe: Probe) -> Self {
        let mut written = Self {
            name: probe.name,
            file: None,
            socket: None,
            tcp: None,
            http: None,
            initial_delay: probe.initial_delay,
            period: probe.period,
            timeout: probe.timeout,
            success_threshold: probe.success_threshold,
            failure_threshold: probe.failure_threshold,
        };
        match probe.target {
            Target::File(at) => written.file = Some(at),
            Target::Socket(at) => written.socket = Some(at),
            Target::Tcp(port) => written.tcp = Some(port),
            Target::Http(page) => written.http = Some(page),
        }
        written
    }
}

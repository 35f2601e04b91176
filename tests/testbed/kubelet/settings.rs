//! Settings of the node that kubelet registers, computed from its files. Pure once the files are read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Taint;
use serde_json::Value;

use super::config;

/// File with the command line of the unit, below the root.
const ENVIRONMENT: &str = "etc/eks/kubelet/environment";
/// Labels below kubernetes.io that a node may set itself, in addition to those of [`OWN_DOMAINS`].
const WELL_KNOWN: [&str; 11] = [
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];
/// Domains in which, including their subdomains, a node may set labels itself.
const OWN_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// Configuration of a kubelet, as far as its effect is visible to other programs.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Name of the node, from `--hostname-override`.
    pub name: String,
    /// Provider ID of the instance; empty if none is configured.
    pub provider_id: String,
    /// Labels from `--node-labels`.
    pub labels: BTreeMap<String, String>,
    /// Taints from the configuration or `--register-with-taints`, without that of the cloud provider.
    pub taints: Vec<Taint>,
    /// Address from `--node-ip`.
    pub node_ip: Option<String>,
    /// True if another program initializes the node (`--cloud-provider=external`).
    pub external_cloud: bool,
    /// Most pods of the node.
    pub max_pods: u64,
    /// Most pods per processor; 0 for no such limit.
    pub pods_per_core: u64,
    /// Reserved resources: kubeReserved and systemReserved, by resource.
    pub reserved: BTreeMap<String, Vec<String>>,
    /// Hard eviction thresholds, by signal.
    pub eviction: BTreeMap<String, String>,
    /// Path of the kubeconfig on the machine.
    pub kubeconfig: String,
    /// Version such as `v1.36.3`, from `/etc/eks/kubelet-version.txt`.
    pub version: String,
}

impl Settings {
    /// Reads all files below `root`.
    ///
    /// # Errors
    /// Returns an error with the file's name if it is missing or invalid.
    pub fn read(root: &Path) -> Result<Self> {
        let environment = root.join(ENVIRONMENT);
        let text = read(&environment)?;
        let flags = config::flags(&text).with_context(|| format!("{} is no use", environment.display()))?;
        let flag = |name: &str| flags.get(name).with_context(|| format!("{} lacks --{name}", environment.display()));
        let folder = flags.get("config-dir").map(|path| below(root, path));
        let config = config::merged(&below(root, flag("config")?), folder.as_deref())?;
        let authority = config["authentication"]["x509"]["clientCAFile"].as_str();
        read(&below(root, authority.context("the configuration names no authentication.x509.clientCAFile")?))?;
        let version = read(&root.join("etc/eks/kubelet-version.txt"))?;
        Ok(Self {
            name: flag("hostname-override")?.clone(),
            kubeconfig: flag("kubeconfig")?.clone(),
            version: format!("v{}", version.trim().trim_start_matches('v')),
            ..Self::decide(&flags, &config)?
        })
    }

    /// Computes all settings that need no further file.
    fn decide(flags: &BTreeMap<String, String>, config: &Value) -> Result<Self> {
        let labels = pairs(flags.get("node-labels").map_or("", String::as_str))?;
        let refused: Vec<&String> = labels.keys().filter(|label| !settable(label)).collect();
        ensure!(refused.is_empty(), "kubelet refuses --node-labels that a node may not set: {refused:?}");
        let taints = match flags.get("register-with-taints") {
            Some(text) => text.split(',').filter(|text| !text.is_empty()).map(taint).collect::<Result<_>>()?,
            None => serde_json::from_value(or_empty_list(&config["registerWithTaints"]))
                .context("registerWithTaints is no list of taints")?,
        };
        let max_pods = match flags.get("max-pods") {
            Some(text) => text.parse().context("--max-pods is no number")?,
            None => config["maxPods"].as_u64().unwrap_or(110),
        };
        let eviction = config["evictionHard"].as_object().map_or_else(default_eviction, texts);
        Ok(Self {
            name: String::new(),
            provider_id: config["providerID"].as_str().unwrap_or_default().to_owned(),
            labels,
            taints,
            node_ip: flags.get("node-ip").cloned(),
            external_cloud: flags.get("cloud-provider").is_some_and(|name| name == "external"),
            max_pods,
            pods_per_core: config["podsPerCore"].as_u64().unwrap_or_default(),
            reserved: reserved(config),
            eviction,
            kubeconfig: String::new(),
            version: String::new(),
        })
    }
}

/// Converts a path of the machine into a path below `root`.
pub fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

/// Reports whether NodeRestriction, and therefore kubelet, permits a node to set this label itself.
pub fn settable(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    let within = |parent: &str| domain == parent || domain.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'));
    let ours = !within("kubernetes.io") && !within("k8s.io");
    ours || WELL_KNOWN.contains(&label) || OWN_DOMAINS.iter().any(|parent| within(parent))
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn pairs(text: &str) -> Result<BTreeMap<String, String>> {
    let words = text.split(',').filter(|word| !word.is_empty());
    let pair = |word: &str| {
        let (key, value) = word.split_once('=').with_context(|| format!("--node-labels: {word:?} is no key=value"))?;
        Ok((key.to_owned(), value.to_owned()))
    };
    words.map(pair).collect()
}

/// Parses a taint of the flag: `key=value:Effect` or `key:Effect`.
fn taint(text: &str) -> Result<Taint> {
    let (head, effect) = text.rsplit_once(':').with_context(|| format!("the taint {text:?} has no effect"))?;
    let (key, value) = head.split_once('=').map_or((head, None), |(key, value)| (key, Some(value)));
    Ok(Taint {
        key: key.to_owned(),
        value: value.filter(|value| !value.is_empty()).map(str::to_owned),
        effect: effect.to_owned(),
        time_added: None,
    })
}

fn or_empty_list(value: &Value) -> Value {
    if value.is_null() { Value::Array(Vec::new()) } else { value.clone() }
}

fn texts(map: &serde_json::Map<String, Value>) -> BTreeMap<String, String> {
    map.iter().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// Returns kubelet's default thresholds.
fn default_eviction() -> BTreeMap<String, String> {
    let own = [("memory.available", "100Mi"), ("nodefs.available", "10%"), ("nodefs.inodesFree", "5%")];
    own.map(|(signal, threshold)| (signal.to_owned(), threshold.to_owned())).into()
}

fn reserved(config: &Value) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for part in ["kubeReserved", "systemReserved"] {
        for (resource, amount) in config[part].as_object().map(texts).unwrap_or_default() {
            all.entry(resource).or_default().push(amount);
        }
    }
    all
}

//! What kubelet makes of its files: the node it will register. Pure once the files are read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Taint;
use serde_json::Value;

use super::config;

/// The file that the unit takes its command line from, below the root.
const ENVIRONMENT: &str = "etc/eks/kubelet/environment";
/// Labels below kubernetes.io that a node may set itself, besides those of [`OWN_DOMAINS`].
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
/// Domains, with everything below them, in which a node may set labels itself.
const OWN_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// A kubelet's configuration, as far as others can see its effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The node's name, from `--hostname-override`.
    pub name: String,
    /// Kubernetes' name for the instance, empty when none is configured.
    pub provider_id: String,
    /// From `--node-labels`.
    pub labels: BTreeMap<String, String>,
    /// From the configuration or `--register-with-taints`, without the cloud provider's own.
    pub taints: Vec<Taint>,
    /// From `--node-ip`.
    pub node_ip: Option<String>,
    /// Whether another program completes the node (`--cloud-provider=external`).
    pub external_cloud: bool,
    /// The most pods it takes.
    pub max_pods: u64,
    /// Taken from the capacity: kubeReserved and systemReserved, by resource.
    pub reserved: BTreeMap<String, Vec<String>>,
    /// Hard eviction thresholds, by signal.
    pub eviction: BTreeMap<String, String>,
    /// The kubeconfig's path on the machine.
    pub kubeconfig: String,
    /// Such as `v1.36.3`, from `/etc/eks/kubelet-version.txt`.
    pub version: String,
}

impl Settings {
    /// Reads everything below `root`.
    ///
    /// # Errors
    /// When a file is missing or wrong; names it.
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

    /// Everything that needs no further file.
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
            reserved: reserved(config),
            eviction,
            kubeconfig: String::new(),
            version: String::new(),
        })
    }
}

/// A path of the machine as a path of ours.
pub fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

/// Whether NodeRestriction, and therefore kubelet, lets a node set this label itself.
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

/// A taint as the flag writes it: `key=value:Effect` or `key:Effect`.
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

/// What kubelet itself takes when the configuration says nothing.
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

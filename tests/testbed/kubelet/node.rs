//! Node object as kubelet registers and reports it. Pure: `now` and the state of the network are arguments.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use api::{label, quantity};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use serde_json::{Value, json};

use super::Hardware;
use super::settings::Settings;

/// Taint of a node that waits for its cloud provider.
pub const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// Conditions that kubelet owns, with the time of their last transition.
#[derive(Debug, Default)]
pub struct Conditions {
    since: BTreeMap<&'static str, (&'static str, Timestamp)>,
}

impl Conditions {
    /// Returns all four conditions at `now`.
    pub fn report(&mut self, network_ready: bool, now: Timestamp) -> Vec<Value> {
        let ready = if network_ready {
            ("Ready", "True", "KubeletReady", "kubelet is posting ready status")
        } else {
            (
                "Ready",
                "False",
                "KubeletNotReady",
                "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady \
                 message:Network plugin returns error: cni plugin not initialized",
            )
        };
        let all = [
            ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            ready,
        ];
        let mut one = |(kind, status, reason, message)| {
            json!({
                "type": kind, "status": status, "reason": reason, "message": message,
                "lastHeartbeatTime": seconds(now), "lastTransitionTime": seconds(self.since(kind, status, now)),
            })
        };
        all.map(&mut one).to_vec()
    }

    fn since(&mut self, kind: &'static str, status: &'static str, now: Timestamp) -> Timestamp {
        let entry = self.since.entry(kind).or_insert((status, now));
        if entry.0 != status {
            *entry = (status, now);
        }
        entry.1
    }
}

/// Returns the Node at registration, the only moment at which a node may set its own taints.
///
/// # Errors
/// Returns an error if a reservation or threshold is no quantity.
pub fn registration(settings: &Settings, hardware: &Hardware, conditions: Vec<Value>) -> Result<Node> {
    let mut taints = settings.taints.clone();
    if settings.external_cloud {
        taints.push(Taint {
            key: UNINITIALIZED.to_owned(),
            value: Some("true".to_owned()),
            effect: "NoSchedule".to_owned(),
            time_added: None,
        });
    }
    let mut labels = BTreeMap::from([
        (label::HOSTNAME.to_owned(), settings.name.clone()),
        (label::ARCH.to_owned(), hardware.arch().to_owned()),
        (label::OS.to_owned(), label::OS_LINUX.to_owned()),
        ("beta.kubernetes.io/arch".to_owned(), hardware.arch().to_owned()),
        ("beta.kubernetes.io/os".to_owned(), label::OS_LINUX.to_owned()),
    ]);
    labels.extend(settings.labels.clone());
    let annotations = settings.node_ip.iter().map(|ip| ("alpha.kubernetes.io/provided-node-ip".to_owned(), ip.clone()));
    let document = json!({
        "metadata": {
            "name": settings.name,
            "labels": labels,
            "annotations": annotations.collect::<BTreeMap<_, _>>(),
        },
        "spec": {"providerID": settings.provider_id, "taints": taints},
        "status": status(settings, hardware, conditions)?,
    });
    serde_json::from_value(document).context("the stand-in made a Node that is none")
}

/// Returns the complete status.
///
/// # Errors
/// Returns an error if a reservation or threshold is no quantity.
pub fn status(settings: &Settings, hardware: &Hardware, conditions: Vec<Value>) -> Result<Value> {
    let capacity = capacity(settings, hardware);
    let allocatable = allocatable(settings, &capacity)?;
    let mut addresses = vec![json!({"type": "Hostname", "address": settings.name})];
    if let Some(ip) = &settings.node_ip {
        addresses.insert(0, json!({"type": "InternalIP", "address": ip}));
    }
    Ok(json!({
        "addresses": addresses,
        "allocatable": written(&allocatable),
        "capacity": written(&capacity),
        "conditions": conditions,
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "architecture": hardware.arch(),
            "bootID": settings.provider_id,
            "containerRuntimeVersion": "containerd://2.1.4",
            "kernelVersion": "6.12.0-stand-in",
            "kubeProxyVersion": "",
            "kubeletVersion": settings.version,
            "machineID": settings.name,
            "operatingSystem": settings.labels.get(label::OS).map_or(label::OS_LINUX, String::as_str),
            "osImage": "Kerf node simulator",
            "systemUUID": settings.name,
        },
    }))
}

/// Resource name of huge pages.
const HUGE_PAGES: &str = "hugepages-2Mi";

/// Returns the capacity, in millicores for CPU and whole units for the other resources.
fn capacity(settings: &Settings, hardware: &Hardware) -> BTreeMap<&'static str, i64> {
    let units = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let huge_pages = (hardware.huge_page_bytes > 0).then(|| (HUGE_PAGES, units(hardware.huge_page_bytes)));
    let resources = [
        (quantity::CPU, i64::from(hardware.vcpus) * 1000),
        (quantity::MEMORY, units(hardware.visible_memory())),
        (quantity::EPHEMERAL_STORAGE, units(hardware.disk_bytes)),
        (quantity::PODS, units(most_pods(settings, hardware))),
    ];
    resources.into_iter().chain(huge_pages).collect()
}

/// Returns the most pods of the node; a limit per processor may lower it.
fn most_pods(settings: &Settings, hardware: &Hardware) -> u64 {
    match settings.pods_per_core {
        0 => settings.max_pods,
        each => settings.max_pods.min(each * u64::from(hardware.vcpus)),
    }
}

fn allocatable(settings: &Settings, capacity: &BTreeMap<&'static str, i64>) -> Result<BTreeMap<&'static str, i64>> {
    let left = capacity.iter().map(|(resource, whole)| {
        // Pods cannot use huge pages as other memory.
        let mut taken = if *resource == quantity::MEMORY { capacity.get(HUGE_PAGES).copied().unwrap_or(0) } else { 0 };
        for text in settings.reserved.get(*resource).into_iter().flatten() {
            taken += quantity::amount(resource, text).with_context(|| format!("reserved {resource}"))?;
        }
        let signal = match *resource {
            quantity::MEMORY => "memory.available",
            quantity::EPHEMERAL_STORAGE => "nodefs.available",
            _ => "",
        };
        if let Some(text) = settings.eviction.get(signal) {
            taken += threshold(text, *whole).with_context(|| format!("evictionHard {signal}"))?;
        }
        Ok((*resource, (whole - taken).max(0)))
    });
    left.collect()
}

/// Parses a threshold into the resource's unit: a quantity or a percentage of the whole.
fn threshold(text: &str, whole: i64) -> Result<i64> {
    match text.strip_suffix('%') {
        Some(share) => {
            let share: i64 = share.trim().parse().with_context(|| format!("{text:?} is no whole percentage"))?;
            Ok(whole / 100 * share)
        }
        None => Ok(quantity::units(text)?),
    }
}

fn written(amounts: &BTreeMap<&'static str, i64>) -> BTreeMap<&'static str, String> {
    let text = |resource: &str, amount: i64| match resource {
        quantity::CPU => quantity::cpu_text(amount),
        quantity::MEMORY => format!("{}Ki", amount / 1024),
        _ => amount.to_string(),
    };
    amounts.iter().map(|(resource, amount)| (*resource, text(resource, *amount))).collect()
}

/// Formats an instant as in the Kubernetes API.
pub fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

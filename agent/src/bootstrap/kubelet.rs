//! The KubeletConfiguration of an EKS node, as nodeadm generates it for Kubernetes 1.27 to 1.36: the generated file
//! holds what the platform needs, the user's wishes go into a drop-in above it.

use machine::nodeconfig::{NodeConfigError, merge_json};
use machine::pods;
use serde_json::{Map, Value, json};

use super::facts::Facts;
use super::plan::CA_BUNDLE;

const TLS_CIPHER_SUITES: [&str; 8] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
];

/// Drop-in folders are used from this minor release of kubelet on; before, the user's wishes are merged into the file.
const DROP_INS_SINCE: u32 = 29;

/// The contents of kubelet's configuration files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// The generated file.
    pub main: String,
    /// The user's drop-in; `None` when there is nothing in it or kubelet has no drop-ins.
    pub drop_in: Option<String>,
}

/// Computes kubelet's configuration.
///
/// # Errors
/// [`NodeConfigError`] for a service CIDR that cannot be read.
pub fn configuration(facts: &Facts, provider_id: &str) -> Result<Configuration, NodeConfigError> {
    let mut main = fixed();
    main.extend(computed(facts, provider_id)?);
    let user = facts.user_data.config.spec.kubelet.config.clone();
    if user.is_empty() {
        return Ok(Configuration { main: pretty(main), drop_in: None });
    }
    if !facts.kubelet.at_least(DROP_INS_SINCE) {
        merge_json(&mut main, user);
        return Ok(Configuration { main: pretty(main), drop_in: None });
    }
    let mut drop_in = type_meta();
    drop_in.extend(user);
    Ok(Configuration { main: pretty(main), drop_in: Some(pretty(drop_in)) })
}

fn type_meta() -> Map<String, Value> {
    object(json!({"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}))
}

/// What is the same on every node.
fn fixed() -> Map<String, Value> {
    let mut fixed = object(json!({
        "address": "0.0.0.0",
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"cacheTTL": "2m0s", "enabled": true},
            "x509": {"clientCAFile": CA_BUNDLE},
        },
        "authorization": {
            "mode": "Webhook",
            "webhook": {"cacheAuthorizedTTL": "5m0s", "cacheUnauthorizedTTL": "30s"},
        },
        "cgroupDriver": "systemd",
        "cgroupRoot": "/",
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%"},
        "hairpinMode": "hairpin-veth",
        "kubeReservedCgroup": "/runtime",
        "logging": {"verbosity": 2},
        "protectKernelDefaults": true,
        "readOnlyPort": 0,
        "serializeImagePulls": false,
        "serverTLSBootstrap": true,
        "systemReservedCgroup": "/system",
        "tlsCipherSuites": TLS_CIPHER_SUITES,
    }));
    fixed.extend(type_meta());
    fixed
}

/// What depends on machine, cluster and release.
fn computed(facts: &Facts, provider_id: &str) -> Result<Map<String, Value>, NodeConfigError> {
    let limits = pods::interface_limits(&facts.identity.instance_type);
    let eni_limited = limits.map(|limits| pods::eni_limited_pods(limits.interfaces, limits.ipv4_per_interface, 0));
    let max_pods = pods::max_pods(None, eni_limited, None, facts.cpus);
    let mut computed = object(json!({
        "clusterDNS": [facts.user_data.config.spec.cluster.dns_ip()?.to_string()],
        "featureGates": feature_gates(facts),
        "kubeReserved": {
            "cpu": format!("{}m", pods::kube_reserved_cpu_millicores(facts.cpus)),
            "ephemeral-storage": format!("{}Gi", pods::KUBE_RESERVED_EPHEMERAL_STORAGE_MIB / 1024),
            "memory": format!("{}Mi", pods::kube_reserved_memory_mib(max_pods)),
        },
        "maxPods": max_pods,
        "providerID": provider_id,
    }));
    if facts.kubelet.at_least(34) {
        computed.insert("shutdownGracePeriod".to_owned(), json!("2m30s"));
        computed.insert("shutdownGracePeriodCriticalPods".to_owned(), json!("30s"));
    }
    Ok(computed)
}

fn feature_gates(facts: &Facts) -> Map<String, Value> {
    [("RotateKubeletServerCertificate", 0), ("DynamicResourceAllocation", 33), ("MutableCSINodeAllocatableCount", 34)]
        .into_iter()
        .filter(|(_, since)| facts.kubelet.at_least(*since))
        .map(|(gate, _)| (gate.to_owned(), json!(true)))
        .collect()
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn pretty(fields: Map<String, Value>) -> String {
    format!("{:#}\n", Value::Object(fields))
}

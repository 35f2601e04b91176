//! The KubeletConfiguration of an EKS node, as nodeadm generates it for Kubernetes 1.27 to 1.36. The generated file holds the
//! settings of the platform. The user's settings are in a drop-in that overrides the file.

mod command_line;

use machine::json;
use machine::nodeconfig::labels::{self, PermittedFlags};
use machine::nodeconfig::{NodeConfigError, merge_json};
use machine::pods;
use serde_json::{Map, Value, json};

use super::containerd;
use super::{BootstrapPlan, CA_BUNDLE, PlanPart};
use crate::bootstrap::facts::Facts;

pub use command_line::KUBELET_ENVIRONMENT;

/// The generated KubeletConfiguration.
pub const KUBELET_CONFIG: &str = "/etc/kubernetes/kubelet/config.json";
/// Folder of KubeletConfiguration drop-ins.
pub const KUBELET_CONFIG_DIR: &str = "/etc/kubernetes/kubelet/config.json.d";
/// The user's KubeletConfiguration.
pub const KUBELET_DROP_IN: &str = "/etc/kubernetes/kubelet/config.json.d/40-nodeadm.conf";

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

/// Feature gates that are set, each with its first minor release.
const FEATURE_GATES: [(&str, u32); 3] =
    [("RotateKubeletServerCertificate", 0), ("DynamicResourceAllocation", 33), ("MutableCSINodeAllocatableCount", 34)];

/// Free memory in MiB below which kubelet evicts pods, `memory.available`.
const EVICTION_MIB: u64 = 100;

/// First minor release of kubelet with drop-in folders; for earlier releases, the user's settings are merged into the file.
const DROP_INS_SINCE: u32 = 29;
/// First minor release of kubelet that terminates pods itself at a shutdown.
const SHUTDOWN_SINCE: u32 = 34;

pub(super) fn add(plan: &mut BootstrapPlan, facts: &Facts) -> Result<(), NodeConfigError> {
    let mut main = fixed();
    main.extend(computed(plan, facts)?);
    let user = facts.user_data.config.spec.kubelet.config.clone();
    let mut drop_in = None;
    if facts.software.kubelet.at_least(DROP_INS_SINCE) {
        drop_in = (!user.is_empty()).then(|| with_type_meta(user));
    } else {
        merge_json(&mut main, user);
    }
    plan.put(PlanPart::Kubelet, KUBELET_CONFIG, json::pretty(&Value::Object(main)));
    let PermittedFlags { flags, removed } = command_line::permitted(facts);
    if !removed.is_empty() {
        let keys = removed.join(", ");
        plan.warn(format!(
            "spec.kubelet.flags has {keys}, with which kubelet does not start: ignored; {}",
            labels::CURE
        ));
    }
    let flags = command_line::environment(facts, &plan.node_name, drop_in.is_some(), flags);
    plan.put_or_remove(
        PlanPart::Kubelet,
        KUBELET_DROP_IN,
        drop_in.map(|drop_in| json::pretty(&Value::Object(drop_in))),
    );
    plan.put(PlanPart::Kubelet, KUBELET_ENVIRONMENT, flags);
    Ok(())
}

/// Adds `apiVersion` and `kind`, which kubelet requires in a drop-in and the user may omit.
fn with_type_meta(user: Map<String, Value>) -> Map<String, Value> {
    let mut drop_in = type_meta();
    drop_in.extend(user);
    drop_in
}

fn type_meta() -> Map<String, Value> {
    object(json!({"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}))
}

/// Returns the settings that are the same on every node.
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
        "containerRuntimeEndpoint": containerd::ENDPOINT,
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

/// Returns the settings that depend on machine, cluster and release.
fn computed(plan: &mut BootstrapPlan, facts: &Facts) -> Result<Map<String, Value>, NodeConfigError> {
    let spec = &facts.user_data.config.spec;
    let limits = pods::interface_limits(&facts.identity.instance_type).or(facts.interface_limits);
    let density = pods::density(limits, &spec.kubelet.max_pods_expression);
    plan.warnings.extend(density.warning);
    plan.warnings.extend(memory_warning(density.pods, facts.hardware.memory_bytes));
    let mut computed = object(json!({
        "clusterDNS": [spec.cluster.dns_ip()?.to_string()],
        "featureGates": feature_gates(facts),
        "kubeReserved": {
            "cpu": format!("{}m", pods::kube_reserved_cpu_millicores(facts.hardware.cpus)),
            "ephemeral-storage": format!("{}Gi", pods::KUBE_RESERVED_EPHEMERAL_STORAGE_MIB / 1024),
            "memory": format!("{}Mi", pods::kube_reserved_memory_mib(density.pods)),
        },
        "maxPods": density.pods,
        "providerID": plan.provider_id,
    }));
    if containerd::uses_soci(facts) {
        computed.insert("imageServiceEndpoint".to_owned(), json!(containerd::SOCI_ENDPOINT));
    }
    if facts.software.kubelet.at_least(SHUTDOWN_SINCE) {
        computed.insert("shutdownGracePeriod".to_owned(), json!("2m30s"));
        computed.insert("shutdownGracePeriodCriticalPods".to_owned(), json!("30s"));
    }
    Ok(computed)
}

/// Returns a warning where kubelet reserves so much for this number of pods that the machine has no memory for them.
fn memory_warning(pods: u32, memory_bytes: u64) -> Option<String> {
    let (reserved, total) = (pods::kube_reserved_memory_mib(pods), memory_bytes >> 20);
    (total > 0 && reserved + EVICTION_MIB >= total).then(|| {
        format!(
            "kubelet reserves {reserved}Mi for {pods} pods, but the machine has {total}Mi, so no pod fits; lower the \
             result of spec.kubelet.maxPodsExpression, such as min(250, ...)"
        )
    })
}

fn feature_gates(facts: &Facts) -> Map<String, Value> {
    let set = FEATURE_GATES.iter().filter(|(_, since)| facts.software.kubelet.at_least(*since));
    set.map(|(gate, _)| ((*gate).to_owned(), json!(true))).collect()
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

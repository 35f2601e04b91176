//! Objects of a workload in the form of the API server.

use serde_json::{Value, json};

const BORN: &str = "2026-11-01T00:00:00Z";
const CLASS: &str = "default";

/// Identical pods of one owner.
#[derive(Clone, Debug, Default)]
pub struct Deployment {
    /// Name of the owner, and value of the label `app`.
    pub name: String,
    /// Number of pods.
    pub replicas: usize,
    /// CPU request in millicores.
    pub cpu: u64,
    /// Memory request in MiB.
    pub memory: u64,
    /// Spreads the pods over zones with maxSkew 1.
    pub zone_spread: bool,
    /// Spreads the pods over hosts with maxSkew 1.
    pub host_spread: bool,
    /// Permits at most one pod per host.
    pub alone_on_host: bool,
}

/// DaemonSet of a workload.
#[derive(Clone, Debug, Default)]
pub struct Daemon {
    /// Name of the DaemonSet.
    pub name: String,
    /// CPU request in millicores.
    pub cpu: u64,
    /// Memory request in MiB.
    pub memory: u64,
    /// Label that its nodes must have.
    pub selector: Option<(&'static str, &'static str)>,
}

impl Deployment {
    /// Returns the pods as pending.
    pub(super) fn pods(&self) -> impl Iterator<Item = Value> + '_ {
        (0..self.replicas).map(|number| self.pod(number))
    }

    fn pod(&self, number: usize) -> Value {
        let name = format!("{}-{number}", self.name);
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": "default", "uid": format!("uid-{name}"), "creationTimestamp": BORN,
                "labels": {"app": self.name},
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": self.name,
                    "uid": format!("uid-{}", self.name), "controller": true,
                }],
            },
            "spec": self.spec(),
            "status": {"phase": "Pending", "conditions": [{
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": BORN,
            }]},
        })
    }

    fn spec(&self) -> Value {
        let own = json!({"matchLabels": {"app": self.name}});
        let mut spec = json!({
            "containers": [container(self.cpu, self.memory)],
            "restartPolicy": "Always", "schedulerName": "default-scheduler",
        });
        let keys = [(self.zone_spread, "topology.kubernetes.io/zone"), (self.host_spread, "kubernetes.io/hostname")];
        let spread = |key: &str| json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": own});
        let spreads: Vec<Value> = keys.iter().filter(|(wanted, _)| *wanted).map(|(_, key)| spread(key)).collect();
        if !spreads.is_empty() {
            spec["topologySpreadConstraints"] = Value::from(spreads);
        }
        if self.alone_on_host {
            let term = json!({"labelSelector": own, "topologyKey": "kubernetes.io/hostname"});
            spec["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        }
        spec
    }
}

impl Daemon {
    /// Returns the DaemonSet.
    pub(super) fn object(&self) -> Value {
        let mut spec = json!({"containers": [container(self.cpu, self.memory)]});
        if let Some((key, value)) = self.selector {
            spec["nodeSelector"] = json!({key: value});
        }
        let labels = json!({"app": self.name});
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {
                "name": self.name, "namespace": "default", "uid": format!("uid-{}", self.name),
                "creationTimestamp": BORN,
            },
            "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
        })
    }
}

fn container(cpu: u64, memory: u64) -> Value {
    json!({
        "name": "main", "image": "pause",
        "resources": {"requests": {"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")}},
    })
}

pub(super) fn namespace() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "default", "labels": {"kubernetes.io/metadata.name": "default"}},
    })
}

pub(super) fn class() -> Value {
    let all = json!([{"tags": {"cluster": "benchmark"}}]);
    json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
        "metadata": {"name": CLASS, "uid": "uid-class", "creationTimestamp": BORN},
        "spec": {
            "role": "node", "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": all, "securityGroupSelectorTerms": all,
        },
    })
}

/// Returns the only NodePool: on-demand Linux and the given requirements.
pub(super) fn pool(asked: &[(&str, &str, Vec<&str>)]) -> Value {
    let requirement =
        |(key, operator, values): &(&str, &str, Vec<&str>)| json!({"key": key, "operator": operator, "values": values});
    let mut requirements = vec![
        requirement(&("karpenter.sh/capacity-type", "In", vec!["on-demand"])),
        requirement(&("kubernetes.io/os", "In", vec!["linux"])),
    ];
    requirements.extend(asked.iter().map(requirement));
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": "default", "uid": "uid-pool", "creationTimestamp": BORN, "generation": 1},
        "spec": {"template": {"spec": {
            "requirements": requirements,
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": CLASS},
        }}},
        "status": {"nodes": 0},
    })
}

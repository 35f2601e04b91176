//! Objects of a workload in the form of the API server.

use serde_json::{Value, json};

const BORN: &str = "2026-11-01T00:00:00Z";
const CLASS: &str = "default";
const GPU: &str = "nvidia.com/gpu";
const TEAM: &str = "team";

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
    /// Number of GPUs, of any manufacturer that a NodePool offers.
    pub gpus: u64,
    /// Constraints on its places.
    pub rules: Vec<Rule>,
}

/// Topology of a constraint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Each node.
    Host,
    /// Each zone.
    Zone,
}

/// Constraint on the places of a Deployment's pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Topology spread with `DoNotSchedule` and this `maxSkew`.
    Spread(Key, u32),
    /// Topology spread with `ScheduleAnyway` and `maxSkew` 1.
    PrefersSpread(Key),
    /// Required anti-affinity of the pods to each other.
    Apart(Key),
    /// Preferred anti-affinity of the pods to each other.
    PrefersApart(Key),
    /// Required affinity to pods of this owner.
    Near(Key, &'static str),
    /// A host port.
    Port(u16),
    /// Only nodes with this value of the label `team`.
    Team(&'static str),
}

/// NodePool of a workload.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Name of the NodePool.
    pub name: &'static str,
    /// Requirements in addition to on-demand Linux: key, operator, values.
    pub requirements: Vec<(&'static str, &'static str, Vec<&'static str>)>,
    /// Value of the label `team` of its nodes.
    pub team: Option<&'static str>,
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
        let mut spec = json!({
            "containers": [container(self.cpu, self.memory)],
            "restartPolicy": "Always", "schedulerName": "default-scheduler",
        });
        if self.gpus > 0 {
            spec["containers"][0]["resources"]["requests"][GPU] = Value::from(self.gpus.to_string());
            spec["containers"][0]["resources"]["limits"] = json!({GPU: self.gpus.to_string()});
        }
        self.rules.iter().for_each(|rule| rule.add_to(&mut spec, &self.name));
        spec
    }
}

impl Rule {
    /// Adds the rule to the specification of a pod with this value of the label `app`.
    fn add_to(self, spec: &mut Value, app: &str) {
        let pods = |app: &str| json!({"matchLabels": {"app": app}});
        let term = |key: Key, app: &str| json!({"labelSelector": pods(app), "topologyKey": key.label()});
        let spread = |key: Key, skew: u32, action: &str| json!({"maxSkew": skew, "topologyKey": key.label(), "whenUnsatisfiable": action, "labelSelector": pods(app)});
        const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
        const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
        match self {
            Self::Spread(key, skew) => {
                append(&mut spec["topologySpreadConstraints"], spread(key, skew, "DoNotSchedule"))
            }
            Self::PrefersSpread(key) => {
                append(&mut spec["topologySpreadConstraints"], spread(key, 1, "ScheduleAnyway"))
            }
            Self::Apart(key) => append(&mut spec["affinity"]["podAntiAffinity"][REQUIRED], term(key, app)),
            Self::PrefersApart(key) => append(
                &mut spec["affinity"]["podAntiAffinity"][PREFERRED],
                json!({"weight": 100, "podAffinityTerm": term(key, app)}),
            ),
            Self::Near(key, other) => append(&mut spec["affinity"]["podAffinity"][REQUIRED], term(key, other)),
            Self::Port(port) => append(
                &mut spec["containers"][0]["ports"],
                json!({"containerPort": port, "hostPort": port, "protocol": "TCP"}),
            ),
            Self::Team(team) => spec["nodeSelector"][TEAM] = Value::from(team),
        }
    }
}

impl Key {
    fn label(self) -> &'static str {
        match self {
            Self::Host => "kubernetes.io/hostname",
            Self::Zone => "topology.kubernetes.io/zone",
        }
    }
}

/// Appends to an array, which begins to exist with its first element.
fn append(array: &mut Value, element: Value) {
    match array.as_array_mut() {
        Some(elements) => elements.push(element),
        None => *array = Value::from(vec![element]),
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

impl Pool {
    /// Returns the NodePool `default` without a team.
    #[must_use]
    pub fn only(requirements: Vec<(&'static str, &'static str, Vec<&'static str>)>) -> Vec<Self> {
        vec![Self { name: "default", requirements, team: None }]
    }

    /// Returns the NodePool: on-demand Linux, and its own requirements.
    pub(super) fn object(&self) -> Value {
        let requirement = |(key, operator, values): &(&str, &str, Vec<&str>)| json!({"key": key, "operator": operator, "values": values});
        let mut requirements = vec![
            requirement(&("karpenter.sh/capacity-type", "In", vec!["on-demand"])),
            requirement(&("kubernetes.io/os", "In", vec!["linux"])),
        ];
        requirements.extend(self.requirements.iter().map(requirement));
        let labels = self.team.map_or_else(|| json!({}), |team| json!({TEAM: team}));
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {
                "name": self.name, "uid": format!("uid-pool-{}", self.name), "creationTimestamp": BORN, "generation": 1,
            },
            "spec": {"template": {"metadata": {"labels": labels}, "spec": {
                "requirements": requirements,
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": CLASS},
            }}},
            "status": {"nodes": 0},
        })
    }
}

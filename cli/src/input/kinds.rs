//! Kinds that a plan depends on, and errors for other kinds.

use std::fmt;

use serde_json::Value;

use super::error::{InputError, Place};

/// Kinds that a plan depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each is the Kubernetes kind of its name")]
pub enum Kind {
    EC2NodeClass,
    NodePool,
    NodeOverlay,
    NodeClaim,
    CapacityBuffer,
    ProvisioningRequest,
    SpendPolicy,
    Commitment,
    Node,
    NodeUsage,
    Pod,
    PodTemplate,
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
    PodDisruptionBudget,
    PersistentVolumeClaim,
    PersistentVolume,
    StorageClass,
    CSINode,
    Namespace,
    LimitRange,
    RuntimeClass,
    PriorityClass,
}

/// Group, version and scope (`true` for namespaced) of each kind.
const KNOWN: [(Kind, &str, &str, bool); 26] = [
    (Kind::EC2NodeClass, "karpenter.k8s.aws", "v1", false),
    (Kind::NodePool, "karpenter.sh", "v1", false),
    (Kind::NodeOverlay, "karpenter.sh", "v1alpha1", false),
    (Kind::NodeClaim, "karpenter.sh", "v1", false),
    (Kind::CapacityBuffer, "autoscaling.x-k8s.io", "v1beta1", true),
    (Kind::ProvisioningRequest, "autoscaling.x-k8s.io", "v1", true),
    (Kind::SpendPolicy, "kerf.sh", "v1alpha1", false),
    (Kind::Commitment, "kerf.sh", "v1alpha1", false),
    (Kind::Node, "", "v1", false),
    (Kind::NodeUsage, "kerf.sh", "v1alpha1", false),
    (Kind::Pod, "", "v1", true),
    (Kind::PodTemplate, "", "v1", true),
    (Kind::Deployment, "apps", "v1", true),
    (Kind::ReplicaSet, "apps", "v1", true),
    (Kind::StatefulSet, "apps", "v1", true),
    (Kind::DaemonSet, "apps", "v1", true),
    (Kind::Job, "batch", "v1", true),
    (Kind::PodDisruptionBudget, "policy", "v1", true),
    (Kind::PersistentVolumeClaim, "", "v1", true),
    (Kind::PersistentVolume, "", "v1", false),
    (Kind::StorageClass, "storage.k8s.io", "v1", false),
    (Kind::CSINode, "storage.k8s.io", "v1", false),
    (Kind::Namespace, "", "v1", false),
    (Kind::LimitRange, "", "v1", true),
    (Kind::RuntimeClass, "node.k8s.io", "v1", false),
    (Kind::PriorityClass, "scheduling.k8s.io", "v1", false),
];

/// Kinds of Karpenter before v1, with their groups; `kerf convert` converts them into current kinds.
const OLDER: [(&str, &str); 4] = [
    ("karpenter.sh", "Provisioner"),
    ("karpenter.sh", "Machine"),
    ("karpenter.k8s.aws", "AWSNodeTemplate"),
    ("karpenter.k8s.aws", "AWSNodeTemplateList"),
];

impl Kind {
    /// Reports whether objects of the kind are namespaced.
    #[must_use]
    pub fn is_namespaced(self) -> bool {
        KNOWN.iter().any(|(kind, _, _, namespaced)| *kind == self && *namespaced)
    }

    fn find(group: &str, name: &str) -> Option<(Self, &'static str)> {
        let row = KNOWN.iter().find(|(kind, known, ..)| *known == group && kind.to_string() == name)?;
        Some((row.0, row.2))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self:?}")
    }
}

/// Treatment of a document.
pub(super) enum Verdict {
    /// Use it as an object of this kind.
    Known(Kind),
    /// Use each of these items.
    List(Vec<Value>),
    /// Ignore it; `what` is its kind with its group.
    Ignored {
        /// Kind and group, such as `Service` or `ScaledObject.keda.sh`.
        what: String,
    },
}

/// Classifies a document by its `apiVersion` and `kind`.
pub(super) fn verdict(place: &Place, value: &Value) -> Result<Verdict, InputError> {
    let text = |field: &str| value[field].as_str().filter(|text| !text.is_empty());
    let (Some(api_version), Some(kind)) = (text("apiVersion"), text("kind")) else {
        let problem = "not a Kubernetes object: apiVersion or kind is missing";
        return Err(InputError::new(place, problem, "add both, or remove the file"));
    };
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if let Some((kind, served)) = Kind::find(group, kind) {
        if served == version {
            return Ok(Verdict::Known(kind));
        }
        return Err(other_version(place, value, api_version, kind, served));
    }
    if let Some((kind, api_version)) = moved(group, kind) {
        let problem = format!("{kind} {}: apiVersion: group {group} was removed from Kubernetes", name(value));
        return Err(InputError::new(place, problem, format!("write it as {api_version}")));
    }
    if OLDER.contains(&(group, kind)) {
        return Err(older(place, value, api_version, kind));
    }
    match value["items"].as_array() {
        Some(items) if kind.ends_with("List") => Ok(Verdict::List(items_of(items, api_version, kind))),
        None if kind.ends_with("List") && value.get("items").is_some() => Ok(Verdict::List(Vec::new())),
        _ => Ok(Verdict::Ignored { what: full_kind(group, kind) }),
    }
}

/// Returns the items of a List. Items of a typed list may omit `apiVersion` and `kind`.
fn items_of(items: &[Value], api_version: &str, kind: &str) -> Vec<Value> {
    let mut items = items.to_vec();
    let own = kind.strip_suffix("List").filter(|own| !own.is_empty());
    for item in items.iter_mut().filter_map(Value::as_object_mut) {
        if let Some(own) = own {
            item.entry("apiVersion").or_insert_with(|| api_version.into());
            item.entry("kind").or_insert_with(|| own.into());
        }
    }
    items
}

/// Returns the current API of a workload from the removed group `extensions`.
fn moved(group: &str, kind: &str) -> Option<(Kind, String)> {
    let row =
        KNOWN.iter().find(|(known, to, ..)| group == "extensions" && *to == "apps" && known.to_string() == kind)?;
    Some((row.0, format!("{}/{}", row.1, row.2)))
}

fn name(value: &Value) -> &str {
    value["metadata"]["name"].as_str().unwrap_or_default()
}

fn full_kind(group: &str, kind: &str) -> String {
    if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") }
}

fn older(place: &Place, value: &Value, api_version: &str, kind: &str) -> InputError {
    let name = name(value);
    let problem = format!("{kind} {name}: version {api_version} is older than v1");
    InputError::new(place, problem, format!("convert it with `kerf convert {}`", place.file))
}

fn other_version(place: &Place, value: &Value, api_version: &str, kind: Kind, served: &str) -> InputError {
    if matches!(kind, Kind::NodePool | Kind::NodeClaim | Kind::EC2NodeClass) {
        return older(place, value, api_version, &kind.to_string());
    }
    let name = name(value);
    let group = api_version.split_once('/').map(|(group, _)| format!("{group}/")).unwrap_or_default();
    let problem = format!("{kind} {name}: apiVersion: unsupported version {api_version}");
    InputError::new(place, problem, format!("write it as {group}{served}"))
}

//! Pods, with the fields that Kerf uses, and functions that interpret their state for scheduling.

pub(super) mod container;
pub(super) mod group;
pub(super) mod priority;
pub(super) mod requests;
pub(super) mod resize;
pub(super) mod shared_spec;
pub(super) mod surge;
pub(super) mod template;

use std::collections::BTreeMap;

use container::{Container, ContainerStatus, HostPort, ResourceRequirements, RestartPolicy};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube_derive::Resource;
use priority::PreemptionPolicy;
use serde::{Deserialize, Serialize};
use shared_spec::SharedPodSpec;

use super::ResourceList;
use super::affinity::Affinity;
use super::meta::{nullable, slim};
use super::selector::LabelSelector;
use super::volume::{AwsElasticBlockStore, PersistentVolumeClaimSpec};
use crate::names::{annotation, condition, label, reason};
use crate::resources::taint::{self, Taint};
use crate::units::duration::{InvalidSpan, nanos, span};

/// Pod.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::core::v1::Pod", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct Pod {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Specification of the pod.
    pub spec: SharedPodSpec,
    /// Observed state of the pod.
    pub status: PodStatus,
}

/// Specification of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// Node of a template. The node of a pod is in its [`SharedPodSpec`], and this field is empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node_name: String,
    /// Labels that the node of the pod must have.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Affinity to nodes and to other pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Taints that the pod tolerates.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Containers that run concurrently.
    #[serde(deserialize_with = "nullable")]
    pub containers: Vec<Container>,
    /// Init containers, which run one after another before the containers. Restartable ones (sidecars) keep running.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub init_containers: Vec<Container>,
    /// Resources that the runtime needs in addition to the containers.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "ResourceList::is_empty")]
    pub overhead: ResourceList,
    /// Resources of the pod as a whole, which replace the sum of the containers, by resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Constraints that spread pods over domains.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// Volumes. A volume without a claim keeps only its name.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Volume>,
    /// Gates that keep the scheduler from considering the pod.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub scheduling_gates: Vec<SchedulingGate>,
    /// Devices that the pod claims by name, in addition to its resources.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub resource_claims: Vec<PodResourceClaim>,
    /// Priority as a number; a greater number is a higher priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Name of the PriorityClass.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub priority_class_name: String,
    /// Permission of the pod to preempt others. `None`: the scheduler's default, `PreemptLowerPriority`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption_policy: Option<PreemptionPolicy>,
    /// Name of the RuntimeClass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_class_name: Option<Box<str>>,
    /// Grace period of the pod's termination, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub termination_grace_period_seconds: Option<i64>,
    /// Scheduler that binds the pod.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub scheduler_name: String,
    /// True if the pod uses the network of its node.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub host_network: bool,
    /// Containers that are started again after their end.
    #[serde(skip_serializing_if = "RestartPolicy::is_always")]
    pub restart_policy: RestartPolicy,
}

impl PodSpec {
    /// Returns the ports that the pod occupies on its node, sorted and without duplicates. Ports of containers and sidecars
    /// count. Other init containers have ended before the pod serves.
    #[must_use]
    pub fn host_ports(&self) -> Vec<HostPort> {
        let sidecars = self.init_containers.iter().filter(|container| container.is_sidecar());
        let ports = self.containers.iter().chain(sidecars).flat_map(|container| &container.ports);
        let mut occupied: Vec<_> = ports.filter_map(|port| port.on_node(self.host_network)).collect();
        occupied.sort();
        occupied.dedup();
        occupied
    }
}

/// Toleration of taints.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    /// Key of the taint. Empty with `Exists`: all keys.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// Operator: `Exists` or `Equal`. Empty means `Equal`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub operator: String,
    /// Value of the taint.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// Effect of the taint. Empty: all effects.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub effect: String,
    /// Seconds for which a NoExecute taint is tolerated. Absent: without limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

impl Toleration {
    /// Reports whether this toleration tolerates the taint.
    #[must_use]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let exists = self.operator == "Exists";
        let effect = self.effect.is_empty() || self.effect == taint.effect;
        let key = self.key == taint.key || (self.key.is_empty() && exists);
        effect && key && (exists || self.value == taint.value())
    }
}

/// Constraint that spreads pods over domains.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologySpreadConstraint {
    /// Maximum difference in pods between any domain and the domain with the fewest pods.
    pub max_skew: i32,
    /// Node label. Nodes with the same value form one domain.
    pub topology_key: String,
    /// Effect of a violation: `DoNotSchedule` or `ScheduleAnyway`.
    pub when_unsatisfiable: String,
    /// Counted pods. Absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Minimum number of domains. With fewer domains the global minimum counts as 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_domains: Option<i32>,
    /// Policy for the pod's node affinity: `Honor` (default) counts only nodes that match the affinity, `Ignore` counts all
    /// nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity_policy: Option<String>,
    /// Policy for node taints: `Honor` counts only nodes whose taints the pod tolerates, `Ignore` (default) counts all nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_taints_policy: Option<String>,
    /// Label keys of the pod itself. Counted pods must have the same values.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub match_label_keys: Vec<String>,
}

/// Volume of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    /// Name of the volume in the pod.
    pub name: String,
    /// Existing PersistentVolumeClaim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim: Option<PersistentVolumeClaimSource>,
    /// PersistentVolumeClaim that is created for the pod, named `<pod>-<volume>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ephemeral: Option<EphemeralVolume>,
    /// EBS volume in the pod's own specification, in the form that preceded CSI drivers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws_elastic_block_store: Option<Box<AwsElasticBlockStore>>,
}

impl Volume {
    /// Reports whether the volume may have to be attached to the node of the pod. Other volumes do not matter for scheduling.
    #[must_use]
    pub fn may_attach(&self) -> bool {
        self.persistent_volume_claim.is_some() || self.ephemeral.is_some() || self.aws_elastic_block_store.is_some()
    }
}

/// Reference to a PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeClaimSource {
    /// Name of the claim, in the namespace of the pod.
    pub claim_name: String,
}

/// PersistentVolumeClaim that is created for the pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EphemeralVolume {
    /// Template of the claim. The state of the claim is in the claim itself. Boxed, because few pods have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_claim_template: Option<Box<VolumeClaimTemplate>>,
}

/// Template of the claim of an ephemeral volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeClaimTemplate {
    /// Specification of the claim.
    pub spec: PersistentVolumeClaimSpec,
}

/// Device that a pod claims.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodResourceClaim {
    /// Name of the claim in the pod.
    pub name: String,
}

/// Gate that keeps the scheduler from considering a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulingGate {
    /// Name of the gate.
    pub name: String,
}

/// Observed state of a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// Phase: `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Conditions of the pod.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<PodCondition>,
    /// Node on which the scheduler preempts pods for this one, or on which another program expects the pod. Empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub nominated_node_name: String,
    /// Time at which kubelet accepted the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// Resources that kubelet has allocated to each container, and since when the container runs.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub container_statuses: Vec<ContainerStatus>,
    /// Time since which all containers run, where their statuses were removed to save memory.
    #[serde(skip)]
    pub containers_started: Option<Timestamp>,
}

/// Condition of a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCondition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub type_: String,
    /// Status: `True`, `False` or `Unknown`.
    pub status: String,
    /// Reason in CamelCase.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Time of the last change of `status`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

impl Pod {
    /// Returns the name of the pod, empty only in objects that did not come from an API server.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Returns the namespace of the pod, empty only in objects that did not come from an API server.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Returns the value of an annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// Returns the condition of this type.
    #[must_use]
    pub fn condition(&self, type_: &str) -> Option<&PodCondition> {
        self.status.conditions.iter().find(|c| c.type_ == type_)
    }

    /// Reports whether kubelet reports Ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.condition(condition::READY).is_some_and(|c| c.status == condition::TRUE)
    }

    /// Returns the time since which all containers run; `None` while one does not.
    #[must_use]
    pub fn containers_started(&self) -> Option<Timestamp> {
        let all = self.spec.containers.iter().map(|container| {
            let status = self.status.container_statuses.iter().find(|status| status.name == container.name)?;
            status.state.as_ref()?.running.as_ref()?.started_at.as_ref().map(|time| time.0)
        });
        self.status.containers_started.or_else(|| all.collect::<Option<Vec<_>>>()?.into_iter().max())
    }

    /// Reports whether the pod has completed and uses no resources any more.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Reports whether no container of the pod has ever run. The API server evicts such a pod regardless of its budgets.
    #[must_use]
    pub fn has_never_run(&self) -> bool {
        self.status.phase == "Pending"
    }

    /// Reports whether the deletion of the pod was requested.
    #[must_use]
    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Reports whether the pod is bound to a Node.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        !self.spec.node_name.is_empty()
    }

    /// Returns the owner that controls the pod.
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerReference> {
        let owners = self.metadata.owner_references.as_ref()?;
        owners.iter().find(|o| o.controller == Some(true))
    }

    /// Returns the ReplicaSet of a Deployment that owns the pod.
    #[must_use]
    pub fn replica_set(&self) -> Option<&OwnerReference> {
        let labelled =
            self.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(label::POD_TEMPLATE_HASH));
        self.controller().filter(|owner| labelled && owner.kind == "ReplicaSet" && owner.api_version == "apps/v1")
    }

    /// Reports whether a DaemonSet owns the pod.
    #[must_use]
    pub fn is_daemon(&self) -> bool {
        self.is_owned_by("apps/v1", "DaemonSet")
    }

    /// Reports whether a StatefulSet owns the pod.
    #[must_use]
    pub fn is_stateful(&self) -> bool {
        self.is_owned_by("apps/v1", "StatefulSet")
    }

    /// Reports whether the pod is static: the Node owns it, or it is the mirror pod of a manifest on the node.
    #[must_use]
    pub fn is_static(&self) -> bool {
        self.is_owned_by("v1", "Node") || self.annotation(annotation::MIRROR_POD).is_some()
    }

    /// Reports whether the pod could be evicted now if no PodDisruptionBudget prevented it. Terminal, terminating and static
    /// pods are not evictable, nor are pods that tolerate the disruption taint or are do-not-disrupt at `now`.
    #[must_use]
    pub fn is_evictable(&self, now: Timestamp) -> bool {
        let disrupted = Taint::new(taint::DISRUPTED, taint::NO_SCHEDULE);
        !self.is_terminal()
            && !self.is_terminating()
            && !self.is_static()
            && !self.spec.tolerations.iter().any(|toleration| toleration.tolerates(&disrupted))
            && !self.is_do_not_disrupt(now)
    }

    /// Returns the deletion cost of the pod (`controller.kubernetes.io/pod-deletion-cost`); 0 if the annotation is absent or
    /// invalid.
    #[must_use]
    pub fn deletion_cost(&self) -> i32 {
        self.annotation(annotation::POD_DELETION_COST).and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    fn is_owned_by(&self, api_version: &str, kind: &str) -> bool {
        let owners = self.metadata.owner_references.as_deref();
        owners.unwrap_or_default().iter().any(|o| o.api_version == api_version && o.kind == kind)
    }

    /// Reports whether the scheduler found no node for the pod, so that only a new node can help.
    ///
    /// The name of the scheduler does not matter. Gated pods have another reason. Pods of DaemonSets and of Nodes come with
    /// their node. A preemption in progress shows in the nominated node of the pod, not here.
    #[must_use]
    pub fn is_unschedulable(&self) -> bool {
        let refused = self.condition(condition::POD_SCHEDULED).is_some_and(|c| c.reason == reason::UNSCHEDULABLE);
        refused
            && !self.is_bound()
            && !self.is_terminal()
            && !self.is_terminating()
            && !self.is_daemon()
            && !self.is_static()
    }

    /// Reports whether the scheduler has not considered the pod yet.
    #[must_use]
    pub fn is_awaiting_scheduler(&self) -> bool {
        self.condition(condition::POD_SCHEDULED).is_none()
            && !self.is_bound()
            && !self.is_terminal()
            && !self.is_terminating()
            && !self.is_daemon()
            && !self.is_static()
    }
    /// Reports whether voluntary disruption of the pod is forbidden at `now`. The annotation is `true`, or a positive duration
    /// since the start of the pod that has not passed. Any other text protects nothing.
    #[must_use]
    pub fn is_do_not_disrupt(&self, now: Timestamp) -> bool {
        let text = self.annotation(annotation::DO_NOT_DISRUPT);
        let started = self.status.start_time.as_ref().map_or(now, |at| at.0);
        text == Some(annotation::TRUE)
            || text.and_then(protection).is_some_and(|lasts| now.duration_since(started) < lasts)
    }

    /// Returns the time since when a running pod works towards its end, as pods of Jobs do. An eviction loses this work. Returns
    /// `None` for services, whose containers always restart.
    #[must_use]
    pub fn works_since(&self) -> Option<Timestamp> {
        let ends = self.spec.restart_policy != RestartPolicy::Always;
        self.status.start_time.as_ref().filter(|_| ends).map(|at| at.0)
    }

    /// Returns the end of a protection that is active at `now`. Returns `None` if no protection is active, if it has no end, or
    /// if the pod has not started.
    #[must_use]
    pub fn protected_until(&self, now: Timestamp) -> Option<Timestamp> {
        let lasts = protection(self.annotation(annotation::DO_NOT_DISRUPT)?)?;
        let end = self.status.start_time.as_ref()?.0.checked_add(lasts).ok()?;
        (end > now).then_some(end)
    }

    /// Returns the value of the annotation `karpenter.sh/do-not-disrupt` if it is neither `true`, `false` nor a positive
    /// duration. Such a value protects nothing. The value `false` protects nothing either, but deliberately.
    #[must_use]
    pub fn misread_do_not_disrupt(&self) -> Option<&str> {
        let text = self.annotation(annotation::DO_NOT_DISRUPT)?;
        let known = [annotation::TRUE, annotation::FALSE].contains(&text) || protection(text).is_some();
        (!known).then_some(text)
    }

    /// Returns the time until which the pod is not moved to save money: its start plus the duration in
    /// `kerf.sh/disrupt-at-most-once-per`. A moved pod starts anew, so pods need no record, and a restart of the controller
    /// loses nothing.
    ///
    /// # Errors
    /// Returns an error if the annotation is not a duration of 0 or more.
    pub fn rests_until(&self) -> Result<Option<Timestamp>, InvalidSpan> {
        let Some(text) = self.annotation(annotation::DISRUPT_AT_MOST_ONCE_PER) else { return Ok(None) };
        let period = SignedDuration::from_nanos(span(text)?);
        let started = self.status.start_time.as_ref().or(self.metadata.creation_timestamp.as_ref());
        Ok(started.and_then(|at| at.0.checked_add(period).ok()))
    }
}

/// Returns the duration for which a text protects.
fn protection(text: &str) -> Option<SignedDuration> {
    nanos(text).ok().filter(|nanos| *nanos > 0).map(SignedDuration::from_nanos)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(annotations: Value, started: Option<&str>) -> Pod {
        let status = started.map_or_else(|| json!({}), |at| json!({"startTime": at}));
        let metadata = json!({"name": "web", "creationTimestamp": "2026-01-01T11:00:00Z", "annotations": annotations});
        serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap()
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// Rows: annotation, start of the pod, protection at noon, end of the protection, and true if the value is reported as
    /// invalid.
    #[test]
    fn do_not_disrupt_protects_for_true_or_a_duration() {
        let rows = [
            ("true", Some("11:00"), true, None, false),
            ("false", Some("11:00"), false, None, false),
            ("2h", Some("11:00"), true, Some("13:00"), false),
            ("1h", Some("11:00"), false, None, false),
            ("2h", None, true, None, false),
            // A clock that was set back: the pod starts in an hour.
            ("2h", Some("13:00"), true, Some("15:00"), false),
            ("-4h", Some("11:00"), false, None, true),
            ("-4h", Some("20:00"), false, None, true),
            ("0s", Some("11:00"), false, None, true),
            ("soon", None, false, None, true),
            ("True", Some("11:00"), false, None, true),
            ("4", Some("11:00"), false, None, true),
            ("", Some("11:00"), false, None, true),
        ];
        let time = |time: &str| format!("2026-01-01T{time}:00Z");
        for (text, started, protects, until, reported) in rows {
            let pod = pod(json!({"karpenter.sh/do-not-disrupt": text}), started.map(time).as_deref());
            let now = at("2026-01-01T12:00:00Z");
            assert_eq!(pod.is_do_not_disrupt(now), protects, "{text} {started:?}");
            assert_eq!(pod.protected_until(now), until.map(|it| at(&time(it))), "{text} {started:?}");
            assert_eq!(pod.misread_do_not_disrupt(), reported.then_some(text), "{text}");
        }
        assert_eq!(pod(json!({}), None).misread_do_not_disrupt(), None);
    }

    #[test]
    fn rests_until_adds_the_duration_to_the_start() {
        let rests = |text: &str, started| pod(json!({"kerf.sh/disrupt-at-most-once-per": text}), started).rests_until();
        let started = Some("2026-01-01T11:30:00Z");
        assert_eq!(rests("1h", started), Ok(Some(at("2026-01-01T12:30:00Z"))));
        assert_eq!(
            rests("1h", None),
            Ok(Some(at("2026-01-01T12:00:00Z"))),
            "who has not started counts from its making"
        );
        assert_eq!(rests("0s", started), Ok(Some(at("2026-01-01T11:30:00Z"))));
        for text in ["-4h", "often", "Never"] {
            assert_eq!(rests(text, started), Err(InvalidSpan { text: text.to_owned() }));
        }
        assert_eq!(pod(json!({}), started).rests_until(), Ok(None));
    }
}

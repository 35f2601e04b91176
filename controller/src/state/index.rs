//! Cluster as the watches last reported it, with one table for each kind, and the triggers of each change.
//!
//! Tests add objects directly; nothing here does I/O.

mod context;
mod failure_times;
mod lookup;
mod pending_pods;
mod permissions;
mod relations;
mod shared;
mod table;
mod transitions;
mod triggers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::objects::{
    CSINode, DaemonSet, Deployment, LimitRange, Namespace, Node, NodeReport, PersistentVolume, PersistentVolumeClaim,
    Pod, PodDisruptionBudget, PodSpec, PodTemplate, PriorityClass, ReplicaSet, RuntimeClass, StatefulSet, StorageClass,
    VolumeAttachment,
};
use api::usage::Usage;
use api::{
    CapacityBuffer, Commitment, EC2NodeClass, NodeClaim, NodeOverlay, NodePool, ProvisioningRequest, Requirement,
    SpendPolicy,
};
use jiff::Timestamp;

pub use permissions::Permissions;
pub use table::{Key, Table, key_of};
pub use transitions::{ConditionOwner, ConditionView, ObjectEnd, OwnerLabels, Transition, Transitions};
pub use triggers::Indexed;

use crate::reconcile::work::Triggers;
use lookup::Lookup;
use pending_pods::PendingPods;
use relations::InstanceNames;
use shared::Interner;

/// All watched objects.
#[derive(Debug, Default)]
pub struct Index {
    /// Pods by `namespace/name`.
    pub pods: Table<Pod>,
    /// Nodes by name.
    pub nodes: Table<Node>,
    /// NodeClaims by name.
    pub claims: Table<NodeClaim>,
    /// NodePools by name.
    pub pools: Table<NodePool>,
    /// EC2NodeClasses by name.
    pub classes: Table<EC2NodeClass>,
    /// DaemonSets by `namespace/name`.
    pub daemonsets: Table<DaemonSet>,
    /// PodDisruptionBudgets by `namespace/name`.
    pub budgets: Table<PodDisruptionBudget>,
    /// VolumeAttachments by name.
    pub attachments: Table<VolumeAttachment>,
    /// PersistentVolumeClaims by `namespace/name`.
    pub volume_claims: Table<PersistentVolumeClaim>,
    /// PersistentVolumes by name.
    pub volumes: Table<PersistentVolume>,
    /// StorageClasses by name.
    pub storage_classes: Table<StorageClass>,
    /// CSINodes by name, which is the name of the Node.
    pub csi_nodes: Table<CSINode>,
    /// Namespaces by name.
    pub namespaces: Table<Namespace>,
    /// LimitRanges by `namespace/name`.
    pub limit_ranges: Table<LimitRange>,
    /// RuntimeClasses by name.
    pub runtime_classes: Table<RuntimeClass>,
    /// PriorityClasses by name.
    pub priority_classes: Table<PriorityClass>,
    /// NodeOverlays by name; empty while their gate is closed.
    pub overlays: Table<NodeOverlay>,
    /// CapacityBuffers by `namespace/name`; empty while their gate is closed, as all workloads that they refer to.
    pub buffers: Table<CapacityBuffer>,
    /// ProvisioningRequests by `namespace/name`; empty while their definition is not installed.
    pub requests: Table<ProvisioningRequest>,
    /// SpendPolicies by name; empty while their definition is not installed.
    pub spend_policies: Table<SpendPolicy>,
    /// Commitments by name; empty while their definition is not installed.
    pub commitments: Table<Commitment>,
    /// PodTemplates by `namespace/name`.
    pub pod_templates: Table<PodTemplate>,
    /// Deployments by `namespace/name`.
    pub deployments: Table<Deployment>,
    /// ReplicaSets by `namespace/name`.
    pub replica_sets: Table<ReplicaSet>,
    /// StatefulSets by `namespace/name`.
    pub stateful_sets: Table<StatefulSet>,
    /// NodeUsages by name, which is the name of the Node. No plan waits for them: without a report the utilization is unknown.
    pub usages: Table<NodeReport>,
    /// Optional permissions of the controller.
    pub permissions: Permissions,
    /// True if EC2 is emulated, for trials without AWS.
    pub is_ec2_emulated: bool,
    /// Transitions of conditions, and removed objects.
    pub turns: Transitions,
    /// Pods that kube-scheduler refused, by UID.
    waiting: PendingPods,
    /// Pods that kube-scheduler has not tried yet, by UID.
    awaiting_scheduler: PendingPods,
    pods_by_node: Lookup,
    nodes_by_provider: Lookup,
    /// Names of the instances that EC2 listed last.
    instance_names: InstanceNames,
    attachments_by_node: Lookup,
    claims_by_provider: Lookup,
    claims_by_instance: Lookup,
    claims_by_pool: Lookup,
    claims_by_class: Lookup,
    claims_by_launch: Lookup,
    pod_events: BTreeMap<String, Timestamp>,
    /// Shared requirements of NodeClaims.
    requirements: Interner<[Requirement]>,
    /// Shared specifications of pods.
    specs: Interner<PodSpec>,
}

impl Index {
    /// Applies one object. `live` is false while a watch replays existing objects.
    pub fn apply<K: Indexed>(&mut self, mut object: K, now: Timestamp, live: bool) -> Triggers {
        let before = K::table(self).get(&key_of(&object)).cloned();
        // A new list shows most objects again. Their stored copies stay, because snapshots and other tables hold them too.
        if before.as_ref().is_some_and(|before| table::same_version(before.as_ref(), &object)) {
            return Triggers::default();
        }
        object.slim();
        object.share(self);
        if let Some(before) = before.as_ref().filter(|_| live) {
            object.keep_known(before);
        }
        let object = Arc::new(object);
        if K::table_mut(self).put(Arc::clone(&object)).is_err() {
            return Triggers::default();
        }
        if let Some(speaker) = K::SPEAKER.filter(|_| live) {
            let said = before.as_deref().map(K::condition_views).unwrap_or_default();
            self.turns.note(speaker, object.meta(), &said, &object.condition_views(), now);
        }
        K::changed(self, before.as_deref(), Some(&object), now, live);
        let consequences = K::consequences(self, before.as_deref(), Some(&object));
        drop(before);
        self.drop_unused();
        consequences
    }

    /// Removes one object.
    pub fn delete<K: Indexed>(&mut self, key: &str, now: Timestamp) -> Triggers {
        let Some(before) = K::table_mut(self).remove(key) else { return Triggers::default() };
        let deleted = before.meta().deletion_timestamp.as_ref().filter(|_| !before.condition_views().is_empty());
        if let (Some(speaker), Some(deleted)) = (K::SPEAKER, deleted) {
            self.turns.end(speaker, before.meta(), deleted.0, now);
        }
        K::changed(self, Some(&before), None, now, true);
        let consequences = K::consequences(self, Some(&before), None);
        drop(before);
        self.drop_unused();
        consequences
    }

    /// Drops shared values that no object uses any more, now and then.
    fn drop_unused(&mut self) {
        self.requirements.note_change();
        self.specs.note_change();
    }

    /// Removes every object of a kind that a complete relist did not contain, and marks the table as synced.
    pub fn finish_relist<K: Indexed>(&mut self, seen: &BTreeSet<Key>, now: Timestamp) -> Triggers {
        let gone: Vec<Key> = K::table(self).keys().filter(|key| !seen.contains(*key)).cloned().collect();
        let mut all = Triggers::default();
        for key in gone {
            let one = self.delete::<K>(&key, now);
            all.work.extend(one.work);
            all.plan.extend(one.plan);
        }
        K::table_mut(self).mark_synced();
        all
    }

    /// Marks a kind without a watch as synced: it has no objects.
    pub fn do_without<K: Indexed>(&mut self) {
        K::table_mut(self).mark_synced();
    }

    /// Reports whether every table has been synced once.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.missing().is_empty()
    }

    /// Returns the kinds whose first list is not complete.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        let tables = [
            ("pods", self.pods.is_synced()),
            ("nodes", self.nodes.is_synced()),
            ("nodeclaims", self.claims.is_synced()),
            ("nodepools", self.pools.is_synced()),
            ("ec2nodeclasses", self.classes.is_synced()),
            ("daemonsets", self.daemonsets.is_synced()),
            ("poddisruptionbudgets", self.budgets.is_synced()),
            ("volumeattachments", self.attachments.is_synced()),
            ("persistentvolumeclaims", self.volume_claims.is_synced()),
            ("persistentvolumes", self.volumes.is_synced()),
            ("storageclasses", self.storage_classes.is_synced()),
            ("csinodes", self.csi_nodes.is_synced()),
            ("namespaces", self.namespaces.is_synced()),
            ("limitranges", self.limit_ranges.is_synced()),
            ("runtimeclasses", self.runtime_classes.is_synced()),
            ("priorityclasses", self.priority_classes.is_synced()),
            ("nodeoverlays", self.overlays.is_synced()),
            ("spendpolicies", self.spend_policies.is_synced()),
            ("commitments", self.commitments.is_synced()),
            ("provisioningrequests", self.requests.is_synced()),
            ("capacitybuffers", self.buffers.is_synced()),
            ("podtemplates", self.pod_templates.is_synced()),
            ("deployments", self.deployments.is_synced()),
            ("replicasets", self.replica_sets.is_synced()),
            ("statefulsets", self.stateful_sets.is_synced()),
        ];
        tables.iter().filter(|(_, synced)| !synced).map(|(name, _)| *name).collect()
    }

    /// Returns a pending pod by its UID: refused by kube-scheduler, or not tried yet.
    #[must_use]
    pub fn waiting_pod(&self, uid: &str) -> Option<&Arc<Pod>> {
        self.waiting.get(uid).or_else(|| self.awaiting_scheduler.get(uid))
    }

    /// Reports whether the pod with this UID is pending.
    #[must_use]
    pub fn waits(&self, uid: &str) -> bool {
        self.waiting_pod(uid).is_some()
    }

    /// Returns the pods that have no node yet: those that kube-scheduler refused, and those that it has not tried.
    pub fn pending_pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.waiting.values().chain(self.awaiting_scheduler.values())
    }

    /// Reports whether kube-scheduler has refused any pod.
    #[must_use]
    pub fn has_waiting_pods(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Reports whether kube-scheduler has not tried the pod with this UID yet.
    #[must_use]
    pub fn is_awaiting_scheduler(&self, uid: &str) -> bool {
        self.awaiting_scheduler.get(uid).is_some()
    }

    /// Returns the pods bound to a node.
    pub fn pods_on<'a>(&'a self, node: &str) -> impl Iterator<Item = &'a Arc<Pod>> {
        self.pods_by_node.keys(node).filter_map(|key| self.pods.get(key))
    }

    /// Reports whether pods run on a node, other than those of DaemonSets and of kubelet.
    #[must_use]
    pub fn is_in_use(&self, node: &str) -> bool {
        self.pods_on(node).any(|pod| !pod.is_daemon() && !pod.is_static() && !pod.is_terminal())
    }

    /// Returns the volumes that are still attached to a node and that no remaining pod uses.
    #[must_use]
    pub fn detaching(&self, node: &str) -> Vec<String> {
        let left = self.pods_on(node).filter(|pod| !pod.is_terminal());
        let used: BTreeSet<&str> = left.flat_map(|pod| self.volumes_of(pod)).collect();
        let attached = self.attachments_by_node.keys(node).filter_map(|key| self.attachments.get(key));
        let volumes = attached.map(|attachment| attachment.spec.source.persistent_volume_name.as_str());
        volumes.filter(|volume| !volume.is_empty() && !used.contains(volume)).map(str::to_owned).collect()
    }

    /// Returns the volumes to which a pod's claims are bound. The claim of an ephemeral volume has the name of pod and volume.
    fn volumes_of<'a>(&'a self, pod: &'a Pod) -> impl Iterator<Item = &'a str> {
        let claim = |volume: &api::objects::Volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(claim), _) => Some(claim.claim_name.clone()),
            (None, Some(_)) => Some(format!("{}-{}", pod.name(), volume.name)),
            (None, None) => None,
        };
        let claims = pod.spec.volumes.iter().filter_map(claim);
        let keys = claims.map(|claim| format!("{}/{claim}", pod.namespace()));
        keys.filter_map(|key| Some(self.volume_claims.get(&key)?.spec.volume_name.as_str()))
    }

    /// Returns the utilization of the node: its NodeUsage, if that is of the node's own instance and not stale.
    #[must_use]
    pub fn usage_of(&self, node: &Node, now: Timestamp) -> Option<&Usage> {
        let usage = &self.usages.get(node.name())?.usage;
        let instance = node.spec.provider_id.rsplit('/').next()?;
        (*usage.instance == *instance && usage.is_current(now)).then_some(usage)
    }

    /// Returns the NodeClaim of an instance, by instance id.
    #[must_use]
    pub fn claim_of_instance(&self, id: &str) -> Option<&Arc<NodeClaim>> {
        self.claims_by_instance.keys(id).find_map(|key| self.claims.get(key))
    }

    /// Returns the PodDisruptionBudgets that select a pod, in the order of their names.
    #[must_use]
    pub fn budgets_of(&self, pod: &Pod) -> Vec<&PodDisruptionBudget> {
        let budgets = self.budgets.starting_with(format!("{}/", pod.namespace()));
        budgets.map(Arc::as_ref).filter(|budget| budget.selects(pod)).collect()
    }

    /// Returns the NodePool of the NodeClaim, if it exists.
    #[must_use]
    pub fn pool_of(&self, claim: &NodeClaim) -> Option<&Arc<NodePool>> {
        self.pools.get(claim.nodepool())
    }

    /// Returns the NodeClaims of a NodePool, in the order of their names.
    pub fn claims_of_pool<'a>(&'a self, pool: &'a str) -> impl Iterator<Item = &'a Arc<NodeClaim>> {
        self.claims_by_pool.keys(pool).filter_map(|key| self.claims.get(key))
    }

    /// Returns the NodeClaims of an EC2NodeClass, in the order of their names.
    pub fn claims_of_class<'a>(&'a self, class: &'a str) -> impl Iterator<Item = &'a Arc<NodeClaim>> {
        self.claims_by_class.keys(class).filter_map(|key| self.claims.get(key))
    }

    /// Returns the NodeClaims with this launch token, in the order of their names.
    pub fn claims_of_launch<'a>(&'a self, token: &'a str) -> impl Iterator<Item = &'a Arc<NodeClaim>> {
        self.claims_by_launch.keys(token).filter_map(|key| self.claims.get(key))
    }

    /// Returns the time at which a pod last arrived on a node, left it or ended there, since the start of this process.
    #[must_use]
    pub fn last_pod_event(&self, node: &str) -> Option<Timestamp> {
        self.pod_events.get(node).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::{Index, Timestamp};
    use crate::provision::batcher::PlanTrigger;
    use crate::reconcile::work::WorkItem;
    use api::NodeClaim;
    use api::objects::Pod;
    use kube::api::ObjectMeta;

    fn claim(uid: &str, version: &str) -> NodeClaim {
        let metadata = ObjectMeta {
            name: Some("default-abc".to_owned()),
            uid: Some(uid.to_owned()),
            resource_version: Some(version.to_owned()),
            ..ObjectMeta::default()
        };
        NodeClaim { metadata, spec: api::NodeClaimSpec::default(), status: None }
    }

    fn version(index: &Index) -> Option<&str> {
        index.claims.get("default-abc")?.metadata.resource_version.as_deref()
    }

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    #[test]
    fn apply_ignores_an_older_version() {
        let mut index = Index::default();
        let first = index.apply(claim("a", "10"), NOW, true);
        assert!(first.work.contains(&WorkItem::Claim("default-abc".to_owned())));
        assert_eq!(index.apply(claim("a", "9"), NOW, true).work, []);
        assert_eq!(version(&index), Some("10"));
        assert_eq!(index.apply(claim("a", "10"), NOW, true).work, []);
    }

    #[test]
    fn apply_ignores_late_versions_of_deleted_objects() {
        let mut index = Index::default();
        drop(index.apply(claim("a", "10"), NOW, true));
        drop(index.delete::<NodeClaim>("default-abc", NOW));
        drop(index.apply(claim("a", "11"), NOW, true));
        assert_eq!(version(&index), None);
        drop(index.apply(claim("b", "12"), NOW, true));
        assert_eq!(version(&index), Some("12"));
    }

    #[test]
    fn delete_triggers_a_plan_when_the_claim_never_registered() {
        let registered = |status: &str| {
            let conditions = [crate::fixture::condition(api::condition::REGISTERED, status, 0)];
            crate::fixture::claim(&crate::fixture::status(&conditions)).as_ref().clone()
        };
        for (status, plan) in
            [("Unknown", vec![PlanTrigger::New("nodeclaim/default-1".to_owned())]), ("True", Vec::new())]
        {
            let mut index = Index::default();
            assert!(index.apply(registered(status), NOW, true).plan.is_empty());
            let asked = index.delete::<NodeClaim>("default-1", NOW).plan;
            assert_eq!(asked, [vec![PlanTrigger::Freed], plan].concat(), "Registered={status}");
        }
    }

    #[test]
    fn apply_triggers_a_plan_when_a_static_claim_is_deleted() {
        let claim = |version: &str, leaves: bool| {
            let moment = leaves.then(|| crate::fixture::at(9).to_string());
            let registered = [crate::fixture::condition(api::condition::REGISTERED, "True", 0)];
            let mut change = crate::fixture::status(&registered);
            let metadata = serde_json::json!({"resourceVersion": version, "deletionTimestamp": moment});
            crate::fixture::merge(&mut change, &serde_json::json!({"metadata": metadata}));
            crate::fixture::claim(&change).as_ref().clone()
        };
        for (replicas, plan) in
            [(Some(2), vec![PlanTrigger::New("nodeclaim/default-1".to_owned())]), (None, Vec::new())]
        {
            let mut index = Index::default();
            let pool = crate::fixture::pool(&serde_json::json!({"spec": {"replicas": replicas}}));
            drop(index.apply(pool.as_ref().clone(), NOW, true));
            assert!(index.apply(claim("7", false), NOW, true).plan.is_empty());
            assert_eq!(index.apply(claim("8", true), NOW, true).plan, plan, "{replicas:?}");
            assert!(index.apply(claim("9", true), NOW, true).plan.is_empty(), "once");
            let asked = index.delete::<NodeClaim>("default-1", NOW).plan;
            assert_eq!(asked, [vec![PlanTrigger::Freed], plan].concat(), "{replicas:?}");
        }
    }

    #[test]
    fn apply_triggers_freed_once_when_the_instance_terminates() {
        let claim = |version: &str, ends: &str| {
            let mut change = crate::fixture::status(&[
                crate::fixture::condition(api::condition::REGISTERED, "True", 0),
                crate::fixture::condition(api::condition::INSTANCE_TERMINATING, ends, 0),
            ]);
            let metadata = serde_json::json!({"metadata": {"resourceVersion": version}});
            crate::fixture::merge(&mut change, &metadata);
            crate::fixture::claim(&change).as_ref().clone()
        };
        let mut index = Index::default();
        assert!(index.apply(claim("7", "Unknown"), NOW, true).plan.is_empty());
        assert_eq!(index.apply(claim("8", "True"), NOW, true).plan, [PlanTrigger::Freed]);
        assert!(index.apply(claim("9", "True"), NOW, true).plan.is_empty());
        assert!(index.delete::<NodeClaim>("default-1", NOW).plan.is_empty());
    }

    #[test]
    fn apply_triggers_freed_when_consolidate_after_is_short() {
        let pod = |version: &str, change: serde_json::Value| {
            let mut all = serde_json::json!({"metadata": {"resourceVersion": version}, "spec": {"nodeName": "node-1"}});
            crate::fixture::merge(&mut all, &change);
            crate::fixture::pod(&all).as_ref().clone()
        };
        let ends = serde_json::json!({"metadata": {"deletionTimestamp": crate::fixture::at(9).to_string()}});
        let none = Vec::new();
        for (disruption, replicas, asked) in [
            (serde_json::json!({"consolidateAfter": "0s"}), None, vec![PlanTrigger::Freed]),
            (serde_json::json!({"consolidateAfter": "9s"}), None, vec![PlanTrigger::Freed]),
            (serde_json::json!({"consolidateAfter": "10s"}), None, none.clone()),
            (serde_json::json!({"consolidateAfter": "Never"}), None, none.clone()),
            (serde_json::json!({"consolidateAfter": "0s"}), Some(1), none.clone()),
        ] {
            let mut index = Index::default();
            let change = serde_json::json!({"spec": {"disruption": disruption, "replicas": replicas}});
            drop(index.apply(crate::fixture::pool(&change).as_ref().clone(), NOW, true));
            drop(index.apply(crate::fixture::claim(&crate::fixture::status(&[])).as_ref().clone(), NOW, true));
            drop(index.apply(crate::fixture::node(&serde_json::json!({})).as_ref().clone(), NOW, true));
            assert_eq!(index.apply(pod("7", serde_json::json!({})), NOW, true).plan, none, "it came");
            assert_eq!(index.apply(pod("8", ends.clone()), NOW, true).plan, asked, "it begins to end: {change}");
            assert_eq!(index.delete::<Pod>("default/web", NOW).plan, asked, "it is gone: {change}");
        }
    }

    #[test]
    fn apply_enqueues_claims_when_the_nodepool_template_changes() {
        let pool = |version: &str, change: serde_json::Value| {
            let mut all = serde_json::json!({"metadata": {"resourceVersion": version}});
            crate::fixture::merge(&mut all, &change);
            crate::fixture::pool(&all).as_ref().clone()
        };
        let claim = |version: &str, status: &str| {
            let mut change = crate::fixture::status(&[crate::fixture::condition(api::condition::DRIFTED, status, 0)]);
            let metadata = serde_json::json!({"metadata": {"resourceVersion": version}});
            crate::fixture::merge(&mut change, &metadata);
            crate::fixture::claim(&change).as_ref().clone()
        };
        let mut index = Index::default();
        drop(index.apply(pool("1", serde_json::json!({})), NOW, true));
        assert!(index.apply(claim("7", "False"), NOW, true).plan.is_empty());
        let item = WorkItem::Claim("default-1".to_owned());
        let heavier = serde_json::json!({"spec": {"weight": 3}});
        assert!(!index.apply(pool("2", heavier), NOW, true).work.contains(&item), "nothing that claims are made of");
        let labelled = serde_json::json!({"spec": {"template": {"metadata": {"labels": {"tier": "a"}}}}});
        assert!(index.apply(pool("3", labelled), NOW, true).work.contains(&item));
        let patient = serde_json::json!({"spec": {"disruption": {"consolidateAfter": "1h"}}});
        assert!(index.apply(pool("4", patient), NOW, true).work.contains(&item));
        assert_eq!(
            index.apply(claim("8", "True"), NOW, true).plan,
            [PlanTrigger::New("nodeclaim/default-1".to_owned())]
        );
        assert!(index.apply(claim("9", "True"), NOW, true).plan.is_empty(), "once");
    }

    #[test]
    fn apply_keeps_the_annotations_that_decisions_read() {
        let read = [
            api::annotation::DO_NOT_DISRUPT,
            api::annotation::DISRUPT_AT_MOST_ONCE_PER,
            api::annotation::POD_DELETION_COST,
            api::annotation::MIRROR_POD,
            api::annotation::ON_DEMAND_BASE,
            api::annotation::SPOT_SHARE,
            api::annotation::RESIZE,
            api::annotation::REQUESTED,
            api::annotation::GIVEN_BACK,
            api::annotation::SURGE,
            api::annotation::SURGED,
        ];
        let mut annotations: std::collections::BTreeMap<&str, &str> = read.iter().map(|key| (*key, "1")).collect();
        annotations.insert("example.com/notes", "many");
        let pod = crate::fixture::pod(&serde_json::json!({"metadata": {"annotations": annotations}}));
        let mut index = Index::default();
        drop(index.apply(pod.as_ref().clone(), NOW, true));
        let kept = index.pods.get("default/web").unwrap().metadata.annotations.clone().unwrap();
        assert_eq!(kept.len(), read.len(), "{kept:?}");
        assert!(read.iter().all(|key| kept.contains_key(*key)), "{kept:?}");
    }

    #[test]
    fn finish_relist_removes_objects_that_it_did_not_contain() {
        let mut index = Index::default();
        drop(index.apply(claim("a", "10"), NOW, false));
        let gone = index.finish_relist::<NodeClaim>(&std::collections::BTreeSet::new(), NOW);
        assert!(gone.work.contains(&WorkItem::Claim("default-abc".to_owned())));
        assert!(index.claims.is_empty() && index.claims.is_synced());
    }
}

//! Triggers of a change, by kind. Each rule is at the kind that changed.

use std::collections::BTreeSet;

use api::nodepool::NodeClaimTemplate;
use api::objects::{DaemonSet, Node, Pod, PodDisruptionBudget, Volume, VolumeAttachment};
use api::status::{Condition, Conditioned};
use api::timeline::AwaitedPod;
use api::{DurationText, EC2NodeClass, NodeClaim, NodePool, annotation, condition, label};
use jiff::Timestamp;
use kube::Resource;
use kube::api::ObjectMeta;

use super::failure_times::keep_failure_times;
use super::{ConditionOwner, ConditionView, Index, Table, key_of};
use crate::provision::batcher::{LOOK_AGAIN, PlanTrigger};
use crate::reconcile::work::{Triggers, WorkItem};

/// Kind that the index stores.
pub trait Indexed: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + Sync + 'static {
    /// Kind in the metrics of conditions, if its conditions are counted.
    const SPEAKER: Option<ConditionOwner> = None;
    /// Returns the table of the kind.
    fn table(index: &Index) -> &Table<Self>;
    /// Returns the table of the kind for changes.
    fn table_mut(index: &mut Index) -> &mut Table<Self>;
    /// Removes fields that the controller does not read: a large cluster has many objects with large metadata.
    fn slim(&mut self) {
        let meta = self.meta_mut();
        meta.managed_fields = None;
        keep_annotations(meta, |key| key != annotation::LAST_APPLIED);
    }
    /// Replaces parts that objects have in common by one shared copy.
    fn share(&mut self, _: &mut Index) {}
    /// Keeps facts of the version before, which the watch showed without a gap and this version lacks.
    fn keep_known(&mut self, _before: &Self) {}
    /// Returns the conditions, if they are counted.
    fn condition_views(&self) -> Vec<ConditionView<'_>> {
        Vec::new()
    }
    /// Updates data derived from the objects of the kind. Most kinds have none.
    fn changed(_: &mut Index, _before: Option<&Self>, _after: Option<&Self>, _now: Timestamp, _live: bool) {}
    /// Returns the work and the plans that the change triggers.
    fn consequences(index: &Index, before: Option<&Self>, after: Option<&Self>) -> Triggers;
}

/// Keeps annotations whose key is `wanted`.
pub(super) fn keep_annotations(meta: &mut ObjectMeta, wanted: impl Fn(&str) -> bool) {
    if let Some(annotations) = &mut meta.annotations {
        annotations.retain(|key, _| wanted(key));
        if annotations.is_empty() {
            meta.annotations = None;
        }
    }
}

fn condition_views(conditions: &[Condition]) -> Vec<ConditionView<'_>> {
    let said = conditions.iter();
    said.map(|Condition { type_, status, reason, last_transition_time, .. }| ConditionView {
        type_,
        status,
        reason,
        since: Some(last_transition_time.0),
    })
    .collect()
}

impl Indexed for Pod {
    fn table(index: &Index) -> &Table<Self> {
        &index.pods
    }

    fn table_mut(index: &mut Index) -> &mut Table<Self> {
        &mut index.pods
    }

    fn slim(&mut self) {
        const READ: [&str; 16] = [
            annotation::DO_NOT_DISRUPT,
            annotation::MIRROR_POD,
            annotation::ON_DEMAND_BASE,
            annotation::SPOT_SHARE,
            annotation::POD_DELETION_COST,
            annotation::DISRUPT_AT_MOST_ONCE_PER,
            annotation::RESIZE,
            annotation::REQUESTED,
            annotation::GIVEN_BACK,
            annotation::SURGE,
            annotation::SURGED,
            annotation::POD_GROUP,
            annotation::POD_GROUP_MIN,
            annotation::KUEUE_POD_GROUP_COUNT,
            annotation::CONSUMES_REQUEST,
            annotation::OLDER_CONSUMES_REQUEST,
        ];
        keep_annotations(&mut self.metadata, |key| READ.contains(&key));
        self.forget_usual_statuses();
        // Their names end with random letters, so that equal pods would have different specifications.
        self.spec.volumes.retain(Volume::may_attach);
    }

    fn share(&mut self, index: &mut Index) {
        self.spec.share(index.specs.share(self.spec.rest()));
    }

    fn changed(index: &mut Index, before: Option<&Self>, after: Option<&Self>, now: Timestamp, live: bool) {
        index.pods_by_node.update(before, after, node_name);
        let stored = after.and_then(|pod| index.pods.get(&key_of(pod)));
        index.waiting.update(before, stored, Self::is_unschedulable);
        index.awaiting_scheduler.update(before, stored, Self::is_awaiting_scheduler);
        if live && let Some(node) = event_node(before, after) {
            index.pod_events.insert(node.to_owned(), now);
        }
    }

    fn consequences(index: &Index, before: Option<&Self>, after: Option<&Self>) -> Triggers {
        let mut all = Triggers::default();
        all.plan.extend(after.and_then(|pod| asked_for(before, pod)));
        let forgotten = before.map(|pod| &pod.status.nominated_node_name).filter(|_| after.is_some_and(is_forgotten));
        let expecting = forgotten.and_then(|node| index.claim_of(index.nodes.get(node)?));
        all.work.extend(expecting.map(|claim| WorkItem::Claim(key_of(claim.as_ref()))));
        let nodes: BTreeSet<&str> = [before, after].into_iter().flatten().filter_map(node_name).collect();
        for node in nodes.into_iter().filter_map(|name| index.nodes.get(name)) {
            if node.metadata.deletion_timestamp.is_some() {
                all.work.push(WorkItem::Node(key_of(node.as_ref())));
            }
            let Some(claim) = index.claim_of(node) else { continue };
            if became_ready(before, after).is_some_and(|pod| AwaitedPod::from_claim(claim).is_some_and(|it| it.is(pod)))
            {
                all.work.push(WorkItem::Claim(key_of(claim.as_ref())));
            }
            if event_node(before, after).is_none() {
                continue;
            }
            all.work.push(WorkItem::Claim(key_of(claim.as_ref())));
            if !after.is_some_and(stays) && may_go_soon(index, claim) {
                all.plan.push(PlanTrigger::Freed);
            }
        }
        all
    }
}

/// Returns the pod if it became ready.
fn became_ready<'a>(before: Option<&Pod>, after: Option<&'a Pod>) -> Option<&'a Pod> {
    after.filter(|pod| pod.is_ready() && !before.is_some_and(Pod::is_ready))
}

/// Reports whether a pod is neither finished nor terminating.
fn stays(pod: &Pod) -> bool {
    !pod.is_terminal() && !pod.is_terminating()
}

/// Reports whether a node without its pods may be removed before the next periodic plan. With a longer `consolidateAfter`, the
/// periodic plan finds the moment. A node that is being deleted triggers a plan itself.
fn may_go_soon(index: &Index, claim: &NodeClaim) -> bool {
    let quiet = index.pool_of(claim).and_then(|pool| crate::reconcile::nodeclaim::quiet_time(pool));
    let goes = claim.metadata.deletion_timestamp.is_some();
    !goes && !is_static(index, claim) && quiet.is_some_and(|quiet| quiet < LOOK_AGAIN)
}

/// Returns the plan trigger of a pod's change.
fn asked_for(before: Option<&Pod>, after: &Pod) -> Option<PlanTrigger> {
    let owner = || after.controller().map_or_else(|| uid(after), |owner| owner.uid.clone());
    if before.is_none() && after.is_awaiting_scheduler() {
        return Some(PlanTrigger::Another { pod: uid(after), owner: owner() });
    }
    if !after.is_unschedulable() || is_nomination_change(before, after) {
        return None;
    }
    let again = before.is_some_and(|before| is_refused_again(before, after));
    Some(if again { PlanTrigger::Again } else { PlanTrigger::Refused { pod: uid(after), owner: owner() } })
}

fn uid(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}

/// Reports whether the pod is pending without a nomination in its status.
fn is_forgotten(pod: &Pod) -> bool {
    pod.is_unschedulable() && pod.status.nominated_node_name.is_empty()
}

/// Reports whether only the nomination of a pending pod changed, which requires no new decision of a plan.
fn is_nomination_change(before: Option<&Pod>, after: &Pod) -> bool {
    before.is_some_and(|before| {
        before.is_unschedulable() && before.status.nominated_node_name != after.status.nominated_node_name
    })
}

/// Reports whether a pending pod was refused again without a change.
fn is_refused_again(before: &Pod, after: &Pod) -> bool {
    before.is_unschedulable() && before.spec == after.spec && before.metadata.labels == after.metadata.labels
}

fn node_name(pod: &Pod) -> Option<&str> {
    Some(pod.spec.node_name.as_str()).filter(|name| !name.is_empty())
}

/// Returns the node with a pod event that affects consolidation: a pod (not of a DaemonSet) was bound, ended, began to
/// terminate or was removed.
fn event_node<'a>(before: Option<&'a Pod>, after: Option<&'a Pod>) -> Option<&'a str> {
    let pod = after.or(before)?;
    let node = node_name(pod)?;
    let state = |pod: &Pod| (pod.is_bound(), pod.is_terminal(), pod.is_terminating());
    let happened = before.map(state) != after.map(state);
    (happened && !pod.is_daemon()).then_some(node)
}

impl Indexed for Node {
    const SPEAKER: Option<ConditionOwner> = Some(ConditionOwner::Node);

    fn table(index: &Index) -> &Table<Self> {
        &index.nodes
    }

    fn table_mut(index: &mut Index) -> &mut Table<Self> {
        &mut index.nodes
    }

    fn keep_known(&mut self, before: &Self) {
        if self.metadata.uid == before.metadata.uid {
            keep_failure_times(self, before);
        }
    }

    fn condition_views(&self) -> Vec<ConditionView<'_>> {
        let ours = self.label(label::NODEPOOL).is_some();
        let conditions = self.status.conditions.iter().filter(|_| ours);
        // Each condition is compared with each, and a node may write ten thousand.
        let conditions = conditions.take(MOST_CONDITIONS);
        conditions
            .map(|it| ConditionView {
                type_: &it.type_,
                status: &it.status,
                reason: &it.reason,
                since: it.last_transition_time.as_ref().map(|moment| moment.0),
            })
            .collect()
    }

    fn changed(index: &mut Index, before: Option<&Self>, after: Option<&Self>, _: Timestamp, _: bool) {
        index
            .nodes_by_provider
            .update(before, after, |node| Some(node.spec.provider_id.as_str()).filter(|id| !id.is_empty()));
        if let (Some(node), None) = (before, after) {
            index.pod_events.remove(&key_of(node));
        }
    }

    fn consequences(index: &Index, before: Option<&Self>, after: Option<&Self>) -> Triggers {
        let mut all = Triggers::default();
        for node in [before, after].into_iter().flatten() {
            all.work.push(WorkItem::Node(key_of(node)));
            all.work.extend(index.claim_of(node).map(|claim| WorkItem::Claim(key_of(claim.as_ref()))));
        }
        if let (Some(node), None) = (before, after) {
            all.work.extend(index.usages.get(node.name()).map(|_| WorkItem::Usage(key_of(node))));
        }
        let leaving = |node: &Node| node.metadata.deletion_timestamp.is_some() || is_interrupted(node);
        if after.is_some_and(leaving) && !before.is_some_and(leaving) {
            all.plan.extend(after.map(|node| PlanTrigger::New(format!("node/{}", key_of(node)))));
        }
        all
    }
}

/// Maximum number of observed conditions of a node: more than kubelet, the agent and other monitors have together.
const MOST_CONDITIONS: usize = 100;

fn is_interrupted(node: &Node) -> bool {
    node.condition(condition::INTERRUPTED).is_some_and(|found| found.status == condition::TRUE)
}

impl Indexed for NodeClaim {
    const SPEAKER: Option<ConditionOwner> = Some(ConditionOwner::Claim);

    fn table(index: &Index) -> &Table<Self> {
        &index.claims
    }

    fn table_mut(index: &mut Index) -> &mut Table<Self> {
        &mut index.claims
    }

    fn share(&mut self, index: &mut Index) {
        self.spec.requirements = index.requirements.share(&self.spec.requirements);
    }

    fn condition_views(&self) -> Vec<ConditionView<'_>> {
        condition_views(self.conditions())
    }

    fn changed(index: &mut Index, before: Option<&Self>, after: Option<&Self>, _: Timestamp, _: bool) {
        index.claims_by_provider.update(before, after, NodeClaim::provider_id);
        index.claims_by_instance.update(before, after, NodeClaim::instance_id);
        index.claims_by_pool.update(before, after, |claim| Some(claim.nodepool()));
        index.claims_by_class.update(before, after, |claim| Some(claim.spec.node_class_ref.name.as_str()));
        index.claims_by_launch.update(before, after, NodeClaim::launch_token);
    }

    fn consequences(index: &Index, before: Option<&Self>, after: Option<&Self>) -> Triggers {
        let mut all = Triggers::default();
        for claim in [before, after].into_iter().flatten() {
            all.work.push(WorkItem::Claim(key_of(claim)));
            let class = index.classes.get(&claim.spec.node_class_ref.name);
            let ending = class.filter(|class| class.metadata.deletion_timestamp.is_some());
            all.work.extend(ending.map(|class| WorkItem::Class(key_of(class.as_ref()))));
            let pool = claim.metadata.labels.as_ref().and_then(|labels| labels.get(label::NODEPOOL));
            all.work.extend(pool.map(|pool| WorkItem::Pool(pool.clone())));
            let id = claim.provider_id().unwrap_or_default();
            all.work.extend(index.all_nodes_of(id).into_iter().map(|node| WorkItem::Node(key_of(node.as_ref()))));
            all.work.extend(index.move_of(claim).map(|id| WorkItem::Move(id.to_owned())));
        }
        if let Some(claim) = after.filter(|claim| !claim.is_true(condition::LAUNCHED)) {
            all.work.extend(claim.launch_token().map(|token| WorkItem::Launch(token.to_owned())));
        }
        all.work.dedup();
        let leaves = |claim: &Self| claim.metadata.deletion_timestamp.is_some();
        // A NodeClaim consumes the budget of its NodePool until its instance terminates.
        let counts = |claim: &Self| !claim.is_true(condition::INSTANCE_TERMINATING);
        if before.is_some_and(counts) && !after.is_some_and(counts) {
            all.plan.push(PlanTrigger::Freed);
        }
        match (before, after) {
            // The NodeClaim had no result: its pods should not wait for the next periodic plan.
            (Some(claim), None) if !claim.is_true(condition::REGISTERED) || is_static(index, claim) => {
                all.plan.push(PlanTrigger::New(format!("nodeclaim/{}", key_of(claim))));
            }
            // A static NodePool lacks a node from the moment of a deletion.
            (Some(old), Some(claim)) if leaves(claim) && !leaves(old) && is_static(index, claim) => {
                all.plan.push(PlanTrigger::New(format!("nodeclaim/{}", key_of(claim))));
            }
            // A drifted node may be disrupted at once, if budgets allow it.
            (Some(old), Some(claim)) if claim.is_true(condition::DRIFTED) && !old.is_true(condition::DRIFTED) => {
                all.plan.push(PlanTrigger::New(format!("nodeclaim/{}", key_of(claim))));
            }
            _ => {}
        }
        all
    }
}

/// Reports whether the NodeClaim's NodePool has a fixed number of nodes.
fn is_static(index: &Index, claim: &NodeClaim) -> bool {
    index.pool_of(claim).is_some_and(|pool| pool.spec.replicas.is_some())
}

/// Returns the fields of a NodePool whose change affects its NodeClaims at once.
fn followed(pool: &NodePool) -> (&NodeClaimTemplate, &DurationText, Option<i64>) {
    (&pool.spec.template, &pool.spec.disruption.consolidate_after, pool.spec.replicas)
}

impl Indexed for NodePool {
    const SPEAKER: Option<ConditionOwner> = Some(ConditionOwner::Pool);

    fn table(index: &Index) -> &Table<Self> {
        &index.pools
    }

    fn table_mut(index: &mut Index) -> &mut Table<Self> {
        &mut index.pools
    }

    fn condition_views(&self) -> Vec<ConditionView<'_>> {
        condition_views(self.conditions())
    }

    fn consequences(index: &Index, before: Option<&Self>, after: Option<&Self>) -> Triggers {
        let name = after.or(before).map(key_of).unwrap_or_default();
        let mut work = Vec::new();
        if before.map(followed) != after.map(followed) {
            work.extend(index.claims_of_pool(&name).map(|claim| WorkItem::Claim(key_of(claim.as_ref()))));
        }
        work.push(WorkItem::Pool(name.clone()));
        let spec = |pool: Option<&Self>| pool.map(|pool| (pool.spec.clone(), pool.is_true(condition::READY)));
        let plan =
            if spec(before) == spec(after) { Vec::new() } else { vec![PlanTrigger::New(format!("nodepool/{name}"))] };
        Triggers { work, plan }
    }
}

impl Indexed for EC2NodeClass {
    const SPEAKER: Option<ConditionOwner> = Some(ConditionOwner::Class);

    fn table(index: &Index) -> &Table<Self> {
        &index.classes
    }

    fn table_mut(index: &mut Index) -> &mut Table<Self> {
        &mut index.classes
    }

    fn condition_views(&self) -> Vec<ConditionView<'_>> {
        condition_views(self.conditions())
    }

    fn consequences(index: &Index, before: Option<&Self>, after: Option<&Self>) -> Triggers {
        let name = after.or(before).map(key_of).unwrap_or_default();
        let pools = index.pools.values().filter(|pool| pool.spec.template.spec.node_class_ref.name == name);
        let mut work: Vec<WorkItem> = pools.map(|pool| WorkItem::Pool(key_of(pool.as_ref()))).collect();
        // NodeClaims without an instance are deleted when the EC2NodeClass cannot launch.
        let unlaunched = index.claims_of_class(&name).filter(|claim| !claim.is_true(condition::LAUNCHED));
        work.extend(unlaunched.map(|claim| WorkItem::Claim(key_of(claim.as_ref()))));
        work.push(WorkItem::Class(name));
        Triggers { work, ..Triggers::default() }
    }
}

impl Indexed for DaemonSet {
    fn table(index: &Index) -> &Table<Self> {
        &index.daemonsets
    }

    fn table_mut(index: &mut Index) -> &mut Table<Self> {
        &mut index.daemonsets
    }

    fn consequences(index: &Index, _: Option<&Self>, _: Option<&Self>) -> Triggers {
        let work = index.pools.keys().cloned().map(WorkItem::Pool).collect();
        Triggers { work, ..Triggers::default() }
    }
}

impl Indexed for PodDisruptionBudget {
    fn table(index: &Index) -> &Table<Self> {
        &index.budgets
    }

    fn table_mut(index: &mut Index) -> &mut Table<Self> {
        &mut index.budgets
    }

    fn consequences(_: &Index, _: Option<&Self>, _: Option<&Self>) -> Triggers {
        Triggers::default()
    }
}

impl Indexed for VolumeAttachment {
    fn table(index: &Index) -> &Table<Self> {
        &index.attachments
    }

    fn table_mut(index: &mut Index) -> &mut Table<Self> {
        &mut index.attachments
    }

    fn changed(index: &mut Index, before: Option<&Self>, after: Option<&Self>, _: Timestamp, _: bool) {
        index.attachments_by_node.update(before, after, |attachment| Some(attachment.spec.node_name.as_str()));
    }

    fn consequences(index: &Index, before: Option<&Self>, after: Option<&Self>) -> Triggers {
        let name = after.or(before).map(|attachment| attachment.spec.node_name.as_str()).unwrap_or_default();
        let leaving = index.nodes.get(name).filter(|node| node.metadata.deletion_timestamp.is_some());
        Triggers { work: leaving.map(|_| WorkItem::Node(name.to_owned())).into_iter().collect(), ..Triggers::default() }
    }
}

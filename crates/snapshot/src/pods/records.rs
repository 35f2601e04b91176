//! Records of pods, computed once for each version of a pod.
//!
//! A hundred thousand pods are too many to translate before every plan. Results that depend only on a pod are stored beside its
//! `Arc`. The same address is the same version, because the record keeps the object alive. Pods with equal shapes share one.
//! Two parts of a shape depend on other objects: the pod labels that any selector uses, and the state of its volume claims.
//! These parts are computed last, and again when those objects change.

mod disruption_intervals;
mod list_diff;
mod owned_pods;
mod pdb_index;
mod replica_sets;
mod shape_interner;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::annotation;
use api::objects::{InvalidRequested, Pod, PodDisruptionBudget, Requested, consumed_request, pod_group};
use planner::{CapacitySplit, Millis, PodShape, Resources};

use super::ignored::IgnoredReason;
use super::terms::Labels;
use super::volumes::{self, Storage};
use super::{annotations, capacity_splits, shapes};
use crate::Problem;
use disruption_intervals::DisruptionIntervals;
use list_diff::TrackedList;
use owned_pods::OwnedPods;
pub(crate) use owned_pods::{NewestPods, PodOwner, raise};
use pdb_index::PdbIndex;
use replica_sets::ReplicaSetPods;
use shape_interner::ShapeInterner;

/// A pod with the results that depend on it.
pub(crate) struct Record {
    pub(crate) pod: Arc<Pod>,
    /// Shape without labels and volumes.
    base_shape: Arc<PodShape>,
    /// Complete shape.
    pub(crate) shape: Arc<PodShape>,
    /// Resources that the pod takes from its node, if they differ from the shape's requests. A new pod would have other
    /// requests than this one, or kubelet has not finished a resize yet.
    taken: Option<Box<Resources>>,
    /// True if the pod's annotation `kerf.sh/requested` counts, because Kerf lowered requests on its node.
    pub(crate) restorable: bool,
    /// Names of its volume claims, `namespace/name`, one for each of the shape's volumes.
    pub(crate) claims: Vec<String>,
    /// PodDisruptionBudgets that select the pod, by name.
    pdbs: Vec<u32>,
    /// Split of its workload over on-demand and spot, if requested.
    pub(crate) mix: Option<Arc<CapacitySplit>>,
    shape_error: Option<Box<IgnoredReason>>,
    volume_error: Option<Box<IgnoredReason>>,
}

impl Record {
    /// Returns the reason why the pod cannot be planned, in any state.
    pub(crate) fn error(&self) -> Option<&IgnoredReason> {
        self.shape_error.as_deref().or(self.volume_error.as_deref())
    }

    /// Returns the resources that the pod takes from its node.
    pub(crate) fn taken(&self) -> &Resources {
        self.taken.as_deref().unwrap_or(&self.shape.requests)
    }

    /// Returns the requests of the pod before Kerf lowered them, or `None` if Kerf did not.
    pub(crate) fn requested(&self) -> Result<Option<Requested>, InvalidRequested> {
        if self.restorable { self.pod.requested() } else { Ok(None) }
    }

    /// Reports whether the shape shows what admission makes of the template of the pod's workload.
    fn shows_admission(&self) -> bool {
        !self.pod.is_terminal() && self.shape_error.is_none()
    }

    /// Reports whether a request could not be parsed, so that the shape requests too little.
    pub(crate) fn has_invalid_request(&self) -> bool {
        matches!(self.shape_error.as_deref(), Some(IgnoredReason::Quantity { .. }))
    }
}

/// The pods that are bound to one Node and have not ended.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// Number that changes with every change of the pods or their shapes.
    pub(crate) version: u64,
    members: BTreeSet<u32>,
}

/// Records of all pods.
#[derive(Default)]
pub(crate) struct Records {
    slots: Vec<Option<Record>>,
    free: Vec<u32>,
    list: TrackedList,
    shapes: ShapeInterner,
    bound: BTreeMap<String, Group>,
    unbound: BTreeSet<u32>,
    with_volumes: BTreeSet<u32>,
    grouped: BTreeSet<u32>,
    consuming: BTreeSet<u32>,
    pdbs: PdbIndex,
    replica_sets: ReplicaSetPods,
    owned: OwnedPods,
    disruption_intervals: DisruptionIntervals,
    /// Annotation problems, which few pods have.
    annotation_problems: BTreeMap<u32, Vec<Problem>>,
    selector_keys: BTreeSet<String>,
    /// Names of the Nodes on which Kerf lowered requests.
    lowered: BTreeSet<String>,
    clock: u64,
}

impl Records {
    /// Updates the PodDisruptionBudgets, for existing and future pods.
    pub(crate) fn update_budgets(&mut self, budgets: &[&Arc<PodDisruptionBudget>]) {
        let change = self.pdbs.refresh(budgets);
        for id in change.pods {
            let node = self.get(id).map(|record| record.pod.spec.node_name.clone());
            self.mark_changed(&node.unwrap_or_default());
        }
        if change.namespaces.is_empty() {
            return;
        }
        for id in (0..self.slots.len()).filter_map(|id| u32::try_from(id).ok()) {
            if self.get(id).is_some_and(|record| change.namespaces.contains(record.pod.namespace())) {
                self.match_budgets(id);
            }
        }
    }

    /// Returns the PodDisruptionBudgets that select a pod, by name.
    pub(crate) fn budgets(&self, record: &Record) -> Vec<&PodDisruptionBudget> {
        record.pdbs.iter().filter_map(|id| self.pdbs.get(*id)).collect()
    }

    /// Returns the PodDisruptionBudgets that select no pod, by name.
    pub(crate) fn idle_budgets(&self) -> impl Iterator<Item = &PodDisruptionBudget> {
        self.pdbs.idle()
    }

    /// Reports whether the pod is the only one of its ReplicaSet on a node.
    pub(crate) fn is_only_replica(&self, record: &Record) -> bool {
        self.replica_sets.is_only_replica(&record.pod)
    }

    /// Returns the times until which workloads with `kerf.sh/disrupt-at-most-once-per` are not disrupted again.
    pub(crate) fn resting(&self) -> BTreeMap<String, Millis> {
        self.disruption_intervals.ends_by_workload()
    }

    /// Updates the records to a list of pods, except for those parts of shapes that depend on other objects. `lowered` has the
    /// Nodes on which Kerf lowered requests. Returns the new records, for [`Records::complete_shapes`].
    pub(crate) fn refresh(&mut self, pods: &[&Arc<Pod>], lowered: BTreeSet<String>) -> BTreeSet<u32> {
        let change = self.list.compare(pods);
        for id in change.gone {
            self.remove(id);
        }
        let mut new = self.update_lowered(lowered);
        for position in change.new {
            let pod = pods[position];
            let id = self.insert(pod);
            self.list.assign(position, id);
            new.insert(id);
        }
        new
    }

    /// Updates the Nodes on which Kerf lowered requests. Returns the records of other Nodes' pods that changed by this.
    fn update_lowered(&mut self, lowered: BTreeSet<String>) -> BTreeSet<u32> {
        let former = std::mem::replace(&mut self.lowered, lowered);
        let nodes = former.symmetric_difference(&self.lowered).filter_map(|node| self.bound.get(node));
        let annotated = |id: &u32| self.get(*id).is_some_and(|it| it.pod.annotation(annotation::REQUESTED).is_some());
        let changed: BTreeSet<u32> = nodes.flat_map(|group| &group.members).copied().filter(annotated).collect();
        for id in &changed {
            let Some(pod) = self.get(*id).map(|record| Arc::clone(&record.pod)) else { continue };
            // The id that was just released is the next one to be assigned.
            self.remove(*id);
            self.insert(&pod);
        }
        changed
    }

    /// Completes the shapes of new records, and of others where necessary. `keys` are labels that selectors of other objects
    /// use. `storage_changed` is true if claims, volumes or classes changed since the last update.
    pub(crate) fn complete_shapes(
        &mut self,
        new: BTreeSet<u32>,
        mut keys: BTreeSet<String>,
        storage: &Storage<'_>,
        storage_changed: bool,
    ) {
        let mut incomplete = new;
        if storage_changed {
            incomplete.extend(&self.with_volumes);
        }
        self.shapes.collect_keys(&mut keys);
        if keys == self.selector_keys {
            incomplete.into_iter().for_each(|id| self.complete_shape(id, storage));
        } else {
            self.selector_keys = keys;
            (0..self.slots.len())
                .filter_map(|id| u32::try_from(id).ok())
                .for_each(|id| self.complete_shape(id, storage));
        }
    }

    /// Returns the pods of the newest revision of a workload, if it has any.
    pub(crate) fn newest_pods(&self, owner: &PodOwner<'_>) -> Option<NewestPods> {
        self.owned.newest(owner)
    }

    /// Returns those of the labels that any selector uses.
    pub(crate) fn selectable_labels(&self, labels: &Labels) -> Labels {
        selectable_labels(&self.selector_keys, labels)
    }

    /// Returns the pods on a Node.
    pub(crate) fn pods_on(&self, node: &str) -> Option<&Group> {
        self.bound.get(node)
    }

    /// Returns the pods on each Node that has any, by the Node's name.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (&String, &Group)> {
        self.bound.iter()
    }

    /// Returns the pods of a group, by name.
    pub(crate) fn members<'a>(&'a self, group: Option<&'a Group>) -> Vec<&'a Record> {
        self.sorted(group.into_iter().flat_map(|group| &group.members))
    }

    /// Returns the pods with volume claims, by name.
    pub(crate) fn with_volumes(&self) -> Vec<&Record> {
        self.sorted(&self.with_volumes)
    }

    /// Returns the pods of pod groups, by name.
    pub(crate) fn grouped(&self) -> Vec<&Record> {
        self.sorted(&self.grouped)
    }

    /// Returns the pods that consume a ProvisioningRequest, by name.
    pub(crate) fn consuming(&self) -> Vec<&Record> {
        self.sorted(&self.consuming)
    }

    /// Returns the pods without a Node, by name.
    pub(crate) fn unbound(&self) -> Vec<&Record> {
        self.sorted(&self.unbound)
    }

    /// Returns the annotation problems of pods, once per workload and text.
    pub(crate) fn annotation_problems(&self) -> Vec<Problem> {
        let all = self.annotation_problems.iter();
        annotations::problems_of_workloads(
            all.filter_map(|(id, problems)| Some((self.get(*id)?.pod.as_ref(), problems.as_slice()))),
        )
    }

    fn sorted<'a>(&'a self, ids: impl IntoIterator<Item = &'a u32>) -> Vec<&'a Record> {
        let mut records: Vec<&Record> = ids.into_iter().filter_map(|id| self.get(*id)).collect();
        records.sort_by_key(|record| (record.pod.namespace(), record.pod.name(), &record.pod.metadata.uid));
        records
    }

    fn get(&self, id: u32) -> Option<&Record> {
        self.slots.get(usize::try_from(id).ok()?)?.as_ref()
    }

    fn insert(&mut self, pod: &Arc<Pod>) -> u32 {
        let none = Labels::new();
        let labels = pod.metadata.labels.as_ref().unwrap_or(&none);
        let restorable = pod.is_bound() && self.lowered.contains(&pod.spec.node_name);
        let spec = if restorable { pod.in_full() } else { Cow::Borrowed(&*pod.spec) };
        let parsed = match pod.is_terminal() {
            true => shapes::ParsedShape { shape: PodShape::default(), refusal: None },
            false if pod.is_daemon() => shapes::daemon_shape(pod.namespace(), labels, &spec),
            false => shapes::pod_shape(pod.namespace(), labels, &spec),
        };
        let taken = taken(pod).filter(|taken| *taken != parsed.shape.requests).map(Box::new);
        let base_shape = self.shapes.intern(parsed.shape);
        let (mix, invalid) = capacity_splits::split_of_pod(pod);
        let problems = annotations::problems_of_pod(pod, invalid);
        let record = Record {
            pod: Arc::clone(pod),
            shape: self.shapes.share(&base_shape),
            base_shape,
            taken,
            restorable,
            claims: Vec::new(),
            pdbs: Vec::new(),
            mix,
            shape_error: parsed.refusal.map(Box::new),
            volume_error: None,
        };
        if record.shows_admission() {
            self.owned.add(pod, &record.base_shape);
        }
        let id = self.store(record);
        self.annotation_problems.extend((!problems.is_empty()).then_some((id, problems)));
        self.index_by_node(id, pod);
        if matches!(pod_group(pod), Ok(Some(_))) {
            self.grouped.insert(id);
        }
        if consumed_request(pod).is_some() {
            self.consuming.insert(id);
        }
        self.match_budgets(id);
        self.disruption_intervals.add(id, pod);
        let joined = self.replica_sets.add(id, pod);
        self.mark_node_of_changed(joined);
        id
    }

    fn store(&mut self, record: Record) -> u32 {
        if let Some(id) = self.free.pop() {
            self.slots[id as usize] = Some(record);
            return id;
        }
        self.slots.push(Some(record));
        u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
    }

    fn index_by_node(&mut self, id: u32, pod: &Pod) {
        if pod.is_terminal() {
            return;
        }
        if pod.is_bound() {
            self.bound.entry(pod.spec.node_name.clone()).or_default().members.insert(id);
            self.mark_changed(&pod.spec.node_name);
        } else {
            self.unbound.insert(id);
        }
        if volumes::has_claims(&pod.spec) {
            self.with_volumes.insert(id);
        }
    }

    fn remove(&mut self, id: u32) {
        let Some(record) = self.slots.get_mut(id as usize).and_then(Option::take) else { return };
        self.free.push(id);
        self.unbound.remove(&id);
        self.with_volumes.remove(&id);
        self.grouped.remove(&id);
        self.consuming.remove(&id);
        self.annotation_problems.remove(&id);
        let node = &record.pod.spec.node_name;
        if self.bound.get_mut(node).is_some_and(|group| group.members.remove(&id)) {
            self.mark_changed(node);
        }
        if record.shows_admission() {
            self.owned.remove(&record.pod, &record.base_shape);
        }
        self.disruption_intervals.remove(id, &record.pod);
        let left = self.replica_sets.remove(id, &record.pod);
        self.mark_node_of_changed(left);
        self.pdbs.assign(id, &record.pdbs, &[]);
        self.shapes.release(&record.base_shape);
        self.shapes.release(&record.shape);
    }

    /// Finds the budgets that select the pod.
    fn match_budgets(&mut self, id: u32) {
        let Some(record) = self.slots.get_mut(id as usize).and_then(Option::as_mut) else { return };
        let pdbs = if record.pod.is_terminal() { Vec::new() } else { self.pdbs.budgets_of(&record.pod) };
        if pdbs == record.pdbs {
            return;
        }
        self.pdbs.assign(id, &record.pdbs, &pdbs);
        record.pdbs = pdbs;
        let node = record.pod.spec.node_name.clone();
        self.mark_changed(&node);
    }

    /// Marks the pod's node as changed, although the pod itself is not.
    fn mark_node_of_changed(&mut self, id: Option<u32>) {
        if let Some(node) = id.and_then(|id| self.get(id)).map(|record| record.pod.spec.node_name.clone()) {
            self.mark_changed(&node);
        }
    }

    fn mark_changed(&mut self, node: &str) {
        self.clock += 1;
        if let Some(group) = self.bound.get_mut(node) {
            group.version = self.clock;
            if group.members.is_empty() {
                self.bound.remove(node);
            }
        }
    }

    /// Computes the relevant labels and the volumes of a shape.
    fn complete_shape(&mut self, id: u32, storage: &Storage<'_>) {
        let Some(record) = self.slots.get_mut(id as usize).and_then(Option::as_mut) else { return };
        if record.pod.is_terminal() {
            return;
        }
        let labels = record
            .pod
            .metadata
            .labels
            .as_ref()
            .map(|labels| selectable_labels(&self.selector_keys, labels))
            .unwrap_or_default();
        let pod = Arc::clone(&record.pod);
        let counts = self.with_volumes.contains(&id);
        let volumes = if counts { storage.volumes(pod.namespace(), pod.name(), &pod.spec) } else { Default::default() };
        record.claims = volumes.claims;
        record.volume_error = volumes.error.map(|(claim, error)| Box::new(IgnoredReason::Volume { claim, error }));
        if record.shape.labels == labels && record.shape.volumes == volumes.needs {
            return;
        }
        let shape = if labels.is_empty() && volumes.needs.is_empty() {
            self.shapes.share(&record.base_shape)
        } else {
            self.shapes.intern(PodShape { labels, volumes: volumes.needs, ..PodShape::clone(&record.base_shape) })
        };
        let former = std::mem::replace(&mut record.shape, shape);
        self.shapes.release(&former);
        self.mark_changed(&pod.spec.node_name);
    }
}

/// Returns the resources that a pod takes from its node, if they may differ from its shape.
fn taken(pod: &Pod) -> Option<Resources> {
    let differs = pod.annotation(annotation::REQUESTED).is_some() || !pod.status.container_statuses.is_empty();
    let amounts = pod.taken().ok().filter(|_| differs && pod.is_bound() && !pod.is_terminal())?;
    let mut taken: Resources = amounts.into_iter().collect();
    taken.set(Resources::PODS, 1);
    Some(taken)
}

fn selectable_labels(keys: &BTreeSet<String>, labels: &Labels) -> Labels {
    let counts = labels.iter().filter(|(key, _)| keys.contains(*key));
    counts.map(|(key, value)| (key.clone(), value.clone())).collect()
}

//! Records of pods, computed once for each version of a pod.
//!
//! A hundred thousand pods are too many to translate before every plan. Results that depend only on a pod are stored beside its
//! `Arc`. The same address is the same version, because the record keeps the object alive. Pods with equal shapes share one.
//! Two parts of a shape depend on other objects: the pod labels that any selector uses, and the state of its volume claims.
//! These parts are computed last, and again when those objects change.

mod interner;
mod order;
mod owners;
mod rests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::annotation;
use api::objects::{Pod, PodDisruptionBudget};
use planner::{CapacitySplit, Millis, PodShape, Resources};

use crate::ignored::IgnoredReason;
use crate::pdb_index::PdbIndex;
use crate::terms::Labels;
use crate::volumes::{self, Storage};
use crate::{Problem, annotation_errors, capacity_splits, shapes};
use interner::Interner;
use order::Order;
use owners::Owners;
use rests::Rests;
pub(crate) use rests::workload;

/// A pod with the results that depend on it.
pub(crate) struct Record {
    pub(crate) pod: Arc<Pod>,
    /// Shape without labels and volumes.
    bare: Arc<PodShape>,
    /// Complete shape.
    pub(crate) shape: Arc<PodShape>,
    /// Resources that the pod takes from its node, if they differ from the shape's requests. A new pod would have other
    /// requests than this one, or kubelet has not finished a resize yet.
    taken: Option<Box<Resources>>,
    /// Names of its volume claims, `namespace/name`, one for each of the shape's volumes.
    pub(crate) claims: Vec<String>,
    /// PodDisruptionBudgets that select the pod, by name.
    guards: Vec<u32>,
    /// Split of its workload over on-demand and spot, if requested.
    pub(crate) mix: Option<Arc<CapacitySplit>>,
    fault: Option<Box<IgnoredReason>>,
    trouble: Option<Box<IgnoredReason>>,
}

impl Record {
    /// Returns the reason why the pod cannot be planned, in any state.
    pub(crate) fn refusal(&self) -> Option<&IgnoredReason> {
        self.fault.as_deref().or(self.trouble.as_deref())
    }

    /// Returns the resources that the pod takes from its node.
    pub(crate) fn taken(&self) -> &Resources {
        self.taken.as_deref().unwrap_or(&self.shape.requests)
    }

    /// Reports whether a request could not be parsed, so that the shape requests too little.
    pub(crate) fn is_unread(&self) -> bool {
        matches!(self.fault.as_deref(), Some(IgnoredReason::Quantity { .. }))
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
    order: Order,
    shapes: Interner,
    bound: BTreeMap<String, Group>,
    loose: BTreeSet<u32>,
    with_volumes: BTreeSet<u32>,
    guards: PdbIndex,
    owners: Owners,
    rests: Rests,
    /// Annotation problems, which few pods have.
    misread: BTreeMap<u32, Vec<Problem>>,
    keys: BTreeSet<String>,
    clock: u64,
}

impl Records {
    /// Updates the PodDisruptionBudgets, for existing and future pods.
    pub(crate) fn take_budgets(&mut self, budgets: &[&Arc<PodDisruptionBudget>]) {
        let change = self.guards.refresh(budgets);
        for id in change.pods {
            let node = self.get(id).map(|record| record.pod.spec.node_name.clone());
            self.touch(&node.unwrap_or_default());
        }
        if change.namespaces.is_empty() {
            return;
        }
        for id in (0..self.slots.len()).filter_map(|id| u32::try_from(id).ok()) {
            if self.get(id).is_some_and(|record| change.namespaces.contains(record.pod.namespace())) {
                self.guard(id);
            }
        }
    }

    /// Returns the PodDisruptionBudgets that select a pod, by name.
    pub(crate) fn budgets(&self, record: &Record) -> Vec<&PodDisruptionBudget> {
        record.guards.iter().filter_map(|id| self.guards.get(*id)).collect()
    }

    /// Returns the PodDisruptionBudgets that select no pod, by name.
    pub(crate) fn idle_budgets(&self) -> impl Iterator<Item = &PodDisruptionBudget> {
        self.guards.idle()
    }

    /// Reports whether the pod is the only one of its ReplicaSet on a node.
    pub(crate) fn is_alone(&self, record: &Record) -> bool {
        self.owners.is_alone(&record.pod)
    }

    /// Returns the times until which workloads with `kerf.sh/disrupt-at-most-once-per` are not disrupted again.
    pub(crate) fn resting(&self) -> BTreeMap<String, Millis> {
        self.rests.all()
    }

    /// Updates the records to a list of pods. `keys` are labels that selectors of other objects use. `moved` is true if claims,
    /// volumes or classes changed since the last update.
    pub(crate) fn refresh(&mut self, pods: &[&Arc<Pod>], keys: BTreeSet<String>, storage: &Storage<'_>, moved: bool) {
        let change = self.order.compare(pods);
        for id in change.gone {
            self.forget(id);
        }
        let mut unsettled = if moved { self.with_volumes.clone() } else { BTreeSet::new() };
        for position in change.new {
            let pod = pods[position];
            let id = self.admit(pod);
            self.order.assign(position, id);
            unsettled.insert(id);
        }
        let mut keys = keys;
        self.shapes.collect_keys(&mut keys);
        if keys == self.keys {
            unsettled.into_iter().for_each(|id| self.settle(id, storage));
        } else {
            self.keys = keys;
            (0..self.slots.len()).filter_map(|id| u32::try_from(id).ok()).for_each(|id| self.settle(id, storage));
        }
    }

    /// Returns those of the labels that any selector uses.
    pub(crate) fn seen(&self, labels: &Labels) -> Labels {
        seen(&self.keys, labels)
    }

    /// Returns the pods on a Node.
    pub(crate) fn on(&self, node: &str) -> Option<&Group> {
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

    /// Returns the pods without a Node, by name.
    pub(crate) fn loose(&self) -> Vec<&Record> {
        self.sorted(&self.loose)
    }

    /// Returns the annotation problems of pods, once per workload and text.
    pub(crate) fn misread(&self) -> Vec<Problem> {
        let told = self.misread.iter();
        annotation_errors::of_workloads(
            told.filter_map(|(id, told)| Some((self.get(*id)?.pod.as_ref(), told.as_slice()))),
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

    fn admit(&mut self, pod: &Arc<Pod>) -> u32 {
        let none = Labels::new();
        let labels = pod.metadata.labels.as_ref().unwrap_or(&none);
        let form = match pod.is_terminal() {
            true => shapes::ShapeKey { shape: PodShape::default(), refusal: None },
            false if pod.is_daemon() => shapes::of_daemon(pod.namespace(), labels, &pod.in_full()),
            false => shapes::of_pod(pod.namespace(), labels, &pod.in_full()),
        };
        let taken = taken(pod).filter(|taken| *taken != form.shape.requests).map(Box::new);
        let bare = self.shapes.intern(form.shape);
        let (mix, misread) = capacity_splits::of_pod(pod);
        let misread = annotation_errors::of_pod(pod, misread);
        let record = Record {
            pod: Arc::clone(pod),
            shape: self.shapes.share(&bare),
            bare,
            taken,
            claims: Vec::new(),
            guards: Vec::new(),
            mix,
            fault: form.refusal.map(Box::new),
            trouble: None,
        };
        let id = self.store(record);
        self.misread.extend((!misread.is_empty()).then_some((id, misread)));
        self.enlist(id, pod);
        self.guard(id);
        self.rests.add(id, pod);
        let joined = self.owners.add(id, pod);
        self.touch_node_of(joined);
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

    fn enlist(&mut self, id: u32, pod: &Pod) {
        if pod.is_terminal() {
            return;
        }
        if pod.is_bound() {
            self.bound.entry(pod.spec.node_name.clone()).or_default().members.insert(id);
            self.touch(&pod.spec.node_name);
        } else {
            self.loose.insert(id);
        }
        if volumes::has_claims(&pod.spec) {
            self.with_volumes.insert(id);
        }
    }

    fn forget(&mut self, id: u32) {
        let Some(record) = self.slots.get_mut(id as usize).and_then(Option::take) else { return };
        self.free.push(id);
        self.loose.remove(&id);
        self.with_volumes.remove(&id);
        self.misread.remove(&id);
        let node = &record.pod.spec.node_name;
        if self.bound.get_mut(node).is_some_and(|group| group.members.remove(&id)) {
            self.touch(node);
        }
        self.rests.remove(id, &record.pod);
        let left = self.owners.remove(id, &record.pod);
        self.touch_node_of(left);
        self.guards.assign(id, &record.guards, &[]);
        self.shapes.release(&record.bare);
        self.shapes.release(&record.shape);
    }

    /// Finds the budgets that select the pod.
    fn guard(&mut self, id: u32) {
        let Some(record) = self.slots.get_mut(id as usize).and_then(Option::as_mut) else { return };
        let guards = if record.pod.is_terminal() { Vec::new() } else { self.guards.budgets_of(&record.pod) };
        if guards == record.guards {
            return;
        }
        self.guards.assign(id, &record.guards, &guards);
        record.guards = guards;
        let node = record.pod.spec.node_name.clone();
        self.touch(&node);
    }

    /// Marks the pod's node as changed, although the pod itself is not.
    fn touch_node_of(&mut self, id: Option<u32>) {
        if let Some(node) = id.and_then(|id| self.get(id)).map(|record| record.pod.spec.node_name.clone()) {
            self.touch(&node);
        }
    }

    fn touch(&mut self, node: &str) {
        self.clock += 1;
        if let Some(group) = self.bound.get_mut(node) {
            group.version = self.clock;
            if group.members.is_empty() {
                self.bound.remove(node);
            }
        }
    }

    /// Computes the relevant labels and the volumes of a shape.
    fn settle(&mut self, id: u32, storage: &Storage<'_>) {
        let Some(record) = self.slots.get_mut(id as usize).and_then(Option::as_mut) else { return };
        if record.pod.is_terminal() {
            return;
        }
        let labels = record.pod.metadata.labels.as_ref().map(|labels| seen(&self.keys, labels)).unwrap_or_default();
        let pod = Arc::clone(&record.pod);
        let counts = self.with_volumes.contains(&id);
        let volumes = if counts { storage.volumes(pod.namespace(), pod.name(), &pod.spec) } else { Default::default() };
        record.claims = volumes.claims;
        record.trouble = volumes.trouble.map(|(claim, trouble)| Box::new(IgnoredReason::Volume { claim, trouble }));
        if record.shape.labels == labels && record.shape.volumes == volumes.needs {
            return;
        }
        let shape = if labels.is_empty() && volumes.needs.is_empty() {
            self.shapes.share(&record.bare)
        } else {
            self.shapes.intern(PodShape { labels, volumes: volumes.needs, ..PodShape::clone(&record.bare) })
        };
        let former = std::mem::replace(&mut record.shape, shape);
        self.shapes.release(&former);
        self.touch(&pod.spec.node_name);
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

fn seen(keys: &BTreeSet<String>, labels: &Labels) -> Labels {
    let counts = labels.iter().filter(|(key, _)| keys.contains(*key));
    counts.map(|(key, value)| (key.clone(), value.clone())).collect()
}

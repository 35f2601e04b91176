//! Pods of workloads by the revision of their template, to find out what admission makes of a template.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use api::label;
use api::objects::Pod;
use jiff::Timestamp;
use planner::{PodShape, Resources};

use crate::pods::terms::Labels;

/// Workload that owns pods directly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PodOwner<'a> {
    pub(crate) namespace: &'a str,
    /// `DaemonSet`, `ReplicaSet` or `StatefulSet`; `Deployment` means all its ReplicaSets.
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
    /// UID; `None` in manifests, where the name identifies the owner.
    pub(crate) uid: Option<&'a str>,
}

/// Pods of the newest revision of a workload, as one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewestPods {
    /// Shape of the largest pod, without labels and volumes. Each request is the maximum over the pods.
    pub(crate) shape: PodShape,
    /// Labels by which the workload distinguishes revisions of its template.
    pub(crate) revision: Labels,
}

/// Pods of all workloads.
#[derive(Default)]
pub(super) struct OwnedPods(BTreeMap<OwnerKey, BTreeMap<RevisionKey, Revision>>);

/// Namespace, kind and name.
type OwnerKey = (String, String, String);

/// UID of the owner, and the labels of the revision.
type RevisionKey = (String, Labels);

/// Pods of one revision.
#[derive(Default)]
struct Revision {
    /// Number of pods by creation time.
    created: BTreeMap<Option<Timestamp>, usize>,
    /// Shapes with their number of pods. Equal shapes have the same address.
    shapes: BTreeMap<usize, (Arc<PodShape>, usize)>,
}

impl OwnedPods {
    /// Counts a pod with its shape without labels and volumes.
    pub(super) fn add(&mut self, pod: &Pod, shape: &Arc<PodShape>) {
        let Some((owner, revision)) = keys(pod) else { return };
        let Revision { created, shapes } = self.0.entry(owner).or_default().entry(revision).or_default();
        *created.entry(created_at(pod)).or_default() += 1;
        shapes.entry(address(shape)).or_insert_with(|| (Arc::clone(shape), 0)).1 += 1;
    }

    /// Removes a pod that was counted with this shape.
    pub(super) fn remove(&mut self, pod: &Pod, shape: &Arc<PodShape>) {
        let Some((owner, revision)) = keys(pod) else { return };
        let Some(revisions) = self.0.get_mut(&owner) else { return };
        let Some(Revision { created, shapes }) = revisions.get_mut(&revision) else { return };
        withdraw(created, created_at(pod), |count| count);
        withdraw(shapes, address(shape), |(_, count)| count);
        if created.is_empty() {
            revisions.remove(&revision);
        }
        if revisions.is_empty() {
            self.0.remove(&owner);
        }
    }

    /// Returns the pods of the newest revision, if the workload has any: of the revision with the youngest pod.
    pub(super) fn newest(&self, owner: &PodOwner<'_>) -> Option<NewestPods> {
        let ((_, labels), revision) =
            self.revisions(owner).max_by_key(|(key, it)| (it.created.keys().next_back(), *key))?;
        let shapes = || revision.shapes.values().map(|(shape, _)| shape.as_ref());
        let size = |shape: &PodShape| [Resources::CPU, Resources::MEMORY].map(|name| shape.requests.get(name));
        let mut shape = shapes().max_by_key(|shape| (size(shape), *shape))?.clone();
        shapes().for_each(|other| raise(&mut shape.requests, &other.requests));
        Some(NewestPods { shape, revision: labels.clone() })
    }

    fn revisions<'a>(&'a self, owner: &'a PodOwner<'_>) -> impl Iterator<Item = (&'a RevisionKey, &'a Revision)> {
        let of_deployment = owner.kind == "Deployment";
        let kind = if of_deployment { "ReplicaSet" } else { owner.kind };
        let from = (owner.namespace.to_owned(), kind.to_owned(), owner.name.to_owned());
        let near = self.0.range(from..).take_while(move |((namespace, known, name), _)| {
            namespace == owner.namespace && known == kind && name.starts_with(owner.name)
        });
        let all = near.flat_map(|((.., name), revisions)| revisions.iter().map(move |(key, it)| (name, key, it)));
        let is_own = move |(name, (uid, labels), _): &(&String, &RevisionKey, &Revision)| {
            if of_deployment {
                let hash = labels.get(label::POD_TEMPLATE_HASH);
                return hash.is_some_and(|hash| **name == format!("{}-{hash}", owner.name));
            }
            *name == owner.name && owner.uid.is_none_or(|own| uid.is_empty() || uid == own)
        };
        all.filter(is_own).map(|(_, key, revision)| (key, revision))
    }
}

/// Decrements the count of an entry, and removes the entry at zero.
fn withdraw<K: Ord, V>(entries: &mut BTreeMap<K, V>, key: K, count_of: impl Fn(&mut V) -> &mut usize) {
    let Entry::Occupied(mut entry) = entries.entry(key) else { return };
    let count = count_of(entry.get_mut());
    *count -= 1;
    if *count == 0 {
        entry.remove();
    }
}

/// Raises amounts to those of `others` where these are greater.
pub(crate) fn raise(own: &mut Resources, others: &Resources) {
    for (name, amount) in others.iter().filter(|(_, amount)| *amount > 0) {
        own.set(name, amount.max(own.get(name)));
    }
}

fn keys(pod: &Pod) -> Option<(OwnerKey, RevisionKey)> {
    const REVISIONS: [&str; 3] =
        [label::CONTROLLER_REVISION_HASH, label::POD_TEMPLATE_GENERATION, label::POD_TEMPLATE_HASH];
    let owner = pod.controller().filter(|owner| owner.api_version == "apps/v1")?;
    let labels = pod.metadata.labels.iter().flatten().filter(|(key, _)| REVISIONS.contains(&key.as_str()));
    let revision = labels.map(|(key, value)| (key.clone(), value.clone())).collect();
    let key = (pod.namespace().to_owned(), owner.kind.clone(), owner.name.clone());
    Some((key, (owner.uid.clone(), revision)))
}

fn created_at(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.creation_timestamp.as_ref().map(|at| at.0)
}

fn address(shape: &Arc<PodShape>) -> usize {
    Arc::as_ptr(shape).addr()
}

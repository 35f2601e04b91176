//! Expands workloads into the pods that their controllers would create. ReplicaSets and pods in the input reduce the number of
//! new pods. Names of new pods do not depend on the input files.

mod pods;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::objects::{DaemonSet, Deployment, Job, LabelSelector, Pod, PodTemplateSpec, ReplicaSet, StatefulSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use snapshot::{Admission, Ignored, MissingClass};

use crate::input::Objects;
use pods::{Owner, pod_from_template};

/// Result of the expansion of workloads.
#[derive(Clone, Debug, Default)]
pub struct Expansion {
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// Pods that the API server would refuse, by name. They are still among the objects.
    pub refused: Vec<Ignored>,
}

/// Adds the missing pods of workloads and the claims of pods. Adds the fields that the API server and kube-scheduler write into
/// pods.
pub fn expand(objects: &mut Objects) -> Expansion {
    let known = WorkloadIndex::new(objects);
    let mut new_pods = NewPods { taken: known.names.clone(), pods: Vec::new() };
    for set in &objects.replica_sets {
        replica_set(&known, set, &mut new_pods);
    }
    for deployment in &objects.deployments {
        self::deployment(objects, &known, deployment, &mut new_pods);
    }
    for job in &objects.jobs {
        self::job(objects, &known, job, &mut new_pods);
    }
    for set in &objects.stateful_sets {
        stateful_set(&known, set, &mut new_pods);
        volumes::of_stateful_set(set, &mut new_pods.pods, &mut objects.volume_claims);
    }
    objects.pods.extend(new_pods.pods.into_iter().map(Arc::new));
    volumes::of_pods(&objects.pods, &mut objects.volume_claims);
    let admission = Admission::new(&objects.limit_ranges, &objects.runtime_classes, &objects.priority_classes);
    let mut expansion = pods::complete(&mut objects.pods, &admission);
    expansion.warnings.extend(missing_runtime_classes(objects, &known, &admission));
    expansion.refused.sort_by(|one, other| one.pod.cmp(&other.pod));
    objects.pods.sort_by(|one, other| (one.namespace(), one.name()).cmp(&(other.namespace(), other.name())));
    objects.volume_claims.sort_by(|one, other| key(&one.metadata).cmp(&key(&other.metadata)));
    expansion
}

/// Returns warnings for missing RuntimeClasses of pods that exist only as templates: those of DaemonSets without pods, and of
/// CapacityBuffers.
fn missing_runtime_classes(objects: &Objects, known: &WorkloadIndex, admission: &Admission<'_>) -> Vec<String> {
    let has_pods = |set: &DaemonSet| {
        let (namespace, name) = key(&set.metadata);
        known.owned(namespace, "DaemonSet", name) > 0
    };
    let daemons = objects.daemon_sets.iter().filter(|set| !has_pods(set)).map(|set| &set.spec.template);
    let templates = daemons.chain(objects.pod_templates.iter().map(|template| &template.template));
    let missing = templates.flat_map(|template| admission.missing_classes(&template.spec));
    missing.filter(|class| matches!(class, MissingClass::Runtime(_))).map(|class| class.to_string()).collect()
}

/// Returns namespace and name.
pub(crate) fn key(metadata: &ObjectMeta) -> (&str, &str) {
    (metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
}

/// Index of the pods in the input.
#[derive(Default)]
struct WorkloadIndex {
    /// Number of pods that are neither terminal nor terminating, by namespace and their controller's kind and name.
    owned: BTreeMap<(String, String, String), usize>,
    /// Labels of such pods without a controller, by namespace.
    orphans: BTreeMap<String, Vec<BTreeMap<String, String>>>,
    /// Namespace and name of every pod that is not terminal.
    names: BTreeSet<(String, String)>,
}

impl WorkloadIndex {
    fn new(objects: &Objects) -> Self {
        let mut known = Self::default();
        for pod in objects.pods.iter().filter(|pod| !pod.is_terminal()) {
            known.names.insert((pod.namespace().to_owned(), pod.name().to_owned()));
            if pod.is_terminating() {
                continue;
            }
            let namespace = pod.namespace().to_owned();
            match pod.controller() {
                Some(owner) => {
                    *known.owned.entry((namespace, owner.kind.clone(), owner.name.clone())).or_default() += 1
                }
                None => known.orphans.entry(namespace).or_default().push(labels(&pod.metadata)),
            }
        }
        known
    }

    fn owned(&self, namespace: &str, kind: &str, name: &str) -> usize {
        self.owned.get(&(namespace.to_owned(), kind.to_owned(), name.to_owned())).copied().unwrap_or(0)
    }

    /// Returns the number of pods without a controller that a workload with this selector would adopt.
    fn adopted(&self, namespace: &str, selector: &LabelSelector) -> usize {
        let all = self.orphans.get(namespace).map_or(&[][..], Vec::as_slice);
        if selector.is_empty() { 0 } else { all.iter().filter(|labels| selector.matches(labels)).count() }
    }
}

fn labels(metadata: &ObjectMeta) -> BTreeMap<String, String> {
    metadata.labels.clone().unwrap_or_default()
}

/// Pods created so far.
struct NewPods {
    taken: BTreeSet<(String, String)>,
    pods: Vec<Pod>,
}

impl NewPods {
    /// Creates `count` pods with the first free names `NAME-0`, `NAME-1`, ...
    fn numbered(&mut self, owner: &Owner<'_>, template: &PodTemplateSpec, count: usize) {
        let mut number = 0;
        for _ in 0..count {
            while !self.taken.insert((owner.namespace.to_owned(), format!("{}-{number}", owner.name))) {
                number += 1;
            }
            self.pods.push(pod_from_template(owner, template, format!("{}-{number}", owner.name)));
        }
    }
}

fn count(replicas: i32) -> usize {
    usize::try_from(replicas).unwrap_or(0)
}

fn replica_set(known: &WorkloadIndex, set: &ReplicaSet, new_pods: &mut NewPods) {
    if set.metadata.deletion_timestamp.is_some() {
        return;
    }
    let (namespace, name) = key(&set.metadata);
    let present = known.owned(namespace, "ReplicaSet", name) + known.adopted(namespace, &set.spec.selector);
    let owner = Owner::new("apps/v1", "ReplicaSet", &set.metadata);
    new_pods.numbered(&owner, &set.spec.template, count(set.spec.replicas()).saturating_sub(present));
}

fn deployment(objects: &Objects, known: &WorkloadIndex, deployment: &Deployment, new_pods: &mut NewPods) {
    if deployment.metadata.deletion_timestamp.is_some() {
        return;
    }
    let (namespace, name) = key(&deployment.metadata);
    let sets: Vec<&ReplicaSet> = objects
        .replica_sets
        .iter()
        .map(AsRef::as_ref)
        .filter(|set| key(&set.metadata).0 == namespace && belongs(set, name))
        .collect();
    let by_sets: usize = sets.iter().map(|set| count(set.spec.replicas())).sum();
    let present = by_sets + of_sets_not_given(objects, known, namespace, name);
    let owner = Owner::new("apps/v1", "Deployment", &deployment.metadata);
    let mut template = deployment.spec.template.clone();
    let own = template.metadata.labels.get_or_insert_default();
    own.entry(POD_TEMPLATE_HASH.to_owned()).or_insert_with(|| template_hash(&sets, &owner));
    new_pods.numbered(&owner, &template, count(deployment.spec.replicas()).saturating_sub(present));
}

/// Label with the revision of a Deployment's pods; spread constraints often use it in `matchLabelKeys`.
const POD_TEMPLATE_HASH: &str = "pod-template-hash";
/// Annotation of a ReplicaSet with the revision of its Deployment.
const REVISION: &str = "deployment.kubernetes.io/revision";

/// Returns the hash of the newest revision, else the Deployment's name.
fn template_hash(sets: &[&ReplicaSet], owner: &Owner<'_>) -> String {
    let revision = |set: &ReplicaSet| -> u64 {
        let text = set.metadata.annotations.as_ref().and_then(|all| all.get(REVISION));
        text.and_then(|text| text.parse().ok()).unwrap_or(0)
    };
    let newest = sets.iter().max_by_key(|set| (revision(set), key(&set.metadata)));
    let hash = newest.and_then(|set| set.metadata.labels.as_ref()?.get(POD_TEMPLATE_HASH));
    hash.cloned().unwrap_or_else(|| owner.name.to_owned())
}

fn belongs(set: &ReplicaSet, deployment: &str) -> bool {
    let owners = set.metadata.owner_references.iter().flatten();
    owners.into_iter().any(|owner| owner.kind == "Deployment" && owner.name == deployment)
}

/// Returns the number of pods whose ReplicaSet is not in the input, but has a name of the Deployment's ReplicaSets:
/// `NAME-HASH`.
fn of_sets_not_given(objects: &Objects, known: &WorkloadIndex, namespace: &str, deployment: &str) -> usize {
    let given = |name: &str| objects.replica_sets.iter().any(|set| key(&set.metadata) == (namespace, name));
    let begins = (namespace.to_owned(), "ReplicaSet".to_owned(), format!("{deployment}-"));
    let from_here = known.owned.range(begins..).take_while(|((space, kind, name), _)| {
        space == namespace && kind == "ReplicaSet" && name.starts_with(&format!("{deployment}-"))
    });
    let own = from_here.filter(|((_, _, name), _)| !name[deployment.len() + 1..].contains('-') && !given(name));
    own.map(|(_, count)| count).sum()
}

fn stateful_set(known: &WorkloadIndex, set: &StatefulSet, new_pods: &mut NewPods) {
    if set.metadata.deletion_timestamp.is_some() {
        return;
    }
    let owner = Owner::new("apps/v1", "StatefulSet", &set.metadata);
    let first = set.spec.first_ordinal();
    for ordinal in first..first.saturating_add(set.spec.replicas()) {
        let name = format!("{}-{ordinal}", owner.name);
        let full = (owner.namespace.to_owned(), name.clone());
        // A terminating pod keeps its name until it is deleted; its successor is planned as part of the removal of its node.
        if known.names.contains(&full) || !new_pods.taken.insert(full) {
            continue;
        }
        let mut pod = pod_from_template(&owner, &set.spec.template, name.clone());
        let labels = pod.metadata.labels.get_or_insert_default();
        labels.insert("statefulset.kubernetes.io/pod-name".to_owned(), name);
        labels.insert("apps.kubernetes.io/pod-index".to_owned(), ordinal.to_string());
        new_pods.pods.push(pod);
    }
}

fn job(objects: &Objects, known: &WorkloadIndex, job: &Job, new_pods: &mut NewPods) {
    if job.metadata.deletion_timestamp.is_some() {
        return;
    }
    let owner = Owner::new("batch/v1", "Job", &job.metadata);
    let own = |pod: &&Arc<Pod>| {
        pod.namespace() == owner.namespace
            && pod.controller().is_some_and(|by| by.kind == "Job" && by.name == owner.name)
            && pod.status.phase == "Succeeded"
    };
    let mut current: Job = job.clone();
    let succeeded = i32::try_from(objects.pods.iter().filter(own).count()).unwrap_or(i32::MAX);
    current.status.succeeded = current.status.succeeded.max(succeeded);
    let present = known.owned(owner.namespace, "Job", owner.name);
    let mut template = job.spec.template.clone();
    let labels = template.metadata.labels.get_or_insert_default();
    for key in ["batch.kubernetes.io/job-name", "job-name"] {
        labels.entry(key.to_owned()).or_insert_with(|| owner.name.to_owned());
    }
    new_pods.numbered(&owner, &template, count(current.desired_pods()).saturating_sub(present));
}

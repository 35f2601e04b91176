//! Nodes of a plan for people: type, zone, price, utilization and pods.

use std::collections::{BTreeMap, BTreeSet};

use api::objects::{Pod, ReplicaSet};
use api::timeline::{self, AwaitedPod, StartStage};
use api::{label, quantity};
use planner::{InstanceType, Launch, Node, Offer, Offering, Requirements, Resources};

use super::{PlanAnswer, cost};
use crate::output::money::rounded;

/// One node of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRow {
    /// Name of the NodeClaim or node.
    pub name: String,
    /// Cheapest possible type of a launch, or the type of an existing node; empty if unknown.
    pub kind: String,
    /// Number of other possible types.
    pub others: usize,
    /// `minValues` that a launch has at most, by label key, if the plan lowered any of them.
    pub lowered: Vec<(String, u32)>,
    /// Zone, or `ZONE +N` with the number of other zones at the same price; empty if unknown.
    pub zone: String,
    /// `spot`, `on-demand` or `reserved`; empty if unknown.
    pub capacity_type: String,
    /// Millionths of a dollar per hour, if known.
    pub price: Option<i64>,
    /// Requests of all its pods after the plan is carried out.
    pub used: Resources,
    /// Allocatable resources.
    pub allocatable: Resources,
    /// Newly placed pods, as positions in the snapshot.
    pub pods: Vec<usize>,
}

impl NodeRow {
    /// Returns type, zone, capacity type and price, as far as they are known.
    #[must_use]
    pub fn words(&self) -> String {
        let price = self.price.map(|price| format!(" at {}/h", rounded(price))).unwrap_or_default();
        let parts = [self.kind.as_str(), self.zone.as_str(), self.capacity_type.as_str()];
        let parts: Vec<&str> = parts.into_iter().filter(|word| !word.is_empty()).collect();
        parts.join(", ") + &price
    }

    /// Returns the requested part of CPU and memory, as far as the node has them.
    #[must_use]
    pub fn shares(&self) -> Vec<String> {
        let share = |name: &str| {
            let (used, of) = (self.used.get(name), self.allocatable.get(name));
            let text = |amount| quantity::text(name, amount);
            (of > 0).then(|| format!("{name} {} of {}", text(used), text(of)))
        };
        [Resources::CPU, Resources::MEMORY].into_iter().filter_map(share).collect()
    }

    /// Reports whether two nodes differ only in their names and pods.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        let other = Self { name: self.name.clone(), pods: self.pods.clone(), ..other.clone() };
        *self == other
    }
}

/// Returns the names of the launches: the NodePool's name and the lowest numbers that no NodeClaim or node uses.
#[must_use]
pub fn names(answer: &PlanAnswer) -> Vec<String> {
    let nodes = &answer.built.snapshot.nodes;
    let taken: BTreeSet<&str> =
        nodes.iter().flat_map(|node| std::iter::once(&node.name).chain(&node.claim)).map(String::as_str).collect();
    let mut next: BTreeMap<&str, usize> = BTreeMap::new();
    let mut names = Vec::with_capacity(answer.plan.launches.len());
    for launch in &answer.plan.launches {
        let number = next.entry(&launch.pool).or_default();
        let mut name = String::new();
        while name.is_empty() || taken.contains(name.as_str()) {
            *number += 1;
            name = format!("{}-{number}", launch.pool);
        }
        names.push(name);
    }
    names
}

/// Returns the nodes to launch, in the order of the plan.
#[must_use]
pub fn launched(answer: &PlanAnswer) -> Vec<NodeRow> {
    let named = names(answer).into_iter().zip(&answer.plan.launches);
    named.map(|(name, launch)| launch_row(answer, name, launch)).collect()
}

fn launch_row(answer: &PlanAnswer, name: String, launch: &Launch) -> NodeRow {
    let requirements: Requirements = launch.requirements.iter().collect();
    let kind = launch.instance_types.first().and_then(|kind| instance_type(answer, &launch.pool, kind));
    let offering = kind.and_then(|kind| cheapest(kind, &requirements));
    NodeRow {
        name,
        kind: launch.instance_types.first().cloned().unwrap_or_default(),
        others: launch.instance_types.len().saturating_sub(1),
        lowered: lowered(answer, launch),
        zone: kind.map(|kind| zones(kind, &requirements)).unwrap_or_default(),
        capacity_type: offering.map(|offering| offering.capacity_type.as_str().to_owned()).unwrap_or_default(),
        price: Some(launch.price.0),
        used: launch.requests.clone(),
        allocatable: kind.map(|kind| kind.allocatable.clone()).unwrap_or_default(),
        pods: launch.pods.clone(),
    }
}

/// Returns the labels whose `minValues` the plan lowered, with the number of available values.
fn lowered(answer: &PlanAnswer, launch: &Launch) -> Vec<(String, u32)> {
    let pool = answer.built.snapshot.pools.iter().find(|pool| pool.name == launch.pool);
    let asked = |key: &str| {
        let own = pool.into_iter().flat_map(|pool| &pool.requirements).filter(|it| it.key == key);
        own.filter_map(|it| it.min_values).max()
    };
    let kept = launch.requirements.iter().filter_map(|it| Some((it.key.as_str(), it.min_values?)));
    let all = kept.chain(launch.min_instance_types.map(|count| (label::INSTANCE_TYPE, count)));
    all.filter(|(key, kept)| asked(key).is_some_and(|asked| *kept < asked))
        .map(|(key, kept)| (key.to_owned(), kept))
        .collect()
}

/// Returns the nodes and in-flight NodeClaims that receive pods, by name.
#[must_use]
pub fn existing(answer: &PlanAnswer) -> Vec<NodeRow> {
    let snapshot = &answer.built.snapshot;
    let mut by_node: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for nomination in &answer.plan.nominations {
        by_node.entry(&nomination.node).or_default().push(nomination.pod);
    }
    let nodes = snapshot.nodes.iter().filter_map(|node| Some((node, by_node.remove(node.name.as_str())?)));
    let mut list: Vec<NodeRow> = nodes.map(|(node, pods)| existing_row(answer, node, pods)).collect();
    list.sort_by(|one, other| one.name.cmp(&other.name));
    list
}

/// Returns an existing node that receives these pods.
pub(super) fn existing_row(answer: &PlanAnswer, node: &Node, pods: Vec<usize>) -> NodeRow {
    let snapshot = &answer.built.snapshot;
    let mut used = node.used.clone();
    pods.iter().for_each(|pod| used.add(&snapshot.shapes[snapshot.pods[*pod].shape].requests));
    let label = |key: &str| node.labels.get(key).cloned().unwrap_or_default();
    NodeRow {
        name: node.name.clone(),
        kind: node.instance_type.clone().unwrap_or_default(),
        others: 0,
        lowered: Vec::new(),
        zone: label(label::ZONE),
        capacity_type: label(label::CAPACITY_TYPE),
        price: cost::price(answer, node),
        used,
        allocatable: node.allocatable.clone(),
        pods,
    }
}

/// Returns a type from the NodePool's catalogue.
fn instance_type<'a>(answer: &'a PlanAnswer, pool: &str, name: &str) -> Option<&'a InstanceType> {
    let snapshot = &answer.built.snapshot;
    let pool = snapshot.pools.iter().find(|one| one.name == pool)?;
    snapshot.catalogues.get(pool.catalogue)?.types.iter().find(|kind| kind.name == name)
}

fn cheapest<'a>(kind: &'a InstanceType, requirements: &Requirements) -> Option<&'a Offering> {
    let available = Offer::new(kind).offerings(requirements).filter(|offering| offering.available).collect::<Vec<_>>();
    available.into_iter().min_by_key(|offering| (offering.price, offering.capacity_type, &offering.zone))
}

/// Returns the zone of the cheapest offering, and the number of other zones with the same price.
fn zones(kind: &InstanceType, requirements: &Requirements) -> String {
    let Some(best) = cheapest(kind, requirements) else { return String::new() };
    let offer = Offer::new(kind);
    let same = offer.offerings(requirements).filter(|it| it.available && it.price == best.price);
    let others = same.filter(|it| it.capacity_type == best.capacity_type && it.zone != best.zone).count();
    if others == 0 { best.zone.clone() } else { format!("{} +{others}", best.zone) }
}

/// Returns the owners of the pods with their number: `Deployment shop/web`, or `Pod shop/one`.
#[must_use]
pub fn owners(answer: &PlanAnswer, pods: &[usize]) -> Vec<(String, usize)> {
    counted(pods.iter().map(|pod| {
        let pod = &answer.built.snapshot.pods[*pod];
        match &pod.holder {
            Some(holder) => format!("capacity for {holder}"),
            None => owner_of(answer, &pod.name),
        }
    }))
}

/// Returns the owners of running pods with their number; the pods are `namespace/name`.
pub(super) fn owners_of<'a>(answer: &PlanAnswer, pods: impl Iterator<Item = &'a str>) -> Vec<(String, usize)> {
    counted(pods.map(|pod| owner_of(answer, pod)))
}

/// Returns the workload of the pod with this `namespace/name`.
pub(super) fn owner_of(answer: &PlanAnswer, full_name: &str) -> String {
    object(answer, full_name).map_or_else(|| format!("Pod {full_name}"), |pod| owner(answer, pod))
}

fn counted(owners: impl Iterator<Item = String>) -> Vec<(String, usize)> {
    let mut groups: BTreeMap<String, usize> = BTreeMap::new();
    owners.for_each(|owner| *groups.entry(owner).or_default() += 1);
    groups.into_iter().collect()
}

/// Returns the pod with this `namespace/name`.
#[must_use]
pub fn object<'a>(answer: &'a PlanAnswer, full_name: &str) -> Option<&'a Pod> {
    let pods = &answer.cluster.objects.pods;
    let wanted = full_name.split_once('/').unwrap_or(("", full_name));
    let first = pods.partition_point(|pod| (pod.namespace(), pod.name()) < wanted);
    pods.get(first).map(AsRef::as_ref).filter(|pod: &&Pod| (pod.namespace(), pod.name()) == wanted)
}

/// Returns the owner of a pod; the Deployment instead of its ReplicaSet.
#[must_use]
pub fn owner(answer: &PlanAnswer, pod: &Pod) -> String {
    let namespace = pod.namespace();
    let Some(owner) = pod.controller() else { return format!("Pod {namespace}/{}", pod.name()) };
    if owner.kind == "ReplicaSet" {
        let above = replica_set(answer, namespace, &owner.name)
            .and_then(|set| set.metadata.owner_references.iter().flatten().find(|it| it.kind == "Deployment"));
        if let Some(above) = above {
            return format!("Deployment {namespace}/{}", above.name);
        }
    }
    format!("{} {namespace}/{}", owner.kind, owner.name)
}

/// Returns the ReplicaSet with this name, if it is in the input.
fn replica_set<'a>(answer: &'a PlanAnswer, namespace: &str, name: &str) -> Option<&'a ReplicaSet> {
    let sets = &answer.cluster.objects.replica_sets;
    let wanted = (Some(namespace), Some(name));
    let first = sets.partition_point(|set| key(set) < wanted);
    sets.get(first).map(AsRef::as_ref).filter(|set: &&ReplicaSet| key(set) == wanted)
}

fn key(set: &ReplicaSet) -> (Option<&str>, Option<&str>) {
    (set.metadata.namespace.as_deref(), set.metadata.name.as_deref())
}

/// Returns the stages of the start of a NodeClaim's node; nothing without the NodeClaim.
#[must_use]
pub fn start_stages(answer: &PlanAnswer, claim: &str) -> Vec<StartStage> {
    let objects = &answer.cluster.objects;
    let claim = objects.claims.iter().find(|known| known.metadata.name.as_deref() == Some(claim));
    let Some(claim) = claim else { return Vec::new() };
    let id = claim.provider_id();
    let node = objects.nodes.iter().find(|node| id == Some(node.spec.provider_id.as_str()));
    let awaited = AwaitedPod::from_claim(claim);
    let pod = awaited.and_then(|awaited| objects.pods.iter().find(|pod| awaited.is(pod)));
    timeline::stages(claim, node.map(AsRef::as_ref), pod.map(AsRef::as_ref))
}

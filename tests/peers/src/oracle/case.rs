//! Cluster and plan in the format of the kube-scheduler program.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, Result, ensure};
use api::label;
use planner::{
    Catalogue, Effect, FirstChoice, InstanceType, Launch, Offer, Offering, Operator, Plan, PodVerdict, Pool,
    Requirements, Snapshot, Stage,
};
use serde_json::{Value, json};

use crate::clusters::{Cluster, DRIVER, Dice, amounts, csi_node, machine_labels};

/// Choice of offerings for the launches of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Cheapest offering of the types that each launch lists.
    Cheapest,
    /// Random listed type and random permitted offering of it, by the number and the cluster's seed.
    Any(u64),
}

/// One case for kube-scheduler.
#[derive(Clone, Debug)]
pub struct Case {
    /// Seed of the cluster.
    pub seed: u64,
    /// Variant of the plan's open choices.
    pub variant: Variant,
    line: Value,
}

impl fmt::Display for Variant {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cheapest => out.write_str("cheapest"),
            Self::Any(number) => write!(out, "any-{number}"),
        }
    }
}

impl Case {
    /// Creates the case that checks whether kube-scheduler can carry out `plan` for `snapshot` in `cluster`.
    ///
    /// # Errors
    /// Returns an error if the plan is inconsistent: a launch without an offering, or a pod that is placed twice or out of
    /// order.
    pub fn new(cluster: &Cluster, snapshot: &Snapshot, plan: &Plan, variant: Variant) -> Result<Self> {
        let mut nodes: Vec<Value> = cluster.settled.iter().map(|node| as_planned(snapshot, node.clone())).collect();
        let mut csi_nodes = cluster.settled_csi_nodes.clone();
        let mut dice = Dice::new(match variant {
            Variant::Cheapest => 0,
            Variant::Any(number) => cluster.seed.rotate_left(32) ^ number,
        });
        for all in &cluster.open {
            let node = if variant == Variant::Cheapest { &all[0] } else { dice.one(all) };
            nodes.push(as_planned(snapshot, node.clone()));
        }
        for (position, launch) in plan.launches.iter().enumerate() {
            let name = launch_name(position);
            let (kind, offering, node) = planned(snapshot, launch, &name, variant, &mut dice)
                .with_context(|| format!("launch {position} of pool {}", launch.pool))?;
            csi_nodes.extend(kind.attach_limits.get(DRIVER).map(|limit| csi_node(&name, *limit)));
            ensure!(offering.available, "launch {position} counts on an offering that cannot be had");
            nodes.push(node);
        }
        let leaves = |pod: &&Value| cluster.leaving.iter().any(|node| pod["spec"]["nodeName"] == json!(node));
        let done = |pod: &&Value| pod["status"]["phase"] == json!("Succeeded");
        let goes = |pod: &&Value| leaves(pod) || done(pod) || is_ending(pod);
        let bound: Vec<&Value> = cluster.bound.iter().filter(|pod| !goes(pod)).collect();
        let line = json!({
            "seed": cluster.seed,
            "variant": variant.to_string(),
            "nodes": nodes,
            "bound": bound,
            "daemonSets": cluster.daemon_sets,
            "pods": placements(cluster, snapshot, plan)?,
            "pending": pending(cluster, snapshot, plan)?,
            "namespaces": cluster.namespaces,
            "persistentVolumes": cluster.volumes,
            "persistentVolumeClaims": cluster.volume_claims,
            "storageClasses": cluster.storage_classes,
            "csiNodes": csi_nodes,
        });
        Ok(Self { seed: cluster.seed, variant, line })
    }

    /// Creates a case from JSON in the program's format: see `tests/peers/scheduler/cluster.go`.
    #[must_use]
    pub fn from_line(line: Value) -> Self {
        Self { seed: line["seed"].as_u64().unwrap_or_default(), variant: Variant::Cheapest, line }
    }

    /// Returns the case in the program's format.
    #[must_use]
    pub fn line(&self) -> &Value {
        &self.line
    }
}

fn launch_name(position: usize) -> String {
    format!("launch-{position}")
}

/// Returns the placements in the order in which kube-scheduler can make them according to the plan.
fn placements(cluster: &Cluster, snapshot: &Snapshot, plan: &Plan) -> Result<Vec<Value>> {
    let mut homes = BTreeMap::new();
    for nomination in &plan.nominations {
        ensure!(homes.insert(nomination.pod, nomination.node.clone()).is_none(), "pod {} twice", nomination.pod);
    }
    for (position, launch) in plan.launches.iter().enumerate() {
        for pod in &launch.pods {
            ensure!(homes.insert(*pod, launch_name(position)).is_none(), "pod {pod} twice");
        }
    }
    // Pods of a CapacityBuffer only reserve capacity and never reach kube-scheduler.
    let is_real = |pod: &&usize| snapshot.pods.get(**pod).is_some_and(|it| it.holder.is_none());
    let order: Vec<&usize> = plan.report.order.iter().filter(is_real).collect();
    let real = homes.keys().filter(is_real).count();
    ensure!(order.len() == real, "the order names {} of {real} pods", order.len());
    let place = |pod: &usize| {
        let node = homes.get(pod).with_context(|| format!("pod {pod} is in the order and has no place"))?;
        Ok(json!({"pod": object(cluster, snapshot, *pod)?, "node": node}))
    };
    order.into_iter().map(place).collect()
}

fn is_ending(pod: &Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_null()
}

/// Returns the node as the plan assumes it. Requests of terminating pods are subtracted, because those pods count for nothing
/// else. An in-flight node gets the allocatable of its type, including NodeOverlays.
fn as_planned(snapshot: &Snapshot, mut node: Value) -> Value {
    let labels = &node["metadata"]["labels"];
    let text = |key: &str| labels[key].as_str().unwrap_or_default();
    let Some(known) = snapshot.nodes.iter().find(|it| node["metadata"]["name"] == json!(it.name)) else { return node };
    let mut allocatable = known.allocatable.clone();
    if known.stage == Stage::InFlight {
        let pool = snapshot.pools.iter().find(|pool| Some(&pool.name) == known.pool.as_ref());
        let types = pool.and_then(|pool| snapshot.catalogues.get(pool.catalogue)).map_or(&[][..], |it| &it.types);
        let kind = types.iter().find(|kind| kind.name == text(label::INSTANCE_TYPE));
        allocatable = kind.map_or(allocatable, |kind| kind.allocatable.clone());
    }
    for pod in known.pods.iter().filter(|pod| pod.ending) {
        allocatable.subtract(&pod.shape.requests);
    }
    node["status"]["allocatable"] = amounts(&allocatable);
    node
}

/// Returns the pods that the plan reports as unschedulable.
fn pending(cluster: &Cluster, snapshot: &Snapshot, plan: &Plan) -> Result<Vec<Value>> {
    let results = plan.report.pods.iter().enumerate();
    let real = results.filter(|(pod, _)| snapshot.pods.get(*pod).is_some_and(|it| it.holder.is_none()));
    let without = real.filter(|(_, result)| matches!(result, PodVerdict::Unschedulable { .. }));
    without.map(|(pod, _)| object(cluster, snapshot, pod)).collect()
}

/// Returns the pod as its controller will recreate it: without a node, even if it runs on a leaving one.
fn object(cluster: &Cluster, snapshot: &Snapshot, pod: usize) -> Result<Value> {
    let uid = &snapshot.pods.get(pod).with_context(|| format!("there is no pod {pod}"))?.uid;
    let found = cluster.pending.iter().chain(&cluster.bound).find(|it| it["metadata"]["uid"] == json!(uid));
    let mut object = found.with_context(|| format!("no pod has uid {uid}"))?.clone();
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.remove("nodeName");
    }
    Ok(object)
}

/// Returns the type, the offering and the Node of a launch. The Node has the labels and taints that remain after registration.
fn planned<'a>(
    snapshot: &'a Snapshot,
    launch: &Launch,
    name: &str,
    variant: Variant,
    dice: &mut Dice,
) -> Result<(&'a InstanceType, &'a Offering, Value)> {
    let pool = snapshot.pools.iter().find(|pool| pool.name == launch.pool).context("there is no such pool")?;
    let catalogue = snapshot.catalogues.get(pool.catalogue).context("the pool has no catalogue")?;
    let choices = choices(catalogue, launch)?;
    let (kind, offering) = match variant {
        Variant::Cheapest => {
            let cost =
                |(kind, it): &&(&InstanceType, &Offering)| (kind.cost(it.price), it.capacity_type, kind.name.clone());
            *choices.iter().min_by_key(cost).context("nothing to buy")?
        }
        Variant::Any(_) => *dice.one(&choices),
    };
    let taints: Vec<Value> = pool.taints.iter().map(taint).collect();
    let mut labels = machine_labels(name, kind, offering);
    labels.extend(claim_labels(pool, launch).map(|(key, value)| (key.to_owned(), json!(value))));
    let node = json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints},
        "status": {"capacity": amounts(&kind.capacity), "allocatable": amounts(&kind.allocatable)},
        "planned": true,
    });
    Ok((kind, offering, node))
}

/// Returns all possible results of a launch: the listed types with their permitted and available offerings.
fn choices<'a>(catalogue: &'a Catalogue, launch: &Launch) -> Result<Vec<(&'a InstanceType, &'a Offering)>> {
    let requirements: Requirements = launch.requirements.iter().collect();
    let mut choices = Vec::new();
    for name in launch.instance_types.iter() {
        let kind = catalogue.types.iter().find(|kind| kind.name == *name);
        let kind = kind.with_context(|| format!("there is no type {name}"))?;
        let before = choices.len();
        choices.extend(Offer::new(kind).offerings(&requirements).filter(|it| it.available).map(|it| (kind, it)));
        ensure!(choices.len() > before, "type {name} is listed and cannot be had as required");
    }
    let first = FirstChoice::new(choices.iter().copied()).context("no types are listed")?;
    ensure!(first.price == launch.price, "it says that it costs {:?} and can be had for {first:?}", launch.price);
    Ok(choices)
}

/// Returns the labels of the NodeClaim: those of the NodePool, and custom ones with a single value in its requirements.
fn claim_labels<'a>(pool: &'a Pool, launch: &'a Launch) -> impl Iterator<Item = (&'a str, &'a str)> {
    let own = |key: &str| !label::is_well_known(key) && !label::is_restricted(key);
    let settled = launch.requirements.iter().filter_map(move |it| match it.values.as_slice() {
        [value] if it.operator == Operator::In && own(&it.key) => Some((it.key.as_str(), value.as_str())),
        _ => None,
    });
    settled.chain(pool.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())))
}

fn taint(taint: &planner::Taint) -> Value {
    let effect = match taint.effect {
        Effect::NoSchedule => api::taint::NO_SCHEDULE,
        Effect::PreferNoSchedule => api::taint::PREFER_NO_SCHEDULE,
        Effect::NoExecute => api::taint::NO_EXECUTE,
    };
    json!({"key": taint.key, "value": taint.value, "effect": effect})
}

//! A machine as the planner sees it.

use std::collections::BTreeMap;

use api::objects::{ResourceList, pod_requests};
use api::{NodeClaim, label};
use planner::{BoundPod, Catalogue, InstanceType, MicroDollars, Offer, Requirements, Resources, Stage};

use super::{Machine, MachineStage};
use crate::rescheduling::{asks_not_to_be_disrupted, full_name, is_reschedulable, uid};
use crate::{Input, Problem, millis, quantities, shapes};

/// The planner's node.
pub(crate) fn translate(input: &Input<'_>, machine: &Machine<'_>, problems: &mut Vec<Problem>) -> planner::Node {
    let stage = machine.stage();
    let likely = likely_type(input, machine);
    let (used, daemon_used) = requests(machine, problems);
    let (labels, requirements) = labels(machine, stage);
    let until = |name: &str| input.nominated_until.get(name).copied();
    let nominated_until = machine.claim_name().and_then(until).max(until(machine.name()));
    let others = || machine.pods.iter().filter(|pod| !pod.is_daemon() && !pod.is_static());
    let attached = || machine.pods.iter().filter(|pod| pod.is_daemon() || pod.is_static());
    planner::Node {
        name: machine.name().to_owned(),
        claim: machine.claim_name().map(str::to_owned),
        pool: machine.pool().cloned(),
        stage: match stage {
            MachineStage::Unlaunched | MachineStage::Launched => Stage::InFlight,
            MachineStage::Registered => Stage::Registered,
            MachineStage::Initialized => Stage::Initialized,
        },
        leaving: machine.leaving(),
        unschedulable: machine.node.is_some_and(|node| node.spec.unschedulable),
        price: price(input, machine, &labels),
        instance_type: labels.get(label::INSTANCE_TYPE).cloned().or_else(|| likely.map(|kind| kind.name.clone())),
        labels,
        requirements,
        taints: taints(machine, stage),
        allocatable: allocatable(machine, stage, likely, problems),
        used,
        daemon_used,
        pods: others().map(|pod| bound(input, pod)).collect(),
        quiet_since: machine.quiet_since().map(millis),
        do_not_disrupt: machine.node.is_some_and(api::objects::Node::is_do_not_disrupt)
            || attached().any(|pod| asks_not_to_be_disrupted(pod, input.now)),
        nominated_until: nominated_until.map(millis),
        ..planner::Node::default()
    }
}

fn bound(input: &Input<'_>, pod: &api::objects::Pod) -> BoundPod {
    BoundPod {
        uid: uid(pod),
        name: full_name(pod),
        reschedulable: is_reschedulable(pod),
        do_not_disrupt: asks_not_to_be_disrupted(pod, input.now),
        ..BoundPod::default()
    }
}

/// What all pods on the machine request, and the daemons' share of it.
fn requests(machine: &Machine<'_>, problems: &mut Vec<Problem>) -> (Resources, Resources) {
    let mut used = Resources::default();
    let mut daemon_used = Resources::default();
    for pod in &machine.pods {
        let mut own: Resources = match pod_requests(&pod.spec) {
            Ok(amounts) => amounts.into_iter().collect(),
            Err(_) => {
                problems.push(Problem::BoundPod { pod: full_name(pod), node: machine.name().to_owned() });
                Resources::default()
            }
        };
        own.set(Resources::PODS, 1);
        used.add(&own);
        if pod.is_daemon() {
            daemon_used.add(&own);
        }
    }
    (used, daemon_used)
}

/// Labels that are certain, and what is still open: a Node's labels once it is registered, else those of its claim with
/// the requirements that leave one value; without an instance the other requirements stay open.
fn labels(machine: &Machine<'_>, stage: MachineStage) -> (BTreeMap<String, String>, Vec<planner::Requirement>) {
    let canonical = |labels: &BTreeMap<String, String>| {
        labels.iter().map(|(key, value)| (label::canonical(key).to_owned(), value.clone())).collect()
    };
    let registered = matches!(stage, MachineStage::Registered | MachineStage::Initialized);
    if let Some(node) = machine.node.filter(|_| registered) {
        // Deprecated spellings first, so that a Node's own stable label wins over its alias.
        let all = node.metadata.labels.clone().unwrap_or_default();
        let mut labels: BTreeMap<String, String> = canonical(&all);
        labels.extend(all.into_iter().filter(|(key, _)| label::canonical(key) == key));
        labels.entry(label::HOSTNAME.to_owned()).or_insert_with(|| node.name().to_owned());
        return (labels, Vec::new());
    }
    let Some(claim) = machine.claim else { return (BTreeMap::new(), Vec::new()) };
    let mut labels: BTreeMap<String, String> = claim.metadata.labels.as_ref().map(canonical).unwrap_or_default();
    let requirements = requirements(claim);
    for (key, set) in requirements.iter() {
        if let Some(value) = set.single() {
            labels.entry(key.to_owned()).or_insert_with(|| value.to_owned());
        }
    }
    let open = if stage == MachineStage::Unlaunched { requirements.to_vec() } else { Vec::new() };
    (labels, open)
}

fn requirements(claim: &NodeClaim) -> Requirements {
    let list: Vec<planner::Requirement> = claim.spec.requirements.iter().map(shapes::lenient).collect();
    list.iter().collect()
}

/// Taints that count: until a managed machine is initialized, those of its start do not.
fn taints(machine: &Machine<'_>, stage: MachineStage) -> Vec<planner::Taint> {
    let spec = machine.claim.map(|claim| &claim.spec);
    let of_claim = || spec.and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let of_start = spec.and_then(|spec| spec.startup_taints.clone()).unwrap_or_default();
    let goes =
        |taint: &api::Taint| api::taint::is_known_ephemeral(taint) || of_start.iter().any(|start| start.matches(taint));
    let mut counted = match (stage, machine.node) {
        (MachineStage::Registered | MachineStage::Initialized, Some(node)) => node.spec.taints.clone(),
        _ => of_claim(),
    };
    if stage != MachineStage::Initialized {
        counted.retain(|taint| !goes(taint));
    }
    counted.iter().filter_map(shapes::taint).collect()
}

/// What pods may request: the Node's word once initialized; before, the claim fills what kubelet has not said yet, and
/// without an instance the cheapest listed type stands in.
fn allocatable(
    machine: &Machine<'_>,
    stage: MachineStage,
    likely: Option<&InstanceType>,
    problems: &mut Vec<Problem>,
) -> Resources {
    let name = machine.name();
    let read =
        |list: &ResourceList, kind, problems: &mut Vec<Problem>| quantities::resources(list, kind, name, problems);
    let own = machine.node.map(|node| read(&node.status.allocatable, "Node", problems)).unwrap_or_default();
    if stage == MachineStage::Initialized {
        return own;
    }
    let status = machine.claim.and_then(|claim| claim.status.as_ref());
    let promised = status.map(|status| read(&status.allocatable, "NodeClaim", problems)).unwrap_or_default();
    let known = quantities::filled(&own, &promised);
    match likely {
        Some(kind) if known.is_empty() => kind.allocatable.clone(),
        _ => known,
    }
}

/// What the machine takes of its pool's limits; without an instance the greatest amount over the types that it lists, so
/// that whatever EC2 chooses stays within them.
pub(crate) fn capacity(input: &Input<'_>, machine: &Machine<'_>) -> Resources {
    let mut unread = Vec::new();
    let mut read = |list: &ResourceList| quantities::resources(list, "Node", machine.name(), &mut unread);
    let own = machine.node.map(|node| read(&node.status.capacity)).unwrap_or_default();
    let status = machine.claim.and_then(|claim| claim.status.as_ref());
    let promised = status.map(|status| read(&status.capacity)).unwrap_or_default();
    let known = quantities::filled(&own, &promised);
    if !known.is_empty() {
        return known;
    }
    let mut greatest = Resources::default();
    for kind in listed(input, machine) {
        for (name, amount) in kind.capacity.iter() {
            greatest.set(name, amount.max(greatest.get(name)));
        }
    }
    greatest
}

fn catalogue<'a>(input: &'a Input<'_>, machine: &Machine<'_>) -> Option<&'a Catalogue> {
    let class = match machine.claim {
        Some(claim) => &claim.spec.node_class_ref.name,
        None => return None,
    };
    input.catalogues.get(class).map(AsRef::as_ref)
}

/// The types that a claim may become.
fn listed<'a>(input: &'a Input<'_>, machine: &Machine<'_>) -> impl Iterator<Item = &'a InstanceType> {
    let requirements = machine.claim.map(requirements).unwrap_or_default();
    let types = catalogue(input, machine).map_or(&[][..], |catalogue| &catalogue.types);
    types.iter().filter(move |kind| {
        requirements.get(label::INSTANCE_TYPE).is_none_or(|set| set.allows(Some(&kind.name)))
            && Offer::of(kind).offerings(&requirements).next().is_some()
    })
}

/// The type that a claim without an instance is taken for: the cheapest that it lists and that can be had, then by name.
fn likely_type<'a>(input: &'a Input<'_>, machine: &Machine<'_>) -> Option<&'a InstanceType> {
    if machine.stage() != MachineStage::Unlaunched {
        return None;
    }
    let requirements = requirements(machine.claim?);
    listed(input, machine).min_by_key(|kind| {
        let price = Offer::of(kind).price(&requirements);
        (price.is_none(), price, &kind.name)
    })
}

/// What the machine costs, as its labels and the catalogue say; the offering need not be available any more.
fn price(input: &Input<'_>, machine: &Machine<'_>, labels: &BTreeMap<String, String>) -> Option<MicroDollars> {
    let name = labels.get(label::INSTANCE_TYPE)?;
    let kind = catalogue(input, machine)?.types.iter().find(|kind| kind.name == *name)?;
    let offering = kind.offerings.iter().find(|offering| {
        labels.get(label::ZONE) == Some(&offering.zone)
            && labels.get(label::CAPACITY_TYPE).map(String::as_str) == Some(offering.capacity_type.as_str())
    })?;
    Some(offering.price)
}

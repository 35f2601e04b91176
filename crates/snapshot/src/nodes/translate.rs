//! Translation of a node for the planner.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::objects::{CSINode, PoolSurge, ResourceList};
use api::{DurationText, NodeClaim, NodeClaimSpec, condition, label};
use jiff::Timestamp;
use planner::{
    Catalogue, Drifted, FirstChoice, InstanceType, MicroDollars, Millis, Offer, Requirements, Resources, Stage,
};

use super::bound_pod::{bound_pod, never_evicted};
use super::health::unhealthy;
use super::{MachineStage, NodeSource, instance_bounds};
use crate::catalogues::Catalogues;
use crate::pods::full_name;
use crate::pods::records::{Record, Records};
use crate::{Input, Problem, millis, quantities, requirements, taints};

/// All inputs of a node's translation.
pub(crate) struct TranslationContext<'a> {
    pub(crate) input: &'a Input<'a>,
    pub(crate) catalogues: &'a Catalogues,
    pub(crate) records: &'a Records,
    /// Labels that instance types determine.
    pub(crate) well_known: BTreeSet<String>,
    /// NodePools that lower requests.
    pub(crate) packing: BTreeSet<&'a str>,
    /// NodePools that ignore utilization reports.
    pub(crate) ignoring: BTreeSet<&'a str>,
    /// NodePools that start a copy of a single-replica pod before its eviction; `None` if no pod can have a copy.
    pub(crate) surging: Option<BTreeMap<&'a str, PoolSurge>>,
}

impl<'a> TranslationContext<'a> {
    /// Returns the catalogue of the node's NodePool or EC2NodeClass.
    pub(super) fn catalogue(&self, machine: &NodeSource<'_>) -> Option<&'a Arc<Catalogue>> {
        let class = &machine.claim?.spec.node_class_ref.name;
        self.catalogues.get(machine.pool().map_or("", String::as_str), class)
    }

    /// Reports whether single-replica pods of the node get a copy before their eviction; `None` if no pod can have a copy.
    pub(super) fn surges(&self, machine: &NodeSource<'_>) -> Option<PoolSurge> {
        let surging = self.surging.as_ref()?;
        let of_pool = machine.pool().and_then(|pool| surging.get(pool.as_str()));
        Some(of_pool.copied().unwrap_or_default())
    }

    /// Returns the time since which EC2's status checks of the instance fail.
    pub(super) fn impaired_since(&self, machine: &NodeSource<'_>) -> Option<Timestamp> {
        self.input.impaired.get(machine.instance()?).copied()
    }

    /// Returns the time until which nominations of recent plans protect the node.
    pub(super) fn nominated_until(&self, machine: &NodeSource<'_>) -> Option<Millis> {
        let until = |name: &str| self.input.nominated_until.get(name).copied();
        machine.claim_name().and_then(until).max(until(machine.name())).map(millis)
    }
}

/// Returns the planner's node.
pub(super) fn node(
    context: &TranslationContext<'_>,
    machine: &NodeSource<'_>,
    drivers: Option<&Arc<CSINode>>,
    pods: &[&Record],
    problems: &mut Vec<Problem>,
) -> planner::Node {
    let stage = machine.stage();
    let likely = likely_type(context, machine);
    let (used, daemon_used) = requests(machine, pods, problems);
    let (labels, requirements) = labels(machine, stage);
    let (now, surges) = (context.input.now, context.surges(machine));
    let created = machine.claim.and_then(|claim| claim.metadata.creation_timestamp.as_ref()).map(|at| millis(at.0));
    let lifetime = duration(machine, "spec.expireAfter", |spec| Some(&spec.expire_after), problems);
    // Kerf never removes a node without a NodeClaim, so evictions on it do not matter.
    let managed = pods.iter().filter(|_| machine.claim.is_some());
    problems.extend(managed.filter_map(|record| never_evicted(context.records, record, surges, now)));
    let known =
        labels.get(label::INSTANCE_TYPE).and_then(|name| context.catalogue(machine)?.instance_type(name)).or(likely);
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
        price: price(known, &labels),
        paid: Vec::new(),
        instance_type: labels.get(label::INSTANCE_TYPE).cloned().or_else(|| likely.map(|kind| kind.name.clone())),
        labels,
        requirements,
        taints: taints(machine, stage),
        allocatable: allocatable(machine, stage, likely, problems),
        used,
        daemon_used,
        attach_limits: attach_limits(drivers, known.filter(|_| stage != MachineStage::Initialized)),
        healthy_since: machine.healthy_since().map(millis),
        quiet_since: machine.quiet_since().map(millis),
        do_not_disrupt: machine.node.is_some_and(|node| node.is_do_not_disrupt()),
        rebooting: machine.is_rebooting(),
        nominated_until: None,
        pods: pods.iter().map(|record| bound_pod(context.records, record, surges, now, problems)).collect(),
        created: created.unwrap_or_default(),
        expires: created.zip(lifetime).map(|(created, lifetime)| Millis(created.0.saturating_add(lifetime))),
        termination_grace: duration(
            machine,
            "spec.terminationGracePeriod",
            |spec| spec.termination_grace_period.as_ref(),
            problems,
        ),
        drifted: drifted(machine),
        unhealthy: machine
            .node
            .filter(|node| context.input.settings.node_repair.covers(node) && !machine.is_rebooting())
            .and_then(|node| unhealthy(node, context.impaired_since(machine))),
        usage: None,
    }
}

/// Returns a duration of the NodeClaim in milliseconds; `None` if it is missing or invalid.
fn duration(
    machine: &NodeSource<'_>,
    field: &'static str,
    read: impl Fn(&NodeClaimSpec) -> Option<&DurationText>,
    problems: &mut Vec<Problem>,
) -> Option<i64> {
    let claim = machine.claim?;
    let nanos = read(&claim.spec)?.nanos().unwrap_or_else(|error| {
        let claim = claim.metadata.name.clone().unwrap_or_default();
        problems.push(Problem::Claim { claim, field, error });
        None
    });
    nanos.map(|nanos| nanos.div_euclid(1_000_000))
}

fn drifted(machine: &NodeSource<'_>) -> Option<Drifted> {
    let found = machine.condition(condition::DRIFTED).filter(|found| found.is_true())?;
    Some(Drifted { since: millis(found.last_transition_time.0), reason: found.reason.clone() })
}

/// Returns the requests of all pods on the node, and the part of each DaemonSet.
fn requests(
    machine: &NodeSource<'_>,
    pods: &[&Record],
    problems: &mut Vec<Problem>,
) -> (Resources, BTreeMap<String, Resources>) {
    let mut used = Resources::default();
    let mut daemon_used: BTreeMap<String, Resources> = BTreeMap::new();
    for record in pods {
        if record.has_invalid_request() {
            problems.push(Problem::BoundPod { pod: full_name(&record.pod), node: machine.name().to_owned() });
        }
        used.add(record.taken());
        if let Some(owner) = record.pod.controller().filter(|_| record.pod.is_daemon()) {
            let name = format!("{}/{}", record.pod.namespace(), owner.name);
            daemon_used.entry(name).or_default().add(record.taken());
        }
    }
    (used, daemon_used)
}

/// Returns the maximum number of attached volumes per driver: from the CSINode, or from the instance type until the driver is
/// registered.
fn attach_limits(drivers: Option<&Arc<CSINode>>, expected: Option<&InstanceType>) -> BTreeMap<String, i64> {
    let mut limits = expected.map(|kind| kind.attach_limits.clone()).unwrap_or_default();
    for driver in drivers.iter().flat_map(|node| &node.spec.drivers) {
        match driver.allocatable.as_ref().and_then(|amounts| amounts.count) {
            Some(count) => limits.insert(driver.name.clone(), i64::from(count)),
            None => limits.remove(&driver.name),
        };
    }
    limits
}

/// Returns the known labels and the open requirements.
///
/// A registered Node has its own labels, except for those that say what was launched. Before, the NodeClaim's labels count, with its requirements that leave one value.
/// Without an instance the other requirements are open.
fn labels(machine: &NodeSource<'_>, stage: MachineStage) -> (BTreeMap<String, String>, Vec<planner::Requirement>) {
    let canonical = |labels: &BTreeMap<String, String>| {
        labels.iter().map(|(key, value)| (label::canonical(key).to_owned(), value.clone())).collect()
    };
    let registered = matches!(stage, MachineStage::Registered | MachineStage::Initialized);
    if let Some(node) = machine.node.filter(|_| registered) {
        // Deprecated keys come first, so that the Node's own stable label takes precedence over its alias.
        let all = node.metadata.labels.clone().unwrap_or_default();
        let mut labels: BTreeMap<String, String> = canonical(&all);
        labels.extend(all.into_iter().filter(|(key, _)| label::canonical(key) == key));
        labels.entry(label::HOSTNAME.to_owned()).or_insert_with(|| node.name().to_owned());
        labels.extend(launched_labels(machine));
        return (labels, Vec::new());
    }
    let Some(claim) = machine.claim else { return (BTreeMap::new(), Vec::new()) };
    let mut labels: BTreeMap<String, String> = claim.metadata.labels.as_ref().map(canonical).unwrap_or_default();
    labels.retain(|key, value| key != label::PLACEMENT_GROUP_PARTITION || value != label::PARTITION_NOT_READ);
    let requirements = claim_requirements(claim);
    for (key, set) in requirements.iter() {
        if let Some(value) = set.single() {
            labels.entry(key.to_owned()).or_insert_with(|| value.to_owned());
        }
    }
    let open = if stage == MachineStage::Unlaunched { requirements.to_vec() } else { Vec::new() };
    (labels, open)
}

/// Returns the labels that say what was launched. A node can change them on its Node.
fn launched_labels(machine: &NodeSource<'_>) -> impl Iterator<Item = (String, String)> {
    let of_claim = machine.claim.iter().flat_map(|claim| claim.metadata.labels.iter().flatten());
    let launched = of_claim.filter(|(key, _)| label::is_well_known(key));
    launched.map(|(key, value)| (key.clone(), value.clone()))
}

fn claim_requirements(claim: &NodeClaim) -> Requirements {
    let list: Vec<planner::Requirement> = claim.spec.requirements.iter().map(requirements::convert).collect();
    list.iter().collect()
}

/// Returns the taints that count. Startup taints of a managed node do not count until it is initialized.
fn taints(machine: &NodeSource<'_>, stage: MachineStage) -> Vec<planner::Taint> {
    let spec = machine.claim.map(|claim| &claim.spec);
    let claim_taints = || spec.and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let of_start = spec.and_then(|spec| spec.startup_taints.clone()).unwrap_or_default();
    let is_temporary =
        |taint: &api::Taint| api::taint::is_known_ephemeral(taint) || of_start.iter().any(|start| start.matches(taint));
    let mut counted = match (stage, machine.node) {
        (MachineStage::Registered | MachineStage::Initialized, Some(node)) => node.spec.taints.clone(),
        _ => claim_taints(),
    };
    if stage != MachineStage::Initialized {
        counted.retain(|taint| !is_temporary(taint));
    }
    counted.iter().filter_map(taints::taint).collect()
}

/// Returns the allocatable resources.
///
/// An initialized Node has its own values, within the bounds of its instance. Before, the NodeClaim fills the values that kubelet
/// has not reported. Without an instance the cheapest listed type counts.
fn allocatable(
    machine: &NodeSource<'_>,
    stage: MachineStage,
    likely: Option<&InstanceType>,
    problems: &mut Vec<Problem>,
) -> Resources {
    let name = machine.name();
    let read =
        |list: &ResourceList, kind, problems: &mut Vec<Problem>| quantities::resources(list, kind, name, problems);
    let mut own = machine.node.map(|node| read(&node.status.allocatable, "Node", problems)).unwrap_or_default();
    let status = machine.claim.and_then(|claim| claim.status.as_ref());
    if let Some(status) = status {
        instance_bounds::limit_allocatable(&mut own, &read(&status.capacity, "NodeClaim", problems));
    }
    if stage == MachineStage::Initialized {
        return own;
    }
    let of_claim = status.map(|status| read(&status.allocatable, "NodeClaim", problems)).unwrap_or_default();
    let mut known = quantities::filled(&own, &of_claim);
    if machine.node.is_some_and(|node| node.is_ready()) {
        // A ready kubelet has reported these, and a zero is final: pods must not wait for more.
        let reported = [Resources::CPU, Resources::MEMORY, Resources::PODS].into_iter().filter(|name| own.names(name));
        reported.for_each(|name| known.set(name, own.get(name)));
    }
    match likely {
        Some(kind) if known.is_empty() => kind.allocatable.clone(),
        _ => known,
    }
}

/// Returns the resources that the node takes from its NodePool's limits, within the bounds of its instance. Without an instance each
/// resource has its maximum over the listed types, so that EC2's choice never exceeds the limits.
pub(super) fn capacity(context: &TranslationContext<'_>, machine: &NodeSource<'_>) -> Resources {
    let mut unread = Vec::new();
    let mut read = |list: &ResourceList| quantities::resources(list, "Node", machine.name(), &mut unread);
    let own = machine.node.map(|node| read(&node.status.capacity)).unwrap_or_default();
    let status = machine.claim.and_then(|claim| claim.status.as_ref());
    let of_claim = status.map(|status| read(&status.capacity)).unwrap_or_default();
    let known = instance_bounds::instance_capacity(own, &of_claim);
    if !known.is_empty() {
        return known;
    }
    let mut greatest = Resources::default();
    for kind in listed_types(context, machine) {
        for (name, amount) in kind.capacity.iter() {
            greatest.set(name, amount.max(greatest.get(name)));
        }
    }
    greatest
}

/// Returns what the node costs: its price, and before EC2's choice is known the highest price of the listed offerings, so that the choice
/// never exceeds a limit. A node without any known price costs nothing.
pub(super) fn cost(
    context: &TranslationContext<'_>,
    machine: &NodeSource<'_>,
    price: Option<MicroDollars>,
) -> MicroDollars {
    let requirements = machine.claim.map(|claim| claim_requirements(claim)).unwrap_or_default();
    let highest = || {
        let kinds = listed_types(context, machine).map(Offer::new);
        kinds.filter_map(|offer| offer.highest_price(&requirements)).max()
    };
    let price = if machine.stage() == MachineStage::Unlaunched { highest() } else { price.or_else(highest) };
    price.unwrap_or_default()
}

/// Returns the instance types that a NodeClaim may launch.
fn listed_types<'a>(
    context: &'a TranslationContext<'_>,
    machine: &NodeSource<'_>,
) -> impl Iterator<Item = &'a InstanceType> {
    let requirements = machine.claim.map(|claim| claim_requirements(claim)).unwrap_or_default();
    let given = machine.claim.map(|claim| claim_labels(claim)).unwrap_or_default();
    // Most NodeClaims list a few dozen of more than a thousand types.
    let named = requirements.get(label::INSTANCE_TYPE).and_then(|set| set.listed());
    let types: Vec<&InstanceType> = match (context.catalogue(machine), named) {
        (Some(catalogue), Some(names)) => names.filter_map(|name| catalogue.instance_type(name)).collect(),
        (Some(catalogue), None) => catalogue.types.iter().collect(),
        (None, _) => Vec::new(),
    };
    types.into_iter().filter(move |kind| {
        let offer = Offer::new(kind);
        offer.labels_match(&requirements, &given, &context.well_known)
            && offer.offerings(&requirements).next().is_some()
    })
}

/// Returns the labels that the NodeClaim's node gets with any instance type.
fn claim_labels(claim: &NodeClaim) -> BTreeMap<String, String> {
    let mut labels = claim.metadata.labels.clone().unwrap_or_default();
    let class = &claim.spec.node_class_ref;
    labels.insert(label::node_class_key(&class.group, &class.kind), class.name.clone());
    labels
}

/// Returns the assumed type of a NodeClaim without an instance: the cheapest available type that it lists, then by name.
fn likely_type<'a>(context: &'a TranslationContext<'_>, machine: &NodeSource<'_>) -> Option<&'a InstanceType> {
    if machine.stage() != MachineStage::Unlaunched {
        return None;
    }
    let requirements = claim_requirements(machine.claim?);
    listed_types(context, machine).min_by_key(|kind| {
        let offer = Offer::new(kind);
        let available = offer.offerings(&requirements).filter(|it| it.available).map(|it| (*kind, it));
        let cost = FirstChoice::new(available).map(|it| (kind.cost(it.price), it.capacity_type));
        (cost.is_none(), cost, &kind.name)
    })
}

/// Returns the price that EC2 charges for the node, from its labels and its type in the catalogue.
fn price(kind: Option<&InstanceType>, labels: &BTreeMap<String, String>) -> Option<MicroDollars> {
    kind.filter(|kind| labels.get(label::INSTANCE_TYPE) == Some(&kind.name))?.price_of_node(labels)
}

//! Constraints of a pod shape, compiled once for all pods that share it. The first level has every preference; one more level
//! follows for each preference that may have to be dropped.

pub(super) mod bound_pods;
pub(super) mod capacity_split;
pub(super) mod dimensions;
pub(super) mod host_preferences;
pub(super) mod requirement_sets;
pub(super) mod shared_claims;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::{CapacityType, Pod, PodShape, Preference, PreferencePolicy, Requirement, Requirements, Snapshot, Spread};

use super::topology::{GroupId, KeyId, Rule, Topology};
use capacity_split::SplitPart;
use dimensions::{Amounts, Dimensions, Load};
use requirement_sets::{ClassId, DemandClass, RequirementSets, Tolerance};

/// Maximum number of combinations of volumes and affinity; the planner does not try further alternatives.
const MOST_ALTERNATIVES: usize = 64;

/// Compiled shape, ready for placement.
pub(super) struct Demand<'a> {
    pub(super) shape: &'a PodShape,
    /// The pods' part in the capacity splits of their workloads.
    pub(super) part: SplitPart,
    pub(super) requests: Amounts,
    /// Volumes whose attachments are counted: position in the shape, and dimension.
    pub(super) attachments: Vec<(usize, usize)>,
    /// Rules of the volume claims that the pods share with others.
    claims: Vec<Rule>,
    /// Preference levels, never empty; each level drops one preference more than the one before.
    pub(super) levels: Vec<PreferenceLevel>,
    /// Groups that count a pod of this shape wherever it runs.
    pub(super) counts: Vec<GroupId>,
    /// Groups of the pod's own required anti-affinity.
    pub(super) holds: Vec<GroupId>,
    /// Groups of other pods' required anti-affinity that exclude this pod.
    pub(super) excluded_by: Vec<GroupId>,
    /// True if the shape is placed after all other shapes.
    pub(super) late: bool,
}

/// Volumes on a node: driver and claim.
pub(super) type Attached = BTreeSet<(String, String)>;

/// Constraints that apply while some preferences are kept.
pub(super) struct PreferenceLevel {
    pub(super) class: ClassId,
    pub(super) rules: Vec<Rule>,
    /// Topology keys, except the hostname, whose value a new node must have fixed once it carries the pod.
    pub(super) keys: Vec<KeyId>,
    /// Topology keys of rules that may refuse a domain now and accept it later.
    pub(super) temporary: Vec<KeyId>,
    /// True if only one pod at a time can be evaluated.
    pub(super) single: bool,
    /// Number of the shape's preferences that are dropped.
    pub(super) dropped: usize,
}

/// Inputs and outputs of the compilation of a shape.
pub(super) struct DemandCompiler<'a, 'c> {
    pub(super) dimensions: &'c Dimensions,
    pub(super) requirement_sets: &'c mut RequirementSets<'a>,
    pub(super) topology: &'c mut Topology<'a>,
    pub(super) policy: PreferencePolicy,
    /// True if any NodePool or node has a `PreferNoSchedule` taint.
    pub(super) soft_taints: bool,
}

/// Preference, identified by its position in the shape.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SoftConstraint {
    Affinity(usize),
    AntiAffinity(usize),
    Node(usize),
    Spread(usize),
    SoftTaints,
    Share(CapacityType),
}

impl<'a> Demand<'a> {
    pub(super) fn new(shape: &'a PodShape, part: SplitPart, compiler: &mut DemandCompiler<'a, '_>) -> Self {
        let items = items(shape, part, compiler.policy, compiler.soft_taints);
        let levels = (0..=items.len()).map(|dropped| compiler.level(shape, part, &items, dropped)).collect();
        let holds = shape.apart.iter().map(|term| compiler.topology.held(&shape.namespace, term)).collect();
        Self {
            shape,
            part,
            requests: compiler.dimensions.requests(shape),
            attachments: compiler.dimensions.attachments(shape),
            claims: Vec::new(),
            levels,
            counts: Vec::new(),
            holds,
            excluded_by: Vec::new(),
            late: false,
        }
    }

    /// Returns one pod as the load of a launch.
    pub(super) fn load(&self) -> Load<'_> {
        Load { used: &self.requests, ports: &self.shape.ports, held: &[] }
    }

    /// Adds the rules of claims that the pods share with others.
    pub(super) fn sharing(mut self, claims: &[Rule]) -> Self {
        self.levels.iter_mut().for_each(|level| level.rules.extend_from_slice(claims));
        self.claims = claims.to_vec();
        self
    }

    /// Records which groups count the shape, once all groups are known.
    pub(super) fn join(&mut self, topology: &Topology<'a>) {
        self.counts = topology.counting(self.shape);
        self.excluded_by = topology.excluding(&self.counts);
        self.counts.extend(self.claims.iter().map(|rule| rule.group));
        for level in &mut self.levels {
            for rule in &mut level.rules {
                rule.own = self.counts.contains(&rule.group);
            }
            let each = |rule: &Rule| rule.own && topology.limits_each_other(rule);
            level.single = !self.attachments.is_empty() || level.rules.iter().any(each);
            level.keys = topology.keys_to_settle(&level.rules, &self.counts, &self.excluded_by);
            level.temporary = topology.fickle_keys(&level.rules);
        }
    }

    /// Reports whether a strict rule of the shape refers to one of these groups.
    pub(super) fn refers_to(&self, groups: &BTreeSet<GroupId>) -> bool {
        self.strict_rules().iter().any(|rule| groups.contains(&rule.group))
    }

    /// Returns the rules that remain when all preferences are dropped.
    pub(super) fn strict_rules(&self) -> &[Rule] {
        self.levels.last().map_or(&[], |level| &level.rules)
    }

    /// Returns driver, dimension and claim of each volume of a pod that counts as attached.
    pub(super) fn attachments_of<'p>(&self, pod: &'p Pod) -> impl Iterator<Item = (&'a str, usize, &'p str)> {
        self.attachments.iter().filter_map(|(volume, dimension)| {
            let driver = self.shape.volumes[*volume].driver.as_deref()?;
            Some((driver, *dimension, pod.claims.get(*volume)?.as_str()))
        })
    }

    /// Reports whether some of these pods share a volume that counts as attached: each pod alone then requests more than it
    /// adds.
    pub(super) fn share_attachments(&self, snapshot: &Snapshot, pods: &[usize]) -> bool {
        let mut seen = BTreeSet::new();
        let mut all = pods.iter().flat_map(|pod| self.attachments_of(&snapshot.pods[*pod])).map(|(.., claim)| claim);
        !self.attachments.is_empty() && !all.all(|claim| seen.insert(claim))
    }

    /// Returns the preferences that a level omits, in the order in which they were dropped.
    pub(super) fn dropped(
        &self,
        level: &PreferenceLevel,
        policy: PreferencePolicy,
        soft_taints: bool,
    ) -> Vec<Preference> {
        if level.dropped == 0 {
            return Vec::new();
        }
        let items = items(self.shape, self.part, policy, soft_taints);
        items[..level.dropped].iter().map(|item| item.preference(self.shape)).collect()
    }
}

impl<'a> DemandCompiler<'a, '_> {
    fn level(
        &mut self,
        shape: &'a PodShape,
        part: SplitPart,
        items: &[SoftConstraint],
        dropped: usize,
    ) -> PreferenceLevel {
        let kept = &items[dropped..];
        let liked = kept.iter().find_map(|item| match item {
            SoftConstraint::Node(position) => Some(shape.preferred[*position].term.as_slice()),
            _ => None,
        });
        let strict = required(shape);
        let share = part.prefers().filter(|(of, _)| kept.contains(&SoftConstraint::Share(*of))).map(|(_, side)| side);
        // The split is a feature of Kerf: kube-scheduler, whose rules follow, does not evaluate it.
        let beside: Vec<Requirement> = part.requires().into_iter().chain(share).collect();
        let narrower: Requirements = liked.unwrap_or_default().iter().chain(&beside).collect();
        let alternatives = with_volumes(shape, &narrowed(&strict, &narrower));
        let soft = kept.contains(&SoftConstraint::SoftTaints);
        let tolerance =
            if items.contains(&SoftConstraint::SoftTaints) && !soft { Tolerance::Lenient } else { Tolerance::Strict };
        let class = DemandClass {
            alternatives: alternatives
                .into_iter()
                .map(|alternative| self.requirement_sets.intern(alternative))
                .collect(),
            tolerations: &shape.tolerations,
            tolerance,
        };
        PreferenceLevel {
            class: self.requirement_sets.class(class),
            rules: self.rules(shape, &strict, kept),
            keys: Vec::new(),
            temporary: Vec::new(),
            single: false,
            dropped,
        }
    }

    fn rules(&mut self, shape: &'a PodShape, strict: &[Requirements], kept: &[SoftConstraint]) -> Vec<Rule> {
        let mut rules = Vec::new();
        let in_force =
            |(position, spread): &(usize, &Spread)| spread.hard || kept.contains(&SoftConstraint::Spread(*position));
        let spread: Vec<&Spread> = shape.spread.iter().enumerate().filter(in_force).map(|(_, spread)| spread).collect();
        if !spread.is_empty() {
            let filter: Vec<usize> = strict.iter().map(|it| self.requirement_sets.intern(it.clone())).collect();
            rules.extend(spread.into_iter().map(|spread| self.topology.spread(shape, spread, &filter)));
        }
        if !shape.near.is_empty() {
            rules.push(self.topology.affinity(&shape.namespace, shape.near.iter().collect()));
        }
        rules.extend(
            shape.apart.iter().map(|term| Rule::anti_affinity(self.topology.anti_affinity(&shape.namespace, term))),
        );
        for item in kept {
            match item {
                SoftConstraint::Affinity(position) => {
                    let term = &shape.prefers_near[*position].term;
                    rules.push(self.topology.affinity(&shape.namespace, vec![term]));
                }
                SoftConstraint::AntiAffinity(position) => {
                    let term = &shape.prefers_apart[*position].term;
                    rules.push(Rule::anti_affinity(self.topology.anti_affinity(&shape.namespace, term)));
                }
                SoftConstraint::Node(_)
                | SoftConstraint::Spread(_)
                | SoftConstraint::SoftTaints
                | SoftConstraint::Share(_) => {}
            }
        }
        rules
    }
}

impl SoftConstraint {
    fn preference(self, shape: &PodShape) -> Preference {
        match self {
            Self::Affinity(position) => {
                let liked = &shape.prefers_near[position];
                Preference::Near { weight: liked.weight, key: liked.term.key.clone() }
            }
            Self::AntiAffinity(position) => {
                let liked = &shape.prefers_apart[position];
                Preference::Apart { weight: liked.weight, key: liked.term.key.clone() }
            }
            Self::Node(position) => {
                let liked = &shape.preferred[position];
                Preference::Nodes { weight: liked.weight, term: liked.term.clone() }
            }
            Self::Spread(position) => Preference::Spread { key: shape.spread[position].key.clone() },
            Self::SoftTaints => Preference::SoftTaints,
            Self::Share(of) => Preference::Share { of },
        }
    }
}

/// Returns the preferences of a shape in the order in which they are dropped: Karpenter's order, then the spot share, which
/// only Kerf evaluates.
fn items(shape: &PodShape, part: SplitPart, policy: PreferencePolicy, soft_taints: bool) -> Vec<SoftConstraint> {
    let mut items = Vec::new();
    if policy == PreferencePolicy::Respect {
        items.extend(heaviest_first(shape.prefers_near.iter().map(|it| it.weight)).map(SoftConstraint::Affinity));
        items.extend(heaviest_first(shape.prefers_apart.iter().map(|it| it.weight)).map(SoftConstraint::AntiAffinity));
        items.extend(heaviest_first(shape.preferred.iter().map(|it| it.weight)).map(SoftConstraint::Node));
        let soft = shape.spread.iter().enumerate().filter(|(_, spread)| !spread.hard);
        items.extend(soft.map(|(position, _)| SoftConstraint::Spread(position)));
    }
    items.extend(soft_taints.then_some(SoftConstraint::SoftTaints));
    items.extend(part.prefers().map(|(of, _)| SoftConstraint::Share(of)));
    items
}

fn heaviest_first(weights: impl Iterator<Item = i32>) -> impl Iterator<Item = usize> {
    let mut order: Vec<(usize, i32)> = weights.enumerate().collect();
    order.sort_by_key(|(_, weight)| Reverse(*weight));
    order.into_iter().map(|(position, _)| position)
}

/// Returns the node selector combined with each alternative of the required node affinity.
fn required(shape: &PodShape) -> Vec<Requirements> {
    let selector: Requirements = shape.selector.iter().collect();
    match shape.affinity.as_slice() {
        [] => vec![selector],
        terms => terms.iter().map(|term| selector.intersection(&term.iter().collect())).collect(),
    }
}

fn narrowed(alternatives: &[Requirements], by: &Requirements) -> Vec<Requirements> {
    alternatives.iter().map(|one| one.intersection(by)).collect()
}

/// Returns every alternative combined with every location where all volumes are or can be created. Removes contradictions
/// unless all are.
pub(super) fn with_volumes(shape: &PodShape, alternatives: &[Requirements]) -> Vec<Requirements> {
    let mut all = alternatives.to_vec();
    for volume in shape.volumes.iter().filter(|volume| !volume.alternatives.is_empty()) {
        let pairs = all.iter().flat_map(|one| volume.alternatives.iter().map(move |place| (one, place)));
        let mut both: Vec<Requirements> =
            pairs.map(|(one, place)| one.intersection(&place.iter().collect())).take(MOST_ALTERNATIVES).collect();
        let possible = |one: &Requirements| one.iter().all(|(_, set)| !set.is_empty());
        if both.iter().any(possible) {
            both.retain(possible);
        }
        all = both;
    }
    all
}

/// Returns the amounts that a pod adds where these volumes are attached.
pub(super) fn asked<'d>(demand: &'d Demand<'_>, pod: &Pod, attached: &Attached) -> Cow<'d, [i64]> {
    if demand.attachments.is_empty() || attached.is_empty() {
        return Cow::Borrowed(&demand.requests);
    }
    let mut amounts = demand.requests.to_vec();
    for (driver, dimension, claim) in demand.attachments_of(pod) {
        if attached.contains(&(driver.to_owned(), claim.to_owned())) {
            amounts[dimension] -= 1;
        }
    }
    Cow::Owned(amounts)
}

/// Records the pod's volumes as attached.
pub(super) fn attach(attached: &mut Attached, demand: &Demand<'_>, pod: &Pod) {
    attached.extend(demand.attachments_of(pod).map(|(driver, _, claim)| (driver.to_owned(), claim.to_owned())));
}

//! Lowered requests of running pods that make room for the pods of a candidate.
//!
//! `look_ahead` uses a simulation of its own. Nodes whose pods fit elsewhere are removed first. Then nodes of NodePools with
//! utilization `Pack` gain the capacity that their pods do not use. Further nodes whose pods fit now could be removed. None of
//! these is a command yet. The necessary requests are lowered, on as few pods as possible. After kubelet has applied them, the
//! next plan finds the commands by requests alone, as kube-scheduler will. Until then these nodes are not replaced: a removal
//! without a replacement saves more.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::{
    BoundPod, Destination, Node, NodeVerdict, NotResized, NotResizedReason, PlannedCommand, Resize, ResizeReason, Size,
    Sizing, Snapshot, Stage, Utilization, packing,
};

use super::disruption_plan::DisruptionPlan;
use super::eligibility::EligibilityRules;
use super::simulation::Position;
use super::{consolidate, restore_requests};

/// Possible lower requests, by node.
pub(super) struct LowerRequests<'a> {
    snapshot: &'a Snapshot,
    offers: BTreeMap<Position, Vec<ResizeOffer<'a>>>,
    /// Pods whose requests do not change, with the reason.
    pub(super) unpacked: Vec<NotResized>,
}

/// Pod that needs less than it requests.
struct ResizeOffer<'a> {
    pod: &'a BoundPod,
    sizing: &'a Sizing,
    to: Vec<Size>,
    gain: Size,
}

/// Effects of lowered requests.
#[derive(Default)]
pub(super) struct Lookahead {
    /// Requests to lower.
    pub(super) resizes: Vec<Resize>,
    /// Price per hour of the nodes that can be removed then.
    pub(super) saving: i64,
    /// Verdicts of these nodes and of the destinations of their pods.
    pub(super) verdicts: BTreeMap<Position, NodeVerdict>,
}

impl<'a> LowerRequests<'a> {
    /// Collects all requests that could be lowered on remaining nodes. For a pod with one resource raised now, a later plan
    /// lowers the other.
    pub(super) fn new(snapshot: &'a Snapshot, eligibility: &EligibilityRules<'_>, raised: &[Resize]) -> Self {
        let raised: BTreeSet<&str> = raised.iter().map(|it| it.uid.as_str()).collect();
        let mut all = Self { snapshot, offers: BTreeMap::new(), unpacked: Vec::new() };
        for (position, node) in snapshot.nodes.iter().enumerate() {
            let packs = eligibility.pool(node).filter(|pool| pool.disruption.utilization == Utilization::Pack);
            let Some(pool) = packs.filter(|_| node.claim.is_some() && node.leaving.is_none()) else { continue };
            if node.stage != Stage::Initialized {
                continue;
            }
            let mut offers = Vec::new();
            for pod in node.pods.iter().filter(|pod| may_shrink(pod) && !raised.contains(pod.uid.as_str())) {
                match offer(snapshot, node, pod, pool.disruption.packing) {
                    Ok(offer) => offers.extend(offer),
                    Err(why) => {
                        let (pod, node) = (pod.name.clone(), node.name.clone());
                        all.unpacked.push(NotResized { pod, node, why });
                    }
                }
            }
            if !offers.is_empty() {
                all.offers.insert(position, offers);
            }
        }
        all.unpacked.sort_by(|one, other| (&one.node, &one.pod).cmp(&(&other.node, &other.pod)));
        all
    }

    /// Returns the nodes that could be removed with lowered requests; `prepared` creates a disruption plan that may be
    /// discarded.
    pub(super) fn look_ahead<'s>(&self, prepared: impl Fn() -> DisruptionPlan<'s>, free: &[Position]) -> Lookahead {
        if self.offers.is_empty() || free.is_empty() {
            return Lookahead::default();
        }
        let mut draft = prepared();
        let left = consolidate::delete_nodes(&mut draft, free);
        let before = draft.count();
        let widened: BTreeMap<Position, Size> = self.offers.iter().map(|(at, offers)| (*at, sum(offers))).collect();
        widened.iter().for_each(|(position, gain)| draft.widen(*position, *gain));
        let left: Vec<Position> = left.into_iter().map(|(position, _)| position).collect();
        consolidate::delete_nodes(&mut draft, &left);
        let moves = draft.withdraw(before);
        let short = |(position, gain): (&Position, &Size)| {
            let unused = draft.left(*position)?;
            Some((*position, gain.minus(unused).max(Size::default()).min(*gain)))
        };
        let short: BTreeMap<Position, Size> = widened.iter().filter_map(short).filter(|(_, it)| it.is_any()).collect();
        self.ahead(&moves, &short, &left)
    }

    fn ahead(&self, moves: &[PlannedCommand], short: &BTreeMap<Position, Size>, left: &[Position]) -> Lookahead {
        let positions: BTreeMap<&str, Position> =
            self.snapshot.nodes.iter().enumerate().map(|(position, node)| (node.name.as_str(), position)).collect();
        let position = |name: &str| positions.get(name).copied();
        let lowered = |it: &PlannedCommand| {
            let to: BTreeSet<&str> = places(it).map(|(node, _)| node).collect();
            let lowered = to.into_iter().filter(|name| position(name).is_some_and(|it| short.contains_key(&it)));
            lowered.map(str::to_owned).collect()
        };
        let removed = moves.iter().flat_map(|it| {
            let verdict = NodeVerdict::AfterResize { nodes: lowered(it) };
            it.nodes.iter().filter_map(move |disrupted| Some((position(&disrupted.node)?, verdict.clone())))
        });
        let expecting = left.iter().filter(|position| short.contains_key(position));
        let expecting = expecting.map(|position| (*position, NodeVerdict::Nominated));
        Lookahead {
            resizes: short.iter().flat_map(|(position, short)| self.chosen(*position, *short)).collect(),
            saving: moves.iter().filter_map(|it| it.saving).map(|saving| saving.0).sum(),
            verdicts: expecting.chain(removed).collect(),
        }
    }

    /// Chooses as few pods as possible, for CPU and for memory.
    fn chosen(&self, position: Position, short: Size) -> Vec<Resize> {
        let node = &self.snapshot.nodes[position];
        let offers = self.offers.get(&position).map_or(&[][..], Vec::as_slice);
        let for_cpu = largest(offers, short.cpu, |gain| gain.cpu);
        let for_memory = largest(offers, short.memory, |gain| gain.memory);
        let resize = |(index, offer): (usize, &ResizeOffer<'a>)| {
            let to = offer.sizing.containers.iter().zip(&offer.to).map(|(container, to)| Size {
                cpu: if for_cpu.contains(&index) { to.cpu } else { container.requests.cpu },
                memory: if for_memory.contains(&index) { to.memory } else { container.requests.memory },
            });
            let to: Vec<Size> = to.collect();
            restore_requests::resize(node, offer.pod, offer.sizing, &to, ResizeReason::MakesRoom)
        };
        offers.iter().enumerate().filter_map(resize).collect()
    }
}

/// Reports whether the pod runs and keeps running.
fn may_shrink(pod: &BoundPod) -> bool {
    !pod.ending && pod.holder.is_none()
}

fn offer<'a>(
    snapshot: &Snapshot,
    node: &Node,
    pod: &'a BoundPod,
    rules: crate::Packing,
) -> Result<Option<ResizeOffer<'a>>, NotResizedReason> {
    let sizing = pod.sizing.as_deref().ok_or(NotResizedReason::Unseen)?;
    if let Some(fixed) = sizing.fixed {
        return Err(NotResizedReason::Fixed(fixed));
    }
    let usage = node.usage.as_ref().ok_or(NotResizedReason::Unseen)?;
    if usage.pressed.is_some() || sizing.used.is_some_and(|used| used.pressed) {
        return Err(NotResizedReason::Pressed);
    }
    let rests = node.pods.iter().filter_map(|pod| packing::rests_until(pod.sizing.as_deref()?)).max();
    if let Some(until) = rests.filter(|until| *until > snapshot.now) {
        return Err(NotResizedReason::Rests { remaining: until.0 - snapshot.now.0 });
    }
    let Some(to) = packing::lowered(sizing, usage, rules)? else { return Ok(None) };
    let together = to.iter().fold(Size::default(), |sum, one| sum.plus(*one));
    let gain = sizing.gain(sizing.requests(), together);
    Ok(gain.is_any().then_some(ResizeOffer { pod, sizing, to, gain }))
}

fn sum(offers: &[ResizeOffer<'_>]) -> Size {
    offers.iter().fold(Size::default(), |sum, offer| sum.plus(offer.gain))
}

/// Returns the offers that cover the shortage, those with the greatest gain first.
fn largest(offers: &[ResizeOffer<'_>], short: i64, of: impl Fn(Size) -> i64) -> BTreeSet<usize> {
    let mut order: Vec<usize> = (0..offers.len()).filter(|index| of(offers[*index].gain) > 0).collect();
    order.sort_by_key(|index| (Reverse(of(offers[*index].gain)), &offers[*index].pod.name, &offers[*index].pod.uid));
    let mut left = short;
    let mut chosen = BTreeSet::new();
    for index in order {
        if left <= 0 {
            break;
        }
        left -= of(offers[index].gain);
        chosen.insert(index);
    }
    chosen
}

/// Returns the savings of commands whose pods fit only because requests were lowered before.
pub(super) fn saved(snapshot: &Snapshot, moves: &[PlannedCommand]) -> i64 {
    let spared = |node: &Node| {
        let sizings = node.pods.iter().filter_map(|pod| pod.sizing.as_deref());
        sizings.fold(Size::default(), |sum, sizing| sum.plus(sizing.spared()))
    };
    let nodes = snapshot.nodes.iter().map(|node| (node, spared(node))).filter(|(_, spared)| spared.is_any());
    let nodes: Vec<(&Node, Size)> = nodes.map(|(node, spared)| (node.as_ref(), spared)).collect();
    if nodes.is_empty() {
        return 0;
    }
    let pods = snapshot.nodes.iter().flat_map(|node| &node.pods);
    let requests: BTreeMap<&str, Size> =
        pods.map(|pod| (pod.uid.as_str(), Size::from_resources(&pod.shape.requests))).collect();
    let mut coming: BTreeMap<&str, Size> = BTreeMap::new();
    for (node, uid) in moves.iter().flat_map(places) {
        let sum = coming.entry(node).or_default();
        *sum = sum.plus(requests.get(uid).copied().unwrap_or_default());
    }
    let overfull = nodes.into_iter().filter(|(node, spared)| {
        let coming = coming.get(node.name.as_str()).copied().unwrap_or_default();
        let full = Size::from_resources(&node.used).plus(*spared).plus(coming);
        coming.is_any() && !full.is_within(Size::from_resources(&node.allocatable))
    });
    let overfull: BTreeSet<&str> = overfull.map(|(node, _)| node.name.as_str()).collect();
    let by_usage = moves.iter().filter(|it| places(it).any(|(node, _)| overfull.contains(node)));
    by_usage.filter_map(|it| it.saving).map(|saving| saving.0).sum()
}

/// Returns the nodes to which a command moves pods, with the pods' UIDs.
fn places(it: &PlannedCommand) -> impl Iterator<Item = (&str, &str)> {
    it.pods.iter().filter_map(|pod| match &pod.to {
        Destination::Node(node) => Some((node.as_str(), pod.uid.as_str())),
        Destination::Launch(_) => None,
    })
}

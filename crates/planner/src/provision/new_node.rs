//! Launches while they are filled.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::HostPort;

use super::dimensions::fits;
use super::existing_node::Attached;
use super::limits::Footprint;
use super::node_template::{NodeTemplate, NodeTemplates, PricedType, TemplateId};
use super::pool_template::PoolTemplate;
use super::requirement_sets::{ClassId, RequirementSets};
use super::topology::{Domain, Spot, Topology};

/// A launch that may still take pods.
#[derive(Clone)]
pub(super) struct NewNode {
    pub(super) frame: TemplateId,
    pub(super) site: Domain,
    /// Positions of its pods in the snapshot.
    pub(super) pods: Vec<usize>,
    /// What its pods ask for, seats included.
    pub(super) used: Vec<i64>,
    /// The cheapest entry of the frame that holds all of it.
    pub(super) entry: usize,
    /// Shapes for which more room is kept than their pods take yet, and for how many pods.
    pub(super) seats: Vec<(usize, usize)>,
    pub(super) ports: Vec<HostPort>,
    pub(super) attached: Attached,
    /// What is reserved of the pool's limits.
    pub(super) held: Footprint,
    /// How many types it must keep.
    pub(super) least: usize,
    /// Labels of which it keeps fewer values than `minValues` asks for, and how many.
    pub(super) lowered: BTreeMap<String, u32>,
}

/// Launches by frame, so that what is said of one holds for all of them.
#[derive(Clone, Default)]
pub(super) struct NewNodes {
    pub(super) list: Vec<NewNode>,
    /// By shape, launches that keep seats for it, in the order in which they were opened.
    seats: BTreeMap<usize, Vec<usize>>,
    /// By shape, how many seats there are.
    kept: BTreeMap<usize, usize>,
    buckets: Vec<PriceBucket>,
    of_frame: BTreeMap<TemplateId, usize>,
    compatible: BTreeMap<ClassId, Compatible>,
    /// By shape; then by level, bucket and frame, the first launch that has not refused for good.
    cursors: BTreeMap<usize, BTreeMap<(usize, usize, TemplateId), usize>>,
}

/// Launches of one frame in the order in which they came to be so; those that have moved on stay listed.
#[derive(Clone)]
struct PriceBucket {
    frame: TemplateId,
    claims: Vec<usize>,
}

/// Buckets whose launches a class can join, as far as labels and taints go, and what their frames become.
#[derive(Clone, Default)]
struct Compatible {
    seen: usize,
    buckets: Arc<Vec<(usize, Arc<[TemplateId]>)>>,
}

impl NewNodes {
    pub(super) fn add(&mut self, claim: NewNode) -> usize {
        let position = self.list.len();
        self.file(position, claim.frame);
        for (shape, kept) in claim.seats.iter().filter(|(_, kept)| *kept > 0) {
            self.seats.entry(*shape).or_default().push(position);
            *self.kept.entry(*shape).or_default() += kept;
        }
        self.list.push(claim);
        position
    }

    /// Launches that keep seats for a shape, in the order in which they were opened.
    pub(super) fn with_seats(&self, shape: usize) -> Vec<usize> {
        self.seats.get(&shape).cloned().unwrap_or_default()
    }

    /// Lets nobody join the launches that there are.
    pub(super) fn seal(&mut self) {
        *self = Self { list: std::mem::take(&mut self.list), ..Self::default() };
    }

    /// How many seats are kept for a shape.
    pub(super) fn kept(&self, shape: usize) -> usize {
        self.kept.get(&shape).copied().unwrap_or(0)
    }

    /// Gives seats that a launch keeps for a shape to so many pods, as far as there are some.
    pub(super) fn seat(&mut self, position: usize, shape: usize, pods: usize) {
        let Some((_, kept)) = self.list[position].seats.iter_mut().find(|(of, _)| *of == shape) else { return };
        let seated = pods.min(*kept);
        *kept -= seated;
        let gone = *kept == 0;
        *self.kept.entry(shape).or_default() -= seated;
        if gone {
            self.seats.entry(shape).or_default().retain(|launch| *launch != position);
        }
    }

    /// Notes that a launch has another frame now.
    pub(super) fn file(&mut self, claim: usize, frame: TemplateId) {
        let bucket = *self.of_frame.entry(frame).or_insert_with(|| {
            self.buckets.push(PriceBucket { frame, claims: Vec::new() });
            self.buckets.len() - 1
        });
        self.buckets[bucket].claims.push(claim);
    }

    /// Buckets that a class can join, with the frames that joining makes of theirs.
    pub(super) fn compatible<'a>(
        &mut self,
        class: ClassId,
        frames: &mut NodeTemplates<'a>,
        wants: &RequirementSets<'a>,
        topology: &mut Topology<'a>,
    ) -> Arc<Vec<(usize, Arc<[TemplateId]>)>> {
        let known = self.compatible.entry(class).or_default();
        for (position, bucket) in self.buckets.iter().enumerate().skip(known.seen) {
            let mut children = frames.for_class(bucket.frame, class, wants, topology).to_vec();
            // Of several ways to join the one that leaves a launch the most choice.
            children.sort_by_key(|child| Reverse((*child == bucket.frame, frames.get(*child).entries.len())));
            if !children.is_empty() {
                Arc::make_mut(&mut known.buckets).push((position, children.into()));
            }
        }
        known.seen = self.buckets.len();
        known.buckets.clone()
    }

    /// The first launch of a bucket that `takes` says yes to, beginning where this turn left off: launches only fill up.
    pub(super) fn find<T>(
        &mut self,
        (shape, level): (usize, usize),
        (bucket, frame): (usize, TemplateId),
        mut takes: impl FnMut(usize, &NewNode) -> Option<T>,
    ) -> Option<(usize, T)> {
        let own = &self.buckets[bucket];
        let cursor = self.cursors.entry(shape).or_default().entry((level, bucket, frame)).or_insert(0);
        while let Some(position) = own.claims.get(*cursor) {
            let claim = &self.list[*position];
            if claim.frame == own.frame
                && let Some(found) = takes(*position, claim)
            {
                return Some((*position, found));
            }
            *cursor += 1;
        }
        None
    }

    /// Lets a shape look at all launches again.
    pub(super) fn forget(&mut self, shape: usize) {
        self.cursors.remove(&shape);
    }
}

impl NewNode {
    /// Where the launch is, for the rules.
    pub(super) fn spot<'f>(&self, frame: &'f NodeTemplate) -> Spot<'f> {
        Spot { site: Some(self.site), pins: Some(&frame.pins) }
    }

    /// How many pods of a shape have room kept for them.
    pub(super) fn seats_for(&self, shape: usize) -> usize {
        self.seats.iter().find(|(of, _)| *of == shape).map_or(0, |(_, count)| *count)
    }
}

impl PoolTemplate<'_> {
    /// Whether a type holds pods that use so much and bind these ports.
    pub(super) fn holds(&self, entry: &PricedType, used: &[i64], ports: &[HostPort]) -> bool {
        let candidate = &self.candidates[entry.candidate];
        let clash = |port: &HostPort| candidate.ports.iter().any(|taken| taken.clashes(port));
        fits(used, &candidate.room) && (candidate.ports.is_empty() || !ports.iter().any(clash))
    }
}

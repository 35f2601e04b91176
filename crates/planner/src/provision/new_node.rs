//! New nodes while pods are placed on them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::HostPort;

use super::Attempt;
use super::capacity::limits::Footprint;
use super::capacity::node_template::{NodeTemplate, NodeTemplates, TemplateId};
use super::demand::Attached;
use super::demand::dimensions::Load;
use super::demand::requirement_sets::{ClassId, RequirementSets};
use super::topology::{Domain, Spot, Topology};

/// Launch that can still take pods.
#[derive(Clone)]
pub(super) struct NewNode {
    pub(super) template: TemplateId,
    pub(super) site: Domain,
    /// Positions of its pods in the snapshot.
    pub(super) pods: Vec<usize>,
    /// Requests of its pods, slots included.
    pub(super) used: Vec<i64>,
    /// Cheapest entry of the template that holds all of it.
    pub(super) entry: usize,
    /// Shapes with reserved slots beyond their placed pods, and the number of slots.
    pub(super) slots: Vec<(usize, usize)>,
    pub(super) ports: Vec<HostPort>,
    pub(super) attached: Attached,
    /// Amounts reserved from the NodePool's limits.
    pub(super) held: Footprint,
    /// Number of types that the launch must keep.
    pub(super) least: usize,
    /// Labels with fewer values than `minValues` requires, and the number of values.
    pub(super) lowered: BTreeMap<String, u32>,
}

/// Launches by template, so that one decision holds for all launches of a template.
#[derive(Clone, Default)]
pub(super) struct NewNodes {
    pub(super) list: Vec<NewNode>,
    /// Launches that keep slots for a shape, by shape, in the order in which they were opened.
    slots: BTreeMap<usize, Vec<usize>>,
    /// Number of slots, by shape.
    kept: BTreeMap<usize, usize>,
    buckets: Vec<PriceBucket>,
    by_template: BTreeMap<TemplateId, usize>,
    compatible: BTreeMap<ClassId, Compatible>,
    /// First launch that has not refused for good: by shape; then by level and target.
    cursors: BTreeMap<usize, BTreeMap<(usize, JoinTarget), usize>>,
}

/// Launches that pods may join, and the template of a launch after it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct JoinTarget {
    /// Position of the launches' bucket.
    pub(super) bucket: usize,
    pub(super) template: TemplateId,
}

/// Launches of one template, in the order in which they received it. A launch with another template since then remains in the
/// list.
#[derive(Clone)]
struct PriceBucket {
    template: TemplateId,
    claims: Vec<usize>,
}

/// Buckets whose launches a class can join, as far as labels and taints allow, and the resulting templates.
#[derive(Clone, Default)]
struct Compatible {
    seen: usize,
    buckets: Arc<Vec<(usize, Arc<[TemplateId]>)>>,
}

impl NewNodes {
    pub(super) fn add(&mut self, claim: NewNode) -> usize {
        let position = self.list.len();
        self.file(position, claim.template);
        for (shape, kept) in claim.slots.iter().filter(|(_, kept)| *kept > 0) {
            self.slots.entry(*shape).or_default().push(position);
            *self.kept.entry(*shape).or_default() += kept;
        }
        self.list.push(claim);
        position
    }

    /// Returns launches that keep slots for a shape, in the order in which they were opened.
    pub(super) fn with_slots(&self, shape: usize) -> Vec<usize> {
        self.slots.get(&shape).cloned().unwrap_or_default()
    }

    /// Closes all present launches for further pods.
    pub(super) fn seal(&mut self) {
        *self = Self { list: std::mem::take(&mut self.list), ..Self::default() };
    }

    /// Returns the number of slots that are kept for a shape.
    pub(super) fn kept(&self, shape: usize) -> usize {
        self.kept.get(&shape).copied().unwrap_or(0)
    }

    /// Assigns a launch's slots for a shape to this many pods, as far as slots remain.
    pub(super) fn use_slots(&mut self, position: usize, shape: usize, pods: usize) {
        let Some((_, kept)) = self.list[position].slots.iter_mut().find(|(of, _)| *of == shape) else { return };
        let used = pods.min(*kept);
        *kept -= used;
        let gone = *kept == 0;
        *self.kept.entry(shape).or_default() -= used;
        if gone {
            self.slots.entry(shape).or_default().retain(|launch| *launch != position);
        }
    }

    /// Records the present template of a launch.
    pub(super) fn file(&mut self, claim: usize, template: TemplateId) {
        let bucket = *self.by_template.entry(template).or_insert_with(|| {
            self.buckets.push(PriceBucket { template, claims: Vec::new() });
            self.buckets.len() - 1
        });
        self.buckets[bucket].claims.push(claim);
    }

    /// Returns buckets that a class can join, with the resulting templates.
    pub(super) fn compatible<'a>(
        &mut self,
        class: ClassId,
        templates: &mut NodeTemplates<'a>,
        requirement_sets: &RequirementSets<'a>,
        topology: &mut Topology<'a>,
    ) -> Arc<Vec<(usize, Arc<[TemplateId]>)>> {
        let known = self.compatible.entry(class).or_default();
        for (position, bucket) in self.buckets.iter().enumerate().skip(known.seen) {
            let mut children = templates.for_class(bucket.template, class, requirement_sets, topology).to_vec();
            // Of several ways to join, the one that leaves the launch the most types comes first.
            children.sort_by_key(|child| Reverse((*child == bucket.template, templates.get(*child).entries.len())));
            if !children.is_empty() {
                Arc::make_mut(&mut known.buckets).push((position, children.into()));
            }
        }
        known.seen = self.buckets.len();
        known.buckets.clone()
    }

    /// Returns the first launch of a bucket that `takes` accepts. The search continues where it stopped before, because
    /// launches only become fuller.
    pub(super) fn find<T>(
        &mut self,
        attempt: Attempt,
        target: JoinTarget,
        mut takes: impl FnMut(usize, &NewNode) -> Option<T>,
    ) -> Option<(usize, T)> {
        let own = &self.buckets[target.bucket];
        let cursor = self.cursors.entry(attempt.shape).or_default().entry((attempt.level, target)).or_insert(0);
        while let Some(position) = own.claims.get(*cursor) {
            let claim = &self.list[*position];
            if claim.template == own.template
                && let Some(found) = takes(*position, claim)
            {
                return Some((*position, found));
            }
            *cursor += 1;
        }
        None
    }

    /// Resets the search of a shape to all launches.
    pub(super) fn forget(&mut self, shape: usize) {
        self.cursors.remove(&shape);
    }
}

impl NewNode {
    /// Returns the launch's location for topology rules.
    pub(super) fn spot<'f>(&self, template: &'f NodeTemplate) -> Spot<'f> {
        Spot { site: Some(self.site), pins: Some(&template.pins) }
    }

    /// Returns the load of the launch, slots included.
    pub(super) fn load(&self) -> Load<'_> {
        Load { used: &self.used, ports: &self.ports, held: &self.held }
    }

    /// Returns the number of slots that are kept for pods of a shape.
    pub(super) fn slots_for(&self, shape: usize) -> usize {
        self.slots.iter().find(|(of, _)| *of == shape).map_or(0, |(_, count)| *count)
    }
}

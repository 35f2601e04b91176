//! Measured utilization of nodes while pods move: no command that saves money overloads a node.
//!
//! A pod counts with its measured usage, so pods of one shape differ here. A node that is too busy for a shape's pod with the
//! lowest usage remains so for the whole plan, because usage only increases. A node that was too busy for one pod may still
//! accept another.

use crate::utilization_limit::UtilizationLimit;
use crate::{Overload, Size};

/// Utilization limits by existing node, and usage of pods.
#[derive(Clone, Default)]
pub(in crate::provision) struct UtilizationLimits<'a> {
    /// True if the limits apply.
    pub(in crate::provision) applied: bool,
    /// Limits by node; empty while no pod moves.
    limits: Vec<Option<UtilizationLimit>>,
    /// Usage by pod.
    uses: &'a [Size],
    /// Minimum CPU and memory usage of the pods of each shape.
    least: Vec<Size>,
}

impl<'a> UtilizationLimits<'a> {
    pub(in crate::provision) fn new(
        limits: Vec<Option<UtilizationLimit>>,
        uses: &'a [Size],
        demand_of: &[usize],
    ) -> Self {
        let shapes = demand_of.iter().max().map_or(0, |last| last + 1);
        let mut least = vec![Size { cpu: i64::MAX, memory: i64::MAX }; shapes];
        for (shape, used) in demand_of.iter().zip(uses) {
            least[*shape] = least[*shape].min(*used);
        }
        Self { applied: false, limits, uses, least }
    }

    /// Returns the overload that the pod would cause on a node, if any.
    pub(in crate::provision) fn overload(&self, node: usize, pod: usize) -> Option<Overload> {
        self.overload_with(node, self.uses.get(pod))
    }

    /// Reports whether a node can take no more pods of a shape.
    pub(in crate::provision) fn is_too_much_for_all(&self, node: usize, shape: usize) -> bool {
        self.overload_with(node, self.least.get(shape)).is_some()
    }

    fn overload_with(&self, node: usize, used: Option<&Size>) -> Option<Overload> {
        if !self.applied {
            return None;
        }
        self.get(node)?.overload_with(used.copied().unwrap_or_default())
    }

    /// Returns how many of these pods a node can take together, counted from the first.
    pub(in crate::provision) fn most(&self, node: usize, pods: &[usize]) -> usize {
        let Some(mut limit) = self.get(node).filter(|_| self.applied) else { return pods.len() };
        let fits = |pod: &&usize| {
            let used = self.uses.get(**pod).copied().unwrap_or_default();
            let fits = limit.overload_with(used).is_none();
            limit.add(used);
            fits
        };
        pods.iter().take_while(fits).count()
    }

    pub(in crate::provision) fn take(&mut self, node: usize, pod: usize) {
        if let Some((Some(limit), used)) = self.limits.get_mut(node).zip(self.uses.get(pod)) {
            limit.add(*used);
        }
    }

    pub(in crate::provision) fn get(&self, node: usize) -> Option<UtilizationLimit> {
        self.limits.get(node).copied().flatten()
    }

    pub(in crate::provision) fn put_back(&mut self, node: usize, before: Option<UtilizationLimit>) {
        if let Some(limit) = self.limits.get_mut(node) {
            *limit = before;
        }
    }
}

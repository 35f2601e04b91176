//! Measured utilization of nodes while pods move: no command that saves money overloads a node.
//!
//! A pod counts with its measured usage, so pods of one shape differ here. A node that is too busy for a shape's pod with the
//! lowest usage remains so for the whole plan, because usage only increases. A node that was too busy for one pod may still
//! accept another.

use super::{Attempt, Obstacle, Relocator, Solver};
use crate::utilization_limit::UtilizationLimit;
use crate::{Overload, Size};

/// Utilization limits by existing node, and usage of pods.
#[derive(Clone, Default)]
pub(super) struct UtilizationLimits<'a> {
    /// Whether the limits apply.
    pub(super) heeded: bool,
    /// Limits by node; empty while no pod moves.
    rooms: Vec<Option<UtilizationLimit>>,
    /// Usage by pod.
    uses: &'a [Size],
    /// Minimum CPU and memory usage of the pods of each shape.
    least: Vec<Size>,
}

impl<'a> UtilizationLimits<'a> {
    pub(super) fn new(rooms: Vec<Option<UtilizationLimit>>, uses: &'a [Size], demand_of: &[usize]) -> Self {
        let shapes = demand_of.iter().max().map_or(0, |last| last + 1);
        let mut least = vec![Size { cpu: i64::MAX, memory: i64::MAX }; shapes];
        for (shape, used) in demand_of.iter().zip(uses) {
            least[*shape] = least[*shape].min(*used);
        }
        Self { heeded: false, rooms, uses, least }
    }

    /// Returns the overload that the pod would cause on a node, if any.
    pub(super) fn overload(&self, room: usize, pod: usize) -> Option<Overload> {
        self.overload_with(room, self.uses.get(pod))
    }

    /// Reports whether a node can take no more pods of a shape.
    pub(super) fn is_too_much_for_all(&self, room: usize, shape: usize) -> bool {
        self.overload_with(room, self.least.get(shape)).is_some()
    }

    fn overload_with(&self, room: usize, used: Option<&Size>) -> Option<Overload> {
        if !self.heeded {
            return None;
        }
        self.get(room)?.overload_with(used.copied().unwrap_or_default())
    }

    /// Returns how many of these pods a node can take together, counted from the first.
    pub(super) fn most(&self, room: usize, pods: &[usize]) -> usize {
        let Some(mut ceiling) = self.get(room).filter(|_| self.heeded) else { return pods.len() };
        let fits = |pod: &&usize| {
            let used = self.uses.get(**pod).copied().unwrap_or_default();
            let fits = ceiling.overload_with(used).is_none();
            ceiling.add(used);
            fits
        };
        pods.iter().take_while(fits).count()
    }

    pub(super) fn take(&mut self, room: usize, pod: usize) {
        if let Some((Some(ceiling), used)) = self.rooms.get_mut(room).zip(self.uses.get(pod)) {
            ceiling.add(*used);
        }
    }

    pub(super) fn get(&self, room: usize) -> Option<UtilizationLimit> {
        self.rooms.get(room).copied().flatten()
    }

    pub(super) fn put_back(&mut self, room: usize, before: Option<UtilizationLimit>) {
        if let Some(ceiling) = self.rooms.get_mut(room) {
            *ceiling = before;
        }
    }
}

impl Relocator<'_> {
    /// Applies utilization limits from now on: no pod is placed where it would overload the node.
    pub(crate) fn apply_utilization_limits(&mut self) {
        self.solver.rooms.apply_utilization_limits();
    }
}

impl Solver<'_> {
    /// Returns the obstacle to the placement of a pod: no place at all, or only overloaded nodes.
    pub(super) fn obstacle(&self, position: usize) -> Obstacle {
        let shape = self.demand_of[position];
        let (demand, pod) = (&self.demands[shape], &self.snapshot.pods[position]);
        let busy = demand.levels.iter().enumerate().find_map(|(level, own)| {
            let room = self.rooms.first_overloaded(Attempt { shape, level })?;
            let strain = self.rooms.overload(room, position)?;
            let admits = self.rooms.admits(room, demand, own, pod, &self.wants, &self.topology);
            let node = usize::try_from(self.rooms.list[room].site).ok()?;
            admits.then_some(Obstacle::Busy { pod: position, node, strain })
        });
        busy.unwrap_or(Obstacle::Pod(position))
    }
}

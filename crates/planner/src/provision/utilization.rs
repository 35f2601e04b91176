//! What rooms are really used for while pods move: no move that saves money makes a node busy.
//!
//! A pod counts with what it uses, so pods of one shape differ here as nowhere else. A room that is too busy even for the one of a shape
//! that uses least is so for good, for nodes only fill up; to others it may be open though it was not to one.

use super::{Attempt, Obstacle, Relocator, Solver};
use crate::utilization_limit::UtilizationLimit;
use crate::{Overload, Size};

/// Ceilings by room, and what pods use.
#[derive(Clone, Default)]
pub(super) struct UtilizationLimits<'a> {
    /// Whether anyone is kept out.
    pub(super) heeded: bool,
    /// Empty as long as nobody moves.
    rooms: Vec<Option<UtilizationLimit>>,
    /// By pod.
    uses: &'a [Size],
    /// By shape, the least that any of its pods uses of each.
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

    /// What a room would be busy with if the pod went there.
    pub(super) fn overload(&self, room: usize, pod: usize) -> Option<Overload> {
        self.overload_with(room, self.uses.get(pod))
    }

    /// Whether no pod of a shape may go to a room any more.
    pub(super) fn is_too_much_for_all(&self, room: usize, shape: usize) -> bool {
        self.overload_with(room, self.least.get(shape)).is_some()
    }

    fn overload_with(&self, room: usize, used: Option<&Size>) -> Option<Overload> {
        if !self.heeded {
            return None;
        }
        self.get(room)?.overload_with(used.copied().unwrap_or_default())
    }

    /// How many of these pods may go to a room together, counted from the first.
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
    /// From now on nobody is sent where nodes would be busy then.
    pub(crate) fn apply_utilization_limits(&mut self) {
        self.solver.rooms.apply_utilization_limits();
    }
}

impl Solver<'_> {
    /// What keeps a pod from having a place: all that there is, or only that nodes would be busy.
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

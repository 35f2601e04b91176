//! What a new launch is best made for: the type that does most for its price when it is filled with what still waits.
//!
//! Resources are valued as a perfectly divisible fleet would have to pay for them (`Values`): as dear as possible while no
//! type gives more than it costs. A type filled with pods is then as good as the share of its price that the pods' values
//! make up. The launch keeps seats for the pods that it was filled with; who comes finds them.

use super::dimensions::fits;
use super::frame::FrameId;
use super::join::holding;
use super::open::Fresh;
use super::topology::RuleKind;
use super::{Solver, Turn};
use crate::Resources;

/// Values are fractions of micro-dollars, this many to one.
const SCALE: i128 = 1 << 40;
/// How finely the best values are searched for.
const ROUNDS: usize = 80;
/// How many shapes and types a design looks at; the least promising are left out.
const MOST_SHAPES: usize = 40;
const MOST_TYPES: usize = 32;

/// What one unit of each dimension is worth.
pub(super) struct Values(Vec<i128>);

/// Pods that would share a launch.
pub(super) struct Design {
    pub(super) entry: usize,
    /// Shapes and how many pods of each; the turn's own shape is among them.
    pub(super) pods: Vec<(usize, usize)>,
    value: i128,
    cost: i128,
}

/// A shape that could come along.
struct Guest {
    shape: usize,
    most: usize,
}

impl Solver<'_> {
    /// The best filled type for a launch that is opened for one pod of a turn; `None` when the pod alone decides.
    pub(super) fn design(&self, fresh: &Fresh, turn: Turn, own: usize) -> Option<Design> {
        let guests = self.guests(fresh.frame, turn, own);
        let values = self.values(fresh.frame, &guests)?;
        let frame = self.frames.get(fresh.frame);
        let mut entries: Vec<usize> = (fresh.entry..frame.entries.len()).collect();
        entries.sort_by_key(|entry| {
            let cost = i128::from(frame.entries[*entry].cost).max(1);
            // Types whose resources are worth most of what they cost come first.
            (-(values.of(&self.frames.candidate(fresh.frame, *entry).room) / cost), *entry)
        });
        let designs =
            entries.into_iter().take(MOST_TYPES).filter_map(|entry| self.filled(fresh, entry, &guests, &values));
        designs.reduce(|best, other| if other.value * best.cost > best.value * other.cost { other } else { best })
    }

    /// Waiting shapes that the frame suits as it is, the turn's own first, then the most valuable.
    fn guests(&self, frame: FrameId, turn: Turn, own: usize) -> Vec<Guest> {
        let mut guests = vec![Guest { shape: turn.shape, most: own }];
        let mut others: Vec<(i64, Guest)> = (0..self.demands.len())
            .filter(|shape| *shape != turn.shape && self.waiting[*shape] > 0)
            .filter_map(|shape| self.guest(frame, shape))
            .map(|guest| (self.bulk(&guest), guest))
            .collect();
        others.sort_by_key(|(bulk, guest)| (-bulk, self.demands[guest.shape].shape));
        guests.extend(others.into_iter().take(MOST_SHAPES).map(|(_, guest)| guest));
        guests
    }

    fn bulk(&self, guest: &Guest) -> i64 {
        let requests = &self.demands[guest.shape].shape.requests;
        let count = i64::try_from(guest.most).unwrap_or(i64::MAX);
        (requests.get(Resources::CPU) + (requests.get(Resources::MEMORY) >> 22)).saturating_mul(count)
    }

    fn guest(&self, frame: FrameId, shape: usize) -> Option<Guest> {
        let demand = &self.demands[shape];
        let level = &demand.levels[0];
        let simple = demand.shape.ports.is_empty() && demand.attachments.is_empty();
        let steady = level.rules.iter().all(|rule| match rule.kind {
            RuleKind::Near | RuleKind::Alone => false,
            RuleKind::Apart => !self.topology.limits_each_other(rule),
            RuleKind::Spread { .. } => true,
        });
        if !simple || !steady || !self.frames.suits_as_it_is(frame, level.class, &self.wants) {
            return None;
        }
        let settled = level.keys.iter().all(|key| self.frames.settles(frame, *key, &self.topology));
        let share = self.waiting[shape].div_ceil(self.topology.breadth(&level.rules));
        let most = self.topology.host_room(&level.rules, None).min(share);
        let placeable = holding(&self.frames, frame, 0, &demand.requests, &[]).next().is_some();
        (settled && placeable && most > 0).then_some(Guest { shape, most })
    }

    /// Values of CPU and memory at which what waits is worth most while no type is worth more than it costs; `None` when
    /// it asks for what these two do not measure.
    fn values(&self, frame: FrameId, guests: &[Guest]) -> Option<Values> {
        let (cpu, memory) = self.dimensions.main()?;
        let own = self.frames.get(frame);
        let room = |entry: usize, dimension: usize| i128::from(self.frames.candidate(frame, entry).room[dimension]);
        let rows: Vec<(i128, i128, i128)> = (0..own.entries.len())
            .map(|it| (room(it, cpu), room(it, memory), i128::from(own.entries[it].cost) * SCALE))
            .filter(|(cpu, memory, _)| *cpu > 0 && *memory > 0)
            .collect();
        let asked = |dimension: usize| -> i128 {
            let each = guests.iter().map(|it| {
                i128::from(self.demands[it.shape].requests[dimension]) * self.waiting[it.shape].max(1) as i128
            });
            each.sum()
        };
        let (need_cpu, need_memory) = (asked(cpu), asked(memory));
        let memory_at = |price: i128| rows.iter().map(|(cpu, memory, cost)| (cost - price * cpu) / memory).min();
        let worth = |price: i128| memory_at(price).map_or(0, |other| price * need_cpu + other * need_memory);
        let (mut low, mut high) = (0, rows.iter().map(|(cpu, _, cost)| cost / cpu).min()?);
        for _ in 0..ROUNDS {
            let third = (high - low) / 3;
            if worth(low + third) < worth(high - third) { low += third } else { high -= third }
        }
        let mut values = vec![0; self.demands[guests[0].shape].requests.len()];
        values[cpu] = low;
        values[memory] = memory_at(low)?.max(0);
        Some(Values(values))
    }

    /// A type filled from the guests: first one of the turn's own, then whoever matches best what is left.
    fn filled(&self, fresh: &Fresh, entry: usize, guests: &[Guest], values: &Values) -> Option<Design> {
        let room = &self.frames.candidate(fresh.frame, entry).room;
        let mut left: Vec<i64> = room.to_vec();
        let mut counts = vec![0; guests.len()];
        let mut value = 0;
        let mut next = Some(0);
        while let Some(guest) = next {
            let asked = &self.demands[guests[guest].shape].requests;
            if !fits(asked, &left) {
                return None;
            }
            left.iter_mut().zip(asked.iter()).for_each(|(left, asked)| *left -= asked);
            counts[guest] += 1;
            value += values.of(asked);
            next = self.best_guest(guests, &counts, &left, room, values);
        }
        let used: Vec<i64> = room.iter().zip(&left).map(|(room, left)| room - left).collect();
        let entry = self.first_holding(fresh.frame, fresh.entry, &used, &[], &[])?;
        let enough = self.enough_types(fresh.frame, entry, &used, &[], self.least_types(fresh.frame, guests[0].shape));
        let pods = guests.iter().zip(counts).filter(|(_, count)| *count > 0).map(|(it, count)| (it.shape, count));
        let cost = i128::from(self.frames.get(fresh.frame).entries[entry].cost).max(1);
        let keeps = self.keeps_values(fresh.frame, &used, &[], &[], &fresh.lowered);
        (enough && keeps).then(|| Design { entry, pods: pods.collect(), value, cost })
    }

    /// The guest whose request points most where room is left, by what it is worth.
    fn best_guest(
        &self,
        guests: &[Guest],
        counts: &[usize],
        left: &[i64],
        room: &[i64],
        values: &Values,
    ) -> Option<usize> {
        let able = (0..guests.len())
            .filter(|it| counts[*it] < guests[*it].most && fits(&self.demands[guests[*it].shape].requests, left));
        able.max_by_key(|it| (values.match_of(&self.demands[guests[*it].shape].requests, left, room), -(*it as i64)))
    }
}

impl Values {
    fn of(&self, amounts: &[i64]) -> i128 {
        self.0.iter().zip(amounts).map(|(value, amount)| value * i128::from(*amount)).sum()
    }

    /// How well a request matches what is left: each resource's worth, weighed by how much of it is left.
    fn match_of(&self, asked: &[i64], left: &[i64], room: &[i64]) -> i128 {
        let dimensions = self.0.iter().zip(asked).zip(left).zip(room);
        let each = dimensions.filter(|(((value, _), _), room)| **value > 0 && **room > 0);
        each.map(|(((value, asked), left), room)| {
            value * i128::from(*asked) / i128::from(*room) * (i128::from(*left) * 1024 / i128::from(*room))
        })
        .sum()
    }
}

//! Remaining capacity of capacity reservations during a plan.

use std::collections::BTreeMap;

use crate::Snapshot;

/// Remaining instances of each reservation.
#[derive(Clone)]
pub(in crate::provision) struct Reservations {
    left: BTreeMap<String, u32>,
    generation: u64,
}

impl Reservations {
    /// Creates the counts: where offerings differ about a reservation, the smallest remaining count applies.
    pub(in crate::provision) fn new(snapshot: &Snapshot) -> Self {
        let mut left: BTreeMap<String, u32> = BTreeMap::new();
        let types = snapshot.catalogues.iter().flat_map(|catalogue| &catalogue.types);
        for offering in types.flat_map(|kind| &kind.offerings).filter(|offering| offering.available) {
            if let Some(reservation) = &offering.reservation {
                let known = left.entry(reservation.id.clone()).or_insert(reservation.remaining);
                *known = (*known).min(reservation.remaining);
            }
        }
        Self { left, generation: 0 }
    }

    /// Returns a number that changes with each draw on a reservation.
    pub(in crate::provision) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the ids of reservations with remaining instances, in order.
    pub(in crate::provision) fn available(&self) -> Vec<String> {
        self.left.iter().filter(|(_, left)| **left > 0).map(|(id, _)| id.clone()).collect()
    }

    /// Restores earlier counts. Increases the generation, so that results cached in between become invalid.
    pub(in crate::provision) fn restore(&mut self, before: Self) {
        self.left = before.left;
        self.generation += 1;
    }

    pub(in crate::provision) fn draw(&mut self, id: &str) {
        if let Some(left) = self.left.get_mut(id) {
            *left = left.saturating_sub(1);
            self.generation += 1;
        }
    }
}

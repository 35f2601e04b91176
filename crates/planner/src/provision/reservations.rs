//! What is left of capacity reservations while a plan draws on them.

use std::collections::BTreeMap;

use crate::Snapshot;

/// Instances that each reservation has room for.
#[derive(Clone)]
pub(super) struct Reservations {
    left: BTreeMap<String, u32>,
    generation: u64,
}

impl Reservations {
    /// The least that any offering says of a reservation is what it has.
    pub(super) fn new(snapshot: &Snapshot) -> Self {
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

    /// Changes whenever one was drawn on.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Reservations with room, by id.
    pub(super) fn available(&self) -> Vec<String> {
        self.left.iter().filter(|(_, left)| **left > 0).map(|(id, _)| id.clone()).collect()
    }

    /// Goes back to what was left before. What was found out meanwhile holds no longer.
    pub(super) fn restore(&mut self, before: Self) {
        self.left = before.left;
        self.generation += 1;
    }

    pub(super) fn draw(&mut self, id: &str) {
        if let Some(left) = self.left.get_mut(id) {
            *left = left.saturating_sub(1);
            self.generation += 1;
        }
    }
}

//! Moves that only save money must stand in every plan for 15 seconds before they begin, as in the controller.

use std::collections::BTreeMap;

use planner::{Move, MoveReason};

use crate::clock::{Moment, SECOND};

const VALIDATION: i64 = 15 * SECOND;

/// Why, and the names of the nodes in order.
type Key = (MoveReason, Vec<String>);

/// The moves that recent plans contained: since when, and how many replacements they took.
#[derive(Debug, Default)]
pub struct Noted(BTreeMap<Key, (Moment, usize)>);

impl Noted {
    /// Compares a plan with those before. Returns the positions of moves to begin, and when the next is ripe.
    pub fn look(&mut self, moves: &[Move], now: Moment) -> (Vec<usize>, Option<Moment>) {
        let former = std::mem::take(&mut self.0);
        let (mut begin, mut next) = (Vec::new(), None::<Moment>);
        for (position, planned) in moves.iter().enumerate() {
            let mut nodes: Vec<String> = planned.nodes.iter().map(|leaver| leaver.node.clone()).collect();
            nodes.sort();
            let key = (planned.reason, nodes);
            let count = planned.replacements.len();
            let known = former.get(&key).filter(|(_, before)| count >= *before);
            let entry = known.copied().unwrap_or((now, count));
            let waits = matches!(planned.reason, MoveReason::Empty | MoveReason::Underutilized);
            let ripe = if waits { entry.0 + VALIDATION } else { now };
            if ripe <= now {
                begin.push(position);
            } else {
                next = Some(next.map_or(ripe, |next| next.min(ripe)));
            }
            self.0.insert(key, entry);
        }
        (begin, next)
    }
}

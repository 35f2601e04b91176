//! Moves that are planned and not yet begun: those that only save money wait until every plan for a while has said the same,
//! so that what has just changed is not answered by what changes again (core 4.11). A timer a move, never a pause.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use planner::{Move, MoveReason};

use super::Kind;

/// How long every plan must have contained a move.
const VALIDATION: Duration = Duration::from_secs(15);

/// Why, and the names of the nodes in order.
type Key = (MoveReason, Vec<String>);

/// The moves that recent plans contained.
#[derive(Debug, Default)]
pub struct Noted {
    moves: BTreeMap<Key, Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    since: Timestamp,
    replacements: usize,
    kind: Kind,
    begun: bool,
}

/// What has become of the moves of a plan, and of those that it does not contain any more.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ripe {
    /// Positions of moves to begin now.
    pub begin: Vec<usize>,
    /// Positions of moves that were not planned before and have to wait.
    pub candidates: Vec<usize>,
    /// Moves that waited and are not planned any more.
    pub dropped: Vec<Dropped>,
    /// When the next move is ripe, if every plan until then contains it.
    pub next: Option<Duration>,
}

/// A move that is not planned any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// What it was.
    pub kind: Kind,
    /// Its nodes that no other move takes.
    pub nodes: Vec<String>,
}

impl Noted {
    /// Compares the plan of `now` with those before.
    pub fn look(&mut self, moves: &[Move], now: Timestamp) -> Ripe {
        let mut ripe = Ripe::default();
        let mut former = std::mem::take(&mut self.moves);
        for (position, planned) in moves.iter().enumerate() {
            let key = key(planned);
            let known = former.remove(&key).filter(|entry| entry.is_still(planned, now));
            if known.is_none() && waits(planned.reason) {
                ripe.candidates.push(position);
            }
            let mut entry = known.unwrap_or_else(|| Entry::of(planned, now));
            let remaining = if waits(planned.reason) { entry.remaining(now) } else { Duration::ZERO };
            if remaining.is_zero() {
                entry.begun = true;
                ripe.begin.push(position);
            } else {
                ripe.next = Some(ripe.next.map_or(remaining, |next| next.min(remaining)));
            }
            self.moves.insert(key, entry);
        }
        ripe.dropped = dropped(former, moves);
        ripe
    }
}

impl Entry {
    fn of(planned: &Move, now: Timestamp) -> Self {
        Self { since: now, replacements: planned.replacements.len(), kind: Kind::of(planned), begun: false }
    }

    /// Whether it is the same move: one that fewer replacements would do for is another one. A clock that was set back begins anew.
    fn is_still(&self, planned: &Move, now: Timestamp) -> bool {
        planned.replacements.len() >= self.replacements && self.since <= now
    }

    fn remaining(&self, now: Timestamp) -> Duration {
        VALIDATION.saturating_sub(Duration::try_from(now.duration_since(self.since)).unwrap_or_default())
    }
}

fn key(planned: &Move) -> Key {
    let mut nodes: Vec<String> = planned.nodes.iter().map(|leaver| leaver.node.clone()).collect();
    nodes.sort();
    (planned.reason, nodes)
}

/// Whether moves for this reason may be put off: the others answer something that is wrong already.
fn waits(reason: MoveReason) -> bool {
    matches!(reason, MoveReason::Empty | MoveReason::Underutilized)
}

fn dropped(former: BTreeMap<Key, Entry>, moves: &[Move]) -> Vec<Dropped> {
    let planned: BTreeSet<&str> = moves.iter().flat_map(|it| &it.nodes).map(|leaver| leaver.node.as_str()).collect();
    let waited = former.into_iter().filter(|(_, entry)| !entry.begun);
    let left = waited.filter_map(|((_, nodes), entry)| {
        let nodes: Vec<String> = nodes.into_iter().filter(|node| !planned.contains(node.as_str())).collect();
        (!nodes.is_empty()).then_some(Dropped { kind: entry.kind, nodes })
    });
    left.collect()
}

#[cfg(test)]
mod tests;

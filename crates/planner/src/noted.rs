//! Moves that are planned and not yet begun: those that only save money wait until every plan for a while has said the same,
//! so that what has just changed is not answered by what changes again (core 4.11). A timer a move, never a pause.
//!
//! A node that only its pool's budget keeps waits meanwhile too: once the budget allows its move, and nothing has happened on the
//! node for as long, the move begins. Else each round of a budget would cost that wait again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::{Move, MoveReason, NodeVerdict, Plan, Snapshot};

/// How many milliseconds every plan must have contained a move.
const VALIDATION: i64 = 15_000;

/// Why, and the names of the nodes in order.
type Key = (MoveReason, Vec<String>);

/// The moves that recent plans contained.
#[derive(Debug, Default)]
pub struct Noted {
    moves: BTreeMap<Key, Entry>,
    /// Nodes that would go but for a budget: since when every plan has said so.
    withheld: BTreeMap<String, i64>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    since: i64,
    replacements: usize,
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
    /// Why its nodes were to go.
    pub reason: MoveReason,
    /// Whether something was to come in their place.
    pub replaces: bool,
    /// How many nodes were to go.
    pub size: usize,
    /// Those of them that no other move takes, by name.
    pub nodes: Vec<String>,
}

impl Noted {
    /// Compares a plan with those before.
    pub fn look(&mut self, snapshot: &Snapshot, plan: &Plan) -> Ripe {
        let now = snapshot.now.0;
        let mut ripe = Ripe::default();
        let mut former = std::mem::take(&mut self.moves);
        let waited = self.waited(snapshot);
        for (position, planned) in plan.moves.iter().enumerate() {
            let key = key(planned);
            let known = former.remove(&key).filter(|entry| entry.is_still(planned, now));
            let mut entry = known.unwrap_or_else(|| Entry::of(planned, &key.1, &waited, now));
            let remaining = if waits(planned.reason) { VALIDATION - (now - entry.since) } else { 0 };
            if remaining <= 0 {
                entry.begun = true;
                ripe.begin.push(position);
            } else {
                let remaining = Duration::from_millis(remaining.unsigned_abs());
                ripe.next = Some(ripe.next.map_or(remaining, |next| next.min(remaining)));
                ripe.candidates.extend(known.is_none().then_some(position));
            }
            self.moves.insert(key, entry);
        }
        self.withhold(plan, now);
        ripe.dropped = dropped(former, &plan.moves);
        ripe
    }

    /// Nodes that a budget kept, by name: since when, or since something happened there, if that is later.
    fn waited<'s>(&self, snapshot: &'s Snapshot) -> BTreeMap<&'s str, i64> {
        let waited = snapshot.nodes.iter().filter_map(|node| {
            let withheld = *self.withheld.get(&node.name)?;
            let quiet = node.quiet_since.unwrap_or(snapshot.now).0;
            Some((node.name.as_str(), withheld.max(quiet).min(snapshot.now.0)))
        });
        waited.collect()
    }

    fn withhold(&mut self, plan: &Plan, now: i64) {
        let former = std::mem::take(&mut self.withheld);
        let since = |node: &String| former.get(node).copied().unwrap_or(now).min(now);
        let kept = plan.report.nodes.iter().filter(|(_, verdict)| is_withheld(verdict));
        self.withheld = kept.map(|(node, _)| (node.clone(), since(node))).collect();
    }
}

impl Entry {
    /// A move that was not planned before: its wait began with that of the last of its nodes, if a budget kept them all.
    fn of(planned: &Move, nodes: &[String], waited: &BTreeMap<&str, i64>, now: i64) -> Self {
        let waited: Option<Vec<i64>> = nodes.iter().map(|node| waited.get(node.as_str()).copied()).collect();
        let since = waited.and_then(|since| since.into_iter().max()).unwrap_or(now);
        Self { since, replacements: planned.replacements.len(), begun: false }
    }

    /// Whether it is the same move: one that fewer replacements would do for is another one. A clock that was set back begins anew.
    fn is_still(&self, planned: &Move, now: i64) -> bool {
        planned.replacements.len() >= self.replacements && self.since <= now
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

/// Whether a node would go to save money but for its pool's budget.
fn is_withheld(verdict: &NodeVerdict) -> bool {
    matches!(verdict, NodeVerdict::Budget { reason } if waits(*reason))
}

fn dropped(former: BTreeMap<Key, Entry>, moves: &[Move]) -> Vec<Dropped> {
    let planned: BTreeSet<&str> = moves.iter().flat_map(|it| &it.nodes).map(|leaver| leaver.node.as_str()).collect();
    let waited = former.into_iter().filter(|(_, entry)| !entry.begun);
    let left = waited.filter_map(|((reason, nodes), entry)| {
        let size = nodes.len();
        let nodes: Vec<String> = nodes.into_iter().filter(|node| !planned.contains(node.as_str())).collect();
        (!nodes.is_empty()).then_some(Dropped { reason, replaces: entry.replacements > 0, size, nodes })
    });
    left.collect()
}

#[cfg(test)]
mod tests;

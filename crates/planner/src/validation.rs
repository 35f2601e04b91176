//! Moves that are planned and not yet begun: those that only save money wait until every plan for a while has said the same,
//! so that what has just changed is not answered by what changes again (core 4.11). A timer a move, never a pause.
//!
//! What counts is how long plans have said of each node that it should go: other moves beside it may change how nodes are put
//! together. A node that only its pool's budget keeps waits meanwhile too, else each round of a budget would cost that wait again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::{CommandReason, NodeVerdict, Plan, PlannedCommand, Snapshot};

/// How many milliseconds every plan must have contained a move.
pub(crate) const VALIDATION: i64 = 15_000;

/// Why, and the names of the nodes in order.
type Key = (CommandReason, Vec<String>);

/// Nodes that are to go and have not begun to, or would go but for a budget: why, and since when every plan has said so.
type Waits = BTreeMap<String, (CommandReason, i64)>;

/// The moves that recent plans contained.
#[derive(Debug, Default)]
pub struct Validation {
    moves: BTreeMap<Key, Entry>,
    waits: Waits,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    since: i64,
    replacements: usize,
    begun: bool,
}

/// What has become of the moves of a plan, and of those that it does not contain any more.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ValidatedCommands {
    /// Positions of moves to begin now.
    pub begin: Vec<usize>,
    /// Positions of moves that were not planned before and have to wait.
    pub candidates: Vec<usize>,
    /// Moves that waited and are not planned any more.
    pub dropped: Vec<RejectedCommand>,
    /// When the next move is ripe, if every plan until then contains it.
    pub next: Option<Duration>,
}

/// A move that is not planned any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedCommand {
    /// Why its nodes were to go.
    pub reason: CommandReason,
    /// Whether something was to come in their place.
    pub replaces: bool,
    /// How many nodes were to go.
    pub size: usize,
    /// Those of them that no other move takes, by name.
    pub nodes: Vec<String>,
}

impl Validation {
    /// Compares a plan with those before.
    pub fn update(&mut self, snapshot: &Snapshot, plan: &Plan) -> ValidatedCommands {
        let now = snapshot.now.0;
        let mut ripe = ValidatedCommands::default();
        let (mut former, waited) = (std::mem::take(&mut self.moves), std::mem::take(&mut self.waits));
        for (position, planned) in plan.moves.iter().enumerate() {
            let key = key(planned);
            let before = former.remove(&key);
            let known = before.filter(|entry| entry.is_still(planned, now));
            let mut entry = known.unwrap_or_else(|| {
                let since = if before.is_some() { None } else { since(&key, &waited, now) };
                Entry { since: since.unwrap_or(now), replacements: planned.replacements.len(), begun: false }
            });
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
        self.waits = self.planned().chain(withheld(plan, &waited, now)).collect();
        ripe.dropped = dropped(former, &plan.moves);
        ripe
    }

    /// Nodes of moves that have not begun.
    fn planned(&self) -> impl Iterator<Item = (String, (CommandReason, i64))> {
        let waiting = self.moves.iter().filter(|(_, entry)| !entry.begun);
        waiting.flat_map(|((reason, nodes), entry)| nodes.iter().map(|node| (node.clone(), (*reason, entry.since))))
    }
}

impl Entry {
    /// Whether it is the same move: one that fewer replacements would do for is another one. A clock that was set back begins anew.
    fn is_still(&self, planned: &PlannedCommand, now: i64) -> bool {
        planned.replacements.len() >= self.replacements && self.since <= now
    }
}

/// When the wait of a move began that was not planned as it is now: with that of the last of its nodes, if all have waited for its reason.
fn since((reason, nodes): &Key, waited: &Waits, now: i64) -> Option<i64> {
    let since = nodes.iter().map(|node| waited.get(node).filter(|(of, _)| of == reason).map(|(_, since)| *since));
    since.collect::<Option<Vec<i64>>>()?.into_iter().max().filter(|since| *since <= now)
}

fn key(planned: &PlannedCommand) -> Key {
    let mut nodes: Vec<String> = planned.nodes.iter().map(|leaver| leaver.node.clone()).collect();
    nodes.sort();
    (planned.reason, nodes)
}

/// Whether moves for this reason may be put off: the others answer something that is wrong already.
fn waits(reason: CommandReason) -> bool {
    matches!(reason, CommandReason::Empty | CommandReason::Underutilized)
}

/// Nodes that would go to save money but for their pool's budget.
fn withheld<'a>(
    plan: &'a Plan,
    waited: &'a Waits,
    now: i64,
) -> impl Iterator<Item = (String, (CommandReason, i64))> + 'a {
    plan.report.nodes.iter().filter_map(move |(node, verdict)| {
        let NodeVerdict::Budget { reason } = verdict else { return None };
        let since = waited.get(node).filter(|(of, since)| of == reason && *since <= now);
        waits(*reason).then(|| (node.clone(), (*reason, since.map_or(now, |(_, since)| *since))))
    })
}

fn dropped(former: BTreeMap<Key, Entry>, moves: &[PlannedCommand]) -> Vec<RejectedCommand> {
    let planned: BTreeSet<&str> = moves.iter().flat_map(|it| &it.nodes).map(|leaver| leaver.node.as_str()).collect();
    let waited = former.into_iter().filter(|(_, entry)| !entry.begun);
    let left = waited.filter_map(|((reason, nodes), entry)| {
        let size = nodes.len();
        let nodes: Vec<String> = nodes.into_iter().filter(|node| !planned.contains(node.as_str())).collect();
        (!nodes.is_empty()).then_some(RejectedCommand { reason, replaces: entry.replacements > 0, size, nodes })
    });
    left.collect()
}

#[cfg(test)]
mod tests;

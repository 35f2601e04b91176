//! Validation of planned commands. Commands that only save money wait until every plan during the validation time has contained
//! them. A temporary state thus causes no disruption. Each command has its own timer; validation never blocks.
//!
//! The wait counts per node, because other commands may change how nodes are combined. A node that only its NodePool's budget
//! excludes waits meanwhile too. Otherwise each round of a budget would cost the wait again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::{CommandReason, NodeVerdict, Plan, PlannedCommand, Snapshot};

/// Reason, and the sorted names of the nodes.
type Key = (CommandReason, Vec<String>);

/// Nodes with a command that has not begun, or that only a budget excludes. The value is the reason, and the time since which
/// every plan has contained it.
type Waits = BTreeMap<String, (CommandReason, i64)>;

/// Commands of recent plans.
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

/// Results for the commands of a plan, and for former ones that it does not contain any more.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ValidatedCommands {
    /// Positions of commands to begin now.
    pub begin: Vec<usize>,
    /// Positions of new commands that have to wait.
    pub candidates: Vec<usize>,
    /// Commands that waited and are not planned any more.
    pub dropped: Vec<RejectedCommand>,
    /// Time until the next command can begin, if every plan until then contains it.
    pub next: Option<Duration>,
}

/// Command that is not planned any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedCommand {
    /// Reason of the command.
    pub reason: CommandReason,
    /// True if the command had replacements.
    pub replaces: bool,
    /// Number of its nodes.
    pub size: usize,
    /// Names of its nodes that no other command contains.
    pub nodes: Vec<String>,
}

impl Validation {
    /// Validation time in milliseconds: every plan in this time must contain the command.
    pub const TIME: i64 = 15_000;

    /// Compares a plan with the previous ones.
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
            let remaining = if planned.reason.is_validated() { Self::TIME - (now - entry.since) } else { 0 };
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

    /// Returns the nodes of commands that have not begun.
    fn planned(&self) -> impl Iterator<Item = (String, (CommandReason, i64))> {
        let waiting = self.moves.iter().filter(|(_, entry)| !entry.begun);
        waiting.flat_map(|((reason, nodes), entry)| nodes.iter().map(|node| (node.clone(), (*reason, entry.since))))
    }
}

impl Entry {
    /// Reports whether it is the same command: fewer replacements make it another one. If the clock was set back, the wait
    /// begins again.
    fn is_still(&self, planned: &PlannedCommand, now: i64) -> bool {
        planned.replacements.len() >= self.replacements && self.since <= now
    }
}

/// Returns the start of the wait of a recombined command: the latest start among its nodes, if all of them waited for its
/// reason.
fn since((reason, nodes): &Key, waited: &Waits, now: i64) -> Option<i64> {
    let since = nodes.iter().map(|node| waited.get(node).filter(|(of, _)| of == reason).map(|(_, since)| *since));
    since.collect::<Option<Vec<i64>>>()?.into_iter().max().filter(|since| *since <= now)
}

fn key(planned: &PlannedCommand) -> Key {
    let mut nodes: Vec<String> = planned.nodes.iter().map(|leaver| leaver.node.clone()).collect();
    nodes.sort();
    (planned.reason, nodes)
}

/// Returns nodes that only their NodePool's budget excludes from a command that saves money.
fn withheld<'a>(
    plan: &'a Plan,
    waited: &'a Waits,
    now: i64,
) -> impl Iterator<Item = (String, (CommandReason, i64))> + 'a {
    plan.report.nodes.iter().filter_map(move |(node, verdict)| {
        let NodeVerdict::Budget { reason } = verdict else { return None };
        let since = waited.get(node).filter(|(of, since)| of == reason && *since <= now);
        reason.is_validated().then(|| (node.clone(), (*reason, since.map_or(now, |(_, since)| *since))))
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

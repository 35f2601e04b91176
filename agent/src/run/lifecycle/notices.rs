//! What EC2 has announced: which notices count, what the Node says of them, and what is taken back once the machine has booted again.

use api::condition;
use drain::{Drain, Millis, Settings};

use super::known::{Known, Seen};
use super::marks::Wish;
use crate::cluster::Node;
use crate::interruption::{Kind, Notice};
use crate::report::{self, Statement, Tiding};

/// The notices themselves live in the journal.
#[derive(Debug)]
pub(super) struct Notices;

impl Notices {
    /// The first spot notice starts the drain, and says so; a later one can only bring its deadline forward.
    pub(super) fn take(&mut self, known: &mut Known, notice: Notice, now: Millis) -> bool {
        let journal = &mut known.journal;
        match (&notice.kind, &mut journal.spot) {
            (Kind::Rebalance, _) => {
                known.dirty |= journal.rebalance.is_none();
                journal.rebalance.get_or_insert(notice);
                false
            }
            (Kind::Spot { .. }, Some(before)) => {
                let sooner = notice.time < before.time;
                if sooner {
                    before.time = notice.time;
                    known.dirty = true;
                    known.with_drain(|drain| drain.tighten(notice.time));
                }
                false
            }
            (Kind::Spot { .. }, None) => {
                // What is left of the last one is this one's now.
                journal.cordoned |= journal.leftover.take().is_some_and(|before| before.cordoned);
                let seed = report::fnv(&journal.instance);
                journal.drain = Some(Drain::new(Settings::for_notice(notice.time, seed), now));
                journal.spot = Some(notice);
                known.dirty = true;
                true
            }
        }
    }

    /// Once the Node says nothing more of an interruption before this boot.
    pub(super) fn forget_leftover(&self, known: &mut Known) {
        let (Seen::Ours(node), Some(leftover)) = (&known.seen, known.journal.leftover) else {
            return;
        };
        let said_anew = known.journal.rebalance.is_some();
        if report::undo_patch(node, leftover).is_none() && (said_anew || !is_interrupted(node)) {
            log::info!("nothing is left of the interruption before this boot");
            known.journal.leftover = None;
            known.dirty = true;
        }
    }

    /// What the Node should be while the machine is taken back.
    pub(super) fn wish(&self, known: &Known) -> Option<Wish> {
        let patch = report::interruption_patch(known.node()?, known.journal.spot.as_ref()?)?;
        Some(Wish { patch, urgent: true })
    }

    /// What an earlier boot's interruption left and is ours to take back.
    pub(super) fn undo(&self, known: &Known) -> Option<Wish> {
        let patch = report::undo_patch(known.node()?, known.journal.leftover?)?;
        Some(Wish { patch, urgent: false })
    }

    /// The condition `kerf.sh/Interrupted`.
    pub(super) fn statement(&self, known: &Known) -> Option<Statement> {
        let (node, journal) = (known.node()?, &known.journal);
        report::interrupted(journal.spot.as_ref(), journal.rebalance.as_ref(), journal.drain.as_ref())
            .or_else(|| journal.leftover.filter(|_| is_interrupted(node)).map(|_| report::interruption_over()))
    }

    pub(super) fn tidings(&self, known: &Known) -> Vec<Tiding> {
        let mut tidings: Vec<Tiding> = known.journal.rebalance.as_ref().map(Tiding::rebalance).into_iter().collect();
        if let Some(notice) = &known.journal.spot
            && let Kind::Spot { action } = &notice.kind
        {
            tidings.push(Tiding::spot(notice, action));
        }
        tidings
    }
}

fn is_interrupted(node: &Node) -> bool {
    node.condition(condition::INTERRUPTED).is_some_and(|it| it.status == condition::TRUE)
}

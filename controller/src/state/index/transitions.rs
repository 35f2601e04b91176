//! Conditions that turn and objects that end, noted as the watches show it: between two looks at the index much may happen.

use parking_lot::Mutex;

use jiff::Timestamp;

/// How many are kept until someone asks; the oldest go first.
const KEPT: usize = 10_000;

/// Whose conditions are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionOwner {
    /// A NodeClaim.
    Claim,
    /// A Node of ours.
    Node,
    /// A NodePool.
    Pool,
    /// An EC2NodeClass.
    Class,
}

/// One condition, whoever has it.
#[derive(Clone, Copy, Debug)]
pub struct ConditionView<'a> {
    /// Its type.
    pub type_: &'a str,
    /// `True`, `False` or `Unknown`.
    pub status: &'a str,
    /// One word.
    pub reason: &'a str,
    /// When it last turned.
    pub since: Option<Timestamp>,
}

/// A condition that has another status than before, or none before.
#[derive(Clone, Debug, PartialEq)]
pub struct Transition {
    /// Who has it.
    pub speaker: ConditionOwner,
    /// Its type.
    pub type_: String,
    /// What it says now.
    pub status: String,
    /// Why, in one word.
    pub reason: String,
    /// What it said before, and for how many seconds.
    pub before: Option<(String, f64)>,
}

/// An object that was wanted gone and is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ObjectEnd {
    /// What it was.
    pub speaker: ConditionOwner,
    /// How many seconds it took.
    pub took: f64,
}

/// What nobody has asked for yet.
#[derive(Debug, Default)]
pub struct Transitions {
    turned: Mutex<Vec<Transition>>,
    ended: Mutex<Vec<ObjectEnd>>,
}

impl Transitions {
    /// Notes how what an object says differs from what it said.
    pub(super) fn note(
        &self,
        speaker: ConditionOwner,
        before: &[ConditionView<'_>],
        after: &[ConditionView<'_>],
        seen: Timestamp,
    ) {
        let turned = after.iter().filter_map(|now| {
            let former = before.iter().find(|former| former.type_ == now.type_);
            let held = |former: &ConditionView<'_>| {
                let seconds = now.since.unwrap_or(seen).duration_since(former.since?).as_secs_f64();
                Some((former.status.to_owned(), seconds.max(0.0)))
            };
            let turn = || Transition {
                speaker,
                type_: now.type_.to_owned(),
                status: now.status.to_owned(),
                reason: now.reason.to_owned(),
                before: former.and_then(held),
            };
            former.is_none_or(|former| former.status != now.status).then(turn)
        });
        keep(&self.turned, turned);
    }

    /// Notes that something is gone whose end was asked for at `deleted`.
    pub(super) fn end(&self, speaker: ConditionOwner, deleted: Timestamp, seen: Timestamp) {
        let took = seen.duration_since(deleted).as_secs_f64().max(0.0);
        keep(&self.ended, std::iter::once(ObjectEnd { speaker, took }));
    }

    /// What has happened since the last time that someone asked, in its order.
    pub fn take(&self) -> (Vec<Transition>, Vec<ObjectEnd>) {
        (taken(&self.turned), taken(&self.ended))
    }
}

fn keep<T>(list: &Mutex<Vec<T>>, more: impl Iterator<Item = T>) {
    let mut kept = list.lock();
    kept.extend(more);
    let surplus = kept.len().saturating_sub(KEPT);
    kept.drain(..surplus);
}

fn taken<T>(list: &Mutex<Vec<T>>) -> Vec<T> {
    std::mem::take(&mut list.lock())
}

#[cfg(test)]
mod tests {
    use super::{ConditionOwner, ConditionView, KEPT, ObjectEnd, Transitions};
    use crate::fixture::at;

    fn says(status: &str, since: i64) -> ConditionView<'_> {
        ConditionView { type_: "Launched", status, reason: "Why", since: Some(at(since)) }
    }

    #[test]
    fn a_turn_says_what_was_before_and_for_how_long() {
        let turns = Transitions::default();
        turns.note(ConditionOwner::Claim, &[], &[says("Unknown", 10)], at(10));
        turns.note(ConditionOwner::Claim, &[says("Unknown", 10)], &[says("Unknown", 10)], at(11));
        turns.note(ConditionOwner::Claim, &[says("Unknown", 10)], &[says("True", 13)], at(14));
        let told: Vec<_> = turns.take().0.into_iter().map(|turn| (turn.status, turn.before)).collect();
        assert_eq!(told, [("Unknown".to_owned(), None), ("True".to_owned(), Some(("Unknown".to_owned(), 3.0)))]);
        assert_eq!(turns.take().0, [], "each is told once");
    }

    #[test]
    fn what_nobody_asks_for_does_not_grow() {
        let turns = Transitions::default();
        for second in 0..=i64::try_from(KEPT).unwrap_or_default() {
            turns.note(ConditionOwner::Node, &[], &[says("True", second)], at(second));
        }
        turns.end(ConditionOwner::Node, at(3), at(5));
        let (turned, ended) = turns.take();
        assert_eq!(turned.len(), KEPT);
        assert_eq!(ended, [ObjectEnd { speaker: ConditionOwner::Node, took: 2.0 }]);
    }
}

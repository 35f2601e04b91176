//! Transitions of conditions and removals of objects, recorded as watches report them: much may happen between two reads of the
//! index.

use api::label;
use jiff::Timestamp;
use kube::api::ObjectMeta;
use parking_lot::Mutex;

/// Maximum number of kept records between two reads. The oldest are dropped first.
const KEPT: usize = 10_000;

/// Kind of the object with a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionOwner {
    /// NodeClaim.
    Claim,
    /// Managed Node.
    Node,
    /// NodePool.
    Pool,
    /// EC2NodeClass.
    Class,
}

/// Condition of an object of any kind.
#[derive(Clone, Copy, Debug)]
pub struct ConditionView<'a> {
    /// Type of the condition.
    pub type_: &'a str,
    /// `True`, `False` or `Unknown`.
    pub status: &'a str,
    /// Reason in CamelCase.
    pub reason: &'a str,
    /// Time of the last transition.
    pub since: Option<Timestamp>,
}

/// Labels of an object with conditions, by which Karpenter's metrics of conditions are grouped. Empty where the object has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerLabels {
    /// NodePool.
    pub nodepool: String,
    /// EC2NodeClass.
    pub nodeclass: String,
    /// `true` for an initialized node.
    pub initialized: String,
}

impl OwnerLabels {
    /// Returns the labels of an object.
    #[must_use]
    pub fn from_meta(meta: &ObjectMeta) -> Self {
        let labels = meta.labels.as_ref();
        let label = |key: &str| labels.and_then(|labels| labels.get(key)).cloned().unwrap_or_default();
        Self {
            nodepool: label(label::NODEPOOL),
            nodeclass: label(label::EC2_NODE_CLASS),
            initialized: label(label::INITIALIZED),
        }
    }
}

/// Condition with a new status, or a new condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Transition {
    /// Kind of the object.
    pub speaker: ConditionOwner,
    /// Labels of the object.
    pub owner: OwnerLabels,
    /// Type of the condition.
    pub type_: String,
    /// New status.
    pub status: String,
    /// Reason of the new status.
    pub reason: String,
    /// Previous status, and its duration in seconds.
    pub before: Option<(String, f64)>,
}

/// Removal of a deleted object.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectEnd {
    /// Kind of the object.
    pub speaker: ConditionOwner,
    /// Labels of the object.
    pub owner: OwnerLabels,
    /// Duration of the termination in seconds.
    pub took: f64,
}

/// Records that were not read yet.
#[derive(Debug, Default)]
pub struct Transitions {
    turned: Mutex<Vec<Transition>>,
    ended: Mutex<Vec<ObjectEnd>>,
}

impl Transitions {
    /// Records the differences between the previous and the new conditions of an object.
    pub(super) fn note(
        &self,
        speaker: ConditionOwner,
        meta: &ObjectMeta,
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
                owner: OwnerLabels::from_meta(meta),
                type_: now.type_.to_owned(),
                status: now.status.to_owned(),
                reason: now.reason.to_owned(),
                before: former.and_then(held),
            };
            former.is_none_or(|former| former.status != now.status).then(turn)
        });
        keep(&self.turned, turned);
    }

    /// Records the removal of an object that was deleted at `deleted`.
    pub(super) fn end(&self, speaker: ConditionOwner, meta: &ObjectMeta, deleted: Timestamp, seen: Timestamp) {
        let took = seen.duration_since(deleted).as_secs_f64().max(0.0);
        keep(&self.ended, std::iter::once(ObjectEnd { speaker, owner: OwnerLabels::from_meta(meta), took }));
    }

    /// Returns the records since the last call, in their order.
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
    use serde_json::{Value, json};

    use super::{ConditionOwner, ConditionView, KEPT, ObjectEnd, ObjectMeta, OwnerLabels, Transitions, label};
    use crate::fixture::{at, node};
    use crate::state::index::Index;

    fn meta() -> ObjectMeta {
        let labels = [(label::NODEPOOL, "blue"), (label::EC2_NODE_CLASS, "default")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        ObjectMeta { labels: Some(labels), ..ObjectMeta::default() }
    }

    fn condition_view(status: &str, since: i64) -> ConditionView<'_> {
        ConditionView { type_: "Launched", status, reason: "Why", since: Some(at(since)) }
    }

    #[test]
    fn note_records_the_previous_status_and_its_duration() {
        let turns = Transitions::default();
        turns.note(ConditionOwner::Claim, &meta(), &[], &[condition_view("Unknown", 10)], at(10));
        turns.note(
            ConditionOwner::Claim,
            &meta(),
            &[condition_view("Unknown", 10)],
            &[condition_view("Unknown", 10)],
            at(11),
        );
        turns.note(
            ConditionOwner::Claim,
            &meta(),
            &[condition_view("Unknown", 10)],
            &[condition_view("True", 13)],
            at(14),
        );
        let reported: Vec<_> = turns.take().0.into_iter().map(|turn| (turn.status, turn.before)).collect();
        assert_eq!(reported, [("Unknown".to_owned(), None), ("True".to_owned(), Some(("Unknown".to_owned(), 3.0)))]);
        assert_eq!(turns.take().0, [], "each is reported once");
    }

    #[test]
    fn note_observes_a_hundred_conditions_of_a_node_that_invents_more() {
        let mut index = Index::default();
        let conditions: Vec<Value> =
            (0..10_000).map(|number| json!({"type": format!("Invented{number}"), "status": "False"})).collect();
        let labels = json!({label::NODEPOOL: "blue"});
        let hostile = node(&json!({"metadata": {"labels": labels}, "status": {"conditions": conditions}}));
        drop(index.apply(hostile.as_ref().clone(), at(1), true));
        assert_eq!(index.turns.take().0.len(), 100);
    }

    #[test]
    fn take_returns_at_most_the_kept_records() {
        let turns = Transitions::default();
        for second in 0..=i64::try_from(KEPT).unwrap_or_default() {
            turns.note(ConditionOwner::Node, &meta(), &[], &[condition_view("True", second)], at(second));
        }
        turns.end(ConditionOwner::Node, &meta(), at(3), at(5));
        let (turned, ended) = turns.take();
        assert_eq!(turned.len(), KEPT);
        let owner =
            OwnerLabels { nodepool: "blue".to_owned(), nodeclass: "default".to_owned(), ..OwnerLabels::default() };
        assert_eq!(turned.last().map(|turn| &turn.owner), Some(&owner));
        assert_eq!(ended, [ObjectEnd { speaker: ConditionOwner::Node, owner, took: 2.0 }]);
    }
}

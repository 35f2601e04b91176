//! Times since which the health of a node fails, over changes of the reason.

use api::condition;
use api::objects::Node;

/// Keeps the times since which conditions of health are False. The EKS node monitoring agent moves the transition time with each
/// reason, although the status stays the same.
pub(super) fn keep_failure_times(node: &mut Node, before: &Node) {
    let is_failure = |type_: &str, status: &str| status == condition::FALSE && condition::HEALTH.contains(&type_);
    for found in node.status.conditions.iter_mut().filter(|found| is_failure(&found.type_, &found.status)) {
        let known = before.condition(&found.type_).filter(|known| known.status == condition::FALSE);
        let known = known.and_then(|known| known.last_transition_time.as_ref());
        if let Some(known) = known
            && found.last_transition_time.as_ref().is_none_or(|moved| known.0 < moved.0)
        {
            found.last_transition_time = Some(known.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use api::condition;
    use jiff::Timestamp;
    use serde_json::json;

    use crate::fixture::{at, node};
    use crate::state::index::Index;

    /// Version of the node with one condition.
    #[derive(Clone, Copy)]
    struct Version {
        number: i64,
        status: &'static str,
        /// Second of the transition.
        moved: i64,
        live: bool,
    }

    /// Applies a version of the node; returns the time of the condition's transition in the index.
    fn apply(index: &mut Index, kind: &str, version: &Version) -> Option<Timestamp> {
        let Version { number, status, moved, live } = *version;
        let stated = json!({"type": kind, "status": status, "lastTransitionTime": at(moved).to_string()});
        let changed = node(&json!({
            "metadata": {"resourceVersion": number.to_string()}, "status": {"conditions": [stated]},
        }));
        drop(index.apply(changed.as_ref().clone(), at(moved), live));
        let known = index.nodes.get("node-1")?.condition(kind)?.last_transition_time.clone();
        known.map(|known| known.0)
    }

    #[test]
    fn apply_keeps_the_time_of_a_failure_when_only_its_reason_changes() {
        let mut index = Index::default();
        let rows = [
            ("False", 100, true, 100),
            ("False", 400, true, 100),
            ("False", 700, true, 100),
            ("True", 800, true, 800),
            ("False", 900, true, 900),
            ("False", 1000, true, 900),
            // After a gap of the watch the condition may have been True meanwhile.
            ("False", 1100, false, 1100),
        ];
        for (number, (status, moved, live, expected)) in (20..).zip(rows) {
            let version = Version { number, status, moved, live };
            let known = apply(&mut index, condition::ACCELERATED_HARDWARE_READY, &version);
            assert_eq!(known, Some(at(expected)), "{status} at {moved}");
        }
    }

    #[test]
    fn apply_keeps_the_time_of_a_failure_when_a_relist_repeats_it() {
        let mut index = Index::default();
        let kind = condition::STORAGE_READY;
        let first = Version { number: 20, status: "False", moved: 100, live: true };
        let second = Version { number: 21, moved: 400, ..first };
        let again = Version { live: false, ..second };
        assert_eq!([&first, &second, &again].map(|version| apply(&mut index, kind, version)), [Some(at(100)); 3]);
    }

    #[test]
    fn apply_keeps_the_transition_of_kubelet() {
        let mut index = Index::default();
        let first = Version { number: 20, status: "False", moved: 100, live: true };
        let second = Version { number: 21, moved: 400, ..first };
        let known = [first, second].map(|version| apply(&mut index, condition::READY, &version));
        assert_eq!(known, [Some(at(100)), Some(at(400))]);
    }
}

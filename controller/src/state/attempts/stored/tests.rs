//! Tests of failures over a restart: the annotation that one process writes, and what the next one does.

use api::objects::{
    CSINode, DaemonSet, Deployment, LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
    PodDisruptionBudget, PodTemplate, PriorityClass, ReplicaSet, RuntimeClass, StatefulSet, StorageClass,
    VolumeAttachment,
};
use api::{CapacityBuffer, EC2NodeClass, NodeClaim, NodeOverlay, NodePool, annotation};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::AttemptStore;
use crate::fixture::{at, claim, class, merge, pool};
use crate::state::attempts::PoolVersion;
use crate::state::attempts::launches::{AttemptState, AttemptView, LaunchAttempts, PodGroup};
use crate::state::attempts::replacements::{ReplacementHealth, Replacements};
use crate::state::index::Index;

/// Process with its memory.
struct Process {
    store: AttemptStore,
    launches: Mutex<LaunchAttempts>,
    replacements: Replacements,
}

impl Process {
    fn start(name: &str) -> Self {
        Self {
            store: AttemptStore::new(name.to_owned()),
            launches: Mutex::default(),
            replacements: Replacements::default(),
        }
    }

    fn restore(&self, index: &Index) {
        self.store.restore(index, &self.launches, &self.replacements);
    }

    fn text(&self, index: &Index) -> Option<String> {
        self.store.text(index, "default", &self.launches, &self.replacements)
    }

    /// Counts two failures of each kind.
    fn fail(&self, index: &Index) {
        let version = PoolVersion::from_index(index, "default");
        for attempt in [0, 1000] {
            let created = json!({"metadata": {"creationTimestamp": at(attempt).to_string()}});
            self.replacements.fail(index, &claim(&created), "timed out", at(attempt + 100));
        }
        let mut launches = self.launches.lock();
        for attempt in [0, 1000] {
            let group = [(PodGroup::Controller("set".to_owned()), ["pod-uid".to_owned()].into())].into();
            launches.begin(&format!("claim-{attempt}"), "default", group, version.clone(), at(attempt));
            launches.update(&AttemptView {
                state: &|_| AttemptState::Gone,
                needs: &|_, _| true,
                version: &|_| version.clone(),
                now: at(attempt + 100),
            });
        }
    }

    /// Returns the delays that its plans and commands have: of the pod group, and of replacements.
    fn delays(&self, index: &Index) -> (Option<u64>, Option<(u32, Timestamp)>) {
        let mut launches = self.launches.lock();
        let version = PoolVersion::from_index(index, "default");
        let stored = json!(launches.stored("default", &version));
        let alone = stored[0]["count"].as_u64();
        let paused = launches.pauses(&PodGroup::Controller("set".to_owned()), "pod-uid", at(1105));
        assert_eq!(paused.is_empty(), alone.is_none());
        let replacements = match self.replacements.health(index, "default") {
            ReplacementHealth::Failing { failures, until, .. } => Some((failures, until)),
            ReplacementHealth::Unknown | ReplacementHealth::Healthy => None,
        };
        (alone, replacements)
    }
}

const NOTHING: (Option<u64>, Option<(u32, Timestamp)>) = (None, None);

/// Returns an index of which every kind is complete, except for `NodePool` while `is_complete` is false.
fn index(change: &Value, text: Option<&str>, is_complete: bool) -> Index {
    let mut index = Index::default();
    let kinds: [fn(&mut Index); 20] = [
        Index::do_without::<Pod>,
        Index::do_without::<Node>,
        Index::do_without::<NodeClaim>,
        Index::do_without::<EC2NodeClass>,
        Index::do_without::<DaemonSet>,
        Index::do_without::<PodDisruptionBudget>,
        Index::do_without::<VolumeAttachment>,
        Index::do_without::<PersistentVolumeClaim>,
        Index::do_without::<PersistentVolume>,
        Index::do_without::<StorageClass>,
        Index::do_without::<CSINode>,
        Index::do_without::<Namespace>,
        Index::do_without::<LimitRange>,
        Index::do_without::<RuntimeClass>,
        Index::do_without::<PriorityClass>,
        Index::do_without::<NodeOverlay>,
        Index::do_without::<CapacityBuffer>,
        Index::do_without::<PodTemplate>,
        Index::do_without::<Deployment>,
        Index::do_without::<ReplicaSet>,
    ];
    kinds.into_iter().for_each(|sync| sync(&mut index));
    index.do_without::<StatefulSet>();
    if is_complete {
        index.do_without::<NodePool>();
    }
    let mut changed = change.clone();
    merge(&mut changed, &json!({"metadata": {"annotations": {annotation::FAILED_ATTEMPTS: text}}}));
    drop(index.apply(pool(&changed).as_ref().clone(), at(0), true));
    drop(index.apply(class(&json!({})).as_ref().clone(), at(0), true));
    index
}

fn stored() -> (Process, String) {
    let first = Process::start("first");
    let index = index(&json!({}), None, true);
    first.fail(&index);
    let text = first.text(&index).expect("the index is complete");
    (first, text)
}

/// Rows: a change of the NodePool, the state of the index, and whether the next process continues the delays.
#[test]
fn restore_continues_the_delays_of_an_earlier_process() {
    let (first, text) = stored();
    let before = first.delays(&index(&json!({}), None, true));
    assert_eq!(before, (Some(2), Some((2, at(1100 + 1200)))));
    let rows = [
        (json!({}), true, before),
        (json!({"metadata": {"generation": 2}}), true, NOTHING),
        (json!({"metadata": {"uid": "another"}}), true, NOTHING),
        (json!({}), false, NOTHING),
    ];
    for (change, is_complete, expected) in rows {
        let (second, index) = (Process::start("second"), index(&change, Some(&text), is_complete));
        second.restore(&index);
        assert_eq!(second.delays(&index), expected, "{change} {is_complete}");
    }
}

#[test]
fn restore_happens_once_and_never_with_own_text() {
    let (first, text) = stored();
    let index = index(&json!({}), Some(&text), true);
    let second = Process::start("second");
    second.restore(&index);
    second.replacements.succeed(&index, &claim(&json!({})), at(2000));
    second.restore(&index);
    assert_eq!(second.delays(&index).1, None, "the result is later than the text");
    first.replacements.succeed(&index, &claim(&json!({})), at(2000));
    first.restore(&index);
    assert_eq!(first.delays(&index).1, None, "its own text is older than its memory");
}

#[test]
fn text_is_empty_without_failures_and_unknown_without_an_index() {
    let process = Process::start("first");
    assert_eq!(process.text(&index(&json!({}), None, true)).as_deref(), Some(""));
    assert_eq!(process.text(&index(&json!({}), None, false)), None);
    let (_, text) = stored();
    assert!(text.len() < 1000, "{text}");
    let second = Process::start("second");
    for broken in ["", "{", "[]"] {
        let index = index(&json!({}), Some(broken), true);
        second.restore(&index);
        assert_eq!(second.delays(&index), NOTHING, "{broken:?}");
    }
}

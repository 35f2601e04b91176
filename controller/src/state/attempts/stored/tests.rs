//! Tests of failures over a restart: the annotation that one process writes, and what the next one does.

use api::objects::{
    CSINode, DaemonSet, Deployment, LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
    PodDisruptionBudget, PodTemplate, PriorityClass, ReplicaSet, RuntimeClass, StatefulSet, StorageClass,
    VolumeAttachment,
};
use api::{
    CapacityBuffer, Commitment, EC2NodeClass, NodeClaim, NodeOverlay, NodePool, ProvisioningRequest, SpendPolicy,
    annotation,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Attempts;
use crate::fixture::{at, claim, class, merge, pool};
use crate::state::attempts::PoolVersion;
use crate::state::attempts::launches::{AttemptState, AttemptView, PodGroup};
use crate::state::attempts::replacements::ReplacementHealth;
use crate::state::index::Index;

/// Process with its memory.
struct Process(Attempts);

/// Failures that a process acts on.
#[derive(Debug, Default, PartialEq, Eq)]
struct Delays {
    /// Failed launches of the pod group.
    group: Option<u64>,
    /// Failed replacements, with the time of the next one.
    replacements: Option<(u32, Timestamp)>,
    /// End of the pause after unusable nodes, with their number and cause.
    startups: Option<(Timestamp, u32, String)>,
}

impl Process {
    fn start(name: &str) -> Self {
        Self(Attempts::new(name.to_owned()))
    }

    fn restore(&self, index: &Index, now: i64) {
        self.0.restore(index, index.pools.get("default").unwrap(), at(now));
    }

    fn text(&self, index: &Index) -> Option<String> {
        self.0.text(index, "default")
    }

    /// Counts two failures of each kind, and three unusable nodes.
    fn fail(&self, index: &Index) {
        let version = PoolVersion::from_index(index, "default");
        for attempt in [0, 1000] {
            let created = json!({"metadata": {"creationTimestamp": at(attempt).to_string()}});
            self.0.replacements.fail(index, &claim(&created), "timed out", at(attempt + 100));
        }
        let mut launches = self.0.launches.lock();
        for time in [900, 1000, 1100] {
            launches.fail_startup("default", version.clone(), "taint x stayed", at(time));
        }
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

    /// Returns the delays that its plans and commands have at second 1105.
    fn delays(&self, index: &Index) -> Delays {
        let mut launches = self.0.launches.lock();
        let version = PoolVersion::from_index(index, "default");
        let stored = json!(launches.stored("default", &version));
        let group = stored[0]["count"].as_u64();
        let paused = launches.pauses(&PodGroup::Controller("set".to_owned()), "pod-uid", at(1105));
        let pause = launches.static_pools(at(1105)).remove("default");
        let startups = launches.stored_startups("default", &version);
        let startups = pause.zip(startups).map(|(end, startups)| (end, startups.count, startups.cause));
        assert_eq!(paused.is_empty(), group.is_none() && startups.is_none());
        let replacements = match self.0.replacements.health(index, "default") {
            ReplacementHealth::Failing { failures, until, .. } => Some((failures, until)),
            ReplacementHealth::Unknown | ReplacementHealth::Healthy => None,
        };
        Delays { group, replacements, startups }
    }
}

/// Returns an index of which every kind is complete, except for `NodePool` while `is_complete` is false.
fn index(change: &Value, text: Option<&str>, is_complete: bool) -> Index {
    let mut index = Index::default();
    let kinds: [fn(&mut Index); 23] = [
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
        Index::do_without::<SpendPolicy>,
        Index::do_without::<Commitment>,
        Index::do_without::<CapacityBuffer>,
        Index::do_without::<ProvisioningRequest>,
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
    let startups = Some((at(1100 + 3600), 3, "taint x stayed".to_owned()));
    assert_eq!(before, Delays { group: Some(2), replacements: Some((2, at(1100 + 1200))), startups });
    let rows = [
        (json!({}), true, before),
        (json!({"metadata": {"generation": 2}}), true, Delays::default()),
        (json!({"metadata": {"uid": "another"}}), true, Delays::default()),
        (json!({}), false, Delays::default()),
    ];
    for (change, is_complete, expected) in rows {
        let (second, index) = (Process::start("second"), index(&change, Some(&text), is_complete));
        second.restore(&index, 1105);
        assert_eq!(second.delays(&index), expected, "{change} {is_complete}");
    }
}

/// The clock of the other process may be ahead.
#[test]
fn restore_continues_delays_from_now_at_most() {
    let (_, text) = stored();
    let text = text.replace(&at(1100).to_string(), &at(1_000_000).to_string());
    let (second, index) = (Process::start("second"), index(&json!({}), Some(&text), true));
    second.restore(&index, 1101);
    let delays = second.delays(&index);
    assert_eq!(delays.replacements, Some((2, at(1101 + 1200))));
    assert_eq!(delays.startups.map(|(end, ..)| end), Some(at(1101 + 3600)));
}

#[test]
fn restore_happens_once_and_never_with_own_text() {
    let (first, text) = stored();
    let index = index(&json!({}), Some(&text), true);
    let second = Process::start("second");
    let version = PoolVersion::from_index(&index, "default");
    let succeed = |process: &Process| {
        process.0.replacements.succeed(&index, &claim(&json!({})), at(2000));
        process.0.launches.lock().succeed_startup("default", version.clone(), at(2000));
    };
    let succeeded = |process: &Process| {
        let delays = process.delays(&index);
        delays.replacements.is_none() && delays.startups.is_none()
    };
    second.restore(&index, 1105);
    succeed(&second);
    second.restore(&index, 2001);
    assert!(succeeded(&second), "the result is later than the text");
    succeed(&first);
    first.restore(&index, 2001);
    assert!(succeeded(&first), "its own text is older than its memory");
    let third = Process::start("third");
    succeed(&third);
    third.restore(&index, 2001);
    assert!(succeeded(&third), "a result from before the first restore is later than the text, too");
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
        second.restore(&index, 1105);
        assert_eq!(second.delays(&index), Delays::default(), "{broken:?}");
    }
}

//! Lines of spans: their fields, levels and destinations.

use std::sync::{Arc, LazyLock};

use log::kv::Value as KvValue;
use log::{LevelFilter, Log, Record};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tracing::{Dispatch, Instrument as _, Subscriber};

use super::{Bridge, subscriber};
use crate::reconcile::work::WorkItem;
use crate::state::span;

/// While there is one dispatcher, tracing asks the thread that first reaches a line whether it is enabled. That thread may
/// run a test without a subscriber, and the line is off for all. With a second dispatcher, tracing asks both.
static SECOND_DISPATCHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(tracing_subscriber::registry()));

/// Destination that keeps the lines as JSON.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<String>>>);

impl Log for Kept {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target() != "talkative"
    }

    fn log(&self, record: &Record<'_>) {
        self.0.lock().push(daemon::log::json_line(record, "2026-01-01T00:00:00Z"));
    }

    fn flush(&self) {}
}

impl Kept {
    fn subscriber(&self, level: LevelFilter) -> impl Subscriber + Send + Sync + use<> {
        LazyLock::force(&SECOND_DISPATCHER);
        subscriber(Arc::new(self.clone()), level)
    }

    fn lines(&self) -> Vec<Value> {
        self.0.lock().iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Returns one field of every line that has it.
    fn all(&self, key: &str) -> Vec<String> {
        self.lines().iter().filter_map(|line| Some(line.get(key)?.as_str()?.to_owned())).collect()
    }
}

/// Returns the only line that `work` writes.
fn line_of(level: LevelFilter, work: impl FnOnce()) -> String {
    let kept = Kept::default();
    tracing::subscriber::with_default(kept.subscriber(level), work);
    let lines = kept.0.lock().clone();
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines.into_iter().next().unwrap()
}

#[test]
fn on_event_adds_fields_of_the_span_to_the_json_line() {
    let line = line_of(LevelFilter::Info, || {
        let _inside = span::object("NodeClaim", "default-1").entered();
        tracing::info!(instance_id = "i-1", pods = 3, spot = true, "launched {}", "nodeclaim");
    });
    let expected = json!({
        "level": "INFO", "time": "2026-01-01T00:00:00Z", "logger": "controller::run::log::tests",
        "message": "launched nodeclaim", "instance_id": "i-1", "pods": 3, "spot": true, "nodeclaim": "default-1",
    });
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), expected);
}

#[test]
fn on_event_writes_each_key_once_when_spans_have_it_too() {
    let line = line_of(LevelFilter::Info, || {
        let _plan = span::plan(u64::MAX).entered();
        let _outer = span::object("NodeClaim", "outer").entered();
        let _inner = span::object("NodeClaim", "inner").entered();
        tracing::info!(nodeclaim = "own", "created nodeclaim");
    });
    assert_eq!(line.matches("\"nodeclaim\":").count(), 1, "{line}");
    assert!(line.contains(r#""nodeclaim":"own""#) && line.contains(r#""plan":"18446744073709551615""#), "{line}");
    let line = line_of(LevelFilter::Info, || {
        let _outer = span::object("NodeClaim", "outer").entered();
        let _inner = span::object("NodeClaim", "inner").entered();
        tracing::info!("initialized nodeclaim");
    });
    assert!(line.contains(r#""nodeclaim":"inner""#) && !line.contains("outer"), "{line}");
}

#[tokio::test]
async fn spans_of_concurrent_work_keep_their_own_names() {
    let kept = Kept::default();
    let _installed = tracing::subscriber::set_default(kept.subscriber(LevelFilter::Info));
    let turns = Arc::new(tokio::sync::Barrier::new(2));
    let work = |name: &'static str| {
        let turns = Arc::clone(&turns);
        let steps = async move {
            for _ in 0..3 {
                tracing::info!(expected = name, "step");
                turns.wait().await;
            }
        };
        tokio::spawn(steps.instrument(WorkItem::Claim(name.to_owned()).span()))
    };
    let (red, green) = (work("red"), work("green"));
    red.await.unwrap();
    green.await.unwrap();
    let (names, expected) = (kept.all("nodeclaim"), kept.all("expected"));
    assert_eq!(names, expected);
    assert_eq!(names.iter().filter(|name| *name == "red").count(), 3);
    assert_ne!(names, ["red", "red", "red", "green", "green", "green"], "the steps alternate");
}

#[test]
fn enabled_respects_level_and_destination_and_keeps_spans() {
    let line = line_of(LevelFilter::Error, || {
        let _inside = span::object("Node", "ip-10-0-0-1").entered();
        tracing::warn!("below the level");
        tracing::error!(target: "talkative", "refused by the destination");
        tracing::error!("drain failed");
    });
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&line["message"], &line["node"]), (&json!("drain failed"), &json!("ip-10-0-0-1")));
}

#[test]
fn enabled_excludes_spans_of_libraries() {
    let line = line_of(LevelFilter::Debug, || {
        let _inside = tracing::info_span!(target: "kube_client::client", "HTTP", url = "/api").entered();
        tracing::debug!("request");
    });
    assert!(!line.contains("url"), "{line}");
}

#[test]
fn bridge_adds_fields_of_the_span_to_records_of_log() {
    let kept = Kept::default();
    let bridge = Bridge::new(Arc::new(kept.clone()));
    let facts = [("node", KvValue::from("own")), ("pods", KvValue::from(3_i64))];
    let facts: &[(&str, KvValue<'_>)] = &facts;
    let write = || {
        let record = Record::builder().target("drain").key_values(&facts).args(format_args!("cordoned")).build();
        bridge.log(&record);
    };
    write();
    tracing::subscriber::with_default(kept.subscriber(LevelFilter::Info), || {
        let _plan = span::plan(7).entered();
        let _node = span::object("Node", "of the span").entered();
        write();
    });
    let found: Vec<_> =
        kept.lines().iter().map(|line| (line["node"].clone(), line["pods"].clone(), line["plan"].clone())).collect();
    assert_eq!(found, [(json!("own"), json!(3), Value::Null), (json!("own"), json!(3), json!("7"))]);
}

#[test]
fn span_of_each_work_item_has_the_key_of_its_kind() {
    let name = || "x".to_owned();
    let rows = [
        (WorkItem::Class(name()), "nodeclass"),
        (WorkItem::Pool(name()), "nodepool"),
        (WorkItem::Claim(name()), "nodeclaim"),
        (WorkItem::Launch(name()), "token"),
        (WorkItem::Node(name()), "node"),
        (WorkItem::Overlay(name()), "nodeoverlay"),
        (WorkItem::Buffer(name()), "capacitybuffer"),
        (WorkItem::Usage(name()), "nodeusage"),
        (WorkItem::Usage(name()), "node"),
        (WorkItem::Move(name()), "replacements"),
    ];
    for (work, key) in rows {
        let line = line_of(LevelFilter::Info, || work.span().in_scope(|| tracing::warn!("reconcile failed, requeued")));
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap()[key], json!("x"), "{work:?}: {line}");
    }
    let line = line_of(LevelFilter::Info, || WorkItem::Gather.span().in_scope(|| tracing::warn!("failed")));
    assert!(line.contains(r#""task":"gather""#), "{line}");
}

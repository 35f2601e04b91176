//! Kubernetes events: what we did and why, where people look for it with `kubectl describe`.
//!
//! An equal event within its silence is not sent again, and of those that come in crowds only some are. Sending never
//! holds up the work that it tells of.

use std::collections::BTreeMap;
use std::time::Duration;

use api::reason;
use k8s_openapi::api::core::v1 as corev1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::{Client, Resource};
use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

/// Karpenter's default silence between equal events.
const SILENCE: Duration = Duration::from_secs(120);
/// The silence between equal events of other reasons.
const SILENCES: [(&str, Duration); 13] = [
    (reason::NO_COMPATIBLE_INSTANCE_TYPES, Duration::from_secs(60)),
    (reason::UNCONSOLIDATABLE, A_WHILE),
    (reason::NODE_REPAIR_BLOCKED, A_WHILE),
    (reason::NEVER_EVICTED, A_WHILE),
    (reason::SELECTS_NOTHING, A_WHILE),
    (reason::NODE_CLAIM_MISSING, A_WHILE),
    (reason::USAGE_IGNORED, A_WHILE),
    (reason::INVALID_DO_NOT_DISRUPT_ANNOTATION, A_WHILE),
    (reason::INVALID_ANNOTATION, A_WHILE),
    (reason::INVALID_SPLIT_ANNOTATION, A_WHILE),
    (reason::DISRUPTION_INVALID, A_WHILE),
    (reason::INVALID_FIELD, A_WHILE),
    (reason::REQUESTS_ABOVE_USE, Duration::from_secs(24 * 3600)),
];
/// For what stays as it is until someone does something about it.
const A_WHILE: Duration = Duration::from_secs(15 * 60);
/// The reason whose events are equal whatever their figures: these change a little with every report.
const WHATEVER_IT_SAYS: &str = reason::REQUESTS_ABOVE_USE;
/// Reasons of events that come in crowds, each reported a few at a time: a thousand pods placed by one plan are reported in the log, not
/// in a thousand events.
const CROWDED: [&str; 5] = [
    reason::NOMINATED,
    reason::UNCONSOLIDATABLE,
    reason::DISRUPTION_BLOCKED,
    reason::NEVER_EVICTED,
    reason::REQUESTS_ABOVE_USE,
];
/// How many of a crowd may be reported at once, and the time after which one more may be.
const CROWD: (u32, Duration) = (10, Duration::from_millis(200));
/// Older entries are dropped once the memory holds this many.
const REMEMBERED: usize = 50_000;
/// Cluster-scoped objects keep their events here.
const DEFAULT_NAMESPACE: &str = "default";
const COMPONENT: &str = "karpenter";
/// The API server refuses longer messages.
const MESSAGE_LIMIT: usize = 1000;

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectReference {
    api_version: String,
    kind: String,
    namespace: Option<String>,
    name: String,
    uid: String,
}

impl ObjectReference {
    /// Names an object by its metadata.
    #[must_use]
    pub fn new(api_version: &str, kind: &str, meta: &ObjectMeta) -> Self {
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
        }
    }

    /// Names a typed object.
    #[must_use]
    pub fn to<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        Self::new(K::api_version(&()).as_ref(), K::kind(&()).as_ref(), object.meta())
    }
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    object: ObjectReference,
    warning: bool,
    reason: &'static str,
    message: String,
}

impl Event {
    /// Something that went as it should.
    #[must_use]
    pub fn normal(object: ObjectReference, reason: &'static str, message: String) -> Self {
        Self { object, warning: false, reason, message }
    }

    /// Something that a person may want to look at.
    #[must_use]
    pub fn warning(object: ObjectReference, reason: &'static str, message: String) -> Self {
        Self { object, warning: true, reason, message }
    }

    /// The reason, in Karpenter's words.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        self.reason
    }

    /// The sentence.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// The way in for events.
#[derive(Clone)]
pub struct EventRecorder(UnboundedSender<Event>);

impl EventRecorder {
    /// The way in, and the way out for [`send`].
    #[must_use]
    pub fn new() -> (Self, UnboundedReceiver<Event>) {
        let (way_in, way_out) = unbounded_channel();
        (Self(way_in), way_out)
    }

    /// Hands an event over.
    pub fn publish(&self, note: Event) {
        // The receiver is gone only while the process ends.
        let _ = self.0.send(note);
    }
}

/// Sends events until every way in is gone.
pub async fn send(client: Client, mut notes: UnboundedReceiver<Event>) {
    let memory = RecentEvents::default();
    let mut crowds: BTreeMap<&str, EventBurst> =
        CROWDED.into_iter().map(|reason| (reason, EventBurst::at(Instant::now()))).collect();
    while let Some(note) = notes.recv().await {
        let now = Instant::now();
        if !memory.is_news(&note, now) {
            continue;
        }
        if crowds.get_mut(note.reason).is_some_and(|crowd| !crowd.lets_in(now)) {
            memory.forget(&note);
            continue;
        }
        let namespace = note.object.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
        let api: Api<corev1::Event> = Api::namespaced(client.clone(), namespace);
        if let Err(error) = api.create(&PostParams::default(), &event(&note, jiff::Timestamp::now())).await {
            log::debug!(reason = note.reason, error = daemon::error::chain(&error).as_str(); "failed to create event");
        }
    }
}

#[derive(Default)]
struct RecentEvents(Mutex<BTreeMap<Event, Instant>>);

impl RecentEvents {
    fn is_news(&self, note: &Event, now: Instant) -> bool {
        let mut sent = self.0.lock();
        if sent.len() > REMEMBERED {
            sent.retain(|note, when| now - *when < silence(note.reason));
        }
        let key = key(note);
        match sent.get(&key) {
            Some(when) if now - *when < silence(note.reason) => false,
            _ => {
                sent.insert(key, now);
                true
            }
        }
    }

    /// It was not sent after all, so it is news again the next time.
    fn forget(&self, note: &Event) {
        self.0.lock().remove(&key(note));
    }
}

/// What makes two events equal.
fn key(note: &Event) -> Event {
    let message = if note.reason == WHATEVER_IT_SAYS { String::new() } else { note.message.clone() };
    Event { message, ..note.clone() }
}

fn silence(reason: &str) -> Duration {
    SILENCES.iter().find(|(own, _)| *own == reason).map_or(SILENCE, |(_, silence)| *silence)
}

/// Lets in a few at once, and then one after another.
struct EventBurst {
    /// When nothing of those that were let in is owed any more.
    settled: Instant,
}

impl EventBurst {
    fn at(now: Instant) -> Self {
        Self { settled: now }
    }

    fn lets_in(&mut self, now: Instant) -> bool {
        let (most, pause) = CROWD;
        let settled = self.settled.max(now) + pause;
        let fits = settled - now <= pause * most;
        if fits {
            self.settled = settled;
        }
        fits
    }
}

fn event(note: &Event, now: jiff::Timestamp) -> corev1::Event {
    let object = &note.object;
    corev1::Event {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}.", object.name)),
            namespace: Some(object.namespace.clone().unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())),
            ..ObjectMeta::default()
        },
        involved_object: corev1::ObjectReference {
            api_version: Some(object.api_version.clone()),
            kind: Some(object.kind.clone()),
            namespace: object.namespace.clone(),
            name: Some(object.name.clone()),
            // kubectl looks for a node's events under the node's name, as kubelet writes them.
            uid: Some(if object.kind == "Node" { object.name.clone() } else { object.uid.clone() }),
            ..corev1::ObjectReference::default()
        },
        type_: Some(if note.warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(note.reason.to_owned()),
        message: Some(note.message.chars().take(MESSAGE_LIMIT).collect()),
        source: Some(corev1::EventSource { component: Some(COMPONENT.to_owned()), host: None }),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        ..corev1::Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Event, EventBurst, Instant, ObjectMeta, ObjectReference, RecentEvents, reason};

    fn note(message: &str) -> Event {
        let object =
            ObjectReference::new("v1", "Pod", &ObjectMeta { name: Some("web".to_owned()), ..ObjectMeta::default() });
        Event::warning(object, reason::FAILED_SCHEDULING, message.to_owned())
    }

    #[test]
    fn of_a_crowd_ten_are_let_in_and_then_five_a_second() {
        let now = Instant::now();
        let mut crowd = EventBurst::at(now);
        let mut let_in = |after: u64| (0..100).filter(|_| crowd.lets_in(now + Duration::from_millis(after))).count();
        assert_eq!([0, 100, 200, 1000, 60_000].map(&mut let_in), [10, 0, 1, 4, 10]);
    }

    #[test]
    fn a_pool_without_types_is_told_every_minute() {
        let memory = RecentEvents::default();
        let now = Instant::now();
        let pool = ObjectReference::new("karpenter.sh/v1", "NodePool", &ObjectMeta::default());
        let note = Event::warning(pool, reason::NO_COMPATIBLE_INSTANCE_TYPES, "none".to_owned());
        let told = [0, 59, 61].map(|after| memory.is_news(&note, now + Duration::from_secs(after)));
        assert_eq!(told, [true, false, true]);
    }

    #[test]
    fn advice_is_given_once_a_day_whatever_its_figures() {
        let memory = RecentEvents::default();
        let now = Instant::now();
        let told = [("500m", 0), ("520m", 3600), ("500m", 86_399), ("520m", 86_401)].map(|(figure, after)| {
            let pod = ObjectReference::new("v1", "Pod", &ObjectMeta::default());
            let note = Event::normal(pod, reason::REQUESTS_ABOVE_USE, figure.to_owned());
            memory.is_news(&note, now + Duration::from_secs(after))
        });
        assert_eq!(told, [true, false, false, true]);
    }

    #[test]
    fn what_a_crowd_kept_back_is_news_again_and_why_a_node_stays_is_told_every_quarter_of_an_hour() {
        let memory = RecentEvents::default();
        let now = Instant::now();
        let node = ObjectReference::new("v1", "Node", &ObjectMeta::default());
        let note = Event::normal(node, reason::UNCONSOLIDATABLE, "nothing cheaper".to_owned());
        let told = [0, 899, 901].map(|after| memory.is_news(&note, now + Duration::from_secs(after)));
        assert_eq!(told, [true, false, true]);
        memory.forget(&note);
        assert!(memory.is_news(&note, now + Duration::from_secs(902)));
    }

    #[test]
    fn an_equal_event_is_silent_for_two_minutes_and_a_changed_one_is_not() {
        let memory = RecentEvents::default();
        let now = Instant::now();
        assert!(memory.is_news(&note("no room"), now));
        assert!(!memory.is_news(&note("no room"), now + Duration::from_secs(119)));
        assert!(memory.is_news(&note("no zone"), now + Duration::from_secs(119)));
        assert!(memory.is_news(&note("no room"), now + Duration::from_secs(121)));
    }
}

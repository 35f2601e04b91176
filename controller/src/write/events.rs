//! Kubernetes events about actions and their reasons, for `kubectl describe`.
//!
//! An equal event is not published again within its minimum interval, and of events in large numbers only some are. The number of
//! waiting events is bounded. An event never delays the work that it reports.
//!
//! kube's `Recorder` sends each event at once and waits for the API server; it has no limits.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use api::reason;
use k8s_openapi::api::core::v1 as corev1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::{Client, Resource};
use parking_lot::Mutex;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, timeout};
use tracing::Span;

use crate::state::span;

/// Karpenter's default interval between equal events.
const SILENCE: Duration = Duration::from_secs(120);
/// Interval between equal events, for other reasons.
const SILENCES: [(&str, Duration); 20] = [
    (reason::NO_COMPATIBLE_INSTANCE_TYPES, Duration::from_secs(60)),
    (reason::UNCONSOLIDATABLE, A_WHILE),
    (reason::NODE_REPAIR_BLOCKED, A_WHILE),
    (reason::NEVER_EVICTED, A_WHILE),
    (reason::SELECTS_NOTHING, A_WHILE),
    (reason::NODE_CLAIM_MISSING, A_WHILE),
    (reason::USAGE_IGNORED, A_WHILE),
    (reason::PROVIDER_ID_CONFLICT, A_WHILE),
    (reason::LABELS_RESTORED, A_WHILE),
    (reason::REBALANCE_NOT_APPROVED, A_WHILE),
    (reason::ORPHANED_INSTANCES_KEPT, A_WHILE),
    (reason::INVALID_DO_NOT_DISRUPT_ANNOTATION, A_WHILE),
    (reason::INVALID_ANNOTATION, A_WHILE),
    (reason::INVALID_SPLIT_ANNOTATION, A_WHILE),
    (reason::DISRUPTION_INVALID, A_WHILE),
    (reason::INVALID_FIELD, A_WHILE),
    (reason::UNDECLARED_TAINT, A_WHILE),
    (reason::REQUESTS_ABOVE_USE, Duration::from_secs(24 * 3600)),
    (reason::NO_EFFECT, ONCE),
    (reason::TAGS_DENIED, ONCE),
];
/// Interval for states that only a change by a person ends.
const A_WHILE: Duration = Duration::from_secs(15 * 60);
/// Interval for facts that one event per generation of the object reports; longer than a controller usually runs.
const ONCE: Duration = Duration::from_secs(30 * 24 * 3600);
/// Reason whose events are equal for any amounts, which change a little with every report.
const WHATEVER_IT_SAYS: &str = reason::REQUESTS_ABOVE_USE;
/// Reasons with events in large numbers, of which only a few are sent at a time. A thousand pods nominated by one plan are in
/// the log, not in a thousand events.
const CROWDED: [(&str, Crowd); 7] = [
    // The event is the answer to `kubectl describe pod`, so most pods get theirs.
    (reason::FAILED_SCHEDULING, Crowd { burst: 200, pause: Duration::from_millis(50) }),
    (reason::NOMINATED, CROWD),
    (reason::UNCONSOLIDATABLE, CROWD),
    (reason::DISRUPTION_BLOCKED, CROWD),
    (reason::NEVER_EVICTED, CROWD),
    (reason::NO_EFFECT, CROWD),
    (reason::REQUESTS_ABOVE_USE, CROWD),
];
const CROWD: Crowd = Crowd { burst: 10, pause: Duration::from_millis(200) };
/// Maximum number of remembered events. Further ones are published, but equal ones are not suppressed.
const REMEMBERED: usize = 50_000;
/// Interval in which expired events are dropped from memory.
const PRUNING: Duration = Duration::from_secs(60);
/// Maximum number of events that wait for the API server.
const WAITING: usize = 10_000;
/// Time limit of a request.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// Namespace of events of cluster-scoped objects.
const DEFAULT_NAMESPACE: &str = "default";
const COMPONENT: &str = "karpenter";
/// HTTP status of the creation of an object whose name is taken.
const CONFLICT: u16 = 409;
/// Maximum length of the name of an object.
const NAME_LIMIT: usize = 253;
/// Maximum length of a message in characters; the API server refuses longer ones.
const MESSAGE_LIMIT: usize = 1000;

/// Object of an event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectReference {
    api_version: String,
    kind: String,
    namespace: Option<String>,
    name: String,
    uid: String,
    /// Generation of the object; an equal event of another generation is news.
    generation: Option<i64>,
}

impl ObjectReference {
    /// Creates a reference from the metadata of an object.
    #[must_use]
    pub fn new(api_version: &str, kind: &str, meta: &ObjectMeta) -> Self {
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            generation: meta.generation,
        }
    }

    /// Creates a reference to a typed object.
    #[must_use]
    pub fn to<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        Self::new(K::api_version(&()).as_ref(), K::kind(&()).as_ref(), object.meta())
    }

    /// Returns the span of the log for this object.
    #[must_use]
    pub fn span(&self) -> Span {
        match &self.namespace {
            Some(namespace) => span::object(&self.kind, &format!("{namespace}/{}", self.name)),
            None => span::object(&self.kind, &self.name),
        }
    }
}

/// Event of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    object: ObjectReference,
    warning: bool,
    reason: &'static str,
    message: String,
}

impl Event {
    /// Creates an event of type Normal.
    #[must_use]
    pub fn normal(object: ObjectReference, reason: &'static str, message: String) -> Self {
        Self { object, warning: false, reason, message }
    }

    /// Creates an event of type Warning, which may need the attention of a person.
    #[must_use]
    pub fn warning(object: ObjectReference, reason: &'static str, message: String) -> Self {
        Self { object, warning: true, reason, message }
    }

    /// Returns the object.
    #[must_use]
    pub fn object(&self) -> &ObjectReference {
        &self.object
    }

    /// Returns the reason.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        self.reason
    }

    /// Returns the message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// Publisher of events. Clones share its memory of recent events.
#[derive(Clone)]
pub struct EventRecorder(Arc<Outbox>);

struct Outbox {
    queue: Sender<Event>,
    admission: Mutex<Admission>,
    dropped: AtomicU64,
}

impl EventRecorder {
    /// Creates the publisher, and the receiver for [`send`].
    #[must_use]
    pub fn new() -> (Self, Receiver<Event>) {
        let (queue, waiting) = channel(WAITING);
        let admission = Mutex::new(Admission::new(Instant::now()));
        (Self(Arc::new(Outbox { queue, admission, dropped: AtomicU64::new(0) })), waiting)
    }

    /// Publishes an event, unless an equal one is recent, too many of its reason are published, or too many events wait.
    pub fn publish(&self, note: Event) {
        if !self.0.admission.lock().admits(&note, Instant::now()) {
            return;
        }
        // The receiver is dropped only while the process ends.
        if let Err(TrySendError::Full(note)) = self.0.queue.try_send(note) {
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
            self.0.admission.lock().forget(&note);
        }
    }

    /// Returns the number of dropped events since the last call.
    #[must_use]
    pub fn take_dropped(&self) -> u64 {
        self.0.dropped.swap(0, Ordering::Relaxed)
    }
}

/// Sends events until every publisher is dropped.
pub async fn send(client: Client, mut notes: Receiver<Event>) {
    while let Some(note) = notes.recv().await {
        let namespace = note.object.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
        let api: Api<corev1::Event> = Api::namespaced(client.clone(), namespace);
        let object = event(&note, jiff::Timestamp::now());
        let error = match timeout(REQUEST_LIMIT, api.create(&PostParams::default(), &object)).await {
            Ok(Ok(_)) => continue,
            // An earlier process has published the same fact.
            Ok(Err(kube::Error::Api(status))) if status.code == CONFLICT && is_fact(note.reason) => continue,
            Ok(Err(error)) => daemon::error::chain(&error),
            Err(_) => "no response".to_owned(),
        };
        let write = || tracing::debug!(reason = note.reason, error = error.as_str(), "failed to create event");
        note.object.span().in_scope(write);
    }
}

/// Decides which events are published. Its memory is bounded: of an event it keeps a hash.
struct Admission {
    /// Time until which an equal event is not published, by hash.
    silent_until: BTreeMap<u64, Instant>,
    crowds: BTreeMap<&'static str, EventBurst>,
    /// Time from which expired events are dropped again.
    prune: Instant,
}

impl Admission {
    fn new(now: Instant) -> Self {
        let crowds = CROWDED.into_iter().map(|(reason, limit)| (reason, EventBurst::at(now, limit))).collect();
        Self { silent_until: BTreeMap::new(), crowds, prune: now + PRUNING }
    }

    fn admits(&mut self, note: &Event, now: Instant) -> bool {
        if now >= self.prune {
            self.silent_until.retain(|_, until| now < *until);
            self.prune = now + PRUNING;
        }
        let key = key(note);
        let is_news = self.silent_until.get(&key).is_none_or(|until| now >= *until);
        if !is_news || self.crowds.get_mut(note.reason).is_some_and(|crowd| !crowd.lets_in(now)) {
            return false;
        }
        if self.silent_until.len() < REMEMBERED {
            self.silent_until.insert(key, now + silence(note.reason));
        }
        true
    }

    /// Removes an event that was not sent, so that it is new the next time.
    fn forget(&mut self, note: &Event) {
        self.silent_until.remove(&key(note));
    }
}

/// Returns a hash of the parts by which two events are equal.
fn key(note: &Event) -> u64 {
    let message = if note.reason == WHATEVER_IT_SAYS { "" } else { note.message.as_str() };
    // Only a fact about the object itself is news for each generation of the object.
    let generation = note.object.generation.filter(|_| note.reason == reason::NO_EFFECT);
    let ObjectReference { api_version, kind, namespace, name, uid, generation: _ } = &note.object;
    let mut hasher = DefaultHasher::new();
    (api_version, kind, namespace, name, uid, generation, note.warning, note.reason, message).hash(&mut hasher);
    hasher.finish()
}

/// Reports whether events of a reason report a fact about a generation of the object, so that one event is enough.
fn is_fact(reason: &str) -> bool {
    silence(reason) == ONCE
}

/// Returns a name that is the same for the same fact, also in another process; `None` for an event that may be repeated.
fn name_of_fact(note: &Event) -> Option<String> {
    let ObjectReference { api_version, kind, namespace, name, uid, generation } = &note.object;
    let generation = generation.filter(|_| note.reason == reason::NO_EFFECT).unwrap_or_default().to_string();
    let namespace = namespace.as_deref().unwrap_or_default();
    let parts = [api_version, kind, namespace, name, uid, generation.as_str(), note.reason, note.message.as_str()];
    let hash = api::hash::fnv1a(parts.iter().flat_map(|part| part.bytes().chain([0])));
    let ending = format!(".{hash:016x}");
    let most = name.len().min(NAME_LIMIT - ending.len());
    let front = name.get(..most).unwrap_or_default().trim_end_matches(|it: char| !it.is_ascii_alphanumeric());
    is_fact(note.reason).then(|| format!("{front}{ending}"))
}

fn silence(reason: &str) -> Duration {
    SILENCES.iter().find(|(own, _)| *own == reason).map_or(SILENCE, |(_, silence)| *silence)
}

/// Limit for the events of a reason.
#[derive(Clone, Copy)]
struct Crowd {
    /// Number of events in a burst.
    burst: u32,
    /// Time after which one more may be sent.
    pause: Duration,
}

/// Limiter that admits a few events at once, and then one at a time.
struct EventBurst {
    limit: Crowd,
    /// Time at which the full burst is available again.
    settled: Instant,
}

impl EventBurst {
    fn at(now: Instant, limit: Crowd) -> Self {
        Self { limit, settled: now }
    }

    fn lets_in(&mut self, now: Instant) -> bool {
        let Crowd { burst, pause } = self.limit;
        let settled = self.settled.max(now) + pause;
        let fits = settled - now <= pause * burst;
        if fits {
            self.settled = settled;
        }
        fits
    }
}

fn event(note: &Event, now: jiff::Timestamp) -> corev1::Event {
    let object = &note.object;
    let name = name_of_fact(note);
    corev1::Event {
        metadata: ObjectMeta {
            generate_name: name.is_none().then(|| format!("{}.", object.name)),
            name,
            namespace: Some(object.namespace.clone().unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())),
            ..ObjectMeta::default()
        },
        involved_object: corev1::ObjectReference {
            api_version: Some(object.api_version.clone()),
            kind: Some(object.kind.clone()),
            namespace: object.namespace.clone(),
            name: Some(object.name.clone()),
            // kubectl finds the events of a node by its name in the UID, as kubelet writes them.
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
    use std::collections::BTreeSet;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::{
        Admission, Arc, CROWD, Client, Duration, Event, EventBurst, EventRecorder, Instant, Mutex, ObjectMeta,
        ObjectReference, WAITING, name_of_fact, reason, send,
    };

    /// Returns an API server that stores events by name, and the names of those that it created.
    fn event_store() -> (Client, Arc<Mutex<Vec<String>>>) {
        let created: Arc<Mutex<Vec<String>>> = Arc::default();
        let names = Arc::clone(&created);
        let service = tower::service_fn(move |request: Request<Body>| {
            let names = Arc::clone(&names);
            async move {
                let body = request.into_body().collect_bytes().await.unwrap();
                let mut event: Value = serde_json::from_slice(&body).unwrap();
                let mut names = names.lock();
                let name = match event["metadata"]["name"].as_str() {
                    Some(name) => name.to_owned(),
                    None => format!("{}{}", event["metadata"]["generateName"].as_str().unwrap(), names.len()),
                };
                let taken = json!({"kind": "Status", "status": "Failure", "reason": "AlreadyExists", "code": 409});
                event["metadata"]["name"] = json!(name);
                let (code, answer) = if names.contains(&name) { (409, taken) } else { (201, event) };
                names.extend((code == 201).then_some(name));
                Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()))
            }
        });
        (Client::new(service, "default"), created)
    }

    fn fact(generation: i64, message: &str) -> Event {
        let (name, uid) = (Some("pool".to_owned()), Some("uid".to_owned()));
        let meta = ObjectMeta { name, uid, generation: Some(generation), ..ObjectMeta::default() };
        Event::warning(
            ObjectReference::new("karpenter.sh/v1", "NodePool", &meta),
            reason::NO_EFFECT,
            message.to_owned(),
        )
    }

    /// Rows: the events of each process, and the number of events that exist after it.
    #[tokio::test]
    async fn send_publishes_a_fact_once_over_restarts() {
        let (client, created) = event_store();
        let other = || note("no room");
        let processes = [
            (vec![fact(1, "limits[cost]"), other()], 2),
            (vec![fact(1, "limits[cost]"), other()], 3),
            (vec![fact(1, "limits[cost]"), fact(1, "labels[a]")], 4),
            (vec![fact(2, "limits[cost]"), fact(1, "labels[a]")], 5),
        ];
        for (events, expected) in processes {
            let (recorder, queue) = EventRecorder::new();
            events.into_iter().for_each(|event| recorder.publish(event));
            drop(recorder);
            send(client.clone(), queue).await;
            assert_eq!(created.lock().len(), expected, "{:?}", created.lock());
        }
        assert_eq!(created.lock().iter().collect::<BTreeSet<_>>().len(), 5, "no event was changed");
    }

    #[test]
    fn name_of_fact_is_a_valid_name() {
        let named = |length: usize| {
            let name = "a-".repeat(length.div_ceil(2));
            let meta = ObjectMeta { name: Some(name[..length].to_owned()), ..ObjectMeta::default() };
            let object = ObjectReference::new("v1", "Pod", &meta);
            name_of_fact(&Event::warning(object, reason::NO_EFFECT, String::new())).unwrap()
        };
        for length in [1, 235, 236, 237, 253] {
            let name = named(length);
            let (front, hash) = name.split_once('.').unwrap();
            assert!(name.len() <= 253 && hash.len() == 16 && front.ends_with('a'), "{name}");
        }
        assert_eq!(name_of_fact(&note("no room")), None, "may be repeated");
    }

    fn note(message: &str) -> Event {
        let object =
            ObjectReference::new("v1", "Pod", &ObjectMeta { name: Some("web".to_owned()), ..ObjectMeta::default() });
        Event::warning(object, reason::FAILED_SCHEDULING, message.to_owned())
    }

    #[test]
    fn lets_in_admits_ten_events_and_then_five_per_second() {
        let now = Instant::now();
        let mut crowd = EventBurst::at(now, CROWD);
        let mut let_in = |after: u64| (0..100).filter(|_| crowd.lets_in(now + Duration::from_millis(after))).count();
        assert_eq!([0, 100, 200, 1000, 60_000].map(&mut let_in), [10, 0, 1, 4, 10]);
    }

    #[test]
    fn admits_repeats_missing_types_every_minute() {
        let now = Instant::now();
        let mut memory = Admission::new(now);
        let pool = ObjectReference::new("karpenter.sh/v1", "NodePool", &ObjectMeta::default());
        let note = Event::warning(pool, reason::NO_COMPATIBLE_INSTANCE_TYPES, "none".to_owned());
        let published = [0, 59, 61].map(|after| memory.admits(&note, now + Duration::from_secs(after)));
        assert_eq!(published, [true, false, true]);
    }

    #[test]
    fn admits_reports_no_effect_once_per_generation() {
        let now = Instant::now();
        let mut memory = Admission::new(now);
        let mut admits = |generation, days: u64| {
            let meta = ObjectMeta { generation: Some(generation), ..ObjectMeta::default() };
            let pool = ObjectReference::new("karpenter.sh/v1", "NodePool", &meta);
            let note = Event::warning(pool, reason::NO_EFFECT, "spec.limits[cost]".to_owned());
            memory.admits(&note, now + Duration::from_secs(days * 24 * 3600))
        };
        let published = [(1, 0), (1, 7), (2, 7), (2, 8)].map(|(generation, days)| admits(generation, days));
        assert_eq!(published, [true, false, true, false]);
    }

    #[test]
    fn admits_repeats_recommendations_once_a_day() {
        let now = Instant::now();
        let mut memory = Admission::new(now);
        let published = [("500m", 0), ("520m", 3600), ("500m", 86_399), ("520m", 86_401)].map(|(figure, after)| {
            let pod = ObjectReference::new("v1", "Pod", &ObjectMeta::default());
            let note = Event::normal(pod, reason::REQUESTS_ABOVE_USE, figure.to_owned());
            memory.admits(&note, now + Duration::from_secs(after))
        });
        assert_eq!(published, [true, false, false, true]);
    }

    #[test]
    fn admits_returns_true_when_the_event_was_not_sent() {
        let now = Instant::now();
        let mut memory = Admission::new(now);
        let node = ObjectReference::new("v1", "Node", &ObjectMeta::default());
        let note = Event::normal(node, reason::UNCONSOLIDATABLE, "nothing cheaper".to_owned());
        let published = [0, 899, 901].map(|after| memory.admits(&note, now + Duration::from_secs(after)));
        assert_eq!(published, [true, false, true]);
        memory.forget(&note);
        assert!(memory.admits(&note, now + Duration::from_secs(902)));
    }

    #[test]
    fn admits_returns_false_when_an_equal_event_is_recent() {
        let now = Instant::now();
        let mut memory = Admission::new(now);
        assert!(memory.admits(&note("no room"), now));
        assert!(!memory.admits(&note("no room"), now + Duration::from_secs(119)));
        assert!(memory.admits(&note("no zone"), now + Duration::from_secs(119)));
        assert!(memory.admits(&note("no room"), now + Duration::from_secs(121)));
    }

    #[tokio::test(start_paused = true)]
    async fn publish_keeps_a_bounded_queue_when_100000_pods_are_unschedulable() {
        let (recorder, queue) = EventRecorder::new();
        for pass in 0..10 {
            for pod in 0..100_000 {
                let meta = ObjectMeta { name: Some(format!("pod-{pod}")), ..ObjectMeta::default() };
                let object = ObjectReference::new("v1", "Pod", &meta);
                recorder.publish(Event::warning(
                    object,
                    reason::FAILED_SCHEDULING,
                    format!("no capacity, pass {pass}"),
                ));
            }
            tokio::time::advance(Duration::from_secs(10)).await;
        }
        assert_eq!(queue.len(), 2_000, "200 in each pass");
        assert_eq!(recorder.take_dropped(), 0, "a crowd is not a loss");
    }

    #[tokio::test(start_paused = true)]
    async fn publish_counts_events_that_find_the_queue_full() {
        let (recorder, queue) = EventRecorder::new();
        let note = |number: usize| {
            Event::warning(
                ObjectReference::new("v1", "Node", &ObjectMeta::default()),
                reason::FAILED_DRAINING,
                number.to_string(),
            )
        };
        (0..WAITING + 3).for_each(|number| recorder.publish(note(number)));
        assert_eq!((queue.len(), recorder.take_dropped()), (WAITING, 3));
        assert_eq!(recorder.take_dropped(), 0, "counted once");
    }
}

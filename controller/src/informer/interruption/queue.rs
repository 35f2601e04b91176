//! Loop of the interruption queue: receive, store notices, wait until they are handled, delete.
//!
//! A message is deleted once nothing is left to do. A message that fails, or takes longer than its visibility timeout, is
//! received again. By then its NodeClaim is being deleted and needs nothing. A missing or forbidden queue is reported once and
//! retried; the loop never ends.

use std::sync::Arc;
use std::time::Duration;

use api::{NodeClaim, reason};
use cloud::{CloudError, ErrorKind as Failure, QueueMessage};
use daemon::backoff::RetryDelays;
use daemon::metric::{Metrics, NoLabels};
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::Instrument as _;

use super::message::{Message, parse};
use super::{Notice, NoticeKind, Notices, maintenance};
use crate::capacity::offerings::Offerings;
use crate::metrics;
use crate::reconcile::work::WorkItem;
use crate::state::cluster::Cluster;
use crate::state::index::Index;
use crate::state::panics;
use crate::write::events::{Event, ObjectReference};

/// Number of concurrent receive calls. Each call returns up to ten messages, and the next call waits until all of them are
/// handled.
const RECEIVERS: usize = 4;

/// Time from the notice to the end of a spot instance.
pub const SPOT_NOTICE: SignedDuration = SignedDuration::from_mins(2);

/// Maximum time for a message. The message is received again five seconds later.
const PATIENCE: Duration = Duration::from_secs(15);

/// First delay after a failed call.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(60);

/// Delay between checks for the first sync of the index. Before the sync, no instance has a NodeClaim.
const UNSYNCED: Duration = Duration::from_millis(100);

/// Shared state of the receivers.
pub struct Listener {
    /// Name of the queue.
    pub queue: String,
    /// Object that represents the controller in events.
    pub controller: ObjectReference,
    /// Cluster with the NodeClaims of instances.
    pub cluster: Arc<Cluster>,
    /// Offerings with the cloud client.
    pub offerings: Arc<Offerings>,
    /// Store for the notices.
    pub notices: Arc<Notices>,
    /// Metrics of messages.
    pub metrics: Arc<Metrics>,
}

/// Decision about a message.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct MessageDecision {
    /// NodeClaims to remove, with their notices.
    pub notices: Vec<(String, Notice)>,
    /// Events.
    pub notes: Vec<Event>,
}

/// Circumstances of a decision about a message.
#[derive(Clone, Copy, Debug)]
pub struct MessageContext {
    /// Time of the decision.
    pub now: Timestamp,
    /// True if EC2's status checks are requested, which repeat scheduled events until they begin.
    pub checks_statuses: bool,
}

/// Decides about a message. Instances without a NodeClaim and NodeClaims that are being deleted are ignored.
#[must_use]
pub fn decide(message: &Message, index: &Index, context: MessageContext) -> MessageDecision {
    let Message::Notice { kind, instances, at, starts } = message else { return MessageDecision::default() };
    let claims = instances.iter().filter_map(|id| index.claim_of_instance(id));
    let mut decision = MessageDecision::default();
    for claim in claims.filter(|claim| claim.metadata.deletion_timestamp.is_none()) {
        let deadline = match kind {
            NoticeKind::RebalanceRecommendation => {
                decision.notes.extend(advice(claim, index));
                continue;
            }
            NoticeKind::ScheduledChange => match scheduled(claim, *starts, index, context) {
                ScheduledStep::Act(deadline) => deadline,
                ScheduledStep::Wait(notes) => {
                    decision.notes.extend(notes);
                    continue;
                }
            },
            NoticeKind::SpotInterrupted => at.and_then(|at| at.checked_add(SPOT_NOTICE).ok()),
            _ => None,
        };
        decision.notices.push((claim.metadata.name.clone().unwrap_or_default(), Notice { kind: *kind, deadline }));
    }
    decision
}

/// Step for a scheduled change of an instance.
enum ScheduledStep {
    /// Removal of the NodeClaim, with the deadline of its pods.
    Act(Option<Timestamp>),
    /// No removal yet, with events.
    Wait(Vec<Event>),
}

/// Decides about a scheduled change. A message cannot wait for weeks: until the change is near, EC2's status checks report the
/// event again. Without status checks the controller acts immediately.
fn scheduled(
    claim: &Arc<NodeClaim>,
    starts: Option<Timestamp>,
    index: &Index,
    context: MessageContext,
) -> ScheduledStep {
    let nodes = || index.nodes_of_claim(claim).into_iter().map(AsRef::as_ref);
    let agent = maintenance::is_handled_by_agent(nodes(), context.now);
    let act = !agent && !context.checks_statuses || maintenance::is_due(starts, nodes(), context.now);
    match starts {
        _ if act => ScheduledStep::Act(maintenance::deadline(starts, context.now)),
        Some(starts) if !agent => {
            let minutes = maintenance::LEAD.as_mins();
            let message =
                format!("scheduled change of the instance at {starts}; its node is replaced {minutes} min before");
            ScheduledStep::Wait(events(claim, index, reason::SCHEDULED_EVENT, &message))
        }
        // The agent reports the change itself.
        _ => ScheduledStep::Wait(Vec::new()),
    }
}

fn advice(claim: &Arc<NodeClaim>, index: &Index) -> Vec<Event> {
    let kind = NoticeKind::RebalanceRecommendation;
    events(claim, index, kind.event(), kind.sentence())
}

/// Returns an event on the NodeClaim and on its nodes.
fn events(claim: &Arc<NodeClaim>, index: &Index, reason: &'static str, message: &str) -> Vec<Event> {
    let nodes = index.nodes_of_claim(claim);
    let objects = std::iter::once(ObjectReference::to(claim.as_ref()))
        .chain(nodes.into_iter().map(|node| ObjectReference::to(node.as_ref())));
    objects.map(|object| Event::normal(object, reason, message.to_owned())).collect()
}

impl Listener {
    /// Receives messages forever.
    pub async fn run(self: Arc<Self>) {
        while !self.cluster.read(Index::is_synced) {
            tokio::time::sleep(UNSYNCED).await;
        }
        let state = Arc::new(QueueState::default());
        let mut receivers = JoinSet::new();
        for _ in 0..RECEIVERS {
            receivers.spawn(Arc::clone(&self).receive(Arc::clone(&state)).in_current_span());
        }
        panics::resume_first(&mut receivers).await;
    }

    async fn receive(self: Arc<Self>, state: Arc<QueueState>) {
        let cloud = self.offerings.cloud();
        let (mut url, mut delays) = (None, RetryDelays::new(FIRST_RETRY, LAST_RETRY));
        loop {
            let known = match url.take() {
                Some(known) => Ok(known),
                None => cloud.queue_url(&self.queue).await,
            };
            let received = match known {
                Ok(known) => cloud.receive_messages(&known).await.map(|messages| (known, messages)),
                Err(error) => Err(error),
            };
            match received {
                Ok((known, messages)) => {
                    self.works(&state);
                    self.handle(&known, messages).await;
                    url = Some(known);
                    delays.reset();
                }
                Err(error) => {
                    self.fails(&state, &error);
                    tokio::time::sleep(delays.next_delay()).await;
                }
            }
        }
    }

    fn works(&self, state: &QueueState) {
        if state.turns_to("") {
            tracing::info!(queue = self.queue.as_str(), "receiving from the interruption queue");
            let message = format!("receiving from the interruption queue {}", self.queue);
            self.record(Event::normal(self.controller.clone(), reason::INTERRUPTION_QUEUE_READABLE, message));
        }
        self.metrics.set(&metrics::QUEUE_REACHABLE, NoLabels, 1.0);
    }

    fn fails(&self, state: &QueueState, error: &CloudError) {
        self.metrics.set(&metrics::QUEUE_REACHABLE, NoLabels, 0.0);
        if !state.turns_to(&error.code) {
            return;
        }
        let cure = match error.kind {
            Failure::NotFound => {
                "the queue does not exist in this account and region; create it or unset INTERRUPTION_QUEUE"
            }
            Failure::Unauthorized => "allow sqs:GetQueueUrl, sqs:ReceiveMessage and sqs:DeleteMessage on the queue",
            _ => "retrying",
        };
        let (queue, text) = (self.queue.as_str(), daemon::error::chain(error));
        tracing::error!(queue, error = text.as_str(), cure, "failed to receive from the interruption queue");
        let message = format!(
            "cannot receive from the interruption queue {queue}: {text}; {cure}; agents still \
                               receive notices from IMDS"
        );
        self.record(Event::warning(self.controller.clone(), reason::INTERRUPTION_QUEUE_UNREADABLE, message));
    }

    fn record(&self, note: Event) {
        self.cluster.notes.publish(note);
    }

    async fn handle(&self, url: &str, messages: Vec<QueueMessage>) {
        let done = join_all(messages.iter().map(|message| self.one(message))).await;
        let receipts: Vec<String> =
            messages.into_iter().zip(done).filter(|(_, done)| *done).map(|(message, _)| message.receipt).collect();
        if receipts.is_empty() {
            return;
        }
        match self.offerings.cloud().delete_messages(url, &receipts).await {
            Ok(left) => {
                let deleted = receipts.len().saturating_sub(left.len());
                self.metrics.add(
                    &metrics::MESSAGES_DELETED,
                    NoLabels,
                    f64::from(u32::try_from(deleted).unwrap_or(u32::MAX)),
                );
            }
            Err(error) => {
                let error = daemon::error::chain(&error);
                tracing::warn!(error = error.as_str(), "failed to delete messages, they will be received again");
            }
        }
    }

    /// Handles one message and reports whether it can be deleted.
    async fn one(&self, message: &QueueMessage) -> bool {
        let read = match parse(&message.body) {
            Ok(read) => read,
            Err(error) => {
                self.metrics.add(
                    &metrics::MESSAGES_RECEIVED,
                    metrics::ByMessageType { message_type: "malformed" },
                    1.0,
                );
                tracing::warn!(
                    message_id = message.id.as_str(),
                    error = error.as_str(),
                    "dropped an invalid message of the interruption queue"
                );
                return true;
            }
        };
        self.metrics.add(&metrics::MESSAGES_RECEIVED, metrics::ByMessageType { message_type: read.kind_label() }, 1.0);
        let context =
            MessageContext { now: self.cluster.now(), checks_statuses: self.notices.are_status_checks_enabled() };
        let decision = self.cluster.read(|index| decide(&read, index, context));
        decision.notes.into_iter().for_each(|note| self.cluster.notes.publish(note));
        let answers = join_all(decision.notices.into_iter().map(|(claim, notice)| self.post(claim, notice)));
        let done = timeout(PATIENCE, answers).await.is_ok_and(|answers| answers.iter().all(Result::is_ok));
        let at = if let Message::Notice { at, .. } = read { at } else { None };
        if let Some(at) = at.or(message.sent).filter(|_| done) {
            let seconds = self.cluster.now().duration_since(at).as_secs_f64().max(0.0);
            self.metrics.observe(&metrics::MESSAGE_DURATION, NoLabels, seconds);
        }
        done
    }

    fn post(&self, claim: String, notice: Notice) -> oneshot::Receiver<()> {
        tracing::info!(nodeclaim = claim.as_str(), notice = notice.kind.as_str(), "received an interruption notice");
        let answer = self.notices.post(&claim, notice);
        self.cluster.queue.add(WorkItem::Claim(claim));
        answer
    }
}

/// State of the queue: unknown, readable (an empty text), or the error code of AWS. Reported when it changes.
#[derive(Default)]
struct QueueState(Mutex<Option<String>>);

impl QueueState {
    fn turns_to(&self, word: &str) -> bool {
        let mut state = self.0.lock();
        let changed = state.as_deref() != Some(word);
        *state = Some(word.to_owned());
        changed
    }
}

#[cfg(test)]
mod tests {
    use api::condition;
    use serde_json::json;

    use super::{Index, Message, MessageContext, MessageDecision, Notice, NoticeKind, QueueState, decide};
    use crate::fixture::{at, claim, condition as cond, merge, node, status};

    fn index(change: &serde_json::Value) -> Index {
        let mut index = Index::default();
        let mut all = status(&[cond(condition::LAUNCHED, "True", 0)]);
        merge(&mut all, change);
        drop(index.apply(claim(&all).as_ref().clone(), at(0), true));
        index
    }

    fn message(kind: NoticeKind, instances: &[&str]) -> Message {
        let instances = instances.iter().map(|id| (*id).to_owned()).collect();
        Message::Notice { kind, instances, at: Some(at(60)), starts: None }
    }

    /// Returns a scheduled change of the instance that starts at this second.
    fn change(instance: &str, starts: i64) -> Message {
        let (kind, instances) = (NoticeKind::ScheduledChange, vec![instance.to_owned()]);
        Message::Notice { kind, instances, at: Some(at(60)), starts: Some(at(starts)) }
    }

    fn decided(message: &Message, index: &Index) -> MessageDecision {
        decide(message, index, MessageContext { now: at(60), checks_statuses: true })
    }

    fn given_up(kind: NoticeKind, deadline: Option<i64>) -> MessageDecision {
        let notice = Notice { kind, deadline: deadline.map(at) };
        MessageDecision { notices: vec![("default-1".to_owned(), notice)], notes: Vec::new() }
    }

    #[test]
    fn decide_returns_notices_for_claims_of_the_instances() {
        let index = index(&json!({}));
        let id = index.claims.values().next().unwrap().instance_id().unwrap().to_owned();
        let rows = [
            (message(NoticeKind::SpotInterrupted, &[&id]), given_up(NoticeKind::SpotInterrupted, Some(180))),
            (message(NoticeKind::InstanceStopped, &[&id]), given_up(NoticeKind::InstanceStopped, None)),
            (message(NoticeKind::ScheduledChange, &["i-other", &id]), given_up(NoticeKind::ScheduledChange, None)),
            (message(NoticeKind::SpotInterrupted, &["i-other"]), MessageDecision::default()),
            (Message::Nothing, MessageDecision::default()),
        ];
        for (message, expected) in rows {
            assert_eq!(decided(&message, &index), expected, "{message:?}");
        }
        let advice = decided(&message(NoticeKind::RebalanceRecommendation, &[&id]), &index);
        assert_eq!(advice.notices, []);
        assert_eq!(advice.notes.iter().map(|note| note.reason()).collect::<Vec<_>>(), ["SpotRebalanceRecommendation"]);
    }

    #[test]
    fn decide_waits_until_a_scheduled_change_is_near() {
        let index = index(&json!({}));
        let id = index.claims.values().next().unwrap().instance_id().unwrap().to_owned();
        let ahead = change(&id, 60 + 21 * 86_400);
        let waits = decided(&ahead, &index);
        assert_eq!(waits.notices, []);
        assert_eq!(waits.notes.iter().map(|note| note.reason()).collect::<Vec<_>>(), ["ScheduledEvent"]);
        let near = given_up(NoticeKind::ScheduledChange, Some(1860));
        assert_eq!(decided(&change(&id, 1860), &index), near, "half an hour ahead");
        let unchecked = MessageContext { now: at(60), checks_statuses: false };
        let at_once = given_up(NoticeKind::ScheduledChange, Some(60 + 21 * 86_400));
        assert_eq!(decide(&ahead, &index, unchecked), at_once, "nothing would report the event again");
    }

    #[test]
    fn decide_leaves_scheduled_changes_to_a_live_agent() {
        let mut index = index(&json!({}));
        let heartbeat = json!({"metadata": {"annotations": {"kerf.sh/agent-heartbeat": at(30).to_string()}}});
        drop(index.apply(node(&heartbeat).as_ref().clone(), at(0), true));
        let id = index.claims.values().next().unwrap().instance_id().unwrap().to_owned();
        for checks_statuses in [true, false] {
            let context = MessageContext { now: at(60), checks_statuses };
            for message in [change(&id, 120), change(&id, 1_000_000)] {
                assert_eq!(decide(&message, &index, context), MessageDecision::default(), "{message:?}");
            }
            let unknown = decide(&message(NoticeKind::ScheduledChange, &[&id]), &index, context);
            assert_eq!(unknown, given_up(NoticeKind::ScheduledChange, None), "no agent has a change without a start");
        }
    }

    #[test]
    fn decide_ignores_nodeclaims_that_are_being_deleted() {
        let index = index(&json!({"metadata": {"deletionTimestamp": at(30).to_string()}}));
        let id = index.claims.values().next().unwrap().instance_id().unwrap().to_owned();
        for kind in [NoticeKind::SpotInterrupted, NoticeKind::RebalanceRecommendation, NoticeKind::InstanceTerminated] {
            assert_eq!(decided(&message(kind, &[&id]), &index), MessageDecision::default(), "{kind:?}");
        }
    }

    #[test]
    fn turns_to_returns_true_when_the_state_changes() {
        let state = QueueState::default();
        let is_reported =
            ["QueueDoesNotExist", "QueueDoesNotExist", "", "", "AccessDenied"].map(|word| state.turns_to(word));
        assert_eq!(is_reported, [true, false, true, false, true]);
    }
}

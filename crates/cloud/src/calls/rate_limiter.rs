//! Client-side rate limits, slightly below EC2's. EC2 refuses calls above its limits, and then launches and terminations wait
//! behind reads.
//!
//! EC2 counts calls in token buckets per region, larger ones for reads than for writes. [`RequestQueue`] (pure) has the same
//! buckets, one for each kind of call. Within a bucket terminations come before launches, launches before tags, and cleanup
//! comes last. Each action also has its own bucket. Its rate is halved when EC2 throttles the action, and recovers gradually
//! with successful calls. [`RateLimiter`] is a [`Guard`] that waits for the queue.
//!
//! `governor` is not used: it has neither priorities nor rates that follow the answers of EC2.

mod bucket;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::guard::Guard;
use super::{CloudError, ErrorKind};
use bucket::Bucket;
pub use bucket::Rate;

/// Rate of write calls: EC2's bucket (50, then 5 per second) less a reserve, because calls may arrive out of order. A call that
/// arrives before its token is throttled, and throttling halves the rate for dozens of calls.
pub const CHANGES: Rate = Rate { burst: 46, per_second: 5 };
/// Rate of read calls: EC2's bucket (100, then 20 per second) less the same reserve.
pub const QUESTIONS: Rate = Rate { burst: 90, per_second: 20 };
/// Minimum delay of a waiting call. Waking up too early costs more than waking up late.
const SHORTEST: Duration = Duration::from_millis(1);

/// Kind of a call, which selects its bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Change,
    Question,
}

/// Returns the bucket and priority of an action that EC2 limits in shared buckets; priority 0 is first. Returns `None` for
/// other services, whose limits Kerf does not reach.
fn place(call: &str) -> Option<(Class, u8)> {
    let place = match call {
        "TerminateInstances" => (Class::Change, 0),
        "CreateFleet" | "CreateLaunchTemplate" => (Class::Change, 1),
        "CreateTags" => (Class::Change, 2),
        "DeleteLaunchTemplate" | "RunInstances" => (Class::Change, 3),
        "DescribeInstances" | "DescribeLaunchTemplates" => (Class::Question, 1),
        other if other.starts_with("Describe") && other != "DescribeCluster" => (Class::Question, 2),
        _ => return None,
    };
    Some(place)
}

/// Position in the queue: class, priority and sequence number.
type Ticket = (Class, u8, u64);

/// Queue of calls that wait for tokens. Times count from any fixed moment.
#[derive(Clone, Debug)]
pub struct RequestQueue {
    classes: BTreeMap<Class, Bucket>,
    actions: BTreeMap<&'static str, Bucket>,
    waiting: BTreeMap<Ticket, &'static str>,
    came: u64,
}

impl Default for RequestQueue {
    fn default() -> Self {
        Self::new(CHANGES, QUESTIONS)
    }
}

impl RequestQueue {
    /// Creates a queue with full buckets.
    #[must_use]
    pub fn new(changes: Rate, questions: Rate) -> Self {
        Self {
            classes: [(Class::Change, Bucket::new(changes)), (Class::Question, Bucket::new(questions))].into(),
            actions: BTreeMap::new(),
            waiting: BTreeMap::new(),
            came: 0,
        }
    }

    /// Enqueues a call; returns `None` for a call without limit.
    fn join(&mut self, call: &'static str) -> Option<Ticket> {
        let (class, priority) = place(call)?;
        self.came += 1;
        let ticket = (class, priority, self.came);
        self.waiting.insert(ticket, call);
        Some(ticket)
    }

    fn leave(&mut self, ticket: Ticket) {
        self.waiting.remove(&ticket);
    }

    /// Admits the call of a ticket and removes it from the queue. Otherwise returns the delay before the next attempt.
    fn admit(&mut self, ticket: Ticket, now: Duration) -> Result<(), Duration> {
        let class = ticket.0;
        let mut soonest = Duration::MAX;
        let mut first = None;
        let mates = || (class, 0, 0)..=(class, u8::MAX, u64::MAX);
        let calls: BTreeSet<&'static str> = self.waiting.range(mates()).map(|(_, call)| *call).collect();
        let ready: BTreeMap<&'static str, Duration> =
            calls.into_iter().map(|call| (call, self.action(call, class).wait(now))).collect();
        for (other, call) in self.waiting.range(mates()) {
            match ready.get(call) {
                Some(wait) if !wait.is_zero() => soonest = soonest.min(*wait),
                _ => {
                    first = Some(*other);
                    break;
                }
            }
        }
        let common = self.classes.get_mut(&class).map_or(Duration::ZERO, |bucket| bucket.wait(now));
        if first == Some(ticket) && common.is_zero() {
            let call = self.waiting.remove(&ticket);
            self.classes.get_mut(&class).into_iter().for_each(Bucket::take);
            call.into_iter().for_each(|call| self.action(call, class).take());
            return Ok(());
        }
        let wait = if first.is_some() { common } else { common.max(soonest) };
        Err(wait.max(SHORTEST))
    }

    fn action(&mut self, call: &'static str, class: Class) -> &mut Bucket {
        let rate = self.classes.get(&class).map_or(CHANGES, Bucket::rate);
        self.actions.entry(call).or_insert_with(|| Bucket::new(rate))
    }

    /// Adapts the rate of an action to the result of a call.
    fn learn(&mut self, call: &'static str, throttled: bool, now: Duration) {
        let Some((class, _)) = place(call) else { return };
        let bucket = self.action(call, class);
        match throttled {
            true => bucket.cut(now),
            false => bucket.grow(),
        }
    }

    /// Returns the current rate of each action in thousandths of a call per second.
    #[must_use]
    pub fn rates(&self) -> BTreeMap<&'static str, u64> {
        self.actions.iter().map(|(call, bucket)| (*call, bucket.per_mille())).collect()
    }
}

/// The clock of the rate limiter.
pub trait RateClock: Send + Sync {
    /// Returns the time since a fixed moment.
    fn now(&self) -> Duration;
    /// Waits for the given time.
    fn sleep<'a>(&'a self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
}

/// The system clock.
pub struct SystemRateClock(tokio::time::Instant);

impl Default for SystemRateClock {
    fn default() -> Self {
        Self(tokio::time::Instant::now())
    }
}

impl RateClock for SystemRateClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep<'a>(&'a self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(tokio::time::sleep(time))
    }
}

/// An observer of calls, for metrics.
pub trait Observer: Send + Sync {
    /// Receives the time that a call waited in the queue.
    fn waited(&self, call: &'static str, time: Duration);
    /// Receives the duration of a call without its queue time, and the kind of its error, if any.
    fn ended(&self, call: &'static str, took: Duration, error: Option<ErrorKind>);
    /// Receives the duration of a dry run that AWS denies as expected: the launches omit some tags.
    fn denied_as_expected(&self, call: &'static str, took: Duration);
}

/// A guard that limits calls to EC2's rates.
pub struct RateLimiter {
    line: Mutex<RequestQueue>,
    moved: Notify,
    pace: Arc<dyn RateClock>,
    observer: Arc<dyn Observer>,
}

impl RateLimiter {
    /// Creates a rate limiter with a queue and a clock.
    #[must_use]
    pub fn new(line: RequestQueue, pace: Arc<dyn RateClock>, observer: Arc<dyn Observer>) -> Self {
        Self { line: Mutex::new(line), moved: Notify::new(), pace, observer }
    }

    /// Returns the current rate of each action in thousandths of a call per second.
    #[must_use]
    pub fn rates(&self) -> BTreeMap<&'static str, u64> {
        self.line().rates()
    }

    async fn wait(&self, call: &'static str) {
        let began = self.pace.now();
        let Some(ticket) = self.line().join(call) else { return };
        let place = Held { limits: self, ticket };
        loop {
            let moved = self.moved.notified();
            let Err(wait) = self.line().admit(ticket, self.pace.now()) else { break };
            tokio::select! {
                biased;
                () = self.pace.sleep(wait) => {}
                () = moved => {}
            }
        }
        drop(place);
        self.observer.waited(call, self.pace.now().saturating_sub(began));
    }

    fn line(&self) -> MutexGuard<'_, RequestQueue> {
        self.line.lock()
    }
}

/// A position in the queue that is released when its caller is cancelled.
struct Held<'a> {
    limits: &'a RateLimiter,
    ticket: Ticket,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.limits.line().leave(self.ticket);
        self.limits.moved.notify_waiters();
    }
}

impl Guard for RateLimiter {
    fn before<'a>(&'a self, call: &'static str) -> Pin<Box<dyn Future<Output = Result<(), CloudError>> + Send + 'a>> {
        Box::pin(async move {
            self.wait(call).await;
            Ok(())
        })
    }

    fn after(&self, call: &'static str, took: Duration, error: Option<&CloudError>) -> Option<CloudError> {
        let kind = error.map(|error| error.kind);
        self.line().learn(call, kind == Some(ErrorKind::Throttled), self.pace.now());
        self.observer.ended(call, took, kind);
        None
    }

    fn after_expected_denial(&self, call: &'static str, took: Duration, _: &CloudError) -> Option<CloudError> {
        self.line().learn(call, false, self.pace.now());
        self.observer.denied_as_expected(call, took);
        None
    }
}

#[cfg(test)]
mod tests;

//! Rate limits of our own, a little inside EC2's: who asks too much is refused, and then launches and terminations wait
//! behind questions.
//!
//! EC2 counts calls in token buckets by region, larger ones for questions than for changes. [`Line`] (pure) keeps such
//! buckets: one for each kind of call, in which terminations go before launches, launches before tags, and what only
//! tidies up goes last; and one for each action, whose rate is halved when EC2 refuses it all the same and creeps back
//! while it does not. [`Limits`] is a [`Guard`] that waits by it.

mod bucket;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::error::{CloudError, ErrorKind};
use crate::guard::Guard;
use bucket::Bucket;
pub use bucket::Rate;

/// EC2's bucket for calls that change something (50, then 5 a second), less what calls may overtake each other by: one that
/// comes a moment before its token is refused, and a refusal halves the rate for dozens of calls.
pub const CHANGES: Rate = Rate { burst: 46, per_second: 5 };
/// EC2's bucket for calls that ask (100, then 20 a second), less the same.
pub const QUESTIONS: Rate = Rate { burst: 90, per_second: 20 };
/// Nobody sleeps for less: a waiter that comes too early costs more than a late one.
const SHORTEST: Duration = Duration::from_millis(1);

/// What kind of call an action is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Change,
    Question,
}

/// The actions that EC2 limits in common buckets, with their turn: 0 goes first. Other services have limits that we do
/// not come near.
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

/// Somebody's place in the line: class, turn, and when they came.
type Ticket = (Class, u8, u64);

/// Who may call when. Time is counted from any fixed moment.
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
    /// A line with full buckets.
    #[must_use]
    pub fn new(changes: Rate, questions: Rate) -> Self {
        Self {
            classes: [(Class::Change, Bucket::new(changes)), (Class::Question, Bucket::new(questions))].into(),
            actions: BTreeMap::new(),
            waiting: BTreeMap::new(),
            came: 0,
        }
    }

    /// Takes a place; `None` for calls that need none.
    fn join(&mut self, call: &'static str) -> Option<Ticket> {
        let (class, turn) = place(call)?;
        self.came += 1;
        let ticket = (class, turn, self.came);
        self.waiting.insert(ticket, call);
        Some(ticket)
    }

    fn leave(&mut self, ticket: Ticket) {
        self.waiting.remove(&ticket);
    }

    /// `Ok` when it is the ticket's turn, which ends its waiting; else how long to wait before asking again.
    fn ask(&mut self, ticket: Ticket, now: Duration) -> Result<(), Duration> {
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

    /// Learns from how a call ended.
    fn learn(&mut self, call: &'static str, throttled: bool, now: Duration) {
        let Some((class, _)) = place(call) else { return };
        let bucket = self.action(call, class);
        match throttled {
            true => bucket.cut(now),
            false => bucket.grow(),
        }
    }

    /// Calls a second, in thousandths, that each action is allowed now.
    #[must_use]
    pub fn rates(&self) -> BTreeMap<&'static str, u64> {
        self.actions.iter().map(|(call, bucket)| (*call, bucket.per_mille())).collect()
    }
}

/// Time as the limits see it.
pub trait RateClock: Send + Sync {
    /// Time since a fixed moment.
    fn now(&self) -> Duration;
    /// Lets so much time pass.
    fn sleep<'a>(&'a self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
}

/// The machine's own time.
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

/// Who wants to know of calls.
pub trait Observer: Send + Sync {
    /// A call may go out, after so long in the line.
    fn waited(&self, call: &'static str, time: Duration);
    /// A call ended after so long, the line not counted, with an error of this kind if with one.
    fn ended(&self, call: &'static str, took: Duration, error: Option<ErrorKind>);
}

/// A guard that lets calls pass at EC2's pace.
pub struct RateLimiter {
    line: Mutex<RequestQueue>,
    moved: Notify,
    pace: Arc<dyn RateClock>,
    observer: Arc<dyn Observer>,
}

impl RateLimiter {
    /// Limits by a line, at a pace.
    #[must_use]
    pub fn new(line: RequestQueue, pace: Arc<dyn RateClock>, observer: Arc<dyn Observer>) -> Self {
        Self { line: Mutex::new(line), moved: Notify::new(), pace, observer }
    }

    /// Calls a second, in thousandths, that each action is allowed now.
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
            let Err(wait) = self.line().ask(ticket, self.pace.now()) else { break };
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

/// A place in the line that is given up when its caller is.
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
}

#[cfg(test)]
mod tests;

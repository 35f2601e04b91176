//! Work queue: each key is processed at most once at a time. A key that arrives during its processing is processed again
//! afterwards.
//!
//! [`Schedule`] decides (pure, `now` is a parameter), [`Queue`] waits. kube's `Controller` is not used because it owns the
//! watch of its kind, and `DelayQueue` of tokio-util because it reads the clock itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use daemon::backoff::doubled;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(60);

/// Next action for a key, as its handler returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueAction {
    /// Nothing until a change.
    Wait,
    /// Reconcile after this long at the latest.
    After(Duration),
    /// Reconcile after a failure, with a growing delay.
    Retry,
}

/// Due times of keys.
///
/// `tokio_util`'s `DelayQueue` has no notion of a key that a worker holds, and cannot be asked at a given `now`.
#[derive(Debug)]
pub struct Schedule<K> {
    /// Due time of each key.
    due: BTreeMap<K, Instant>,
    /// Keys that no worker holds, in the order of their due times.
    ready: BTreeSet<(Instant, K)>,
    running: BTreeSet<K>,
    failures: BTreeMap<K, u32>,
}

impl<K: Ord + Clone> Schedule<K> {
    fn new() -> Self {
        Self { due: BTreeMap::new(), ready: BTreeSet::new(), running: BTreeSet::new(), failures: BTreeMap::new() }
    }

    /// Makes `key` due at `when`, or earlier if it was due earlier.
    fn add(&mut self, key: K, when: Instant) {
        let former = self.due.get(&key).copied();
        if former.is_some_and(|former| former <= when) {
            return;
        }
        if let Some(former) = former {
            self.ready.remove(&(former, key.clone()));
        }
        self.due.insert(key.clone(), when);
        if !self.running.contains(&key) {
            self.ready.insert((when, key));
        }
    }

    /// Takes the key that has been due for longest and that no worker holds.
    fn take(&mut self, now: Instant) -> Option<K> {
        self.ready.first().filter(|(due, _)| *due <= now)?;
        let (_, key) = self.ready.pop_first()?;
        self.due.remove(&key);
        self.running.insert(key.clone());
        Some(key)
    }

    /// Returns the moment at which [`Schedule::take`] has a key, if nothing else happens.
    fn next_due(&self) -> Option<Instant> {
        self.ready.first().map(|(due, _)| *due)
    }

    fn done(&mut self, key: K, next: QueueAction, now: Instant) {
        self.running.remove(&key);
        if let Some(due) = self.due.get(&key) {
            self.ready.insert((*due, key.clone()));
        }
        match next {
            QueueAction::Retry => {
                let failures = self.failures.entry(key.clone()).or_default();
                let delay = doubled(FIRST_RETRY, *failures, LAST_RETRY);
                *failures += 1;
                self.add(key, now + delay);
            }
            QueueAction::After(delay) => {
                self.failures.remove(&key);
                self.add(key, now + delay);
            }
            QueueAction::Wait => drop(self.failures.remove(&key)),
        }
    }
}

/// [`Schedule`] that workers can wait on.
#[derive(Debug)]
pub struct Queue<K> {
    schedule: Mutex<Schedule<K>>,
    changed: Notify,
}

impl<K: Ord + Clone> Default for Queue<K> {
    fn default() -> Self {
        Self { schedule: Mutex::new(Schedule::new()), changed: Notify::new() }
    }
}

impl<K: Ord + Clone> Queue<K> {
    /// Makes `key` due now.
    pub fn add(&self, key: K) {
        self.with(|schedule| schedule.add(key, Instant::now()));
        self.changed.notify_one();
    }

    /// Waits for the next due key. Only one task may wait at a time.
    pub async fn next(&self) -> K {
        loop {
            if let Some(key) = self.with(|schedule| schedule.take(Instant::now())) {
                return key;
            }
            match self.with(|schedule| schedule.next_due()) {
                Some(due) => {
                    tokio::select! {
                        biased;
                        () = tokio::time::sleep_until(due) => {}
                        () = self.changed.notified() => {}
                    }
                }
                None => self.changed.notified().await,
            }
        }
    }

    /// Returns for how long the next key has been due; zero without a due key.
    pub fn overdue(&self) -> Duration {
        let due = self.with(|schedule| schedule.next_due());
        due.map_or(Duration::ZERO, |due| Instant::now().saturating_duration_since(due))
    }

    /// Ends the processing of `key`.
    pub fn done(&self, key: K, next: QueueAction) {
        self.with(|schedule| schedule.done(key, next, Instant::now()));
        self.changed.notify_one();
    }

    fn with<T>(&self, act: impl FnOnce(&mut Schedule<K>) -> T) -> T {
        act(&mut self.schedule.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Instant, QueueAction, Schedule};

    #[test]
    fn take_returns_a_key_once_at_a_time() {
        let now = Instant::now();
        let mut schedule = Schedule::new();
        schedule.add("claim", now);
        schedule.add("claim", now);
        assert_eq!(schedule.take(now), Some("claim"));
        schedule.add("claim", now);
        assert_eq!(schedule.take(now), None);
        schedule.done("claim", QueueAction::Wait, now);
        assert_eq!(schedule.take(now), Some("claim"));
        schedule.done("claim", QueueAction::Wait, now);
        assert_eq!(schedule.take(now), None);
    }

    #[test]
    fn done_doubles_the_delay_when_a_key_fails_again() {
        let mut now = Instant::now();
        let mut schedule = Schedule::new();
        let mut delays = Vec::new();
        schedule.add("node", now);
        for _ in 0..3 {
            let key = schedule.take(now).unwrap_or_default();
            schedule.done(key, QueueAction::Retry, now);
            let due = schedule.next_due();
            delays.push(due.map(|due| due - now));
            now = due.unwrap_or(now);
        }
        let expected: Vec<_> = [100, 200, 400].map(|ms| Some(Duration::from_millis(ms))).to_vec();
        assert_eq!(delays, expected);
    }

    #[test]
    fn take_returns_the_longest_due_key_first() {
        let now = Instant::now();
        let mut schedule = Schedule::new();
        schedule.add("a", now);
        schedule.add("b", now - Duration::from_secs(1));
        assert_eq!(schedule.take(now), Some("b"));
        assert_eq!(schedule.take(now), Some("a"));
    }

    #[test]
    fn add_keeps_the_earlier_time_when_a_key_is_added_twice() {
        let now = Instant::now();
        let mut schedule = Schedule::new();
        schedule.add("pool", now);
        schedule.add("pool", now + Duration::from_secs(60));
        assert_eq!(schedule.take(now), Some("pool"));
    }

    #[test]
    fn done_keeps_the_due_time_that_a_running_key_received() {
        let now = Instant::now();
        let later = now + Duration::from_secs(5);
        let mut schedule = Schedule::new();
        schedule.add("claim", now);
        assert_eq!(schedule.take(now), Some("claim"));
        schedule.add("claim", later);
        assert_eq!(schedule.next_due(), None);
        schedule.done("claim", QueueAction::After(Duration::from_secs(60)), now);
        assert_eq!(schedule.next_due(), Some(later));
        assert_eq!(schedule.take(later), Some("claim"));
        assert_eq!(schedule.next_due(), None);
    }
}

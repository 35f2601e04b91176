//! Leadership of this replica: until when it may write, for the lease's thread, every writer, and calls that change AWS.

use std::sync::Arc;
use std::time::Duration;

use daemon::changes::ChangeCounter;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Leadership without an election; longer than any process runs.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// Leadership of this replica. Clones share it.
///
/// The end is a moment and not a flag, so that leadership ends in time although the thread that renews it has no CPU.
#[derive(Clone, Debug)]
pub struct Leading(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    end: Mutex<Instant>,
    changes: ChangeCounter,
}

impl Leading {
    /// Creates a replica that does not lead yet.
    #[must_use]
    pub fn not_yet() -> Self {
        Self::until(Instant::now())
    }

    /// Creates a replica that leads without an election.
    #[must_use]
    pub fn without_election() -> Self {
        Self::until(Instant::now() + FOREVER)
    }

    fn until(end: Instant) -> Self {
        Self(Arc::new(Shared { end: Mutex::new(end), changes: ChangeCounter::default() }))
    }

    /// Extends leadership until `end`.
    pub fn extend(&self, end: Instant) {
        *self.0.end.lock() = end;
        self.0.changes.add();
    }

    /// Ends leadership now.
    pub fn end(&self) {
        self.extend(Instant::now());
    }

    /// Reports whether this replica leads.
    #[must_use]
    pub fn is_held(&self) -> bool {
        Instant::now() < *self.0.end.lock()
    }

    /// Waits until this replica does not lead.
    pub async fn lost(&self) {
        let mut changes = self.0.changes.subscribe();
        loop {
            let until = *self.0.end.lock();
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(until) => {
                    if !self.is_held() {
                        return;
                    }
                }
                () = changes.changed() => {}
            }
        }
    }

    /// Runs `work` while this replica leads. Returns `None` when it does not lead, or when leadership ends first.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.lost() => None,
            done = work => Some(done),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Instant, Leading};

    #[tokio::test(start_paused = true)]
    async fn run_abandons_work_when_leadership_ends() {
        let leading = Leading::not_yet();
        assert_eq!(leading.run(async { 1 }).await, None, "does not lead yet");
        leading.extend(Instant::now() + Duration::from_secs(10));
        assert_eq!(leading.run(async { 1 }).await, Some(1));
        let slow = leading.run(tokio::time::sleep(Duration::from_secs(11)));
        let began = Instant::now();
        assert_eq!(slow.await, None);
        assert_eq!(began.elapsed().as_secs(), 10, "not later than the end");
        assert!(!leading.is_held());
    }

    #[tokio::test(start_paused = true)]
    async fn lost_returns_only_when_no_renewal_came() {
        let leading = Leading::not_yet();
        leading.extend(Instant::now() + Duration::from_secs(10));
        let (renewed, began) = (leading.clone(), Instant::now());
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(8)).await;
            renewed.extend(Instant::now() + Duration::from_secs(10));
        });
        leading.lost().await;
        assert_eq!(began.elapsed().as_secs(), 18);
        let always = Leading::without_election();
        assert!(always.is_held());
        always.end();
        always.lost().await;
    }
}

//! Counters of changes for tasks that wait for one. Waiting tasks wake in the order in which they began to wait, so a simulation
//! on a paused clock repeats exactly. Tokio's `watch` wakes them in a random order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

#[derive(Debug, Default)]
struct Shared {
    count: AtomicU64,
    changed: Notify,
}

/// Counter of changes.
#[derive(Clone, Debug, Default)]
pub struct ChangeCounter(Arc<Shared>);

impl ChangeCounter {
    /// Counts a change, and wakes all tasks that wait for one.
    pub fn add(&self) {
        self.0.count.fetch_add(1, Ordering::AcqRel);
        self.0.changed.notify_waiters();
    }

    /// Subscribes to later changes.
    #[must_use]
    pub fn subscribe(&self) -> Changes {
        Changes { shared: Arc::clone(&self.0), seen: self.0.count.load(Ordering::Acquire) }
    }
}

/// Subscription to a counter.
#[derive(Clone, Debug)]
pub struct Changes {
    shared: Arc<Shared>,
    seen: u64,
}

impl Changes {
    /// Waits for a change that was not seen yet, and sees it.
    pub async fn changed(&mut self) {
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            // Registers before the comparison, so that no change is lost between the two.
            changed.as_mut().enable();
            let count = self.shared.count.load(Ordering::Acquire);
            if count != self.seen {
                self.seen = count;
                return;
            }
            changed.await;
        }
    }

    /// Reports whether a change was not seen yet.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.shared.count.load(Ordering::Acquire) != self.seen
    }

    /// Sees all changes so far.
    pub fn mark_unchanged(&mut self) {
        self.seen = self.shared.count.load(Ordering::Acquire);
    }

    /// Makes the next look find a change.
    pub fn mark_changed(&mut self) {
        self.seen = self.shared.count.load(Ordering::Acquire).wrapping_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[tokio::test]
    async fn changed_wakes_all_tasks_in_the_order_of_their_waits() {
        let (counter, woken) = (ChangeCounter::default(), Arc::new(Mutex::new(Vec::new())));
        let tasks: Vec<_> = (0..20)
            .map(|number| {
                let (mut changes, woken) = (counter.subscribe(), Arc::clone(&woken));
                tokio::spawn(async move {
                    changes.changed().await;
                    woken.lock().unwrap().push(number);
                })
            })
            .collect();
        tokio::task::yield_now().await;
        counter.add();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*woken.lock().unwrap(), (0..20).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn changed_returns_once_for_changes_before_the_wait() {
        let counter = ChangeCounter::default();
        let mut changes = counter.subscribe();
        counter.add();
        counter.add();
        changes.changed().await;
        assert!(!changes.has_changed(), "both were seen");
        changes.mark_changed();
        assert!(changes.has_changed());
        changes.mark_unchanged();
        assert!(!changes.has_changed());
    }
}

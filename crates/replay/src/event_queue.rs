//! Events of the simulated cluster by their time.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// Event of the simulated cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The recorded change at this position.
    Recorded(usize),
    /// The workload of the slot at this position wants its pod from now on.
    Arrives(usize),
    /// The workload of the slot wants its pod no longer.
    Leaves(usize),
    /// The node of this NodeClaim is initialized.
    Initialized(String),
    /// The pod with this UID is ready.
    Started(String),
    /// The pod with this UID has done its work.
    Completed(String),
    /// The containers of the pod with this UID have stopped.
    Stopped(String),
    /// The drain of this NodeClaim must end now.
    Overdue(String),
    /// The instance of this NodeClaim is terminated.
    Terminated(String),
    /// EC2 interrupts an instance like the recorded node at this position.
    Interrupted(usize),
}

/// Events that are due later, in the order of their time and then of their entry.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    events: BTreeMap<(Timestamp, u64), Event>,
    entered: u64,
}

impl EventQueue {
    pub(crate) fn enter(&mut self, at: Timestamp, event: Event) {
        self.entered += 1;
        self.events.insert((at, self.entered), event);
    }

    /// Returns the time of the first event.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.events.first_key_value().map(|((at, _), _)| *at)
    }

    /// Removes the first event if it is due.
    pub(crate) fn due(&mut self, now: Timestamp) -> Option<Event> {
        let first = self.events.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_returns_events_in_the_order_of_time_and_entry() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut queue = EventQueue::default();
        queue.enter(at(2), Event::Arrives(1));
        queue.enter(at(1), Event::Arrives(2));
        queue.enter(at(2), Event::Leaves(1));
        assert_eq!((queue.next(), queue.due(at(0))), (Some(at(1)), None));
        let all: Vec<Event> = std::iter::from_fn(|| queue.due(at(2))).collect();
        assert_eq!(all, [Event::Arrives(2), Event::Arrives(1), Event::Leaves(1)]);
    }
}

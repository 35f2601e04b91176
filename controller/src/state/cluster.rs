//! The index behind its lock, the two places where a change of it makes itself felt (the work queue and the planner's batch), and the
//! only clock that decisions are handed a moment of.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::RwLock;
use tokio::sync::mpsc::UnboundedSender;

use crate::provision::batcher::PlanTrigger;
use crate::reconcile::queue::Queue;
use crate::reconcile::work::{Triggers, WorkItem};
use crate::state::index::Index;
use crate::state::pod_decisions::PodDecisions;
use crate::write::events::EventRecorder;

/// What all parts of the controller share.
pub struct Cluster {
    index: RwLock<Index>,
    /// Things to look at.
    pub queue: Queue<WorkItem>,
    /// Events on their way to the API server.
    pub notes: EventRecorder,
    /// What plans have said of pods that wait.
    pub decisions: PodDecisions,
    plan: UnboundedSender<PlanTrigger>,
    clock: Clock,
}

/// What tells the time.
pub type Clock = fn() -> Timestamp;

impl Cluster {
    /// An empty cluster; what asks for a plan goes to `plan`.
    #[must_use]
    pub fn new(plan: UnboundedSender<PlanTrigger>, notes: EventRecorder) -> Arc<Self> {
        Self::with_clock(plan, notes, Timestamp::now)
    }

    /// The same under another clock, for tests.
    #[must_use]
    pub fn with_clock(plan: UnboundedSender<PlanTrigger>, notes: EventRecorder, clock: Clock) -> Arc<Self> {
        let decisions = PodDecisions::new(clock());
        Arc::new(Self { index: RwLock::default(), queue: Queue::default(), notes, decisions, plan, clock })
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Looks at the index.
    pub fn read<T>(&self, look: impl FnOnce(&Index) -> T) -> T {
        look(&self.index.read())
    }

    /// Changes the index and passes on what that calls for.
    pub fn change(&self, change: impl FnOnce(&mut Index) -> Triggers) {
        let consequences = change(&mut self.index.write());
        for work in consequences.work {
            self.queue.add(work);
        }
        for trigger in consequences.plan {
            self.send(trigger);
        }
    }

    /// Asks for a plan that answers `id`.
    pub fn ask_for_plan(&self, id: String) {
        self.send(PlanTrigger::New(id));
    }

    fn send(&self, trigger: PlanTrigger) {
        // The receiver is gone only while the process ends.
        let _ = self.plan.send(trigger);
    }
}

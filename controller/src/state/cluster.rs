//! Index behind its lock, and the two receivers of its changes: the work queue and the batcher of plans. Also the only clock
//! whose time decisions receive.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use parking_lot::RwLock;
use tokio::sync::mpsc::UnboundedSender;

use crate::provision::batcher::PlanTrigger;
use crate::reconcile::queue::Queue;
use crate::reconcile::work::{Triggers, WorkItem};
use crate::state::attempts::stored::Attempts;
use crate::state::decision_log::DecisionLog;
use crate::state::index::Index;
use crate::state::plans::evidence::EvidenceStore;
use crate::state::plans::pod_decisions::PodDecisions;
use crate::state::plans::progress::PlanProgress;
use crate::state::view_ages::ViewAges;
use crate::write::events::EventRecorder;

/// Shared state of all parts of the controller.
pub struct Cluster {
    index: RwLock<Index>,
    /// Queue of the work items.
    pub queue: Queue<WorkItem>,
    /// Events for the API server.
    pub notes: EventRecorder,
    /// Ages of the index's kinds.
    pub view_ages: ViewAges,
    /// Objects of plans that failed.
    pub evidence: EvidenceStore,
    /// Decisions of plans about pending pods.
    pub decisions: PodDecisions,
    /// Records of decisions for `kerf log`.
    pub log: DecisionLog,
    /// The running plan.
    pub progress: PlanProgress,
    /// Results of launches and replacements.
    pub attempts: Attempts,
    plan: UnboundedSender<PlanTrigger>,
    clock: Clock,
}

/// Source of the current time.
pub type Clock = fn() -> Timestamp;

impl Cluster {
    /// Creates an empty cluster. Triggers of plans are sent to `plan`.
    #[must_use]
    pub fn new(plan: UnboundedSender<PlanTrigger>, notes: EventRecorder) -> Arc<Self> {
        Self::with_clock(plan, notes, Timestamp::now)
    }

    /// Creates an empty cluster whose kinds are stale above this age.
    #[must_use]
    pub fn with_max_view_age(
        plan: UnboundedSender<PlanTrigger>,
        notes: EventRecorder,
        max_age: SignedDuration,
    ) -> Arc<Self> {
        Self::with(plan, notes, Timestamp::now, ViewAges::new(max_age))
    }

    /// Creates an empty cluster with another clock, for tests.
    #[must_use]
    pub fn with_clock(plan: UnboundedSender<PlanTrigger>, notes: EventRecorder, clock: Clock) -> Arc<Self> {
        Self::with(plan, notes, clock, ViewAges::default())
    }

    fn with(plan: UnboundedSender<PlanTrigger>, notes: EventRecorder, clock: Clock, view_ages: ViewAges) -> Arc<Self> {
        let decisions = PodDecisions::new(clock());
        Arc::new(Self {
            index: RwLock::default(),
            queue: Queue::default(),
            notes,
            view_ages,
            evidence: EvidenceStore::default(),
            decisions,
            log: DecisionLog::default(),
            progress: PlanProgress::default(),
            attempts: Attempts::new(clock().as_nanosecond().to_string()),
            plan,
            clock,
        })
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Reads the index.
    pub fn read<T>(&self, look: impl FnOnce(&Index) -> T) -> T {
        look(&self.index.read())
    }

    /// Changes the index, and passes on the work and the plans that the change triggers.
    pub fn change(&self, change: impl FnOnce(&mut Index) -> Triggers) {
        let consequences = change(&mut self.index.write());
        for work in consequences.work {
            self.queue.add(work);
        }
        for trigger in consequences.plan {
            self.send(trigger);
        }
    }

    /// Triggers a plan for `id`.
    pub fn ask_for_plan(&self, id: String) {
        self.send(PlanTrigger::New(id));
    }

    fn send(&self, trigger: PlanTrigger) {
        // The receiver is dropped only while the process ends.
        let _ = self.plan.send(trigger);
    }
}

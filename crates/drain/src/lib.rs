//! Drain of a node: one pure state machine that agent and controller use.
//!
//! The crate neither accesses a cluster nor reads a clock. The driver passes the pods of the node ([`Drain::pods`]) and the
//! responses of the API server ([`Drain::reply`]). The driver executes the actions of [`Drain::step`], and returns at
//! [`Drain::poll_timeout`]. The state is one serialisable value, so that a journal can keep it over a restart.
//!
//! Deliberately absent:
//!
//! - Reads of PodDisruptionBudgets: a node has no permission for them, so the response of the Eviction API decides.
//! - Termination of the instance, by EC2 or the controller.

mod drain_owner;
mod eviction;
mod moment;
mod order;
mod pod;
mod progress;
mod settings;
mod state_machine;
mod step_context;
mod tracked_pod;

pub use drain_owner::{
    ARRIVES, AgentOwnership, MARK_ABANDONED, MARK_HOLDS, NodeReading, OwnershipStep, QUIET, READING_HOLDS,
};
pub use eviction::reply::{Refusal, Refused, Reply};
pub use moment::Millis;
pub use order::{DrainOrder, DrainOrders};
pub use pod::{AwaitedCopy, Group, PodOnNode, PodOutcome, Protection, Skip};
pub use progress::{DrainReport, Progress};
pub use settings::{BudgetPolicy, DaemonSets, Settings};
pub use state_machine::{Action, Drain};

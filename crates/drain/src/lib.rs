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

mod agent_liveness;
mod backoff;
mod budget;
mod moment;
mod order;
mod pod;
mod progress;
mod reply;
mod settings;
mod state_machine;
mod step;
mod tracked_pod;
mod volumes;

pub use agent_liveness::{ARRIVES, AgentLiveness, AgentReport, FORSAKEN, FirstOwner, MARK_HOLDS, QUIET, READING_HOLDS};
pub use moment::Millis;
pub use order::{DrainOrder, DrainOrders};
pub use pod::{Group, PodOnNode, Skip};
pub use progress::{DrainReport, PodOutcome, Progress};
pub use reply::{Refusal, Refused, Reply};
pub use settings::{BudgetPolicy, DaemonSets, Settings};
pub use state_machine::{Action, Drain};

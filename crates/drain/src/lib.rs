//! How a node empties: one pure state machine that agent and controller drive alike.
//!
//! Nothing here talks to a cluster or reads a clock. The driver tells it what the node holds ([`Drain::pods`]) and what the API
//! answered ([`Drain::reply`]), carries out what [`Drain::step`] hands it, and comes back at [`Drain::poll_timeout`].
//! The state is one serialisable value, so that a journal can carry it over a restart.
//!
//! Deliberately absent: reading PodDisruptionBudgets (a node may not; the Eviction API's answer is the verdict), and ending the
//! machine (that is EC2's or the controller's).

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

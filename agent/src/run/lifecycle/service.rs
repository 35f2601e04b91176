//! Readiness of this node: the gates evaluate the state of bootstrap and the files of the instance.

use api::condition;
use drain::Millis;

use super::agent_state::AgentState;
use crate::bootstrap::state::BootstrapState;
use crate::cluster::{ConditionUpdate, NodeEvent};
use crate::gates::{Gates, MachineFacts, ProbeResult};
use crate::health::Health;
use crate::run::startup_obstacle::StartupObstacle;

#[derive(Debug)]
pub(super) struct Service {
    gates: Gates,
    bootstrap: Option<BootstrapState>,
    obstacle: StartupObstacle,
}

impl Service {
    pub(super) fn new(gates: Gates) -> Self {
        Self { gates, bootstrap: None, obstacle: StartupObstacle::default() }
    }

    /// Replaces the gates. The new gates are all closed.
    pub(super) fn use_gates(&mut self, gates: Gates) {
        self.gates = gates;
    }

    pub(super) fn gates(&self) -> &Gates {
        &self.gates
    }

    pub(super) fn found(&mut self, finding: ProbeResult, now: Millis) {
        self.gates.take(finding.gate, finding.answer, now);
    }

    pub(super) fn bootstrap(&mut self, report: Option<BootstrapState>, now: Millis) {
        self.obstacle.observe(report.as_ref(), now);
        self.bootstrap = report;
    }

    /// Evaluates the state of bootstrap, our Node and the health of the network.
    pub(super) fn observe(&mut self, known: &AgentState, health: &Health, now: Millis) {
        let facts = MachineFacts {
            bootstrap: self.bootstrap.as_ref(),
            node: known.node(),
            network: health.fatal_problem(condition::NETWORKING_READY),
            wall: known.wall,
        };
        self.gates.observe(&facts, now);
    }

    /// Returns the condition `kerf.sh/Ready`. Returns `None` while a restarted agent has no result that contradicts the
    /// condition `True` of the Node.
    pub(super) fn condition_update(&self, known: &AgentState) -> Option<ConditionUpdate> {
        self.gates.news(known.node()?, known.wall)
    }

    /// Returns the state of the gates in one sentence.
    pub(super) fn summary(&self, known: &AgentState) -> String {
        self.gates.condition_update(known.wall).message
    }

    pub(super) fn event(&self, known: &AgentState, now: Millis) -> Option<NodeEvent> {
        self.obstacle.event(&known.journal.published_events, now)
    }

    pub(super) fn poll_timeout(&self, now: Millis) -> Option<Millis> {
        self.obstacle.poll_timeout(now).into_iter().chain(self.gates.changes_at(now)).min()
    }
}

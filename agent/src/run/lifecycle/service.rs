//! Whether this node may serve: what bootstrap and the machine's files say, judged by the gates.

use drain::Millis;

use super::agent_state::Known;
use crate::bootstrap::state::State;
use crate::gates::{Finding, Gates};
use crate::report::{NodeEvent, Statement};
use crate::run::startup_obstacle::Obstacle;

#[derive(Debug)]
pub(super) struct Service {
    gates: Gates,
    bootstrap: Option<State>,
    obstacle: Obstacle,
}

impl Service {
    pub(super) fn new(gates: Gates) -> Self {
        Self { gates, bootstrap: None, obstacle: Obstacle::default() }
    }

    /// Other gates, all closed.
    pub(super) fn use_gates(&mut self, gates: Gates) {
        self.gates = gates;
    }

    pub(super) fn gates(&self) -> &Gates {
        &self.gates
    }

    pub(super) fn found(&mut self, finding: Finding, now: Millis) {
        self.gates.take(finding.gate, finding.answer, now);
    }

    pub(super) fn bootstrap(&mut self, report: Option<State>, now: Millis) {
        self.obstacle.observe(report.as_ref(), now);
        self.bootstrap = report;
    }

    /// Looks at what bootstrap and our Node say now.
    pub(super) fn observe(&mut self, known: &Known, now: Millis) {
        self.gates.observe(self.bootstrap.as_ref(), known.node(), now);
    }

    /// The condition `kerf.sh/Ready`, if there is anything to say.
    pub(super) fn statement(&self, known: &Known) -> Option<Statement> {
        self.gates.news(known.node()?, known.wall)
    }

    /// Where the gates stand, in a sentence.
    pub(super) fn summary(&self, known: &Known) -> String {
        self.gates.statement(known.wall).message
    }

    pub(super) fn tiding(&self, known: &Known, now: Millis) -> Option<NodeEvent> {
        self.obstacle.tiding(&known.journal.told, now)
    }

    pub(super) fn poll_timeout(&self, now: Millis) -> Option<Millis> {
        self.obstacle.poll_timeout(now)
    }
}

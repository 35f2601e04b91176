//! Whether this node may serve: what bootstrap and the machine's files say, judged by the gates.

use drain::Millis;

use super::known::Known;
use crate::bootstrap::state::State;
use crate::gates::{self, Facts};
use crate::report::{Statement, Tiding};
use crate::run::obstacle::Obstacle;

#[derive(Debug, Default)]
pub(super) struct Service {
    cni: bool,
    bootstrap: Option<State>,
    obstacle: Obstacle,
}

impl Service {
    pub(super) fn cni(&mut self, there: bool) {
        self.cni = there;
    }

    pub(super) fn bootstrap(&mut self, report: Option<State>, now: Millis) {
        self.obstacle.observe(report.as_ref(), now);
        self.bootstrap = report;
    }

    /// The condition `kerf.sh/Ready`.
    pub(super) fn statement(&self, known: &Known) -> Option<Statement> {
        let node = known.node()?;
        let bootstrap = self.bootstrap.as_ref();
        Some(gates::judge(Facts { node, cni: self.cni, bootstrap }))
    }

    pub(super) fn tiding(&self, known: &Known, now: Millis) -> Option<Tiding> {
        self.obstacle.tiding(&known.journal.told, now)
    }

    pub(super) fn poll_timeout(&self, now: Millis) -> Option<Millis> {
        self.obstacle.poll_timeout(now)
    }
}

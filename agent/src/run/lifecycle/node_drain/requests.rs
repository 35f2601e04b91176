//! Drain requests in an annotation on the Node, from the controller or a person. The journal stores the request, so that it
//! remains valid while the API server does not answer. The request ends when the Node is read without it.

use api::{DrainRequest, annotation, condition, reason};
use drain::{DaemonSets, DrainOrder};

use crate::cluster::ConditionUpdate;
use crate::notices::moment;
use crate::run::lifecycle::agent_state::AgentState;

/// Source name of the request.
pub(super) const SOURCE: &str = "asked";

/// Parser of drain requests. The requests themselves are in the journal.
#[derive(Debug, Default)]
pub(in crate::run::lifecycle) struct DrainRequests {
    /// Error in the current request.
    problem: Option<String>,
}

impl DrainRequests {
    /// Reads the request of our Node, if the Node is known.
    pub(in crate::run::lifecycle) fn read(&mut self, known: &mut AgentState) {
        let Some(node) = known.node() else {
            return;
        };
        let written = node.metadata.annotations.get(annotation::DRAIN);
        let order = match written.map(|text| DrainRequest::parse(text)).transpose() {
            Ok(request) => {
                self.problem = None;
                request.map(|request| order(known, request))
            }
            // An invalid annotation does not withdraw an earlier valid request.
            Err(error) => {
                self.problem = Some(daemon::error::chain(&error));
                return;
            }
        };
        if known.journal.asked != order {
            known.journal.asked = order;
            known.dirty = true;
        }
    }

    /// Returns the condition `kerf.sh/Drained` of an invalid request.
    pub(in crate::run::lifecycle) fn condition_update(&self) -> Option<ConditionUpdate> {
        Some(ConditionUpdate {
            kind: condition::NODE_DRAINED,
            status: condition::FALSE,
            reason: reason::DRAIN_REQUEST_INVALID.to_owned(),
            message: self.problem.clone()?,
        })
    }
}

fn order(known: &AgentState, request: DrainRequest) -> DrainOrder {
    let deadline = request.deadline.map(|at| known.wall.ours(moment(at)));
    let daemon_sets = if request.daemon_sets { DaemonSets::Drain } else { DaemonSets::Skip };
    DrainOrder { id: request.id, reason: request.reason, deadline, daemon_sets, termination: request.termination }
}

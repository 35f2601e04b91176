//! A drain that someone asks for by an annotation on the Node: the controller, or a person. The request is in the journal, so that it
//! holds while nobody can be heard; it ends when the Node is heard of without it.

use api::{DrainRequest, annotation, condition, reason};
use drain::{DaemonSets, DrainOrder};

use super::agent_state::AgentState;
use crate::notices::moment;
use crate::report::ConditionUpdate;

/// What the request is called among others.
pub(super) const SOURCE: &str = "asked";

/// The requests themselves live in the journal.
#[derive(Debug, Default)]
pub(super) struct DrainRequests {
    /// What is wrong with the request as it was written.
    problem: Option<String>,
}

impl DrainRequests {
    /// Reads the request off our Node, as far as it has been heard.
    pub(super) fn read(&mut self, known: &mut AgentState) {
        let Some(node) = known.node() else {
            return;
        };
        let written = node.metadata.annotations.get(annotation::DRAIN);
        let order = match written.map(|text| DrainRequest::parse(text)).transpose() {
            Ok(request) => {
                self.problem = None;
                request.map(|request| order(known, request))
            }
            // Who has asked in plain words before is not taken to have changed its mind.
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

    /// The condition `kerf.sh/Drained` of a wish that cannot be followed.
    pub(super) fn condition_update(&self) -> Option<ConditionUpdate> {
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

//! Timeline of this node's start as an annotation, for people without access to the instance.

use api::annotation;
use serde_json::json;

use super::agent_state::AgentState;
use super::node_patch::NodePatch;

#[derive(Debug, Default)]
pub(super) struct TimelineMark {
    line: Option<String>,
}

impl TimelineMark {
    pub(super) fn take(&mut self, line: String) {
        self.line = Some(line);
    }

    /// Returns the patch with the annotation. The patch is not urgent, because no decision depends on the timeline.
    pub(super) fn node_patch(&self, known: &AgentState) -> Option<NodePatch> {
        let line = self.line.as_ref()?;
        let stands = known.node()?.metadata.annotations.get(annotation::TIMELINE) == Some(line);
        let patch = || json!({"metadata": {"annotations": {annotation::TIMELINE: line}}});
        (!stands).then(|| NodePatch { patch: patch(), urgent: false })
    }
}

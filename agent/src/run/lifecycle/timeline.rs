//! The timeline of this node's start, as an annotation for those who cannot look at the machine.

use api::annotation;
use serde_json::json;

use super::agent_state::Known;
use super::node_patch::Wish;

#[derive(Debug, Default)]
pub(super) struct Course {
    line: Option<String>,
}

impl Course {
    pub(super) fn take(&mut self, line: String) {
        self.line = Some(line);
    }

    /// It is not urgent: nobody decides by it.
    pub(super) fn wish(&self, known: &Known) -> Option<Wish> {
        let line = self.line.as_ref()?;
        let stands = known.node()?.metadata.annotations.get(annotation::TIMELINE) == Some(line);
        let patch = || json!({"metadata": {"annotations": {annotation::TIMELINE: line}}});
        (!stands).then(|| Wish { patch: patch(), urgent: false })
    }
}

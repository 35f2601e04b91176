//! Auto Scaling group that waits for this instance, and the time at which its lifecycle action is completed.

use drain::Millis;
use machine::agent::notices::LifecycleHook;

use super::agent_state::AgentState;
use crate::notices::ImdsNoticeKind;
use crate::run::ordered_writer::OrderedWriter;

#[derive(Debug, Default)]
pub(super) struct Scaling {
    writer: OrderedWriter,
}

impl Scaling {
    /// Returns the lifecycle hook to complete now: the node is drained, and the completion is not reported yet.
    pub(super) fn completes(
        &mut self,
        known: &AgentState,
        hook: Option<&LifecycleHook>,
        now: Millis,
    ) -> Option<LifecycleHook> {
        let waits = waiting(known)? != known.journal.completed.as_deref().unwrap_or_default();
        let drained = known.journal.outcome.is_some();
        hook.filter(|_| waits && drained && self.writer.take(now)).cloned()
    }

    pub(super) fn completed(&mut self, known: &mut AgentState, done: bool, now: Millis) {
        self.writer.ended(done, now);
        if done {
            known.journal.completed = waiting(known).map(str::to_owned);
            known.dirty = true;
        }
    }

    pub(super) fn poll_timeout(&self, now: Millis) -> Option<Millis> {
        self.writer.opens(now)
    }
}

/// Returns the id of the group's notice.
fn waiting(known: &AgentState) -> Option<&str> {
    let scaling = known.journal.notices.active().find(|entry| entry.notice.kind == ImdsNoticeKind::Scaling);
    scaling.map(|entry| entry.notice.id.as_str())
}

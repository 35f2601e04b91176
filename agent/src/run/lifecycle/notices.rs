//! Notices of EC2 and their consequences for this Node: the drain order, marks, conditions and events, and the later removal of
//! the marks.

use api::{annotation, condition, reason};
use drain::Millis;
use machine::agent::notices::{LifecycleHook, NoticeSettings, Rebalance};

use super::agent_state::AgentState;
use super::node_patch::NodePatch;
use crate::cluster::{ConditionUpdate, Node, NodeEvent};
use crate::notices::{
    ImdsNoticeKind, NoticeAction, NoticeReading, NoticeResponse, NoticeState, NoticeTerms, StoredNotice,
};
use crate::run::journal::{OrderRecord, OwnedMarks};
use crate::run::report::{self, WantedMarks};

/// Evaluation of notices. The notices themselves are in the journal.
#[derive(Debug, Default)]
pub(super) struct Notices {
    settings: NoticeSettings,
}

impl Notices {
    pub(super) fn configure(&mut self, settings: NoticeSettings) {
        self.settings = settings;
    }

    /// Returns the lifecycle hook of the Auto Scaling group, if this agent must complete it.
    pub(super) fn hook(&self) -> Option<&LifecycleHook> {
        self.settings.auto_scaling.complete.as_ref()
    }

    /// Records a reading. Returns whether it contains something new.
    pub(super) fn read(&mut self, known: &mut AgentState, reading: &NoticeReading, now: Millis) -> bool {
        let news = known.journal.notices.read(reading, known.wall, now);
        known.dirty |= news;
        news
    }

    pub(super) fn pass(&mut self, known: &mut AgentState, now: Millis) {
        known.dirty |= known.journal.notices.pass(now);
    }

    pub(super) fn poll_timeout(&self, known: &AgentState, now: Millis) -> Option<Millis> {
        known.journal.notices.changes_at(&self.terms(known), now)
    }

    /// Returns the order that results from the notices; `None` while no notice requires a drain.
    pub(super) fn order(&self, known: &AgentState, now: Millis) -> Option<OrderRecord> {
        let NoticeResponse { demand: NoticeAction::Drain, leading: Some(leading), deadline, forced } =
            self.response(known, now)
        else {
            return None;
        };
        let (reason, why) = wording(&leading.notice.kind);
        Some(OrderRecord { id: leading.notice.id.clone(), reason: reason.to_owned(), why, deadline, forced })
    }

    /// Returns the desired marks of the Node, in addition to those of an order.
    pub(super) fn wanted(&self, known: &AgentState, now: Millis) -> WantedMarks {
        let response = self.response(known, now);
        let is_reported = self.at_risk(known).or_else(|| self.reboot(known, now)).is_some();
        let report = response.demand == NoticeAction::Drain || is_reported;
        WantedMarks { cordon: response.demand >= NoticeAction::Cordon, report, ..WantedMarks::default() }
    }

    pub(super) fn condition_updates(&self, known: &AgentState, now: Millis) -> Vec<ConditionUpdate> {
        let Some(node) = known.node() else {
            return Vec::new();
        };
        self.interrupted(known, node, now).into_iter().chain(self.maintenance(known, node, now)).collect()
    }

    pub(super) fn events(&self, known: &AgentState) -> Vec<NodeEvent> {
        let event = |entry: &StoredNotice| match entry.state {
            NoticeState::Active => Some(NodeEvent::announced(entry, known.wall)),
            // The end of a notice is reported only if the notice was.
            NoticeState::Over if known.journal.published_events.contains(&entry.notice.id) => {
                Some(NodeEvent::over(entry))
            }
            NoticeState::Over | NoticeState::Before => None,
        };
        known.journal.notices.all().filter_map(event).collect()
    }

    /// Returns the condition `kerf.sh/Interrupted`, unless there was never a notice.
    fn interrupted(&self, known: &AgentState, node: &Node, now: Millis) -> Option<ConditionUpdate> {
        let journal = &known.journal;
        if let Some(order) = &journal.order {
            return Some(report::interrupted(order, journal.drain.as_ref(), known.wall));
        }
        if let Some(entry) = self.reboot(known, now) {
            let (reason, why) = wording(&entry.notice.kind);
            return Some(report::cordoned(entry, reason, &why, known.wall));
        }
        if let Some(entry) = self.at_risk(known) {
            return Some(report::at_risk(entry, self.terms(known).rebalance));
        }
        let over = journal.leftover.filter(|left| left.reported && is_true(node, condition::INTERRUPTED));
        over.map(|_| report::interruption_over())
    }

    fn at_risk<'a>(&self, known: &'a AgentState) -> Option<&'a StoredNotice> {
        known.journal.notices.active().find(|entry| entry.notice.kind == ImdsNoticeKind::Rebalance)
    }

    /// Returns the reboot for which the settings ask for a cordon and no drain.
    fn reboot<'a>(&self, known: &'a AgentState, now: Millis) -> Option<&'a StoredNotice> {
        let terms = self.terms(known);
        let mut active = known.journal.notices.active();
        active.find(|entry| entry.notice.kind.is_reboot() && entry.action(&terms, now) == NoticeAction::Cordon)
    }

    /// Returns the condition for the earliest maintenance, until its drain begins.
    fn maintenance(&self, known: &AgentState, node: &Node, now: Millis) -> Option<ConditionUpdate> {
        let terms = self.terms(known);
        let waits = |entry: &&StoredNotice| {
            matches!(entry.notice.kind, ImdsNoticeKind::Maintenance { .. })
                && entry.action(&terms, now) < NoticeAction::Drain
        };
        let next = known.journal.notices.active().filter(waits).min_by_key(|entry| entry.at);
        if next.is_none() && !is_true(node, condition::MAINTENANCE_SCHEDULED) {
            return None;
        }
        Some(report::maintenance(next.map(|entry| (entry, entry.due(&terms))), known.wall))
    }

    fn response<'a>(&self, known: &'a AgentState, now: Millis) -> NoticeResponse<'a> {
        known.journal.notices.response(&self.terms(known), now)
    }

    fn terms<'a>(&'a self, known: &'a AgentState) -> NoticeTerms<'a> {
        let annotation = |key: &str| known.node()?.metadata.annotations.get(key).map(String::as_str);
        let of_pool = annotation(annotation::REBALANCE).and_then(Rebalance::parse);
        NoticeTerms {
            settings: &self.settings,
            rebalance: of_pool.unwrap_or(self.settings.rebalance),
            approved: annotation(annotation::REPLACEMENT_APPROVED),
        }
    }
}

/// Sorts the agent's marks. Marks that are no longer desired become leftovers. Leftovers that are desired again belong to the
/// current interruption.
pub(super) fn sort_marks(known: &mut AgentState, wanted: &WantedMarks) {
    let journal = &mut known.journal;
    let (ours, left) = (journal.ours, journal.leftover.unwrap_or_default());
    let marks = wanted.marks();
    let again = left.without(left.without(marks));
    let over = ours.without(marks);
    let reported = OwnedMarks { reported: wanted.report, ..OwnedMarks::default() };
    journal.ours = ours.without(over).with(again).with(reported);
    let left = left.without(again).with(over);
    if journal.leftover.is_some() || left != OwnedMarks::default() {
        known.dirty |= journal.leftover != Some(left);
        journal.leftover = Some(left);
    }
    known.dirty |= journal.ours != ours;
}

/// Returns the patch that removes leftover marks of this agent.
pub(super) fn undo(known: &AgentState) -> Option<NodePatch> {
    let patch = report::undo_patch(known.node()?, known.journal.leftover?)?;
    Some(NodePatch { patch, urgent: false })
}

/// Clears the leftovers once the Node shows none of them.
pub(super) fn forget_leftover(known: &mut AgentState) {
    let (Some(node), Some(leftover)) = (known.node(), known.journal.leftover) else {
        return;
    };
    let silent = !leftover.reported || !is_true(node, condition::INTERRUPTED);
    if silent && report::undo_patch(node, leftover).is_none() {
        log::info!("removed all traces of the past interruption from the Node");
        known.journal.leftover = None;
        known.dirty = true;
    }
}

fn wording(kind: &ImdsNoticeKind) -> (&'static str, String) {
    match kind {
        ImdsNoticeKind::Spot { action } => (reason::SPOT_INTERRUPTION, format!("spot interruption ({action})")),
        ImdsNoticeKind::Shutdown => (reason::INSTANCE_SHUTDOWN, "the operating system shuts down".to_owned()),
        ImdsNoticeKind::Reboot => (reason::INSTANCE_REBOOT, "the operating system reboots".to_owned()),
        ImdsNoticeKind::Scaling => {
            (reason::ASG_LIFECYCLE, "the Auto Scaling group terminates this instance".to_owned())
        }
        ImdsNoticeKind::Maintenance { code, .. } => {
            let reason = if kind.is_reboot() { reason::INSTANCE_REBOOT } else { reason::SCHEDULED_EVENT };
            (reason, format!("scheduled maintenance {code}"))
        }
        ImdsNoticeKind::Rebalance => {
            (reason::REBALANCE_REPLACEMENT, "rebalance recommendation, replacement approved".to_owned())
        }
    }
}

fn is_true(node: &Node, kind: &str) -> bool {
    node.condition(kind).is_some_and(|it| it.status == condition::TRUE)
}

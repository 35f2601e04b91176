//! Notices of this boot, and the response that follows from them. Pure, with the time as a parameter. The store is one
//! serializable value, so that a journal keeps it over a restart.
//!
//! - Notices with the same content are one notice. A repeated reading changes nothing, except that the end may become earlier.
//! - A spot notice is final. Every other notice may be canceled by its source; a source without a value cancels nothing.
//! - Of several notices, those with the strongest action count. Of these, the most urgent kind ([`ImdsNoticeKind::rank`])
//!   leads, and the nearest of all their ends is the deadline.
//! - Times of EC2 are converted to the agent's own clock once, at the first reading, by the time of EC2's clock in the
//!   response.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use drain::Millis;
use machine::agent::notices::{NoticeSettings, Rebalance};
use serde::{Deserialize, Serialize};

use super::maintenance::{Maintenance, MaintenanceState};
use super::{ImdsNoticeKind, Notice, NoticeReading, NoticeValue};
use crate::host::clock::WallOffset;

/// Time that is assumed to remain when a maintenance window is already open. The machine may stop this very minute; the value
/// is that of a spot notice.
const AT_ONCE: Duration = Duration::from_secs(120);
/// Reserve before the end of logind's delay, after which the shutdown proceeds by itself.
const SHUTDOWN_RESERVE: Duration = Duration::from_secs(1);
/// Time after the end of a hibernation notice at which a running machine counts as resumed.
const AWAKE_AGAIN: Duration = Duration::from_secs(300);
/// Tolerated difference between EC2's clock and ours, because EC2's clock counts whole seconds. With a greater difference EC2's
/// clock takes precedence.
const CLOCKS_AGREE: Duration = Duration::from_secs(2);
/// Earliest valid time of EC2's clock: 2020.
const SANE: Millis = Millis(1_577_836_800_000);
/// Time after which a maintenance that is missing from the list counts as withdrawn. A single list without it may be a faulty
/// response.
const WITHDRAWN_AFTER: Duration = Duration::from_secs(60);
/// Keys of the notices of the operating system, of which at most one is active.
const SHUTDOWN: &str = "shutdown";
const REBOOT: &str = "reboot";
/// Prefix of the keys of maintenance notices.
const MAINTENANCE: &str = "maintenance-";
/// Greatest number of notices, more than any machine receives. The oldest inactive notice is dropped for a new one.
const MOST: usize = 64;

/// All notices of this boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NoticeStore {
    entries: BTreeMap<String, StoredNotice>,
}

/// One notice with its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredNotice {
    /// The notice.
    pub notice: Notice,
    /// Time of the first reading, by our clock.
    pub seen: Millis,
    /// Time of the notice, by our clock.
    pub at: Millis,
    /// State of the notice.
    pub state: NoticeState,
    /// Number of times that the source announced a new notice after a canceled one.
    #[serde(default)]
    round: u32,
    /// Time since which the list lacks the maintenance.
    #[serde(default)]
    missing: Option<Millis>,
}

/// State of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoticeState {
    /// The notice counts.
    Active,
    /// The source canceled the notice, or the event is over.
    Over,
    /// The machine has booted since: a reboot for maintenance is done.
    Before,
}

/// Rules by which notices count.
#[derive(Clone, Copy, Debug)]
pub struct NoticeTerms<'a> {
    /// Settings of the machine.
    pub settings: &'a NoticeSettings,
    /// Action for a rebalance recommendation on this Node.
    pub rebalance: Rebalance,
    /// Id of the rebalance recommendation that the controller has approved.
    pub approved: Option<&'a str>,
}

/// Action that a notice requires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoticeAction {
    /// Only the report.
    #[default]
    Report,
    /// No new pods.
    Cordon,
    /// A drain of the node.
    Drain,
}

/// Response to all notices together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoticeResponse<'a> {
    /// The strongest action that a notice requires.
    pub demand: NoticeAction,
    /// The most urgent notice with this action.
    pub leading: Option<&'a StoredNotice>,
    /// Earliest time at which the machine may be terminated.
    pub deadline: Option<Millis>,
    /// Time by which pods must be gone, regardless of their PodDisruptionBudgets. A shutdown has no such time: kubelet stops
    /// its pods itself within their grace periods.
    pub forced: Option<Millis>,
}

impl NoticeStore {
    /// Records a reading; reports whether anything changed.
    pub fn read(&mut self, reading: &NoticeReading, wall: WallOffset, now: Millis) -> bool {
        let ours = |time| ours(time, reading.date, wall, now);
        match &reading.value {
            NoticeValue::Spot { action, time } => {
                let id = format!("spot-{action}-{}", time.0);
                self.announced("spot", ImdsNoticeKind::Spot { action: action.clone() }, id, *time, ours(*time), now)
            }
            NoticeValue::Rebalance { time } => {
                let id = format!("rebalance-{}", time.0);
                self.announced("rebalance", ImdsNoticeKind::Rebalance, id, *time, ours(*time), now)
            }
            NoticeValue::Maintenance(list) => self.maintenance(list, &ours, now),
            NoticeValue::Scaling(state) => self.scaling(state, now),
            NoticeValue::Shutdown(Some(patience)) => {
                let is_changed = self.over(REBOOT);
                self.going_down(SHUTDOWN, ImdsNoticeKind::Shutdown, *patience, now) || is_changed
            }
            NoticeValue::Reboot(patience) => {
                let is_changed = self.over(SHUTDOWN);
                self.going_down(REBOOT, ImdsNoticeKind::Reboot, *patience, now) || is_changed
            }
            NoticeValue::Shutdown(None) => {
                let is_changed = self.over(REBOOT);
                self.over(SHUTDOWN) || is_changed
            }
        }
    }

    /// Records a shutdown or reboot of the operating system, which waits for the agent.
    fn going_down(&mut self, key: &str, kind: ImdsNoticeKind, patience: Duration, now: Millis) -> bool {
        let end = now + patience.saturating_sub(SHUTDOWN_RESERVE);
        self.announced(key, kind, key.to_owned(), end, end, now)
    }

    /// Ends a hibernation notice after the machine has resumed. No other notice ends by time alone. Reports whether anything
    /// changed.
    pub fn pass(&mut self, now: Millis) -> bool {
        let slept = self.entries.get("spot").and_then(StoredNotice::resumes_at).is_some_and(|at| now >= at);
        slept && self.over("spot")
    }

    /// Returns the response at `now`.
    #[must_use]
    pub fn response(&self, terms: &NoticeTerms<'_>, now: Millis) -> NoticeResponse<'_> {
        let asked = || self.active().map(|entry| (entry.action(terms, now), entry));
        let Some(demand) = asked().map(|(demand, _)| demand).max() else {
            return NoticeResponse::default();
        };
        let strongest = || asked().filter(|(asked, _)| *asked == demand).map(|(_, entry)| entry);
        let leading = strongest().max_by_key(|entry| (entry.notice.kind.rank(), Reverse(entry.at)));
        let drains = || strongest().filter(|_| demand == NoticeAction::Drain);
        let deadline = drains().filter_map(|entry| entry.end(terms)).min();
        let forces = |entry: &&StoredNotice| !entry.is_of_operating_system();
        let forced = drains().filter(forces).filter_map(|entry| entry.end(terms)).min();
        NoticeResponse { demand, leading, deadline, forced }
    }

    /// Returns the next time at which the response changes by itself.
    #[must_use]
    pub fn changes_at(&self, terms: &NoticeTerms<'_>, now: Millis) -> Option<Millis> {
        let changes = self.active().flat_map(|entry| [entry.due(terms), entry.resumes_at()]);
        changes.flatten().filter(|at| *at > now).min()
    }

    /// Returns the active notices, in the order of their keys.
    pub fn active(&self) -> impl Iterator<Item = &StoredNotice> {
        self.entries.values().filter(|entry| entry.state == NoticeState::Active)
    }

    /// Returns all notices, for events.
    pub fn all(&self) -> impl Iterator<Item = &StoredNotice> {
        self.entries.values()
    }

    /// Returns the notices that the next boot needs: a maintenance that required a reboot is done, even while EC2 still lists
    /// it.
    #[must_use]
    pub fn rebooted(mut self) -> Self {
        let is_listed = |entry: &StoredNotice| entry.notice.kind.is_reboot() && !entry.is_of_operating_system();
        self.entries.retain(|_, entry| is_listed(entry) && entry.state != NoticeState::Over);
        self.entries.values_mut().for_each(|entry| entry.state = NoticeState::Before);
        self
    }

    /// Records a notice `id` with its `time` (`at` by our clock). The first reading counts, but the end may become earlier.
    fn announced(
        &mut self,
        key: &str,
        kind: ImdsNoticeKind,
        id: String,
        time: Millis,
        at: Millis,
        now: Millis,
    ) -> bool {
        let Some(entry) = self.entries.get_mut(key) else {
            self.make_room();
            let notice = Notice { kind, id, time };
            self.entries.insert(
                key.to_owned(),
                StoredNotice { notice, seen: now, at, state: NoticeState::Active, round: 0, missing: None },
            );
            return true;
        };
        match entry.state {
            NoticeState::Before => false,
            NoticeState::Active => {
                let sooner = (entry.is_of_operating_system() || matches!(kind, ImdsNoticeKind::Spot { .. }))
                    && time < entry.notice.time
                    && at < entry.at;
                if sooner {
                    (entry.notice.time, entry.at) = (time, at);
                }
                sooner
            }
            NoticeState::Over => {
                let round = entry.round.saturating_add(1);
                let notice = Notice { kind, id: format!("{id}-{round}"), time };
                *entry = StoredNotice { notice, seen: now, at, state: NoticeState::Active, round, missing: None };
                true
            }
        }
    }

    /// Records a list of maintenance. Active entries count; other entries, and those that disappeared from the list, do not.
    fn maintenance(&mut self, list: &[Maintenance], ours: &dyn Fn(Millis) -> Millis, now: Millis) -> bool {
        let mut changed = false;
        for event in agreed(list) {
            let key = format!("{MAINTENANCE}{}", event.event);
            changed |= match event.standing {
                MaintenanceState::Active => self.scheduled(&key, event, ours(event.not_before), now),
                MaintenanceState::Completed | MaintenanceState::Canceled => self.over(&key),
            };
        }
        for (key, entry) in &mut self.entries {
            let Some(event) = key.strip_prefix(MAINTENANCE).filter(|_| entry.state != NoticeState::Over) else {
                continue;
            };
            changed |= entry.listed(list.iter().any(|listed| listed.event == event), now);
        }
        changed
    }

    /// Records an active maintenance. EC2 may move its window in both directions.
    fn scheduled(&mut self, key: &str, event: &Maintenance, at: Millis, now: Millis) -> bool {
        let kind = ImdsNoticeKind::Maintenance { code: event.code.clone(), until: event.not_after };
        let time = event.not_before;
        if self.announced(key, kind.clone(), key.to_owned(), time, at, now) {
            return true;
        }
        let Some(entry) = self.entries.get_mut(key).filter(|entry| entry.state == NoticeState::Active) else {
            return false;
        };
        let moved = entry.notice.time != time || entry.notice.kind != kind;
        if moved {
            (entry.notice.kind, entry.notice.time, entry.at) = (kind, time, at);
        }
        moved
    }

    fn scaling(&mut self, state: &str, now: Millis) -> bool {
        match state {
            "Terminated" | "Warmed:Terminated" => {
                self.announced("scaling", ImdsNoticeKind::Scaling, "scaling".to_owned(), now, now, now)
            }
            // Only states in which the machine remains cancel the notice; an unknown state changes nothing.
            "InService" | "Standby" | "EnteringStandby" | "Detached" => self.over("scaling"),
            _ => false,
        }
    }

    fn over(&mut self, key: &str) -> bool {
        let Some(entry) = self.entries.get_mut(key).filter(|entry| entry.state != NoticeState::Over) else {
            return false;
        };
        entry.state = NoticeState::Over;
        true
    }

    fn make_room(&mut self) {
        if self.entries.len() < MOST {
            return;
        }
        let over = self.entries.iter().filter(|(_, entry)| entry.state != NoticeState::Active);
        let oldest = over.min_by_key(|(_, entry)| entry.seen).map(|(key, _)| key.clone());
        if let Some(key) = oldest {
            self.entries.remove(&key);
        }
    }
}

impl StoredNotice {
    /// Records whether the newest list has the maintenance; reports whether anything changed.
    fn listed(&mut self, there: bool, now: Millis) -> bool {
        if there {
            return self.missing.take().is_some();
        }
        let Some(since) = self.missing else {
            self.missing = Some(now);
            return true;
        };
        let withdrawn = now >= since + WITHDRAWN_AFTER;
        if withdrawn {
            self.state = NoticeState::Over;
        }
        withdrawn
    }

    /// Returns the action that the notice requires at `now`.
    #[must_use]
    pub fn action(&self, terms: &NoticeTerms<'_>, now: Millis) -> NoticeAction {
        let drain_if = |wanted: bool| if wanted { NoticeAction::Drain } else { NoticeAction::Report };
        match &self.notice.kind {
            ImdsNoticeKind::Spot { .. } => NoticeAction::Drain,
            ImdsNoticeKind::Shutdown => drain_if(terms.settings.shutdown.enabled),
            ImdsNoticeKind::Reboot if terms.settings.shutdown.enabled => before_reboot(terms),
            ImdsNoticeKind::Reboot => NoticeAction::Report,
            ImdsNoticeKind::Maintenance { .. } if self.due(terms).is_none_or(|due| now < due) => NoticeAction::Report,
            ImdsNoticeKind::Maintenance { .. } if self.notice.kind.is_reboot() => before_reboot(terms),
            ImdsNoticeKind::Maintenance { .. } => NoticeAction::Drain,
            ImdsNoticeKind::Scaling => drain_if(terms.settings.auto_scaling.enabled),
            ImdsNoticeKind::Rebalance => match terms.rebalance {
                Rebalance::Ignore => NoticeAction::Report,
                Rebalance::Cordon => NoticeAction::Cordon,
                Rebalance::Replace if terms.approved == Some(self.notice.id.as_str()) => NoticeAction::Drain,
                // New pods would have to be evicted again.
                Rebalance::Replace => NoticeAction::Cordon,
            },
        }
    }

    /// Reports whether the operating system announced the notice. kubelet then stops the remaining pods itself.
    #[must_use]
    pub fn is_of_operating_system(&self) -> bool {
        matches!(self.notice.kind, ImdsNoticeKind::Shutdown | ImdsNoticeKind::Reboot)
    }

    /// Returns the time at which a running machine has resumed from an announced hibernation.
    fn resumes_at(&self) -> Option<Millis> {
        let hibernates = matches!(&self.notice.kind, ImdsNoticeKind::Spot { action } if action == "hibernate");
        hibernates.then(|| self.at + AWAKE_AGAIN)
    }

    /// Returns the time from which a maintenance requires a drain.
    #[must_use]
    pub fn due(&self, terms: &NoticeTerms<'_>) -> Option<Millis> {
        let maintenance = &terms.settings.maintenance;
        let counts = matches!(self.notice.kind, ImdsNoticeKind::Maintenance { .. }) && maintenance.enabled;
        counts.then(|| self.at - maintenance.lead.0)
    }

    /// Returns the earliest time at which the machine may be terminated, by our clock.
    #[must_use]
    pub fn end(&self, terms: &NoticeTerms<'_>) -> Option<Millis> {
        match &self.notice.kind {
            ImdsNoticeKind::Spot { .. } | ImdsNoticeKind::Shutdown | ImdsNoticeKind::Reboot => Some(self.at),
            ImdsNoticeKind::Scaling => Some(self.seen + terms.settings.auto_scaling.within.0),
            ImdsNoticeKind::Maintenance { .. } => Some(self.at.max(self.seen + AT_ONCE)),
            ImdsNoticeKind::Rebalance => None,
        }
    }
}

/// Returns the action for a reboot. The cordon keeps pods away that would start only to be stopped again.
fn before_reboot(terms: &NoticeTerms<'_>) -> NoticeAction {
    if terms.settings.reboot.drain { NoticeAction::Drain } else { NoticeAction::Cordon }
}

/// Returns each event once. Of contradictory entries, an inactive one takes precedence, then the earliest one. A list with both
/// would otherwise cancel and announce the event at each reading.
fn agreed(list: &[Maintenance]) -> impl Iterator<Item = &Maintenance> {
    let rank = |it: &Maintenance| (it.standing == MaintenanceState::Active, it.not_before, it.not_after);
    let mut agreed: BTreeMap<&str, &Maintenance> = BTreeMap::new();
    for event in list {
        let known = agreed.entry(&event.event).or_insert(event);
        if rank(event) < rank(known) {
            *known = event;
        }
    }
    agreed.into_values()
}

/// Converts a time of EC2 to our clock. Where EC2's clock differs from the wall clock, the remaining time counts.
fn ours(time: Millis, date: Option<Millis>, wall: WallOffset, now: Millis) -> Millis {
    let shown = wall.wall_time(now);
    let differs = |date: Millis| date.since(shown).max(shown.since(date)) > CLOCKS_AGREE;
    match date.filter(|date| *date >= SANE && differs(*date)) {
        None => wall.ours(time),
        Some(date) => now + time.since(date) - date.since(time),
    }
}

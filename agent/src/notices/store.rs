//! The memory of what was announced, and the stance that follows from it: pure, with the moment as a parameter, and one serialisable
//! value, so that a journal carries it over a restart.
//!
//! - A notice is one as long as its content is; read again it changes nothing, except that its end may come nearer.
//! - A spot notice is final. Everything else may be called off by its source; that a source is silent calls nothing off.
//! - Of several notices the one that asks for most counts, of those the most urgent kind ([`Kind::rank`]) leads, and the nearest of
//!   all their ends is the deadline.
//! - EC2's moments become moments of the agent's own clock once, when they are first read, by what EC2's clock said with them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use drain::Millis;
use machine::agent::notices::{NoticeSettings, Rebalance};
use serde::{Deserialize, Serialize};

use super::maintenance::{Maintenance, MaintenanceState};
use super::{ImdsNoticeKind, Notice, NoticeReading, NoticeValue};
use crate::clock::WallOffset;

/// A window that is open already may mean this very minute: so much is taken all the same, as of a spot notice.
const AT_ONCE: Duration = Duration::from_secs(120);
/// What logind's patience keeps in reserve: it goes on by itself when it runs out.
const SHUTDOWN_RESERVE: Duration = Duration::from_secs(1);
/// So long after its end a machine that was to hibernate, and runs, has come back.
const AWAKE_AGAIN: Duration = Duration::from_secs(300);
/// EC2's clock may differ so much from ours before we believe it more than ours: it counts whole seconds.
const CLOCKS_AGREE: Duration = Duration::from_secs(2);
/// Before this no clock of EC2's is right: 2020.
const SANE: Millis = Millis(1_577_836_800_000);
/// A list that leaves a maintenance out for so long has withdrawn it. One that does so once may be a bad answer.
const WITHDRAWN_AFTER: Duration = Duration::from_secs(60);
/// How the keys of maintenances begin.
const MAINTENANCE: &str = "maintenance-";
/// More notices than any machine gets. The oldest that are over make room.
const MOST: usize = 64;

/// Everything that was announced in this boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NoticeStore {
    entries: BTreeMap<String, StoredNotice>,
}

/// One notice and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredNotice {
    /// What was announced.
    pub notice: Notice,
    /// When it was first read, by our clock.
    pub seen: Millis,
    /// The notice's time by our clock.
    pub at: Millis,
    /// Whether it still counts.
    pub state: NoticeState,
    /// How often its source has begun anew.
    #[serde(default)]
    round: u32,
    /// Since when a list has left it out.
    #[serde(default)]
    missing: Option<Millis>,
}

/// Whether a notice counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoticeState {
    /// It does.
    Active,
    /// Its source called it off, or it is done.
    Over,
    /// The machine has booted since: what was to be done by a reboot is done.
    Before,
}

/// By which rules notices count.
#[derive(Clone, Copy, Debug)]
pub struct NoticeTerms<'a> {
    /// The machine's settings.
    pub settings: &'a NoticeSettings,
    /// What a recommendation does on this Node.
    pub rebalance: Rebalance,
    /// The recommendation to which the controller has said yes, by its id.
    pub approved: Option<&'a str>,
}

/// How much a notice asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoticeAction {
    /// Nothing changes except the report.
    #[default]
    Tell,
    /// No new pods.
    Cordon,
    /// An empty node.
    Drain,
}

/// What follows from all notices together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoticeResponse<'a> {
    /// The most that any of them asks for.
    pub demand: NoticeAction,
    /// The most urgent of those who do.
    pub leading: Option<&'a StoredNotice>,
    /// When the machine may be gone.
    pub deadline: Option<Millis>,
    /// When pods must be gone, whatever their budgets say. A shutdown has none: kubelet stops its pods itself, and gives each its time.
    pub forced: Option<Millis>,
}

impl NoticeStore {
    /// Takes a reading in; whether anything is new.
    pub fn read(&mut self, reading: &NoticeReading, wall: WallOffset, now: Millis) -> bool {
        let ours = |time| ours(time, reading.heard, wall, now);
        match &reading.said {
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
                let end = now + patience.saturating_sub(SHUTDOWN_RESERVE);
                self.announced("shutdown", ImdsNoticeKind::Shutdown, "shutdown".to_owned(), end, end, now)
            }
            NoticeValue::Shutdown(None) => self.over("shutdown"),
        }
    }

    /// Time alone ends one thing: a hibernation out of which the machine has come back.
    pub fn pass(&mut self, now: Millis) -> bool {
        let slept = self.entries.get("spot").is_some_and(|entry| {
            matches!(&entry.notice.kind, ImdsNoticeKind::Spot { action } if action == "hibernate")
                && now >= entry.at + AWAKE_AGAIN
        });
        slept && self.over("spot")
    }

    /// What follows now.
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
        let forces = |entry: &&StoredNotice| entry.notice.kind != ImdsNoticeKind::Shutdown;
        let forced = drains().filter(forces).filter_map(|entry| entry.end(terms)).min();
        NoticeResponse { demand, leading, deadline, forced }
    }

    /// When the stance changes by itself.
    #[must_use]
    pub fn changes_at(&self, terms: &NoticeTerms<'_>, now: Millis) -> Option<Millis> {
        self.active().filter_map(|entry| entry.due(terms)).filter(|at| *at > now).min()
    }

    /// The notices that count, in the order of their keys.
    pub fn active(&self) -> impl Iterator<Item = &StoredNotice> {
        self.entries.values().filter(|entry| entry.state == NoticeState::Active)
    }

    /// All that were read, for events.
    pub fn all(&self) -> impl Iterator<Item = &StoredNotice> {
        self.entries.values()
    }

    /// What the next boot must know: a maintenance that meant a reboot is done, however long EC2 goes on listing it.
    #[must_use]
    pub fn rebooted(mut self) -> Self {
        let meant = |entry: &StoredNotice| match &entry.notice.kind {
            ImdsNoticeKind::Maintenance { code, .. } => code.ends_with("-reboot"),
            _ => false,
        };
        self.entries.retain(|_, entry| meant(entry) && entry.state != NoticeState::Over);
        self.entries.values_mut().for_each(|entry| entry.state = NoticeState::Before);
        self
    }

    /// A source says `id` with `time` (`at` by our clock). The first word counts, but its end may come nearer.
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
                let sooner = matches!(kind, ImdsNoticeKind::Spot { .. } | ImdsNoticeKind::Shutdown)
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

    /// What is listed as active counts, what is listed otherwise or not at all any more does not.
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

    /// EC2 may move the window, either way.
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
            // Only words that say that it stays: what is not known changes nothing.
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
    /// Whether the newest list has it; whether that changes anything.
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

    /// What it asks for at `now`.
    #[must_use]
    pub fn action(&self, terms: &NoticeTerms<'_>, now: Millis) -> NoticeAction {
        let drain_if = |wanted: bool| if wanted { NoticeAction::Drain } else { NoticeAction::Tell };
        match &self.notice.kind {
            ImdsNoticeKind::Spot { .. } => NoticeAction::Drain,
            ImdsNoticeKind::Shutdown => drain_if(terms.settings.shutdown.enabled),
            ImdsNoticeKind::Scaling => drain_if(terms.settings.auto_scaling.enabled),
            ImdsNoticeKind::Maintenance { .. } => drain_if(self.due(terms).is_some_and(|due| now >= due)),
            ImdsNoticeKind::Rebalance => match terms.rebalance {
                Rebalance::Ignore => NoticeAction::Tell,
                Rebalance::Cordon => NoticeAction::Cordon,
                Rebalance::Replace if terms.approved == Some(self.notice.id.as_str()) => NoticeAction::Drain,
                // Pods that came now would have to go again.
                Rebalance::Replace => NoticeAction::Cordon,
            },
        }
    }

    /// From when on a maintenance asks for a drain.
    #[must_use]
    pub fn due(&self, terms: &NoticeTerms<'_>) -> Option<Millis> {
        let maintenance = &terms.settings.maintenance;
        let counts = matches!(self.notice.kind, ImdsNoticeKind::Maintenance { .. }) && maintenance.enabled;
        counts.then(|| self.at - maintenance.lead.0)
    }

    /// When the machine may be gone, by our clock.
    #[must_use]
    pub fn end(&self, terms: &NoticeTerms<'_>) -> Option<Millis> {
        match &self.notice.kind {
            ImdsNoticeKind::Spot { .. } | ImdsNoticeKind::Shutdown => Some(self.at),
            ImdsNoticeKind::Scaling => Some(self.seen + terms.settings.auto_scaling.within.0),
            ImdsNoticeKind::Maintenance { .. } => Some(self.at.max(self.seen + AT_ONCE)),
            ImdsNoticeKind::Rebalance => None,
        }
    }
}

/// Each event once. Of entries that contradict each other the one that is over counts, then the one that comes first: a list that
/// says both would call it off and announce it anew each time it is read.
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

/// EC2's moment by our clock. Where EC2's clock does not agree with the wall's, it is the time that is left which counts.
fn ours(time: Millis, heard: Option<Millis>, wall: WallOffset, now: Millis) -> Millis {
    let shown = wall.wall_time(now);
    let differs = |heard: Millis| heard.since(shown).max(shown.since(heard)) > CLOCKS_AGREE;
    match heard.filter(|heard| *heard >= SANE && differs(*heard)) {
        None => wall.ours(time),
        Some(heard) => now + time.since(heard) - heard.since(time),
    }
}

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

use super::maintenance::{Maintenance, Standing};
use super::{Kind, Notice, Reading, Said};
use crate::clock::Wall;

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
pub struct Ledger {
    entries: BTreeMap<String, Entry>,
}

/// One notice and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What was announced.
    pub notice: Notice,
    /// When it was first read, by our clock.
    pub seen: Millis,
    /// The notice's time by our clock.
    pub at: Millis,
    /// Whether it still counts.
    pub state: State,
    /// How often its source has begun anew.
    #[serde(default)]
    round: u32,
    /// Since when a list has left it out.
    #[serde(default)]
    missing: Option<Millis>,
}

/// Whether a notice counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// It does.
    Active,
    /// Its source called it off, or it is done.
    Over,
    /// The machine has booted since: what was to be done by a reboot is done.
    Before,
}

/// By which rules notices count.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// The machine's settings.
    pub settings: &'a NoticeSettings,
    /// What a recommendation does on this Node.
    pub rebalance: Rebalance,
    /// The recommendation to which the controller has said yes, by its id.
    pub approved: Option<&'a str>,
}

/// How much a notice asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Demand {
    /// Nothing, but that it is told.
    #[default]
    Tell,
    /// No new pods.
    Cordon,
    /// An empty node.
    Drain,
}

/// What follows from all notices together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stance<'a> {
    /// The most that any of them asks for.
    pub demand: Demand,
    /// The most urgent of those who do.
    pub leading: Option<&'a Entry>,
    /// When the machine may be gone.
    pub deadline: Option<Millis>,
    /// When pods must be gone, whatever their budgets say. A shutdown has none: kubelet stops its pods itself, and gives each its time.
    pub forced: Option<Millis>,
}

impl Ledger {
    /// Takes a reading in; whether anything is new.
    pub fn read(&mut self, reading: &Reading, wall: Wall, now: Millis) -> bool {
        let ours = |time| ours(time, reading.heard, wall, now);
        match &reading.said {
            Said::Spot { action, time } => {
                let id = format!("spot-{action}-{}", time.0);
                self.announced("spot", Kind::Spot { action: action.clone() }, id, *time, ours(*time), now)
            }
            Said::Rebalance { time } => {
                let id = format!("rebalance-{}", time.0);
                self.announced("rebalance", Kind::Rebalance, id, *time, ours(*time), now)
            }
            Said::Maintenance(list) => self.maintenance(list, &ours, now),
            Said::Scaling(state) => self.scaling(state, now),
            Said::Shutdown(Some(patience)) => {
                let end = now + patience.saturating_sub(SHUTDOWN_RESERVE);
                self.announced("shutdown", Kind::Shutdown, "shutdown".to_owned(), end, end, now)
            }
            Said::Shutdown(None) => self.over("shutdown"),
        }
    }

    /// Time alone ends one thing: a hibernation out of which the machine has come back.
    pub fn pass(&mut self, now: Millis) -> bool {
        let slept = self.entries.get("spot").is_some_and(|entry| {
            matches!(&entry.notice.kind, Kind::Spot { action } if action == "hibernate")
                && now >= entry.at + AWAKE_AGAIN
        });
        slept && self.over("spot")
    }

    /// What follows now.
    #[must_use]
    pub fn stance(&self, terms: &Terms<'_>, now: Millis) -> Stance<'_> {
        let asked = || self.active().map(|entry| (entry.demand(terms, now), entry));
        let Some(demand) = asked().map(|(demand, _)| demand).max() else {
            return Stance::default();
        };
        let strongest = || asked().filter(|(asked, _)| *asked == demand).map(|(_, entry)| entry);
        let leading = strongest().max_by_key(|entry| (entry.notice.kind.rank(), Reverse(entry.at)));
        let drains = || strongest().filter(|_| demand == Demand::Drain);
        let deadline = drains().filter_map(|entry| entry.end(terms)).min();
        let forces = |entry: &&Entry| entry.notice.kind != Kind::Shutdown;
        let forced = drains().filter(forces).filter_map(|entry| entry.end(terms)).min();
        Stance { demand, leading, deadline, forced }
    }

    /// When the stance changes by itself.
    #[must_use]
    pub fn changes_at(&self, terms: &Terms<'_>, now: Millis) -> Option<Millis> {
        self.active().filter_map(|entry| entry.due(terms)).filter(|at| *at > now).min()
    }

    /// The notices that count, in the order of their keys.
    pub fn active(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values().filter(|entry| entry.state == State::Active)
    }

    /// All that were read, for events.
    pub fn all(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// What the next boot must know: a maintenance that meant a reboot is done, however long EC2 goes on listing it.
    #[must_use]
    pub fn rebooted(mut self) -> Self {
        let meant = |entry: &Entry| match &entry.notice.kind {
            Kind::Maintenance { code, .. } => code.ends_with("-reboot"),
            _ => false,
        };
        self.entries.retain(|_, entry| meant(entry) && entry.state != State::Over);
        self.entries.values_mut().for_each(|entry| entry.state = State::Before);
        self
    }

    /// A source says `id` with `time` (`at` by our clock). The first word counts, but its end may come nearer.
    fn announced(&mut self, key: &str, kind: Kind, id: String, time: Millis, at: Millis, now: Millis) -> bool {
        let Some(entry) = self.entries.get_mut(key) else {
            self.make_room();
            let notice = Notice { kind, id, time };
            self.entries
                .insert(key.to_owned(), Entry { notice, seen: now, at, state: State::Active, round: 0, missing: None });
            return true;
        };
        match entry.state {
            State::Before => false,
            State::Active => {
                let sooner =
                    matches!(kind, Kind::Spot { .. } | Kind::Shutdown) && time < entry.notice.time && at < entry.at;
                if sooner {
                    (entry.notice.time, entry.at) = (time, at);
                }
                sooner
            }
            State::Over => {
                let round = entry.round.saturating_add(1);
                let notice = Notice { kind, id: format!("{id}-{round}"), time };
                *entry = Entry { notice, seen: now, at, state: State::Active, round, missing: None };
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
                Standing::Active => self.scheduled(&key, event, ours(event.not_before), now),
                Standing::Completed | Standing::Canceled => self.over(&key),
            };
        }
        for (key, entry) in &mut self.entries {
            let Some(event) = key.strip_prefix(MAINTENANCE).filter(|_| entry.state != State::Over) else {
                continue;
            };
            changed |= entry.listed(list.iter().any(|listed| listed.event == event), now);
        }
        changed
    }

    /// EC2 may move the window, either way.
    fn scheduled(&mut self, key: &str, event: &Maintenance, at: Millis, now: Millis) -> bool {
        let kind = Kind::Maintenance { code: event.code.clone(), until: event.not_after };
        let time = event.not_before;
        if self.announced(key, kind.clone(), key.to_owned(), time, at, now) {
            return true;
        }
        let Some(entry) = self.entries.get_mut(key).filter(|entry| entry.state == State::Active) else {
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
                self.announced("scaling", Kind::Scaling, "scaling".to_owned(), now, now, now)
            }
            // Only words that say that it stays: what is not known changes nothing.
            "InService" | "Standby" | "EnteringStandby" | "Detached" => self.over("scaling"),
            _ => false,
        }
    }

    fn over(&mut self, key: &str) -> bool {
        let Some(entry) = self.entries.get_mut(key).filter(|entry| entry.state != State::Over) else {
            return false;
        };
        entry.state = State::Over;
        true
    }

    fn make_room(&mut self) {
        if self.entries.len() < MOST {
            return;
        }
        let over = self.entries.iter().filter(|(_, entry)| entry.state != State::Active);
        let oldest = over.min_by_key(|(_, entry)| entry.seen).map(|(key, _)| key.clone());
        if let Some(key) = oldest {
            self.entries.remove(&key);
        }
    }
}

impl Entry {
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
            self.state = State::Over;
        }
        withdrawn
    }

    /// What it asks for at `now`.
    #[must_use]
    pub fn demand(&self, terms: &Terms<'_>, now: Millis) -> Demand {
        let drain_if = |wanted: bool| if wanted { Demand::Drain } else { Demand::Tell };
        match &self.notice.kind {
            Kind::Spot { .. } => Demand::Drain,
            Kind::Shutdown => drain_if(terms.settings.shutdown.enabled),
            Kind::Scaling => drain_if(terms.settings.auto_scaling.enabled),
            Kind::Maintenance { .. } => drain_if(self.due(terms).is_some_and(|due| now >= due)),
            Kind::Rebalance => match terms.rebalance {
                Rebalance::Ignore => Demand::Tell,
                Rebalance::Cordon => Demand::Cordon,
                Rebalance::Replace if terms.approved == Some(self.notice.id.as_str()) => Demand::Drain,
                // Pods that came now would have to go again.
                Rebalance::Replace => Demand::Cordon,
            },
        }
    }

    /// From when on a maintenance asks for a drain.
    #[must_use]
    pub fn due(&self, terms: &Terms<'_>) -> Option<Millis> {
        let maintenance = &terms.settings.maintenance;
        let counts = matches!(self.notice.kind, Kind::Maintenance { .. }) && maintenance.enabled;
        counts.then(|| self.at - maintenance.lead.0)
    }

    /// When the machine may be gone, by our clock.
    #[must_use]
    pub fn end(&self, terms: &Terms<'_>) -> Option<Millis> {
        match &self.notice.kind {
            Kind::Spot { .. } | Kind::Shutdown => Some(self.at),
            Kind::Scaling => Some(self.seen + terms.settings.auto_scaling.within.0),
            Kind::Maintenance { .. } => Some(self.at.max(self.seen + AT_ONCE)),
            Kind::Rebalance => None,
        }
    }
}

/// Each event once. Of entries that contradict each other the one that is over counts, then the one that comes first: a list that
/// says both would call it off and announce it anew each time it is read.
fn agreed(list: &[Maintenance]) -> impl Iterator<Item = &Maintenance> {
    let rank = |it: &Maintenance| (it.standing == Standing::Active, it.not_before, it.not_after);
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
fn ours(time: Millis, heard: Option<Millis>, wall: Wall, now: Millis) -> Millis {
    let shown = wall.wall_time(now);
    let differs = |heard: Millis| heard.since(shown).max(shown.since(heard)) > CLOCKS_AGREE;
    match heard.filter(|heard| *heard >= SANE && differs(*heard)) {
        None => wall.ours(time),
        Some(heard) => now + time.since(heard) - heard.since(time),
    }
}

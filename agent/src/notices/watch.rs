//! Asking the metadata service, for as long as the machine lives: what it says becomes a [`Reading`], that it fails becomes a [`Reach`].
//! Nothing (404) means nothing, an error means try again, and nothing here ends because of an answer.

use std::sync::Arc;
use std::time::Duration;

use drain::Millis;
use jiff::Timestamp;
use machine::document::read_json;
use serde::Deserialize;
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, sleep_until};

use super::{NoticeReading, NoticeValue, moment, parse_maintenance};
use crate::imds::backoff::fraction;
use crate::imds::{Imds, ImdsError};

/// How often a spot machine asks for its end: it has two minutes, so each second counts.
const SPOT_EVERY: Duration = Duration::from_millis(960);
/// How often everything else is asked for: with each fifth of those questions, so that the machine wakes once for both.
const REST_EVERY: Duration = SPOT_EVERY.saturating_mul(5);
/// That metadata answers is reported again only after this long: it is no news, and each piece of news wakes the whole agent.
const QUIET: Duration = Duration::from_secs(4);
/// Longer words are no state of an Auto Scaling group.
const WORD: usize = 64;

/// What a watcher has to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchUpdate {
    /// A source said something.
    Said(NoticeReading),
    /// How metadata answers this watcher; reported with each turn that brought trouble or its end, else every few seconds.
    Reach(Reachability),
}

/// Whether metadata answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reachability {
    /// Whose questions: the interruption is asked for over a connection of its own.
    pub watcher: Watcher,
    /// Questions of the last turn that had no answer.
    pub failed: u32,
    /// Why the last one had none.
    pub problem: Option<String>,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watcher {
    /// For the spot interruption.
    Spot,
    /// For everything else.
    Rest,
}

/// What is asked for, and how its answer reads.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    path: &'static str,
    expected: &'static str,
    read: fn(&[u8]) -> Option<NoticeValue>,
}

impl Item {
    /// All that is watched.
    pub const ALL: [Self; 4] = [SPOT, REBALANCE, MAINTENANCE, SCALING];

    /// What `body` says; `None` when it is not what was asked for.
    #[must_use]
    pub fn read(&self, body: &[u8]) -> Option<NoticeValue> {
        (self.read)(body)
    }
}

const SPOT: Item = Item { path: "meta-data/spot/instance-action", expected: "an instance action", read: spot };
const REBALANCE: Item = Item {
    path: "meta-data/events/recommendations/rebalance",
    expected: "a rebalance recommendation",
    read: rebalance,
};
const MAINTENANCE: Item = Item {
    path: "meta-data/events/maintenance/scheduled",
    expected: "a list of scheduled maintenance",
    read: |body| parse_maintenance(body).ok().map(NoticeValue::Maintenance),
};
const SCALING: Item =
    Item { path: "meta-data/autoscaling/target-lifecycle-state", expected: "a lifecycle state", read: scaling };

fn spot(body: &[u8]) -> Option<NoticeValue> {
    #[derive(Deserialize)]
    struct InstanceAction {
        action: String,
        time: Timestamp,
    }
    let InstanceAction { action, time } = read_json(body).ok()?;
    let named = matches!(action.as_str(), "terminate" | "stop" | "hibernate");
    named.then(|| NoticeValue::Spot { action, time: moment(time) })
}

fn rebalance(body: &[u8]) -> Option<NoticeValue> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Rebalance {
        notice_time: Timestamp,
    }
    let read: Rebalance = read_json(body).ok()?;
    Some(NoticeValue::Rebalance { time: moment(read.notice_time) })
}

fn scaling(body: &[u8]) -> Option<NoticeValue> {
    let word = std::str::from_utf8(body).ok()?.trim();
    let plain = !word.is_empty() && word.len() <= WORD && word.chars().all(|it| it.is_ascii_alphabetic() || it == ':');
    plain.then(|| NoticeValue::Scaling(word.to_owned()))
}

/// The moments of one rhythm: all questions of a machine have their turns on one grid.
#[derive(Clone, Copy, Debug)]
struct PollInterval {
    origin: Instant,
    every: Duration,
}

impl PollInterval {
    /// The next moment behind `now`; a turn that took too long skips some.
    fn next(self, now: Instant) -> Instant {
        let passed = now.saturating_duration_since(self.origin).as_micros() / self.every.as_micros().max(1);
        self.origin + self.every.saturating_mul(u32::try_from(passed).unwrap_or(u32::MAX).saturating_add(1))
    }
}

/// Watches until nobody listens any more. Ends early only for the spot watcher, on a machine that is known not to be spot. The seed
/// says where in the rhythm this machine begins: those that booted together ask apart.
pub async fn watch(imds: Arc<Imds>, told: Sender<WatchUpdate>, seed: u64) {
    let origin = Instant::now() + SPOT_EVERY.mul_f64(fraction(seed));
    let origin = origin.checked_sub(SPOT_EVERY).unwrap_or(origin);
    let spot = watch_spot(imds.twin(), told.clone(), PollInterval { origin, every: SPOT_EVERY });
    let rhythm = PollInterval { origin, every: REST_EVERY };
    let rest = watch_items(&imds, &told, Watcher::Rest, rhythm, &[REBALANCE, MAINTENANCE, SCALING]);
    tokio::join!(spot, rest);
}

async fn watch_spot(imds: Imds, told: Sender<WatchUpdate>, rhythm: PollInterval) {
    let kind = tokio::select! {
        kind = kind_of_machine(&imds, &told) => kind,
        () = watch_items(&imds, &told, Watcher::Spot, rhythm, &[SPOT]) => return,
    };
    if kind == api::label::CAPACITY_SPOT {
        watch_items(&imds, &told, Watcher::Spot, rhythm, &[SPOT]).await;
    } else {
        log::info!(kind = kind.as_str(); "not a spot instance: no spot interruption notices");
        drop(told.send(WatchUpdate::Reach(Reachability { watcher: Watcher::Spot, failed: 0, problem: None })).await);
    }
}

/// Asked until metadata says it; an unknown machine counts as spot meanwhile.
async fn kind_of_machine(imds: &Imds, told: &Sender<WatchUpdate>) -> String {
    loop {
        match imds.instance_life_cycle().await {
            Ok(kind) => return kind,
            Err(error) => {
                log::debug!(error = daemon::error::chain(&error).as_str(); "the instance life cycle is unknown")
            }
        }
        if told.is_closed() {
            return String::new();
        }
        sleep_until(Instant::now() + REST_EVERY).await;
    }
}

async fn watch_items(imds: &Imds, told: &Sender<WatchUpdate>, watcher: Watcher, rhythm: PollInterval, items: &[Item]) {
    let mut well: Option<Instant> = None;
    while !told.is_closed() {
        let mut reach = Reachability { watcher, failed: 0, problem: None };
        for item in items {
            match ask(imds, item).await {
                // Nobody listening is found out by the loop.
                Ok(Some(reading)) => drop(told.send(WatchUpdate::Said(reading)).await),
                Ok(None) => {}
                Err(error) => {
                    reach.failed += 1;
                    reach.problem = Some(daemon::error::chain(&error));
                }
            }
        }
        if reach.problem.is_some() || well.is_none_or(|at| at.elapsed() >= QUIET) {
            well = reach.problem.is_none().then(Instant::now);
            drop(told.send(WatchUpdate::Reach(reach)).await);
        }
        sleep_until(rhythm.next(Instant::now())).await;
    }
}

async fn ask(imds: &Imds, item: &Item) -> Result<Option<NoticeReading>, ImdsError> {
    let answer = imds.ask(item.path).await?;
    let Some(body) = answer.body else {
        return Ok(None);
    };
    let said = item.read(&body);
    let said = said.ok_or_else(|| ImdsError::Content { path: item.path.to_owned(), expected: item.expected })?;
    let heard: Option<Millis> = answer.date.map(moment);
    Ok(Some(NoticeReading { said, heard }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_lie_on_one_grid_and_late_ones_are_skipped() {
        let origin = Instant::now();
        let at = |millis: u64| origin + Duration::from_millis(millis);
        let (spot, rest) = (PollInterval { origin, every: SPOT_EVERY }, PollInterval { origin, every: REST_EVERY });
        for (now, next) in [(0, 960), (959, 960), (960, 1920), (4000, 4800), (4800, 5760)] {
            assert_eq!(spot.next(at(now)), at(next), "{now}");
        }
        assert_eq!((rest.next(at(1)), rest.next(at(4800))), (at(4800), at(9600)));
        assert!(SPOT_EVERY <= Duration::from_secs(1) && REST_EVERY <= Duration::from_secs(5));
    }
}

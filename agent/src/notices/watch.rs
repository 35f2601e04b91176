//! Watch of the instance metadata service for the whole life of the machine. A response becomes a [`NoticeReading`], a failure
//! becomes a [`Reachability`]. A 404 means no notice, an error means a retry, and no response ends the watch.

use std::sync::Arc;
use std::time::Duration;

use drain::Millis;
use jiff::Timestamp;
use machine::document::read_json;
use serde::Deserialize;
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, sleep_until};

use super::{NoticeReading, NoticeValue, moment, parse_maintenance};
use crate::aws::imds::backoff::fraction;
use crate::aws::imds::{Imds, ImdsError};

/// Interval for the spot interruption: its notice comes two minutes ahead, so each second counts.
const SPOT_EVERY: Duration = Duration::from_millis(960);
/// Interval for all other items: every fifth request for the spot interruption, so that the machine wakes once for both.
const REST_EVERY: Duration = SPOT_EVERY.saturating_mul(5);
/// Least interval between reports that IMDS responds. Such a report contains no change, and each one wakes the whole agent.
const QUIET: Duration = Duration::from_secs(4);
/// Greatest length of a state of an Auto Scaling group, in bytes.
const WORD: usize = 64;

/// Update of a watcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchUpdate {
    /// A source has a value.
    Reading(NoticeReading),
    /// The reachability of IMDS for this watcher. Reported after each round with failures or with their end, else every few
    /// seconds.
    Reach(Reachability),
}

/// Reachability of IMDS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reachability {
    /// The watcher: requests for the interruption use a connection of their own.
    pub watcher: Watcher,
    /// Failed requests in the last round.
    pub failed: u32,
    /// Error of the last failed request.
    pub problem: Option<String>,
}

/// Watcher of IMDS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watcher {
    /// Watcher of the spot interruption.
    Spot,
    /// Watcher of all other items.
    Rest,
}

/// Item of IMDS, with the parser of its response.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    path: &'static str,
    expected: &'static str,
    read: fn(&[u8]) -> Option<NoticeValue>,
}

impl Item {
    /// All watched items.
    pub const ALL: [Self; 4] = [SPOT, REBALANCE, MAINTENANCE, SCALING];

    /// Parses `body`; `None` when its content is not the item's.
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

/// Interval of requests: all requests of a machine are on one time grid.
#[derive(Clone, Copy, Debug)]
struct PollInterval {
    origin: Instant,
    every: Duration,
}

impl PollInterval {
    /// Returns the next time on the grid after `now`; a round that took too long skips some.
    fn next(self, now: Instant) -> Instant {
        let passed = now.saturating_duration_since(self.origin).as_micros() / self.every.as_micros().max(1);
        self.origin + self.every.saturating_mul(u32::try_from(passed).unwrap_or(u32::MAX).saturating_add(1))
    }
}

/// Watches until the receiver is closed. The spot watcher alone ends early, on a machine that is known not to be spot. The seed
/// sets the machine's offset on the grid, so that machines that boot together send requests at different times.
pub async fn watch(imds: Arc<Imds>, updates: Sender<WatchUpdate>, seed: u64) {
    let origin = Instant::now() + SPOT_EVERY.mul_f64(fraction(seed));
    let origin = origin.checked_sub(SPOT_EVERY).unwrap_or(origin);
    let spot = watch_spot(imds.twin(), updates.clone(), PollInterval { origin, every: SPOT_EVERY });
    let rhythm = PollInterval { origin, every: REST_EVERY };
    let rest = watch_items(&imds, &updates, Watcher::Rest, rhythm, &[REBALANCE, MAINTENANCE, SCALING]);
    tokio::join!(spot, rest);
}

async fn watch_spot(imds: Imds, updates: Sender<WatchUpdate>, rhythm: PollInterval) {
    let kind = tokio::select! {
        kind = kind_of_machine(&imds, &updates) => kind,
        () = watch_items(&imds, &updates, Watcher::Spot, rhythm, &[SPOT]) => return,
    };
    if kind == api::label::CAPACITY_SPOT {
        watch_items(&imds, &updates, Watcher::Spot, rhythm, &[SPOT]).await;
    } else {
        log::info!(kind = kind.as_str(); "not a spot instance: no spot interruption notices");
        drop(updates.send(WatchUpdate::Reach(Reachability { watcher: Watcher::Spot, failed: 0, problem: None })).await);
    }
}

/// Requests the instance life cycle until IMDS returns it; until then the machine counts as spot.
async fn kind_of_machine(imds: &Imds, updates: &Sender<WatchUpdate>) -> String {
    loop {
        match imds.instance_life_cycle().await {
            Ok(kind) => return kind,
            Err(error) => {
                log::debug!(error = daemon::error::chain(&error).as_str(); "the instance life cycle is unknown")
            }
        }
        if updates.is_closed() {
            return String::new();
        }
        sleep_until(Instant::now() + REST_EVERY).await;
    }
}

async fn watch_items(
    imds: &Imds,
    updates: &Sender<WatchUpdate>,
    watcher: Watcher,
    rhythm: PollInterval,
    items: &[Item],
) {
    let mut well: Option<Instant> = None;
    while !updates.is_closed() {
        let mut reach = Reachability { watcher, failed: 0, problem: None };
        for item in items {
            match ask(imds, item).await {
                // The loop detects a closed receiver.
                Ok(Some(reading)) => drop(updates.send(WatchUpdate::Reading(reading)).await),
                Ok(None) => {}
                Err(error) => {
                    reach.failed += 1;
                    reach.problem = Some(daemon::error::chain(&error));
                }
            }
        }
        if reach.problem.is_some() || well.is_none_or(|at| at.elapsed() >= QUIET) {
            well = reach.problem.is_none().then(Instant::now);
            drop(updates.send(WatchUpdate::Reach(reach)).await);
        }
        sleep_until(rhythm.next(Instant::now())).await;
    }
}

async fn ask(imds: &Imds, item: &Item) -> Result<Option<NoticeReading>, ImdsError> {
    let answer = imds.ask(item.path).await?;
    let Some(body) = answer.body else {
        return Ok(None);
    };
    let value = item.read(&body);
    let value = value.ok_or_else(|| ImdsError::Content { path: item.path.to_owned(), expected: item.expected })?;
    let date: Option<Millis> = answer.date.map(moment);
    Ok(Some(NoticeReading { value, date }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poll_interval_skips_times_when_a_round_is_late() {
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

//! Watching for the end: spot notices and rebalance recommendations out of the instance metadata. Nothing (404) means nothing, an error
//! means try again, and what was seen once is final: no later answer takes it back.

use std::sync::Arc;
use std::time::Duration;

use drain::Millis;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, sleep_until};

use crate::imds::{Imds, ImdsError, InstanceAction, Rebalance};

/// How often each is asked for: a spot notice leaves two minutes, so seconds count.
const SPOT_EVERY: Duration = Duration::from_secs(2);
const REBALANCE_EVERY: Duration = Duration::from_secs(5);

/// What EC2 has announced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// Of which kind.
    pub kind: Kind,
    /// For a spot notice the deadline, for a recommendation when it was given.
    pub time: Millis,
    /// Its identity, which outlives a deadline that moves.
    pub id: String,
}

/// Kinds of announcements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// The spot instance is taken back at the notice's time.
    Spot {
        /// `terminate`, `stop` or `hibernate`.
        action: String,
    },
    /// The spot instance is at elevated risk.
    Rebalance,
}

impl Notice {
    /// A notice; its identity follows from its content: the same notice, read twice, is one.
    #[must_use]
    pub fn new(kind: Kind, time: Millis) -> Self {
        let id = match &kind {
            Kind::Spot { action } => format!("spot-{action}-{}", time.0),
            Kind::Rebalance => format!("rebalance-{}", time.0),
        };
        Self { kind, time, id }
    }
}

impl From<InstanceAction> for Notice {
    fn from(said: InstanceAction) -> Self {
        Self::new(Kind::Spot { action: said.action }, moment(said.time))
    }
}

impl From<Rebalance> for Notice {
    fn from(said: Rebalance) -> Self {
        Self::new(Kind::Rebalance, moment(said.notice_time))
    }
}

/// A timestamp as a drain's moment; before 1970 is 1970.
#[must_use]
pub fn moment(time: Timestamp) -> Millis {
    Millis(u64::try_from(time.as_millisecond()).unwrap_or(0))
}

/// Asks for notices until nobody listens any more; each is told whenever it is read. On a machine that is known not to be spot it ends.
pub async fn watch(imds: Arc<Imds>, told: Sender<Notice>) {
    let mut trouble = Trouble::default();
    let mut known = false;
    let (mut spot, mut rebalance) = (Instant::now(), Instant::now());
    while !told.is_closed() {
        if !known && let Some(kind) = trouble.sift(imds.instance_life_cycle().await.map(Some)) {
            known = true;
            if kind != api::label::CAPACITY_SPOT {
                log::info!(kind = kind.as_str(); "not a spot instance: there are no notices to watch for");
                return;
            }
        }
        if spot <= Instant::now() {
            tell(&told, trouble.sift(imds.instance_action().await)).await;
            spot = Instant::now() + SPOT_EVERY;
        }
        if rebalance <= Instant::now() {
            tell(&told, trouble.sift(imds.rebalance().await)).await;
            rebalance = Instant::now() + REBALANCE_EVERY;
        }
        sleep_until(spot.min(rebalance)).await;
    }
}

async fn tell(told: &Sender<Notice>, said: Option<impl Into<Notice>>) {
    if let Some(said) = said {
        // Nobody listening is found out by the loop.
        drop(told.send(said.into()).await);
    }
}

/// Says once that metadata fails and once that it is back, not every two seconds.
#[derive(Default)]
struct Trouble {
    said: Option<String>,
}

impl Trouble {
    fn sift<T>(&mut self, read: Result<Option<T>, ImdsError>) -> Option<T> {
        let problem = read.as_ref().err().map(|error| daemon::error::chain(error));
        if problem != self.said {
            match &problem {
                Some(problem) => log::warn!("cannot watch for notices: {problem}"),
                None => log::info!("watching for notices again"),
            }
            self.said = problem;
        }
        read.ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_its_content() {
        let time: Timestamp = "2017-09-18T08:22:00Z".parse().unwrap_or_default();
        let notice = Notice::from(InstanceAction { action: "terminate".into(), time });
        assert_eq!(notice.time, Millis(1_505_722_920_000));
        assert_eq!(notice.id, "spot-terminate-1505722920000");
        let rebalance = Notice::from(Rebalance { notice_time: time });
        assert_eq!(rebalance.id, "rebalance-1505722920000");
    }
}

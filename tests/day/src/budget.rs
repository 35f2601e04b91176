//! Budgets of pools twice over: in Karpenter's words for the pools, as plain arithmetic for the judge, who asks nobody that decides.

use planner::CommandReason;
use serde_json::{Value, json};

use crate::clock::{HOUR, MINUTE, Moment, START};

/// How many nodes of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// So many nodes.
    Nodes(usize),
    /// So many percent of the initialized nodes, rounded up.
    Percent(usize),
}

/// The same minutes of every hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Minute of the hour, UTC, at which it opens.
    pub opens: i64,
    /// For how many minutes it is open, within the hour.
    pub lasts: i64,
}

/// One of a pool's budgets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// How many nodes may be disturbed at a time.
    pub nodes: Allowed,
    /// For which reasons; where none is named for all, those included that no budget can name.
    pub reasons: Vec<CommandReason>,
    /// When it counts; always without one.
    pub window: Option<Window>,
}

impl Allowed {
    fn of(self, all: usize) -> usize {
        match self {
            Self::Nodes(most) => most,
            Self::Percent(percent) => (all * percent).div_ceil(100),
        }
    }
}

impl Window {
    fn is_open(self, now: Moment) -> bool {
        let into = (now - START).rem_euclid(HOUR) - self.opens * MINUTE;
        (0..self.lasts * MINUTE).contains(&into)
    }
}

impl Budget {
    /// For all reasons and at all times.
    #[must_use]
    pub fn always(nodes: Allowed) -> Self {
        Self { nodes, reasons: Vec::new(), window: None }
    }

    /// As the pool says it.
    #[must_use]
    pub fn words(&self) -> Value {
        let nodes = match self.nodes {
            Allowed::Nodes(nodes) => nodes.to_string(),
            Allowed::Percent(percent) => format!("{percent}%"),
        };
        let mut words = json!({"nodes": nodes});
        if !self.reasons.is_empty() {
            words["reasons"] = self.reasons.iter().map(|reason| reason.as_str()).collect();
        }
        if let Some(window) = self.window {
            words["schedule"] = format!("{} * * * *", window.opens).into();
            words["duration"] = format!("{}m", window.lasts).into();
        }
        words
    }

    /// Whether it is for nodes that go for this reason, as their claims say it.
    #[must_use]
    pub fn concerns(&self, reason: &str) -> bool {
        self.reasons.is_empty() || self.reasons.iter().any(|named| named.as_str() == reason)
    }

    /// How many of so many nodes it lets be disturbed at a moment; `None` while it does not count.
    #[must_use]
    pub fn allows(&self, all: usize, now: Moment) -> Option<usize> {
        self.window.is_none_or(|window| window.is_open(now)).then(|| self.nodes.of(all))
    }
}

//! Disruption budgets in two forms: the API's form for NodePools, and plain arithmetic for the checker, which shares no code
//! with the planner.

use planner::CommandReason;
use serde_json::{Value, json};

use crate::clock::{HOUR, MINUTE, Moment, START};

/// Number of nodes that a budget allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// Number of nodes.
    Nodes(usize),
    /// Percentage of the initialized nodes, rounded up.
    Percent(usize),
}

/// Window in the same minutes of every hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Minute of the hour, UTC, at which the window opens.
    pub opens: i64,
    /// Length of the window in minutes, within the hour.
    pub lasts: i64,
}

/// One budget of a NodePool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Number of nodes that may be disrupted at the same time.
    pub nodes: Allowed,
    /// Reasons for which the budget counts. An empty list means all reasons, including those that a budget cannot name.
    pub reasons: Vec<CommandReason>,
    /// Window in which the budget counts; `None` means always.
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
    /// Creates a budget for all reasons and at all times.
    #[must_use]
    pub fn always(nodes: Allowed) -> Self {
        Self { nodes, reasons: Vec::new(), window: None }
    }

    /// Returns the budget as it stands in the NodePool.
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

    /// Reports whether the budget counts for a reason, given as in the NodeClaim.
    #[must_use]
    pub fn concerns(&self, reason: &str) -> bool {
        self.reasons.is_empty() || self.reasons.iter().any(|named| named.as_str() == reason)
    }

    /// Returns how many of `all` nodes may be disrupted at a moment, or `None` outside the window.
    #[must_use]
    pub fn allows(&self, all: usize, now: Moment) -> Option<usize> {
        self.window.is_none_or(|window| window.is_open(now)).then(|| self.nodes.of(all))
    }

    /// Returns how many of `all` nodes may be disrupted by a change that was made after `since` and seen at `now`. The result is
    /// `None` if the window was closed for a part of that time.
    #[must_use]
    pub fn allows_between(&self, all: usize, since: Moment, now: Moment) -> Option<usize> {
        self.allows(all, since).and(self.allows(all, now))
    }
}

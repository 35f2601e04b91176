//! Hold of a drain while the other drain owner may still send requests.

use serde::{Deserialize, Serialize};

use crate::moment::Millis;

/// Hold on all requests. A journal has `true` for the hold of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "bool", into = "bool")]
pub(super) enum Hold {
    /// Requests are sent.
    #[default]
    Released,
    /// Hold of an agent, until it has read the Node without a mark of the controller.
    Agent,
    /// Hold of a controller, until no request of the agent can arrive any more. A controller keeps no state over a restart.
    Controller(Millis),
}

impl Hold {
    pub(super) fn is_active(self, now: Millis) -> bool {
        match self {
            Self::Released => false,
            Self::Agent => true,
            Self::Controller(until) => now < until,
        }
    }

    /// Returns the end of the hold, if it has one.
    pub(super) fn until(self) -> Option<Millis> {
        match self {
            Self::Controller(until) => Some(until),
            Self::Released | Self::Agent => None,
        }
    }
}

impl From<bool> for Hold {
    fn from(held: bool) -> Self {
        if held { Self::Agent } else { Self::Released }
    }
}

impl From<Hold> for bool {
    fn from(hold: Hold) -> Self {
        hold == Hold::Agent
    }
}

//! How the node is emptied: what is kept back of the time that there is, and what happens to pods that ask for care.

use serde::{Deserialize, Serialize};

use super::span::Span;

/// The most requests at once.
const MOST_ABREAST: u8 = 64;

/// The rules of every drain of this machine, whoever wants it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DrainSettings {
    /// From the moment at which load balancers are asked to leave the node out to the first eviction. It is paid from the time that
    /// there is: a pod waits for at most a quarter of what it can spare.
    pub load_balancer_lead: Span,
    /// What is kept back before the deadline: pods should be gone by then, volumes unmounted and last reports sent after it.
    pub margin: Span,
    /// A pod whose grace period is longer than the time that there is gets what is left at once; if its budget holds it, it is deleted
    /// this long before the margin begins.
    pub least_grace: Span,
    /// Pods whose annotation `karpenter.sh/do-not-disrupt` holds.
    pub do_not_disrupt: Care,
    /// Pods without a controller, which nobody makes anew.
    pub bare_pods: Care,
    /// Evictions out at the same time.
    pub abreast: Abreast,
    /// For so long, and not past the deadline, an empty node waits for its volumes to detach before it calls itself drained.
    pub detach_volumes: Span,
}

impl Default for DrainSettings {
    fn default() -> Self {
        Self {
            load_balancer_lead: Span::seconds(10),
            margin: Span::seconds(10),
            least_grace: Span::seconds(30),
            do_not_disrupt: Care::Hold,
            bare_pods: Care::Evict,
            abreast: Abreast(16),
            detach_volumes: Span::seconds(60),
        }
    }
}

/// What happens to pods that ask for care.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Care {
    /// They are evicted like any other.
    Evict,
    /// They stay until the last moment that leaves them their grace period, and are deleted then; without a deadline they stay.
    Hold,
    /// They are never asked: the machine takes them with it.
    Leave,
}

/// From 1 to 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Abreast(pub u8);

impl TryFrom<u8> for Abreast {
    type Error = String;

    fn try_from(number: u8) -> Result<Self, String> {
        let fits = (1..=MOST_ABREAST).contains(&number);
        if fits {
            Ok(Self(number))
        } else {
            Err(format!("{number} concurrent requests are not allowed; write 1 to {MOST_ABREAST}"))
        }
    }
}

impl From<Abreast> for u8 {
    fn from(abreast: Abreast) -> Self {
        abreast.0
    }
}

//! Settings of drains: the reserve before the deadline, and the treatment of protected pods.

use serde::{Deserialize, Serialize};

use super::span::Span;

/// Maximum number of concurrent requests.
const MOST_ABREAST: u8 = 64;

/// Rules of every drain of this instance, for any requester.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DrainSettings {
    /// Delay between the request to remove the node from load balancers and the first eviction. The delay counts toward the
    /// time until the deadline: a pod waits for at most a quarter of its spare time.
    pub load_balancer_lead: Span,
    /// Reserve before the deadline: pods should be gone when it begins. Volumes are unmounted and last reports are sent within
    /// it.
    pub margin: Span,
    /// Limit for pods whose grace period is longer than the time left. Such a pod is evicted immediately with the time left as
    /// its grace period. A pod that its budget still blocks is deleted this long before the margin begins.
    pub least_grace: Span,
    /// Treatment of pods whose annotation `karpenter.sh/do-not-disrupt` is in effect.
    pub do_not_disrupt: Care,
    /// Treatment of pods without a controller, which are not recreated.
    pub bare_pods: Care,
    /// Maximum number of concurrent evictions.
    pub abreast: Abreast,
    /// Maximum time, not past the deadline, for which an empty node waits until its volumes detach, before it reports that it
    /// is drained.
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

/// Treatment of protected pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Care {
    /// Protected pods are evicted like other pods.
    Evict,
    /// Protected pods remain until the last time that leaves them their grace period, and are then deleted. Without a deadline
    /// they remain.
    Hold,
    /// Protected pods are never evicted; they end with the instance.
    Leave,
}

/// Number of concurrent requests, from 1 to 64.
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

//! Permissions that the chart grants only on request. Without them the controller acts as without the feature, and
//! reports NodePools that do.

use api::objects::PoolSurge;
use api::{NodePool, nodepool::Utilization};

/// Optional permissions of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// True if the controller may patch pods and pods/resize, to lower requests.
    pub packing: bool,
    /// True if the controller may patch pods, to start a copy before an eviction.
    pub surge: bool,
}

impl Default for Permissions {
    fn default() -> Self {
        Self { packing: true, surge: true }
    }
}

impl Permissions {
    /// Returns one sentence for each annotation of the NodePool that needs a missing permission.
    pub fn missing(self, pool: &NodePool) -> impl Iterator<Item = &'static str> {
        let packs = pool.utilization() == Ok(Utilization::Pack) && !self.packing;
        let surges = pool.surges() == Ok(PoolSurge::Single) && !self.surge;
        let packing = "annotation kerf.sh/utilization: pack only observes, because the controller may not patch pods and \
                       pods/resize: set kerf.packing.enabled=true in the values of the chart, or write observe";
        let surge = "annotation kerf.sh/surge has no effect, because the controller may not patch pods: set \
                     kerf.surge.enabled=true in the values of the chart, or remove the annotation";
        packs.then_some(packing).into_iter().chain(surges.then_some(surge))
    }
}

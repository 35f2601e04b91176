//! State that provisioning and the reconcilers share.

use std::sync::Arc;

use daemon::metric::Metrics;

use crate::capacity::offerings::Offerings;
use crate::informer::interruption::Notices;
use crate::state::cluster::Cluster;
use crate::state::nominations::SharedNominations;
use crate::state::plans::results::PlanResultStore;

/// References to the state of the controller.
#[derive(Clone)]
pub struct Shared {
    /// The index, the work queue and the clock.
    pub cluster: Arc<Cluster>,
    /// Instance types, offerings and resolved EC2NodeClasses.
    pub offerings: Arc<Offerings>,
    /// Counters and gauges.
    pub metrics: Arc<Metrics>,
    /// Results of the last plan for NodeOverlays and CapacityBuffers.
    pub plan_results: Arc<PlanResultStore>,
    /// Notices of EC2 for NodeClaims.
    pub notices: Arc<Notices>,
    /// Nominations of pods to nodes.
    pub nominations: SharedNominations,
}

//! Dry run of the calls of a launch, before any launch needs them. Missing IAM permissions are reported on the EC2NodeClass.

use api::NodePool;
use cloud::launch::LaunchRequest;
use cloud::nodeclass::Resolution;

use super::NodeClassView;
use crate::capacity::offerings::Offerings;

/// Asks AWS from time to time whether a launch from the EC2NodeClass is permitted. A missing answer changes nothing.
pub(super) async fn rehearse(view: &NodeClassView, offerings: &Offerings, resolution: &mut Resolution) {
    if offerings.settings().disable_dry_run || !resolution.is_ready() {
        return;
    }
    let print = resolution.fingerprint(&view.class);
    let name = resolution.class.name.clone();
    if offerings.is_tried(&name, print, view.now) {
        return;
    }
    let pools: Vec<LaunchRequest> = view.pools.iter().map(|pool| ask(pool)).collect();
    let Some(probe) = offerings.probe(&view.class, &resolution.class, &pools, view.now) else { return };
    match cloud::launch::try_out(offerings.cloud(), &probe).await {
        Ok(()) => offerings.tried(&name, print, view.now),
        Err(failed) => failed.record(resolution),
    }
}

/// Returns the minimum launch request of a NodeClaim of the NodePool.
pub(super) fn ask(pool: &NodePool) -> LaunchRequest {
    let template = &pool.spec.template;
    LaunchRequest {
        pool: pool.metadata.name.clone().unwrap_or_default(),
        requirements: cloud::requirements(&pool.template_requirements()),
        labels: template.metadata.labels.clone().unwrap_or_default(),
        taints: template.spec.taints.clone().unwrap_or_default(),
        startup_taints: template.spec.startup_taints.clone().unwrap_or_default(),
        ..LaunchRequest::default()
    }
}

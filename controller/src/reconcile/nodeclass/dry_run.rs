//! Dry run of the calls of a launch, before any launch needs them. Missing IAM permissions are reported on the EC2NodeClass.

use api::{NodePool, reason};
use cloud::launch::{LaunchRequest, PermittedTags};
use cloud::nodeclass::Resolution;
use cloud::tags::OWN_LAUNCH_TAGS;

use super::NodeClassView;
use crate::capacity::offerings::Offerings;
use crate::write::events::{Event, ObjectReference};
use crate::write::writer::Operation;

/// Asks AWS from time to time whether a launch from the EC2NodeClass is permitted, and with which tags. A missing answer changes
/// nothing. Returns an event if launches omit tags.
pub(super) async fn rehearse(
    view: &NodeClassView,
    offerings: &Offerings,
    resolution: &mut Resolution,
) -> Option<Operation> {
    if offerings.settings().disable_dry_run || !resolution.is_ready() {
        return None;
    }
    let print = resolution.fingerprint(&view.class);
    let name = resolution.class.name.clone();
    if let Some(tags) = offerings.permitted_tags(&name, print, view.now) {
        return apply(tags, view, resolution);
    }
    let pools: Vec<LaunchRequest> = view.pools.iter().map(|pool| ask(pool)).collect();
    let probe = offerings.probe(&view.class, &resolution.class, &pools, view.now)?;
    match cloud::launch::try_out(offerings.cloud(), &probe).await {
        Ok(tags) => {
            offerings.tried(&name, print, tags, view.now);
            apply(tags, view, resolution)
        }
        Err(failed) => {
            failed.record(resolution);
            None
        }
    }
}

/// Lets launches from the EC2NodeClass omit the tags that AWS does not permit.
fn apply(tags: PermittedTags, view: &NodeClassView, resolution: &mut Resolution) -> Option<Operation> {
    resolution.class.omits_own_tags = tags == PermittedTags::WithoutOwn;
    resolution.class.omits_own_tags.then(|| {
        let message = format!(
            "the controller's IAM policies deny launches with {}: instances do not get these tags at their launch, and after a \
             crash of the controller an instance may be launched twice for a short time; allow the tags in CreateFleet, \
             RunInstances and CreateTags",
            OWN_LAUNCH_TAGS.join(", ")
        );
        Operation::Note(Event::warning(ObjectReference::to(view.class.as_ref()), reason::TAGS_DENIED, message))
    })
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

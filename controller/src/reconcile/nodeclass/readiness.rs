//! Readiness of an EC2NodeClass: its conditions and status from the answers of AWS.

use std::time::Duration;

use api::status::Conditioned;
use api::{EC2NodeClass, condition, reason};
use cloud::nodeclass::Resolution;

use super::{NodeClassDecision, NodeClassView, target};
use crate::capacity::offerings::Offerings;
use crate::reconcile::hashes;
use crate::write::patches;
use crate::write::writer::Operation;

/// Delay for an EC2NodeClass that selects nothing: its owner is probably working on it.
const UNREADY_AGAIN: Duration = Duration::from_secs(10);
/// Reasons for which IAM is asked again only after the regular interval. Each check costs calls that launches need.
const FORBIDDEN: [&str; 3] = [
    reason::CREATE_LAUNCH_TEMPLATE_AUTH_CHECK_FAILED,
    reason::CREATE_FLEET_AUTH_CHECK_FAILED,
    reason::RUN_INSTANCES_AUTH_CHECK_FAILED,
];
/// Reasons that only a change of the EC2NodeClass can remove. The change itself triggers a reconcile.
const MENDED_BY_ITSELF: [&str; 2] = [reason::UNSUPPORTED_ALIAS, reason::TAG_VALIDATION_FAILED];
const HOPELESS_AGAIN: Duration = Duration::from_secs(10 * 60);

/// Decides the status from the answers of AWS. A missing answer keeps the known status.
pub(super) fn decide_readiness(
    view: &NodeClassView,
    offerings: &Offerings,
    resolution: Resolution,
) -> NodeClassDecision {
    let mut class = EC2NodeClass::clone(&view.class);
    class.initialize(view.now);
    for finding in &resolution.findings {
        class.set(finding.condition, finding.status, finding.reason, &finding.message, view.now);
    }
    for error in &resolution.errors {
        let name = resolution.class.name.as_str();
        tracing::warn!(
            nodeclass = name,
            error = daemon::error::chain(error).as_str(),
            "failed to resolve the selectors of the EC2NodeClass"
        );
    }
    let ready = resolution.is_ready();
    let answered = resolution.errors.is_empty();
    if answered {
        show(&mut class, &resolution, view);
    }
    let after = again(&resolution, offerings.class_refresh());
    let name = resolution.class.name.clone();
    if ready {
        if let Err(problem) = offerings.learn(&view.class, resolution.class) {
            let reason = reason::NODE_CLASS_NOT_READY;
            class.set_false(condition::VALIDATION_SUCCEEDED, reason, &problem, view.now);
            offerings.forget(&name);
        }
    } else if answered {
        offerings.forget(&name);
    }
    let hash = offerings.class_hash(&view.class);
    let mut steps =
        hashes::OF_CLASS.steps(&view.class.metadata, target(&view.class), &view.claims, &hash, Some(view.now));
    steps.extend(status_step(view, &class));
    NodeClassDecision::new(steps, after)
}

fn show(class: &mut EC2NodeClass, resolution: &Resolution, view: &NodeClassView) {
    let status = class.status.get_or_insert_default();
    status.subnets = resolution.status_subnets();
    status.security_groups = resolution.status_security_groups();
    status.amis = resolution.status_amis();
    status.capacity_reservations = resolution.status_reservations(view.now);
    // The existing profile remains in the status: its instances run, and the next reconcile compares it with the role.
    if !resolution.class.instance_profile.is_empty() {
        status.instance_profile.clone_from(&resolution.class.instance_profile);
    }
}

fn again(resolution: &Resolution, refresh: Duration) -> Duration {
    let bad = || resolution.findings.iter().filter(|finding| !finding.is_good());
    if resolution.is_ready() || bad().any(|finding| FORBIDDEN.contains(&finding.reason)) {
        refresh
    } else if resolution.errors.is_empty() && bad().any(|finding| MENDED_BY_ITSELF.contains(&finding.reason)) {
        HOPELESS_AGAIN
    } else {
        UNREADY_AGAIN
    }
}

fn status_step(view: &NodeClassView, class: &EC2NodeClass) -> Option<Operation> {
    let patch = patches::status(&view.class.metadata, &view.class.status, &class.status);
    (class.status != view.class.status).then(|| Operation::PatchStatus(target(class), patch))
}

//! Deletion of an EC2NodeClass: once none of its NodeClaims is left, its AWS resources and its finalizer are removed.

use std::time::Duration;

use api::{finalizer, reason};
use cloud::nodeclass;
use cloud::{InstanceProfile, LaunchTemplate};

use super::{NodeClassDecision, NodeClassView, has_finalizer, target};
use crate::capacity::offerings::Offerings;
use crate::write::events::{Event, ObjectReference};
use crate::write::patches;
use crate::write::writer::{Operation, WriteError};

/// Delay between reconciles of a deletion. Each deleted NodeClaim also triggers a reconcile.
const DELETING_AGAIN: Duration = Duration::from_secs(600);
/// Maximum number of NodeClaims that the event lists.
const NAMED: usize = 5;

/// AWS resources created for an EC2NodeClass.
#[derive(Debug, Default)]
pub(super) struct ClassResources {
    pub(super) templates: Vec<LaunchTemplate>,
    pub(super) profiles: Vec<InstanceProfile>,
}

pub(super) async fn decide(view: &NodeClassView, offerings: &Offerings) -> Result<NodeClassDecision, WriteError> {
    let nothing = || Ok(NodeClassDecision::new(Vec::new(), DELETING_AGAIN));
    if !has_finalizer(&view.class) {
        return nothing();
    }
    if !view.claims.is_empty() {
        return Ok(NodeClassDecision::new(vec![waits(view)], DELETING_AGAIN));
    }
    let name = view.class.metadata.name.clone().unwrap_or_default();
    let estate = estate(view, &name, offerings).await?;
    offerings.forget(&name);
    Ok(NodeClassDecision::new(finalize(view, estate), DELETING_AGAIN))
}

async fn estate(view: &NodeClassView, name: &str, offerings: &Offerings) -> Result<ClassResources, WriteError> {
    let settings = offerings.settings();
    let templates = offerings.cloud().launch_templates(&cloud::tags::template_tags(name, settings)).await?;
    let profiles = match settings.isolated_vpc {
        true => Vec::new(),
        false => offerings.cloud().instance_profiles(&nodeclass::class_path(&view.class, settings)).await?,
    };
    Ok(ClassResources { templates, profiles })
}

/// Returns the removal of all resources. The finalizer is last: after an earlier failure everything is repeated.
pub(super) fn finalize(view: &NodeClassView, estate: ClassResources) -> Vec<Operation> {
    let mut steps: Vec<Operation> =
        estate.profiles.iter().flat_map(nodeclass::removal).map(Operation::Profile).collect();
    steps.extend(estate.templates.into_iter().map(|template| Operation::DeleteLaunchTemplate(template.name)));
    let patch = patches::without_finalizer(&view.class.metadata, finalizer::EC2_NODE_CLASS_TERMINATION);
    steps.push(Operation::Patch(target(&view.class), patch));
    steps
}

fn waits(view: &NodeClassView) -> Operation {
    let names = view.claims.iter().filter_map(|claim| claim.metadata.name.as_deref());
    let named: Vec<&str> = names.take(NAMED).collect();
    let message = format!("waiting for the deletion of {} NodeClaims: {}", view.claims.len(), named.join(", "));
    let reason = reason::WAITING_ON_NODE_CLAIM_TERMINATION;
    Operation::Note(Event::normal(ObjectReference::to(view.class.as_ref()), reason, message))
}

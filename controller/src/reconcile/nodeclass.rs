//! EC2NodeClasses: the matches of their selectors, their readiness for launches, and their deletion.
//!
//! A reconcile first queries EC2 and IAM, and completes the instance profile of a role in IAM. Then a pure decision receives
//! all answers.

mod dry_run;
mod finalization;
mod readiness;
mod user_data;

use std::sync::Arc;
use std::time::Duration;

use api::{EC2NodeClass, NodeClaim, NodePool, finalizer};
use cloud::nodeclass::{self, Resolution};
use jiff::Timestamp;

use crate::capacity::offerings::Offerings;
use crate::state::index::Index;
use crate::write::patches;
use crate::write::writer::{Operation, Target, WriteError, Writer};

/// Input of a decision about an EC2NodeClass, except for the answers of AWS.
pub struct NodeClassView {
    class: Arc<EC2NodeClass>,
    /// NodeClaims of the EC2NodeClass.
    claims: Vec<Arc<NodeClaim>>,
    /// NodePools that launch from the EC2NodeClass.
    pools: Vec<Arc<NodePool>>,
    now: Timestamp,
}

/// Decision about an EC2NodeClass.
#[derive(Debug)]
pub struct NodeClassDecision {
    /// Operations in order.
    pub steps: Vec<Operation>,
    /// Delay before the next reconcile.
    pub after: Duration,
    /// Size of the largest user data of the EC2NodeClass in bytes; `None` while it is unknown.
    pub user_data: Option<u32>,
}

impl NodeClassDecision {
    fn new(steps: Vec<Operation>, after: Duration) -> Self {
        Self { steps, after, user_data: None }
    }
}

/// Returns the view of an EC2NodeClass, if it exists.
#[must_use]
pub fn view(index: &Index, name: &str, now: Timestamp) -> Option<NodeClassView> {
    let class = Arc::clone(index.classes.get(name)?);
    let pools = index.pools.values().filter(|pool| pool.spec.template.spec.node_class_ref.name == name);
    Some(NodeClassView {
        class,
        claims: index.claims_of_class(name).cloned().collect(),
        pools: pools.cloned().collect(),
        now,
    })
}

/// Queries AWS for the resources that the EC2NodeClass selects or leaves behind, and decides.
///
/// # Errors
/// Returns an error if AWS does not list the resources that the EC2NodeClass leaves behind, or if a write fails.
pub async fn decide(
    view: &NodeClassView,
    offerings: &Offerings,
    writer: &Writer,
) -> Result<NodeClassDecision, WriteError> {
    if view.class.metadata.deletion_timestamp.is_some() {
        return finalization::decide(view, offerings).await;
    }
    if !has_finalizer(&view.class) {
        return Ok(NodeClassDecision::new(vec![add_finalizer(&view.class)], offerings.class_refresh()));
    }
    let mut resolution = resolve(view, offerings).await;
    complete_profile(view, offerings, writer, &mut resolution).await?;
    let check = user_data::check(view, &resolution.class, &offerings.cluster().today());
    let denied_tags = dry_run::rehearse(view, offerings, &mut resolution).await;
    let mut decision = readiness::decide_readiness(view, offerings, resolution);
    decision.steps.extend(check.notes.into_iter().chain(denied_tags));
    Ok(NodeClassDecision { user_data: check.bytes, ..decision })
}

/// Queries AWS for the resources that the EC2NodeClass selects, for plans that are not carried out. Returns the delay before the
/// next time.
pub async fn observe(view: &NodeClassView, offerings: &Offerings) -> Duration {
    if view.class.metadata.deletion_timestamp.is_some() {
        offerings.forget(view.class.metadata.name.as_deref().unwrap_or_default());
        return offerings.class_refresh();
    }
    let resolution = resolve(view, offerings).await;
    // Another controller writes the status.
    readiness::decide_readiness(view, offerings, resolution).after
}

async fn resolve(view: &NodeClassView, offerings: &Offerings) -> Resolution {
    let settings = offerings.cluster().today();
    let queries = nodeclass::queries(&view.class, &settings);
    let answers = nodeclass::fetch(offerings.cloud(), &queries, offerings.memory(), view.now).await;
    nodeclass::resolve(&view.class, answers, &settings, view.now)
}

/// Completes the instance profile. A refusal by IAM becomes part of the resolution.
async fn complete_profile(
    view: &NodeClassView,
    offerings: &Offerings,
    writer: &Writer,
    resolution: &mut Resolution,
) -> Result<(), WriteError> {
    for step in std::mem::take(&mut resolution.profile_steps) {
        offerings.memory().forget_profile(step.profile());
        tracing::info!(
            nodeclass = resolution.class.name.as_str(),
            profile = step.profile(),
            "updating instance profile"
        );
        match writer.run(Operation::Profile(step)).await {
            Ok(()) => {}
            Err(WriteError::Cloud(error)) => {
                resolution.profile_failed(&view.class, error, offerings.settings());
                return Ok(());
            }
            Err(other) => return Err(other),
        }
    }
    Ok(())
}

fn has_finalizer(class: &EC2NodeClass) -> bool {
    patches::has_finalizer(&class.metadata, finalizer::EC2_NODE_CLASS_TERMINATION)
}

fn add_finalizer(class: &EC2NodeClass) -> Operation {
    Operation::Patch(target(class), patches::with_finalizer(&class.metadata, finalizer::EC2_NODE_CLASS_TERMINATION))
}

fn target(class: &EC2NodeClass) -> Target {
    Target::Class(class.metadata.name.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests;

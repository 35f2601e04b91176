//! EC2NodeClasses: what their selectors match now, whether machines can be launched from them, and their end.

use std::sync::Arc;
use std::time::Duration;

use api::status::Conditioned;
use api::{EC2NodeClass, annotation, condition, finalizer, hash, reason};
use cloud::CloudError;
use cloud::nodeclass::{self, Resolution};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::act::{Step, Target};
use crate::event::{Note, Object};
use crate::index::Index;
use crate::market::Market;
use crate::patch;

/// A class that is ready is looked at again after this long (aws: subnets and images every minute).
const READY_AGAIN: Duration = Duration::from_secs(60);
/// A class that selects nothing may soon do: somebody is probably at work on it.
const UNREADY_AGAIN: Duration = Duration::from_secs(10);
/// A class that waits for its claims to go is woken by each of them.
const DELETING_AGAIN: Duration = Duration::from_secs(600);
/// So many names of waiting claims an event lists.
const NAMED: usize = 5;

/// All that a decision about a class depends on, but for EC2's answers.
pub struct View {
    class: Arc<EC2NodeClass>,
    /// Names of the claims that were made from it.
    claims: Vec<String>,
    now: Timestamp,
}

/// What to do about a class.
#[derive(Debug)]
pub struct Decision {
    /// Steps in order.
    pub steps: Vec<Step>,
    /// When to look again.
    pub after: Duration,
}

/// The view of a class, if it exists.
#[must_use]
pub fn view(index: &Index, name: &str, now: Timestamp) -> Option<View> {
    let class = Arc::clone(index.classes.get(name)?);
    let of_class = index.claims.values().filter(|claim| claim.spec.node_class_ref.name == name);
    let claims = of_class.filter_map(|claim| claim.metadata.name.clone()).collect();
    Some(View { class, claims, now })
}

/// Asks EC2 what the class selects, or what it leaves behind, and decides.
///
/// # Errors
/// When EC2 does not tell which launch templates there are.
pub async fn decide(view: &View, market: &Market) -> Result<Decision, CloudError> {
    if view.class.metadata.deletion_timestamp.is_some() {
        return end(view, market).await;
    }
    if !has_finalizer(&view.class) {
        return Ok(Decision { steps: vec![add_finalizer(&view.class)], after: READY_AGAIN });
    }
    let queries = nodeclass::queries(&view.class.spec, market.settings());
    let answers = nodeclass::fetch(market.cloud(), &queries).await;
    let resolution = nodeclass::resolve(&view.class, answers, market.settings());
    Ok(judge(view, market, resolution))
}

/// What EC2 left unanswered keeps what was known; what it answered becomes the status.
fn judge(view: &View, market: &Market, resolution: Resolution) -> Decision {
    let mut class = EC2NodeClass::clone(&view.class);
    class.initialize(view.now);
    for finding in &resolution.findings {
        class.set(finding.condition, finding.status, finding.reason, &finding.message, view.now);
    }
    for error in &resolution.errors {
        let name = resolution.class.name.as_str();
        log::warn!(ec2nodeclass = name, error = daemon::error::chain(error).as_str(); "EC2 does not tell what the class selects");
    }
    let ready = resolution.is_ready();
    let answered = resolution.errors.is_empty();
    if answered {
        let status = class.status.get_or_insert_default();
        status.subnets = resolution.status_subnets();
        status.security_groups = resolution.status_security_groups();
        status.amis = resolution.status_amis();
        status.instance_profile.clone_from(&resolution.class.instance_profile);
    }
    let name = resolution.class.name.clone();
    if ready {
        if let Err(problem) = market.learn(&view.class, resolution.class) {
            let reason = reason::NODE_CLASS_NOT_READY;
            class.set_false(condition::VALIDATION_SUCCEEDED, reason, &problem, view.now);
            market.forget(&name);
        }
    } else if answered {
        market.forget(&name);
    }
    let steps = stale_hash(&view.class, market).into_iter().chain(status_step(view, &class)).collect();
    Decision { steps, after: if ready { READY_AGAIN } else { UNREADY_AGAIN } }
}

fn status_step(view: &View, class: &EC2NodeClass) -> Option<Step> {
    let patch = patch::status(&view.class.metadata, &class.status);
    (class.status != view.class.status).then(|| Step::PatchStatus(target(class), patch))
}

fn stale_hash(class: &EC2NodeClass, market: &Market) -> Option<Step> {
    let (hash, version) = (market.class_hash(class), hash::EC2_NODE_CLASS_VERSION);
    let written = class.metadata.annotations.as_ref();
    let is = |key: &str, value: &str| written.and_then(|all| all.get(key)).is_some_and(|found| found == value);
    if is(annotation::EC2_NODE_CLASS_HASH, &hash) && is(annotation::EC2_NODE_CLASS_HASH_VERSION, version) {
        return None;
    }
    let annotations: Value = json!({
        annotation::EC2_NODE_CLASS_HASH: hash,
        annotation::EC2_NODE_CLASS_HASH_VERSION: version,
    });
    Some(Step::Patch(target(class), json!({"metadata": {"annotations": annotations}})))
}

/// The class goes once none of its claims is left, and takes its launch templates with it.
async fn end(view: &View, market: &Market) -> Result<Decision, CloudError> {
    let mut decision = Decision { steps: Vec::new(), after: DELETING_AGAIN };
    if !has_finalizer(&view.class) {
        return Ok(decision);
    }
    if !view.claims.is_empty() {
        let named: Vec<&str> = view.claims.iter().take(NAMED).map(String::as_str).collect();
        let message = format!("waiting for {} NodeClaims to go: {}", view.claims.len(), named.join(", "));
        let reason = reason::WAITING_ON_NODE_CLAIM_TERMINATION;
        decision.steps.push(Step::Note(Note::normal(Object::of(view.class.as_ref()), reason, message)));
        return Ok(decision);
    }
    let name = view.class.metadata.name.clone().unwrap_or_default();
    let tags = cloud::launch::template_tags(&name, market.settings());
    let templates = market.cloud().launch_templates(&tags).await?;
    decision.steps.extend(templates.into_iter().map(|template| Step::DeleteLaunchTemplate(template.name)));
    let patch = patch::without_finalizer(&view.class.metadata, finalizer::EC2_NODE_CLASS_TERMINATION);
    decision.steps.push(Step::Patch(target(&view.class), patch));
    market.forget(&name);
    Ok(decision)
}

fn has_finalizer(class: &EC2NodeClass) -> bool {
    patch::has_finalizer(&class.metadata, finalizer::EC2_NODE_CLASS_TERMINATION)
}

fn add_finalizer(class: &EC2NodeClass) -> Step {
    Step::Patch(target(class), patch::with_finalizer(&class.metadata, finalizer::EC2_NODE_CLASS_TERMINATION))
}

fn target(class: &EC2NodeClass) -> Target {
    Target::Class(class.metadata.name.clone().unwrap_or_default())
}

//! Check of a role's policies: the actions that Kerf needs and the policies do not allow, and the tags that they deny.

mod consequence;
mod needs;

use std::collections::BTreeSet;

use serde_json::Value;

pub use consequence::Consequence;
pub use needs::{ANY_ACCOUNT, PolicyScope};

use super::evaluation::{Access, AccessRequest, PolicySet};
use crate::calls::Tags;
use needs::Permission;

/// Result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyCheck {
    /// Actions that the policies do not allow.
    pub missing: Vec<MissingAction>,
    /// Tags that the policies deny in calls that they allow without these tags.
    pub denied_tags: Vec<DeniedTag>,
    /// Number of different actions that Kerf needs.
    pub needed: usize,
}

/// An action that the policies do not allow on some of its resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingAction {
    /// Action, such as `ec2:TerminateInstances`.
    pub action: &'static str,
    /// Reason of the first refusal.
    pub access: Access,
    /// Consequence for the cluster.
    pub consequence: Consequence,
    /// Statement that allows the action, in IAM's JSON.
    pub statement: Value,
}

/// A tag that the policies deny.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeniedTag {
    /// Key of the tag.
    pub key: String,
    /// Call that writes the tag.
    pub call: TaggingCall,
}

/// A call that writes tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaggingCall {
    /// CreateFleet, for the resources of a launch.
    Launch,
    /// CreateTags, for an instance that is a node.
    CreateTags,
}

impl TaggingCall {
    /// Reports whether the call writes Kerf's tags to resources of this kind.
    fn tags(self, resource: &str) -> bool {
        let kinds: &[&str] = match self {
            Self::Launch => &[":fleet/", ":instance/", ":volume/"],
            Self::CreateTags => &[":instance/"],
        };
        kinds.iter().any(|kind| resource.contains(kind))
    }
}

/// Compares the policies with the permissions that Kerf needs in this cluster.
#[must_use]
pub fn check(policies: &PolicySet, scope: &PolicyScope) -> PolicyCheck {
    let permissions = needs::permissions(scope, policies);
    let mut result = PolicyCheck::default();
    let mut denied = BTreeSet::new();
    for permission in &permissions {
        denied.extend(denied_tags(policies, permission));
        result.missing.extend(missing(policies, permission, scope));
    }
    result.denied_tags.extend(denied);
    result.needed = permissions.iter().map(|permission| permission.action).collect::<BTreeSet<_>>().len();
    result
}

/// Returns the action with the resources on which the policies do not allow it; `None` if they allow all.
fn missing(policies: &PolicySet, permission: &Permission, scope: &PolicyScope) -> Option<MissingAction> {
    let refused =
        |request: &AccessRequest| Some(policies.evaluate(request)).filter(|access| *access != Access::Allowed);
    let refusals: Vec<(&str, Access)> = permission
        .requests
        .iter()
        .filter_map(|(resource, request)| Some((resource.as_str(), refused(request)?)))
        .collect();
    let (_, access) = refusals.first()?;
    let mut resources: Vec<&str> = refusals.iter().map(|(resource, _)| *resource).collect();
    resources.dedup();
    let statement = serde_json::to_string(&permission.statement.shown_with(&[permission.action], &resources));
    Some(MissingAction {
        action: permission.action,
        access: access.clone(),
        consequence: Consequence::new(permission.statement.sid, permission.action, &resources),
        statement: serde_json::from_str(&scope.filled(&statement.unwrap_or_default())).unwrap_or_default(),
    })
}

/// Returns the tags of which each alone is the reason of a refusal.
fn denied_tags(policies: &PolicySet, permission: &Permission) -> Vec<DeniedTag> {
    let Some(extra) = &permission.extra_tags else { return Vec::new() };
    let is_allowed = |request: &AccessRequest| policies.evaluate(request) == Access::Allowed;
    let mut denied = Vec::new();
    let tagged = permission.requests.iter().filter(|(resource, _)| extra.call.tags(resource));
    for (_, request) in tagged.filter(|(_, request)| is_allowed(request)) {
        for (key, value) in &extra.tags {
            let mut tags = extra.with.clone();
            tags.insert(key.clone(), value.clone());
            if !is_allowed(&request.clone().with_request_tags(&tags)) {
                denied.push(DeniedTag { key: key.clone(), call: extra.call });
            }
        }
    }
    denied
}

/// Tags that a call may write in addition to the ones that it needs.
struct ExtraTags {
    call: TaggingCall,
    /// Tags that the call needs.
    with: Tags,
    tags: Tags,
}

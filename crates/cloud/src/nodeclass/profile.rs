//! Instance profiles of EC2NodeClasses. An EC2NodeClass names a role and EC2 needs an instance profile, so this module selects
//! the profile and the missing steps in IAM.
//!
//! The name of a profile that Kerf creates is derived from region, cluster, EC2NodeClass and role. A retry after a crash
//! therefore continues with the same profile and leaves no incomplete one.

use std::collections::{BTreeMap, BTreeSet};

use api::{EC2NodeClass, condition, label, reason};
use jiff::{SignedDuration, Timestamp};

use super::Finding;
use crate::calls::{CloudError, ErrorKind, InstanceProfile, InstanceProfileRequest, Tags};
use crate::settings::Settings;
use crate::tags::{CLUSTER_TAG, fingerprint};

/// Time that a profile is kept after its last use. A launch that chose it earlier may still be in flight.
const PROTECTED: SignedDuration = SignedDuration::from_hours(1);

/// One idempotent change in IAM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileStep {
    /// Creates an empty instance profile.
    Create(InstanceProfileRequest),
    /// Adds a role to an instance profile.
    AddRole {
        /// Name of the profile.
        profile: String,
        /// Name of the role, without path.
        role: String,
    },
    /// Removes a role from an instance profile.
    RemoveRole {
        /// Name of the profile.
        profile: String,
        /// Name of the role, without path.
        role: String,
    },
    /// Deletes an empty instance profile.
    Delete(String),
}

impl ProfileStep {
    /// Returns the name of the profile.
    #[must_use]
    pub fn profile(&self) -> &str {
        match self {
            Self::Create(request) => &request.name,
            Self::AddRole { profile, .. } | Self::RemoveRole { profile, .. } | Self::Delete(profile) => profile,
        }
    }
}

/// The instance profile of an EC2NodeClass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfilePlan {
    /// Name of the profile; empty if none exists.
    pub name: String,
    /// Steps in IAM before EC2 can use it.
    pub steps: Vec<ProfileStep>,
}

/// Returns the IAM path of the profiles that Kerf creates for a cluster.
#[must_use]
pub fn cluster_path(settings: &Settings) -> String {
    format!("/karpenter/{}/{}/", settings.region, settings.cluster_name)
}

/// Returns the IAM path of the profiles that Kerf creates for an EC2NodeClass.
#[must_use]
pub fn class_path(class: &EC2NodeClass, settings: &Settings) -> String {
    format!("{}{}/", cluster_path(settings), class.metadata.uid.as_deref().unwrap_or_default())
}

/// Returns a role's name as IAM returns it. An EC2NodeClass may include the role's path.
fn bare(role: &str) -> &str {
    role.rsplit('/').next().unwrap_or(role)
}

/// Returns the name of the profile that Kerf creates for the EC2NodeClass; `None` if the EC2NodeClass sets no role.
#[must_use]
pub fn own_name(class: &EC2NodeClass, settings: &Settings) -> Option<String> {
    let role = class.spec.role.as_deref().filter(|role| !role.is_empty())?;
    let meta = &class.metadata;
    let hash = fingerprint(&(&settings.region, &meta.name, &meta.uid, bare(role)));
    Some(format!("{}_{hash}", settings.cluster_name))
}

/// Returns the names of the profiles to query in IAM: `spec.instanceProfile`, or the one in the status and the one that Kerf
/// would create. The list is empty in an isolated VPC, which cannot reach IAM.
pub(super) fn questions(class: &EC2NodeClass, settings: &Settings) -> Vec<String> {
    if settings.isolated_vpc {
        return Vec::new();
    }
    let given = class.spec.instance_profile.clone().filter(|name| !name.is_empty());
    let current = class.status.as_ref().map(|status| status.instance_profile.clone());
    let own = own_name(class, settings).map(|own| [Some(own), current.filter(|name| !name.is_empty())]);
    let own = own.into_iter().flatten().flatten();
    given.into_iter().chain(own).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Selects the profile of the EC2NodeClass, given the existing ones of [`questions`].
///
/// # Errors
/// The condition that describes the missing profile.
pub(super) fn plan(
    class: &EC2NodeClass,
    found: &[InstanceProfile],
    settings: &Settings,
) -> Result<ProfilePlan, Finding> {
    let find = |name: &str| found.iter().find(|profile| profile.name == name);
    if let Some(name) = class.spec.instance_profile.as_ref().filter(|name| !name.is_empty()) {
        return given(name, find(name), settings);
    }
    let Some((role, own)) = class.spec.role.as_deref().map(bare).zip(own_name(class, settings)) else {
        return Err(missing("neither role nor instanceProfile is set; set spec.role".to_owned()));
    };
    if settings.isolated_vpc {
        let message = format!(
            "spec.role {role:?} needs an instance profile, and ISOLATED_VPC forbids calls to IAM; create a profile with that role \
             and name it in spec.instanceProfile"
        );
        return Err(missing(message));
    }
    // A profile that Karpenter created for the same role remains in use.
    let current = class.status.as_ref().and_then(|status| find(&status.instance_profile));
    if let Some(profile) = current.filter(|profile| profile.roles == [role]) {
        return Ok(ProfilePlan { name: profile.name.clone(), steps: Vec::new() });
    }
    Ok(ProfilePlan { steps: complete(&own, role, find(&own), class, settings), name: own })
}

fn given(name: &str, found: Option<&InstanceProfile>, settings: &Settings) -> Result<ProfilePlan, Finding> {
    let problem = match found {
        _ if settings.isolated_vpc => None,
        None => Some(format!("instance profile {name:?} does not exist; create it, or correct spec.instanceProfile")),
        Some(profile) if profile.roles.is_empty() => Some(format!(
            "instance profile {name:?} has no role, so nodes cannot join; add the role of the nodes to it"
        )),
        Some(_) => None,
    };
    match problem {
        Some(message) => Err(missing(message)),
        None => Ok(ProfilePlan { name: name.to_owned(), steps: Vec::new() }),
    }
}

/// Returns the missing steps for the profile that Kerf creates.
fn complete(
    own: &str,
    role: &str,
    found: Option<&InstanceProfile>,
    class: &EC2NodeClass,
    settings: &Settings,
) -> Vec<ProfileStep> {
    let add = || ProfileStep::AddRole { profile: own.to_owned(), role: role.to_owned() };
    let Some(profile) = found else {
        let request = InstanceProfileRequest {
            name: own.to_owned(),
            path: class_path(class, settings),
            tags: tags(class, settings),
        };
        return vec![ProfileStep::Create(request), add()];
    };
    if profile.roles == [role] {
        return Vec::new();
    }
    profile.roles.iter().map(|other| remove(&profile.name, other)).chain([add()]).collect()
}

fn tags(class: &EC2NodeClass, settings: &Settings) -> Tags {
    let mut tags = class.spec.tags.clone();
    let name = class.metadata.name.clone().unwrap_or_default();
    tags.extend([
        (format!("kubernetes.io/cluster/{}", settings.cluster_name), "owned".to_owned()),
        (CLUSTER_TAG.to_owned(), settings.cluster_name.clone()),
        (label::EC2_NODE_CLASS.to_owned(), name),
        (label::REGION.to_owned(), settings.region.clone()),
    ]);
    tags
}

fn remove(profile: &str, role: &str) -> ProfileStep {
    ProfileStep::RemoveRole { profile: profile.to_owned(), role: role.to_owned() }
}

fn missing(message: String) -> Finding {
    Finding::bad(condition::INSTANCE_PROFILE_READY, reason::INSTANCE_PROFILE_NOT_FOUND, message)
}

/// Returns the condition after a failed step for the profile; `None` if a retry soon may help.
#[must_use]
pub fn step_failed(class: &EC2NodeClass, error: &CloudError) -> Option<Finding> {
    let role = class.spec.role.as_deref().unwrap_or_default();
    let (reason, hint) = match error.kind {
        ErrorKind::NotFound => (reason::ROLE_NOT_FOUND, "create the role in IAM, or correct spec.role"),
        ErrorKind::Unauthorized => (
            reason::INSTANCE_PROFILE_AUTH_FAILED,
            "allow the controller's role to manage instance profiles and to pass the node role",
        ),
        ErrorKind::Invalid => {
            (reason::INSTANCE_PROFILE_CREATION_FAILED, "correct spec.role, or name a profile in spec.instanceProfile")
        }
        _ => return None,
    };
    let message = format!("cannot create an instance profile for role {role:?}: {error}; {hint}");
    Some(Finding::bad(condition::INSTANCE_PROFILE_READY, reason, message))
}

/// Returns the steps that delete a profile: its roles first.
#[must_use]
pub fn removal(profile: &InstanceProfile) -> Vec<ProfileStep> {
    let roles = profile.roles.iter().map(|role| remove(&profile.name, role));
    roles.chain([ProfileStep::Delete(profile.name.clone())]).collect()
}

/// Start of the time without use of each instance profile, as observed by this process.
#[derive(Clone, Debug, Default)]
pub struct Unused {
    since: BTreeMap<String, Timestamp>,
}

impl Unused {
    /// Returns those of the cluster's profiles that were not used for an hour. `used` has the names in EC2NodeClasses and
    /// NodeClaims.
    #[must_use]
    pub fn sweep<'p>(
        &mut self,
        found: &'p [InstanceProfile],
        used: &BTreeSet<String>,
        now: Timestamp,
    ) -> Vec<&'p InstanceProfile> {
        let idle = |profile: &&InstanceProfile| !used.contains(&profile.name);
        let idle: Vec<&InstanceProfile> = found.iter().filter(idle).collect();
        self.since.retain(|name, _| idle.iter().any(|profile| profile.name == *name));
        for profile in &idle {
            self.since.entry(profile.name.clone()).or_insert(now);
        }
        let old = |profile: &&InstanceProfile| now.duration_since(self.since[&profile.name]) >= PROTECTED;
        idle.into_iter().filter(old).collect()
    }
}

//! A class names a role, EC2 takes instance profiles: which profile stands for the role, and what IAM lacks of it (aws 1.6).
//!
//! The name of a profile that we make follows from cluster, class and role. So whoever begins again after a crash goes on
//! with the same one, and nothing half made is left lying about.

use std::collections::{BTreeMap, BTreeSet};

use api::{EC2NodeClass, condition, label, reason};
use jiff::{SignedDuration, Timestamp};

use super::Finding;
use crate::calls::{InstanceProfile, InstanceProfileRequest, Tags};
use crate::error::{CloudError, ErrorKind};
use crate::launch::CLUSTER_TAG;
use crate::settings::Settings;

/// A profile stays so long after its last user was seen: a launch that chose it before may still be under way.
const PROTECTED: SignedDuration = SignedDuration::from_hours(1);

/// One change in IAM. Each may be done again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileStep {
    /// Make an empty instance profile.
    Create(InstanceProfileRequest),
    /// Put a role into it.
    AddRole {
        /// The profile's name.
        profile: String,
        /// The role's name, without path.
        role: String,
    },
    /// Take a role out of it.
    RemoveRole {
        /// The profile's name.
        profile: String,
        /// The role's name, without path.
        role: String,
    },
    /// Delete an empty profile.
    Delete(String),
}

impl ProfileStep {
    /// The profile's name.
    #[must_use]
    pub fn profile(&self) -> &str {
        match self {
            Self::Create(request) => &request.name,
            Self::AddRole { profile, .. } | Self::RemoveRole { profile, .. } | Self::Delete(profile) => profile,
        }
    }
}

/// The profile that a class's machines get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfilePlan {
    /// Its name; empty when there is none.
    pub name: String,
    /// What must be done before EC2 can use it.
    pub steps: Vec<ProfileStep>,
}

/// Where IAM keeps the profiles that were made for a cluster.
#[must_use]
pub fn cluster_path(settings: &Settings) -> String {
    format!("/karpenter/{}/{}/", settings.region, settings.cluster_name)
}

/// Where IAM keeps the profiles that were made for a class.
#[must_use]
pub fn class_path(class: &EC2NodeClass, settings: &Settings) -> String {
    format!("{}{}/", cluster_path(settings), class.metadata.uid.as_deref().unwrap_or_default())
}

/// A role's name as IAM returns it: classes may write its path before it.
fn bare(role: &str) -> &str {
    role.rsplit('/').next().unwrap_or(role)
}

/// The name of the profile that we would make for the class; `None` when the class names a profile itself.
#[must_use]
pub fn own_name(class: &EC2NodeClass, settings: &Settings) -> Option<String> {
    let role = class.spec.role.as_deref().filter(|role| !role.is_empty())?;
    let meta = &class.metadata;
    let hash = crate::launch::fingerprint(&(&settings.region, &meta.name, &meta.uid, bare(role)));
    Some(format!("{}_{hash}", settings.cluster_name))
}

/// The profiles to ask IAM for, by name: what the class names, or what its status says and what we would make. None in an
/// isolated VPC, where IAM cannot be reached.
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

/// Chooses the class's profile, given those of [`questions`] that exist.
///
/// # Errors
/// The finding that says what is missing.
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
    // A profile that Karpenter made for the same role goes on being used.
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

/// What our own profile lacks.
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

/// What to say when a step for the class's profile failed; `None` where trying again soon may help.
#[must_use]
pub fn step_failed(class: &EC2NodeClass, error: &CloudError) -> Option<Finding> {
    let role = class.spec.role.as_deref().unwrap_or_default();
    let (reason, cure) = match error.kind {
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
    let message = format!("cannot create an instance profile for role {role:?}: {error}; {cure}");
    Some(Finding::bad(condition::INSTANCE_PROFILE_READY, reason, message))
}

/// How a profile goes: its roles first.
#[must_use]
pub fn removal(profile: &InstanceProfile) -> Vec<ProfileStep> {
    let roles = profile.roles.iter().map(|role| remove(&profile.name, role));
    roles.chain([ProfileStep::Delete(profile.name.clone())]).collect()
}

/// Since when profiles have had no user, as far as this process has seen.
#[derive(Clone, Debug, Default)]
pub struct Unused {
    since: BTreeMap<String, Timestamp>,
}

impl Unused {
    /// Of all profiles of the cluster, those that nobody has used for an hour. `used` holds the names that classes and claims
    /// know.
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

//! Instance profiles and roles with IAM's rules: one role per profile, names unique across all paths.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::faults::refuse;
use crate::calls::{CloudError, ErrorKind, InstanceProfile, InstanceProfileRequest, Tags};

/// Roles and instance profiles of the account.
#[derive(Default)]
pub(super) struct Profiles {
    pub(super) roles: BTreeSet<String>,
    /// True if the account has every role.
    pub(super) any_role: bool,
    profiles: BTreeMap<String, InstanceProfile>,
}

impl Profiles {
    pub(super) fn get(&self, name: &str) -> Option<InstanceProfile> {
        self.profiles.get(name).cloned()
    }

    /// Adds a profile with the path `/` and this role.
    pub(super) fn put(&mut self, name: &str, role: String) {
        let profile = InstanceProfile {
            name: name.to_owned(),
            path: "/".to_owned(),
            roles: vec![role],
            tags: Tags::new(),
            created: "2026-01-01T00:00:00Z".to_owned(),
        };
        self.profiles.insert(name.to_owned(), profile);
    }

    /// Returns the profiles whose path begins with `prefix`, without tags, as IAM lists them.
    pub(super) fn under(&self, prefix: &str) -> Vec<InstanceProfile> {
        let inside = self.profiles.values().filter(|profile| profile.path.starts_with(prefix));
        inside.map(|profile| InstanceProfile { tags: Tags::new(), ..profile.clone() }).collect()
    }

    pub(super) fn create(&mut self, request: &InstanceProfileRequest, now: Timestamp) -> Result<(), CloudError> {
        const CALL: &str = "CreateInstanceProfile";
        let legal = |letter: char| letter.is_ascii_alphanumeric() || "+=,.@_-".contains(letter);
        if request.name.is_empty() || request.name.len() > 128 || !request.name.chars().all(legal) {
            let message = format!("The specified value for instanceProfileName is invalid: {:?}", request.name);
            return Err(refuse(CALL, ErrorKind::Invalid, "ValidationError", message));
        }
        if !(request.path.starts_with('/') && request.path.ends_with('/')) {
            let message = "The specified value for path is invalid. It must begin and end with /.".to_owned();
            return Err(refuse(CALL, ErrorKind::Invalid, "ValidationError", message));
        }
        if self.profiles.contains_key(&request.name) {
            let message = format!("Instance Profile {} already exists.", request.name);
            return Err(refuse(CALL, ErrorKind::AlreadyExists, "EntityAlreadyExists", message));
        }
        let profile = InstanceProfile {
            name: request.name.clone(),
            path: request.path.clone(),
            roles: Vec::new(),
            tags: request.tags.clone(),
            created: now.to_string(),
        };
        self.profiles.insert(request.name.clone(), profile);
        Ok(())
    }

    pub(super) fn add_role(&mut self, name: &str, role: &str) -> Result<(), CloudError> {
        const CALL: &str = "AddRoleToInstanceProfile";
        if !self.any_role && !self.roles.contains(role) {
            let message = format!("The role with name {role} cannot be found.");
            return Err(refuse(CALL, ErrorKind::NotFound, "NoSuchEntity", message));
        }
        let profile = self.find(CALL, name)?;
        if !profile.roles.is_empty() {
            let message = "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1".to_owned();
            return Err(refuse(CALL, ErrorKind::Invalid, "LimitExceeded", message));
        }
        profile.roles.push(role.to_owned());
        Ok(())
    }

    pub(super) fn remove_role(&mut self, name: &str, role: &str) -> Result<(), CloudError> {
        const CALL: &str = "RemoveRoleFromInstanceProfile";
        let profile = self.find(CALL, name)?;
        let Some(position) = profile.roles.iter().position(|own| own == role) else {
            let message = format!("Role {role} in Instance Profile {name} cannot be found.");
            return Err(refuse(CALL, ErrorKind::NotFound, "NoSuchEntity", message));
        };
        profile.roles.remove(position);
        Ok(())
    }

    pub(super) fn delete(&mut self, name: &str) -> Result<(), CloudError> {
        const CALL: &str = "DeleteInstanceProfile";
        if !self.find(CALL, name)?.roles.is_empty() {
            let message = "Cannot delete entity, must remove roles from instance profile first.".to_owned();
            return Err(refuse(CALL, ErrorKind::Invalid, "DeleteConflict", message));
        }
        self.profiles.remove(name);
        Ok(())
    }

    fn find(&mut self, call: &'static str, name: &str) -> Result<&mut InstanceProfile, CloudError> {
        let message = format!("Instance Profile {name} cannot be found.");
        self.profiles.get_mut(name).ok_or_else(|| refuse(call, ErrorKind::NotFound, "NoSuchEntity", message))
    }
}

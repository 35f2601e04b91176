//! Instance profiles: how a machine gets its role.

use serde::{Deserialize, Serialize};

use super::Tags;

/// An instance profile of IAM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceProfile {
    /// Its name, unique in the account whatever its path.
    pub name: String,
    /// Begins and ends with `/`.
    pub path: String,
    /// Bare names of its roles; IAM allows one.
    pub roles: Vec<String>,
    /// Its tags; empty in answers that list profiles.
    pub tags: Tags,
    /// RFC 3339.
    pub created: String,
}

/// An instance profile to create.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceProfileRequest {
    /// At most 128 of `A-Z a-z 0-9 + = , . @ _ -`.
    pub name: String,
    /// Begins and ends with `/`.
    pub path: String,
    /// Its tags.
    pub tags: Tags,
}

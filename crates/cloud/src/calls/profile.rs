//! Instance profiles, which give an instance its IAM role.

use serde::{Deserialize, Serialize};

use super::Tags;

/// An instance profile of IAM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceProfile {
    /// Name, unique in the account across all paths.
    pub name: String,
    /// Path; begins and ends with `/`.
    pub path: String,
    /// Bare names of its roles; IAM allows one role.
    pub roles: Vec<String>,
    /// Tags; empty in results of list calls.
    pub tags: Tags,
    /// Time of creation, RFC 3339.
    pub created: String,
}

/// An instance profile to create.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceProfileRequest {
    /// Name: at most 128 of `A-Z a-z 0-9 + = , . @ _ -`.
    pub name: String,
    /// Path; begins and ends with `/`.
    pub path: String,
    /// Tags.
    pub tags: Tags,
}

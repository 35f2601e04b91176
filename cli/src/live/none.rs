//! What stands for the cluster in a `kerf` that was built without the feature `live`: a sentence with the cure.

use serde_json::Value;

use crate::failure::Failure;

/// What would be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveKinds {
    /// Everything that a check of a cluster looks at.
    Everything,
}

/// Reads nothing.
///
/// # Errors
/// Always.
pub fn read(_: LiveKinds) -> Result<Vec<Value>, Failure> {
    Err(Failure::usage("this kerf was built without a Kubernetes client (feature live); use files written by kubectl"))
}

/// Reads nothing.
///
/// # Errors
/// Always.
pub fn manifests() -> Result<String, Failure> {
    read(LiveKinds::Everything).map(|_| String::new())
}

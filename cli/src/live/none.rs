//! Replacement for the cluster access in a `kerf` that was built without the feature `live`: an error with the fix.

#[path = "seen.rs"]
mod seen;

use serde_json::Value;

use crate::args::LiveCluster;
use crate::failure::Failure;

pub use seen::Seen;

/// Kinds to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveKinds {
    /// All kinds that a check of a cluster needs.
    Everything,
    /// Kinds that a plan depends on.
    Plan,
}

/// Reads nothing.
///
/// # Errors
/// Always returns an error.
pub fn read(_: LiveKinds, _: &LiveCluster) -> Result<Vec<Value>, Failure> {
    Err(Failure::usage("this kerf was built without a Kubernetes client (feature live); use files written by kubectl"))
}

/// Reads nothing.
///
/// # Errors
/// Always returns an error.
pub fn manifests(cluster: &LiveCluster) -> Result<String, Failure> {
    read(LiveKinds::Everything, cluster).map(|_| String::new())
}

/// Reads nothing.
///
/// # Errors
/// Always returns an error.
pub fn config_maps(cluster: &LiveCluster, _: &str, _: &[String]) -> Result<Vec<Value>, Failure> {
    read(LiveKinds::Everything, cluster)
}

/// Reads nothing.
///
/// # Errors
/// Always returns an error.
pub fn events(cluster: &LiveCluster, _: &str, _: &str, _: &str) -> Result<Vec<Value>, Failure> {
    read(LiveKinds::Everything, cluster)
}

/// Follows nothing.
pub struct Follower;

impl Follower {
    /// Follows nothing.
    ///
    /// # Errors
    /// Always returns an error.
    pub fn start(cluster: &LiveCluster) -> Result<Self, Failure> {
        read(LiveKinds::Everything, cluster).map(|_| Self)
    }

    /// Returns the number of kinds.
    #[must_use]
    pub fn kinds() -> usize {
        0
    }

    /// Sees nothing.
    ///
    /// # Errors
    /// Returns no error, because nothing is followed.
    pub fn next(&mut self) -> Result<Option<Seen>, Failure> {
        Ok(None)
    }

    /// Returns nothing.
    ///
    /// # Errors
    /// Returns no error, because nothing is followed.
    pub fn config_map(&self, _: &str, _: &str) -> Result<Option<Value>, Failure> {
        Ok(None)
    }
}

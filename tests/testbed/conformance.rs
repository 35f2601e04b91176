//! Karpenter's own end-to-end suites as programs that run against a cluster with Kerf: which there are, how a case ended, and why
//! one does not pass.

pub mod account;
pub mod ginkgo;
pub mod page;
pub mod reasons;
pub mod results;
pub mod run;
pub mod suites;

/// Folder of the suites' modules, results and reasons.
#[must_use]
pub fn folder() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance")
}

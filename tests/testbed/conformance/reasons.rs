//! Why cases do not pass: `tests/conformance/reasons.yaml`, written by hand.

use std::fmt;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::folder;
use super::results::Case;

/// Kind of reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Kerf differs on purpose.
    Difference,
    /// The emulation of EC2 or the stand-in of kubelet lacks something.
    Emulation,
    /// The case needs AWS, or tests what Kerf does not have by design.
    NotApplicable,
    /// A fault of Kerf that is not fixed yet.
    Open,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Difference => "deliberate difference",
            Self::Emulation => "emulation",
            Self::NotApplicable => "not applicable",
            Self::Open => "open",
        })
    }
}

/// Reason for cases that do not pass.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// Suite of the cases.
    pub suite: String,
    /// Beginning of their full names.
    pub cases: String,
    /// Kind of the reason.
    pub kind: Kind,
    /// One or two sentences, perhaps with a link.
    pub reason: String,
}

impl Reason {
    /// Reports whether the reason is about this case.
    #[must_use]
    pub fn explains(&self, suite: &str, case: &Case) -> bool {
        self.suite == suite && case.name.starts_with(&self.cases)
    }
}

/// Reads all reasons.
///
/// # Errors
/// Returns an error with the file's name if it is invalid.
pub fn read() -> Result<Vec<Reason>> {
    let file = folder().join("reasons.yaml");
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_saphyr::from_str(&text).with_context(|| format!("{} is no list of reasons", file.display()))
}

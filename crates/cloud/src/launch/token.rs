//! Launch tokens: a time and a hash. The token itself contains the age of a launch.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use super::{ClaimId, LaunchChoice};
use crate::tags::fingerprint;

/// Time for which EC2 may hide a new instance from queries by tag. The value is generous: waiting costs a minute after a crash,
/// and a launch too early could launch twice.
pub const SETTLE: SignedDuration = SignedDuration::from_secs(60);

/// Client token of one launch: `kerf-<seconds since 1970, hex>-<hash, hex>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(String);

impl Token {
    /// Creates the token for a choice, its NodeClaims (in any order) and the time of the launch.
    #[must_use]
    pub fn new(choice: &LaunchChoice, claims: &[ClaimId], now: Timestamp) -> Self {
        let mut uids: Vec<&str> = claims.iter().map(|claim| claim.uid.as_str()).collect();
        uids.sort_unstable();
        let templates: Vec<&str> = choice.templates.iter().map(|template| template.name.as_str()).collect();
        let hash = fingerprint(&(
            uids,
            choice.capacity_type.as_str(),
            templates,
            &choice.configs,
            &choice.tags,
            &choice.context,
            choice.prioritized,
        ));
        Self(format!("kerf-{:x}-{hash:016x}", now.as_second()))
    }

    /// Converts the text of an annotation or tag into a token; any text is valid.
    #[must_use]
    pub fn read(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Returns the time of the launch in seconds; `None` for a text in another format.
    #[must_use]
    pub fn made(&self) -> Option<Timestamp> {
        let seconds = self.0.strip_prefix("kerf-")?.split('-').next()?;
        Timestamp::from_second(i64::from_str_radix(seconds, 16).ok()?).ok()
    }

    /// Reports whether every instance of the launch must be visible by now. A token in another format counts as old.
    #[must_use]
    pub fn settled(&self, now: Timestamp) -> bool {
        self.made().is_none_or(|made| now.duration_since(made) >= SETTLE)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

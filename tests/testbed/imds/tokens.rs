//! Session tokens: issued with a lifetime, valid until its end, all invalidated at once on request.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Longest lifetime of a token, in seconds.
pub const LONGEST: u64 = 21_600;

/// Issued tokens.
#[derive(Debug, Default)]
pub struct Tokens {
    issued: u64,
    ends: BTreeMap<String, Instant>,
}

impl Tokens {
    /// Issues a token for `seconds`, or returns `None` for a lifetime outside of the service's limits.
    pub fn issue(&mut self, seconds: u64, now: Instant) -> Option<String> {
        if !(1..=LONGEST).contains(&seconds) {
            return None;
        }
        self.issued += 1;
        let token = format!("AQAEA-scripted-{:08}==", self.issued);
        self.ends.insert(token.clone(), now + Duration::from_secs(seconds));
        Some(token)
    }

    /// Returns the remaining lifetime of `token`, or `None` if it is invalid.
    pub fn left(&self, token: &str, now: Instant) -> Option<Duration> {
        self.ends.get(token)?.checked_duration_since(now).filter(|left| !left.is_zero())
    }

    /// Makes every token invalid.
    pub fn expire_all(&mut self) {
        self.ends.clear();
    }
}

//! Session tokens: issued for a time, valid until then, all forgotten at once when a test says so.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The longest life a token can be asked for, in seconds.
pub const LONGEST: u64 = 21_600;

/// The tokens that are out.
#[derive(Debug, Default)]
pub struct Tokens {
    issued: u64,
    ends: BTreeMap<String, Instant>,
}

impl Tokens {
    /// A new token for `seconds`, or `None` when the service would not issue one for so long or so short.
    pub fn issue(&mut self, seconds: u64, now: Instant) -> Option<String> {
        if !(1..=LONGEST).contains(&seconds) {
            return None;
        }
        self.issued += 1;
        let token = format!("AQAEA-scripted-{:08}==", self.issued);
        self.ends.insert(token.clone(), now + Duration::from_secs(seconds));
        Some(token)
    }

    /// How long `token` is still good, `None` when it is not.
    pub fn left(&self, token: &str, now: Instant) -> Option<Duration> {
        self.ends.get(token)?.checked_duration_since(now).filter(|left| !left.is_zero())
    }

    /// Makes every token invalid.
    pub fn expire_all(&mut self) {
        self.ends.clear();
    }
}

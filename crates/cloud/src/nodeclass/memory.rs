//! What SSM and IAM said lately: both answer few calls a second, and what they say hardly ever changes (aws 1.6, 2.1).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use parking_lot::{Mutex, MutexGuard};

use crate::calls::{Cloud, InstanceProfile};
use crate::error::CloudError;

/// Parameters behind an alias. A pinned one never changes; for the newest, see [`DOUBT`].
const AWS: SignedDuration = SignedDuration::from_hours(24);
/// Parameters that a class names itself: their owner may change them at any time.
const CUSTOM: SignedDuration = SignedDuration::from_mins(5);
/// A value that may change and whose image is deprecated or gone has probably changed.
const DOUBT: SignedDuration = SignedDuration::from_mins(30);

/// An instance profile that exists.
const PROFILE: SignedDuration = SignedDuration::from_mins(15);

/// How likely it is that a parameter's value changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// It names one release: never.
    Pinned,
    /// It names whatever is newest.
    Latest,
    /// Only its owner knows.
    Custom,
}

#[derive(Clone, Debug)]
struct Value {
    value: Option<String>,
    read: Timestamp,
    keep: Keep,
    doubted: bool,
}

impl Value {
    fn is_fresh(&self, now: Timestamp) -> bool {
        let kept = match self.keep {
            // What is not there may be published tomorrow, or was misspelt.
            _ if self.value.is_none() => CUSTOM,
            Keep::Custom => CUSTOM,
            Keep::Latest if self.doubted => DOUBT,
            Keep::Pinned | Keep::Latest => AWS,
        };
        now.duration_since(self.read) < kept
    }
}

/// What SSM and IAM said lately; one a process.
#[derive(Debug, Default)]
pub struct ResolutionCache {
    parameters: Mutex<BTreeMap<String, Value>>,
    profiles: Mutex<BTreeMap<String, (InstanceProfile, Timestamp)>>,
}

impl ResolutionCache {
    /// The value of a parameter, `None` where there is none: from memory while it is fresh, else from SSM.
    pub(super) async fn parameter(
        &self,
        cloud: &dyn Cloud,
        name: &str,
        keep: Keep,
        now: Timestamp,
    ) -> Result<Option<String>, CloudError> {
        if let Some(known) = lock(&self.parameters).get(name).filter(|known| known.is_fresh(now)) {
            return Ok(known.value.clone());
        }
        let value = cloud.parameter(name).await?;
        let known = Value { value: value.clone(), read: now, keep, doubted: false };
        lock(&self.parameters).insert(name.to_owned(), known);
        Ok(value)
    }

    /// The image that the parameter holds is deprecated or gone.
    pub(super) fn doubt(&self, parameter: &str) {
        if let Some(known) = lock(&self.parameters).get_mut(parameter) {
            known.doubted = true;
        }
    }

    /// An instance profile, `None` where there is none: from memory while it is fresh, else from IAM.
    pub(super) async fn profile(
        &self,
        cloud: &dyn Cloud,
        name: &str,
        now: Timestamp,
    ) -> Result<Option<InstanceProfile>, CloudError> {
        let fresh = |(_, read): &&(InstanceProfile, Timestamp)| now.duration_since(*read) < PROFILE;
        if let Some((known, _)) = lock(&self.profiles).get(name).filter(fresh) {
            return Ok(Some(known.clone()));
        }
        let found = cloud.instance_profile(name).await?;
        match &found {
            Some(profile) => lock(&self.profiles).insert(name.to_owned(), (profile.clone(), now)),
            None => lock(&self.profiles).remove(name),
        };
        Ok(found)
    }

    /// The profile has just been changed: what is remembered of it is no longer true.
    pub fn forget_profile(&self, name: &str) {
        lock(&self.profiles).remove(name);
    }
}

fn lock<T>(known: &Mutex<T>) -> MutexGuard<'_, T> {
    known.lock()
}

//! Cache of answers of SSM and IAM. Both have low rate limits, and their values rarely change.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use parking_lot::{Mutex, MutexGuard};

use crate::calls::{Cloud, CloudError, InstanceProfile};

/// Lifetime of a parameter of an alias. A pinned parameter never changes; for the latest release see [`DOUBT`].
const AWS: SignedDuration = SignedDuration::from_hours(24);
/// Lifetime of a parameter that an EC2NodeClass names itself, which its owner may change at any time.
const CUSTOM: SignedDuration = SignedDuration::from_mins(5);
/// Lifetime of a parameter whose value may change and whose image is deprecated or deleted. Such a parameter has probably
/// changed.
const DOUBT: SignedDuration = SignedDuration::from_mins(30);

/// Lifetime of an existing instance profile.
const PROFILE: SignedDuration = SignedDuration::from_mins(15);

/// Expected change of a parameter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Never: the parameter names one release.
    Pinned,
    /// The parameter names the latest release.
    Latest,
    /// Unknown: the owner of the parameter may change it.
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
            // A missing parameter may be published later, or its name is misspelt.
            _ if self.value.is_none() => CUSTOM,
            Keep::Custom => CUSTOM,
            Keep::Latest if self.doubted => DOUBT,
            Keep::Pinned | Keep::Latest => AWS,
        };
        now.duration_since(self.read) < kept
    }
}

/// Recent answers of SSM and IAM; one cache per process.
#[derive(Debug, Default)]
pub struct ResolutionCache {
    parameters: Mutex<BTreeMap<String, Value>>,
    profiles: Mutex<BTreeMap<String, (InstanceProfile, Timestamp)>>,
}

impl ResolutionCache {
    /// Returns the value of a parameter, `None` if it does not exist: from the cache while fresh, else from SSM.
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

    /// Shortens the lifetime of a parameter whose image is deprecated or deleted.
    pub(super) fn doubt(&self, parameter: &str) {
        if let Some(known) = lock(&self.parameters).get_mut(parameter) {
            known.doubted = true;
        }
    }

    /// Returns an instance profile, `None` if it does not exist: from the cache while fresh, else from IAM.
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

    /// Removes a changed instance profile from the cache.
    pub fn forget_profile(&self, name: &str) {
        lock(&self.profiles).remove(name);
    }
}

fn lock<T>(known: &Mutex<T>) -> MutexGuard<'_, T> {
    known.lock()
}

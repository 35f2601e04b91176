//! A request as IAM evaluates it: action, resource and condition keys.

use std::collections::BTreeMap;

use crate::calls::Tags;

/// Prefixes of the keys whose absence is a fact: a request contains all of its tags.
const COMPLETE_PREFIXES: [&str; 4] = ["aws:requesttag/", "aws:resourcetag/", "ec2:resourcetag/", "iam:resourcetag/"];
/// Further keys whose absence is a fact.
const COMPLETE: [&str; 3] = ["aws:tagkeys", "ec2:createaction", "iam:passedtoservice"];

/// A request to AWS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRequest {
    action: String,
    resource: String,
    /// Values by condition key in lower case: IAM ignores the case of keys.
    keys: BTreeMap<String, Vec<String>>,
}

impl AccessRequest {
    /// Creates a request without condition keys, except for encrypted transport.
    #[must_use]
    pub fn new(action: &str, resource: impl Into<String>) -> Self {
        let request = Self { action: action.to_owned(), resource: resource.into(), keys: BTreeMap::new() };
        request.with("aws:SecureTransport", "true")
    }

    /// Sets one condition key.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.keys.insert(key.to_ascii_lowercase(), vec![value.to_owned()]);
        self
    }

    /// Sets the tags of the request.
    #[must_use]
    pub fn with_request_tags(mut self, tags: &Tags) -> Self {
        for (key, value) in tags {
            self = self.with(&format!("aws:RequestTag/{key}"), value);
        }
        if !tags.is_empty() {
            self.keys.insert("aws:tagkeys".to_owned(), tags.keys().cloned().collect());
        }
        self
    }

    /// Sets the tags of the resource. EC2 and IAM have keys of their own for these tags.
    #[must_use]
    pub fn with_resource_tags(mut self, tags: &Tags) -> Self {
        for (key, value) in tags {
            for service in ["aws", "ec2", "iam"] {
                self = self.with(&format!("{service}:ResourceTag/{key}"), value);
            }
        }
        self
    }

    /// Returns the action, such as `ec2:CreateTags`.
    #[must_use]
    pub fn action(&self) -> &str {
        &self.action
    }

    /// Returns the ARN of the resource, `*` for an action without resources.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Returns the values of a condition key.
    pub(super) fn values(&self, key: &str) -> Option<&[String]> {
        self.keys.get(&key.to_ascii_lowercase()).map(Vec::as_slice)
    }

    /// Reports whether the request certainly lacks a key that it does not contain.
    pub(super) fn is_complete(&self, key: &str) -> bool {
        let key = key.to_ascii_lowercase();
        COMPLETE.contains(&key.as_str()) || COMPLETE_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
    }
}

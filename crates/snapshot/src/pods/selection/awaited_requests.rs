//! ProvisioningRequests without which their pods must not get a node: the capacity does not exist.

use std::collections::BTreeSet;

use api::objects::{Pod, consumed_request};

/// Requests whose pods wait, as `namespace/name`.
#[derive(Default)]
pub(crate) struct AwaitedRequests(pub(crate) BTreeSet<String>);

impl AwaitedRequests {
    /// Returns the request for which a pod waits.
    pub(super) fn of(&self, pod: &Pod) -> Option<String> {
        if self.0.is_empty() { None } else { consumed_request(pod).filter(|request| self.0.contains(request)) }
    }
}

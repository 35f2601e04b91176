//! Specification of a pod whose memory equal pods share.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::PodSpec;

/// Specification of a pod: its node, and the rest, which pods of one workload share.
///
/// A change of the rest by [`DerefMut`] first copies it, if another pod shares it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "PodSpec", into = "PodSpec")]
pub struct SharedPodSpec {
    /// Node that the pod is bound to. Empty while the pod is not bound.
    pub node_name: String,
    rest: Arc<PodSpec>,
}

impl SharedPodSpec {
    /// Returns the specification without the node.
    #[must_use]
    pub fn rest(&self) -> &Arc<PodSpec> {
        &self.rest
    }

    /// Replaces the specification without the node by an equal one that other pods use.
    pub fn share(&mut self, equal: Arc<PodSpec>) {
        debug_assert_eq!(self.rest, equal, "only the memory changes");
        self.rest = equal;
    }
}

impl From<PodSpec> for SharedPodSpec {
    fn from(mut spec: PodSpec) -> Self {
        Self { node_name: std::mem::take(&mut spec.node_name), rest: Arc::new(spec) }
    }
}

impl From<SharedPodSpec> for PodSpec {
    fn from(spec: SharedPodSpec) -> Self {
        Self { node_name: spec.node_name, ..Arc::unwrap_or_clone(spec.rest) }
    }
}

impl Deref for SharedPodSpec {
    type Target = PodSpec;

    fn deref(&self) -> &PodSpec {
        &self.rest
    }
}

impl DerefMut for SharedPodSpec {
    fn deref_mut(&mut self) -> &mut PodSpec {
        Arc::make_mut(&mut self.rest)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::SharedPodSpec;

    #[test]
    fn deref_mut_copies_the_specification_when_pods_share_it() {
        let read = |node: &str| -> SharedPodSpec {
            serde_json::from_value(json!({"nodeName": node, "containers": [{"name": "web"}]})).unwrap()
        };
        let (one, mut other) = (read("a"), read("b"));
        assert_ne!(one, other);
        other.share(one.rest().clone());
        assert!(std::sync::Arc::ptr_eq(one.rest(), other.rest()));
        other.host_network = true;
        assert_eq!((one.host_network, other.host_network), (false, true));
        assert_eq!((one, other.node_name.as_str()), (read("a"), "b"));
    }

    #[test]
    fn serialize_writes_the_node_into_the_specification() {
        let written = json!({"nodeName": "a", "containers": [], "hostNetwork": true});
        let spec: SharedPodSpec = serde_json::from_value(written.clone()).unwrap();
        assert_eq!((spec.node_name.as_str(), spec.rest().node_name.as_str()), ("a", ""));
        assert_eq!(serde_json::to_value(&spec).unwrap(), written);
    }
}

//! Objects of a cluster, one list per kind.

use std::sync::Arc;

use api::objects::{
    CSINode, DaemonSet, Deployment, Job, LimitRange, Namespace, Node, NodeReport, PersistentVolume,
    PersistentVolumeClaim, Pod, PodDisruptionBudget, PodTemplate, PriorityClass, ReplicaSet, RuntimeClass, StatefulSet,
    StorageClass,
};
use api::{
    CapacityBuffer, Commitment, EC2NodeClass, NodeClaim, NodeOverlay, NodePool, ProvisioningRequest, SpendPolicy,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Input;

/// Object with its metadata.
trait Named {
    fn metadata(&self) -> &ObjectMeta;

    /// Returns namespace and name.
    fn key(&self) -> (&str, &str) {
        let metadata = self.metadata();
        (metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
    }
}

/// Defines the lists, each with the type and the Kubernetes kind of its objects.
macro_rules! lists {
    ($($list:ident: $object:ty, $kind:literal;)*) => {
        /// Objects of a cluster, one list per kind. An object without a namespace is in namespace `default` if its kind is namespaced.
        #[derive(Clone, Debug, Default, PartialEq)]
        #[expect(missing_docs, reason = "each list holds the kind of its element type")]
        pub struct Objects {
            $(pub $list: Vec<Arc<$object>>,)*
        }

        $(impl Named for $object {
            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }
        })*

        impl Objects {
            /// Takes over objects, in place of those with the same kind, namespace and name. Returns whether anything changed. Every list
            /// must be sorted by namespace and name, and remains so.
            pub fn merge(&mut self, objects: Self) -> bool {
                let mut changed = false;
                $(for object in objects.$list {
                    changed |= set(&mut self.$list, object);
                })*
                changed
            }

            /// Removes an object from a sorted list. Returns whether it existed.
            pub fn remove(&mut self, kind: &str, namespace: &str, name: &str) -> bool {
                match kind {
                    $($kind => remove(&mut self.$list, namespace, name),)*
                    _ => false,
                }
            }
        }
    };
}

lists! {
    classes: EC2NodeClass, "EC2NodeClass";
    pools: NodePool, "NodePool";
    overlays: NodeOverlay, "NodeOverlay";
    claims: NodeClaim, "NodeClaim";
    spend_policies: SpendPolicy, "SpendPolicy";
    commitments: Commitment, "Commitment";
    buffers: CapacityBuffer, "CapacityBuffer";
    requests: ProvisioningRequest, "ProvisioningRequest";
    nodes: Node, "Node";
    usages: NodeReport, "NodeUsage";
    pods: Pod, "Pod";
    pod_templates: PodTemplate, "PodTemplate";
    deployments: Deployment, "Deployment";
    replica_sets: ReplicaSet, "ReplicaSet";
    stateful_sets: StatefulSet, "StatefulSet";
    daemon_sets: DaemonSet, "DaemonSet";
    jobs: Job, "Job";
    budgets: PodDisruptionBudget, "PodDisruptionBudget";
    volume_claims: PersistentVolumeClaim, "PersistentVolumeClaim";
    volumes: PersistentVolume, "PersistentVolume";
    storage_classes: StorageClass, "StorageClass";
    csi_nodes: CSINode, "CSINode";
    namespaces: Namespace, "Namespace";
    limit_ranges: LimitRange, "LimitRange";
    runtime_classes: RuntimeClass, "RuntimeClass";
    priority_classes: PriorityClass, "PriorityClass";
}

impl Objects {
    /// Returns the input of a snapshot with these objects, without catalogues.
    #[must_use]
    pub fn input(&self, now: Timestamp) -> Input<'_> {
        Input {
            pods: self.pods.iter().collect(),
            nodes: self.nodes.iter().collect(),
            claims: self.claims.iter().collect(),
            pools: self.pools.iter().collect(),
            daemon_sets: self.daemon_sets.iter().collect(),
            budgets: self.budgets.iter().collect(),
            usages: self.usages.iter().collect(),
            volume_claims: self.volume_claims.iter().collect(),
            volumes: self.volumes.iter().collect(),
            storage_classes: self.storage_classes.iter().collect(),
            csi_nodes: self.csi_nodes.iter().collect(),
            namespaces: self.namespaces.iter().collect(),
            overlays: self.overlays.iter().collect(),
            buffers: self.buffers.iter().collect(),
            requests: self.requests.iter().collect(),
            spend_policies: self.spend_policies.iter().collect(),
            commitments: self.commitments.iter().collect(),
            pod_templates: self.pod_templates.iter().collect(),
            deployments: self.deployments.iter().collect(),
            replica_sets: self.replica_sets.iter().collect(),
            stateful_sets: self.stateful_sets.iter().collect(),
            limit_ranges: self.limit_ranges.iter().collect(),
            runtime_classes: self.runtime_classes.iter().collect(),
            priority_classes: self.priority_classes.iter().collect(),
            ..Input::at(now)
        }
    }
}

fn set<T: Named + PartialEq>(list: &mut Vec<Arc<T>>, object: Arc<T>) -> bool {
    match list.binary_search_by(|known| known.key().cmp(&object.key())) {
        Ok(place) if list[place] == object => false,
        Ok(place) => {
            list[place] = object;
            true
        }
        Err(place) => {
            list.insert(place, object);
            true
        }
    }
}

fn remove<T: Named>(list: &mut Vec<Arc<T>>, namespace: &str, name: &str) -> bool {
    let place = list.binary_search_by(|known| known.key().cmp(&(namespace, name)));
    place.is_ok_and(|place| {
        list.remove(place);
        true
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, unschedulable: bool) -> Objects {
        let mut node = Node::default();
        node.metadata.name = Some(name.to_owned());
        node.spec.unschedulable = unschedulable;
        Objects { nodes: vec![Arc::new(node)], ..Objects::default() }
    }

    #[test]
    fn merge_and_remove_keep_the_lists_sorted() {
        let mut objects = Objects::default();
        let changed = [node("b", false), node("a", false), node("b", false), node("b", true)];
        assert_eq!(changed.map(|more| objects.merge(more)), [true, true, false, true]);
        let names = |objects: &Objects| objects.nodes.iter().map(|node| node.name().to_owned()).collect::<Vec<_>>();
        assert_eq!(names(&objects), ["a", "b"]);
        assert!(!objects.remove("Pod", "", "a") && objects.remove("Node", "", "a") && !objects.remove("Node", "", "a"));
        assert_eq!(names(&objects), ["b"]);
        assert_eq!(objects.input(Timestamp::UNIX_EPOCH).nodes.len(), 1);
    }
}

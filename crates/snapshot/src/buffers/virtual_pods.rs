//! Virtual pods: pods that exist only in the plan, for which a CapacityBuffer or a ProvisioningRequest keeps capacity.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use planner::{CapacityHolder, PodGroup, PodShape};

use crate::millis;
use crate::pods::selection::PodSelection;

/// Equal virtual pods of one object.
pub(crate) struct VirtualPods<'a> {
    /// Metadata of the object.
    pub(super) metadata: &'a ObjectMeta,
    pub(super) holder: CapacityHolder,
    /// Beginning of their names, which the number of the pod completes.
    pub(super) prefix: String,
    /// Shape of one pod. [`crate::SnapshotCache`] completes its labels.
    pub(crate) shape: PodShape,
    pub(super) count: i32,
    /// Group of all virtual pods of the object, if they get their places together or not at all.
    pub(super) group: Option<Arc<PodGroup>>,
}

impl VirtualPods<'_> {
    /// Adds the virtual pods. The labels of the shape are final at this point.
    pub(crate) fn add(self, selection: &mut PodSelection<'_>) {
        let namespace = self.metadata.namespace.as_deref().unwrap_or_default();
        let uid = self.metadata.uid.as_deref().unwrap_or_default();
        let created = self.metadata.creation_timestamp.as_ref().map(|at| millis(at.0)).unwrap_or_default();
        let shape = Arc::new(self.shape);
        for number in 0..self.count {
            let name = format!("{}-{number}", self.prefix);
            let pod = planner::Pod {
                uid: format!("{uid}/{name}"),
                name: format!("{namespace}/{name}"),
                created,
                holder: Some(self.holder.clone()),
                group: self.group.clone(),
                ..planner::Pod::default()
            };
            selection.add_virtual_pod(&shape, pod);
        }
    }
}

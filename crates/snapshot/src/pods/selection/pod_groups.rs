//! Pod groups, with the number of their pods that run already.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::objects::{Pod, pod_group};
use planner::PodGroup;

use crate::pods::records::Records;

/// Groups of all pods, by name.
#[derive(Default)]
pub(crate) struct PodGroups(BTreeMap<String, Arc<PodGroup>>);

impl PodGroups {
    /// Counts the pods of each group. If its pods name different numbers, the highest applies.
    pub(crate) fn new(records: &Records) -> Self {
        let mut groups: BTreeMap<String, PodGroup> = BTreeMap::new();
        for record in records.grouped() {
            let Ok(Some(requested)) = pod_group(&record.pod) else { continue };
            let name = requested.name.clone();
            let group = groups.entry(requested.name).or_insert_with(|| PodGroup { name, ..PodGroup::default() });
            group.least = group.least.max(requested.least);
            group.running += u32::from(has_started(&record.pod));
        }
        Self(groups.into_iter().map(|(name, group)| (name, Arc::new(group))).collect())
    }

    /// Returns the group of a pod.
    pub(crate) fn of(&self, pod: &Pod) -> Option<Arc<PodGroup>> {
        let requested = pod_group(pod).ok().flatten()?;
        self.0.get(&requested.name).cloned()
    }
}

/// Reports whether the pod has a node, or is complete. A pod that failed is replaced by another one.
fn has_started(pod: &Pod) -> bool {
    let is_complete = pod.status.phase == "Succeeded";
    is_complete || pod.is_bound() && !pod.is_terminal() && !pod.is_terminating()
}

//! Pods whose launches are paused in some NodePools.

use std::collections::BTreeMap;
use std::sync::Arc;

use planner::{LaunchPause, PodShape};

use crate::Delays;

/// Gives pods with pauses a shape of their own, so that the planner decides about them apart from equal pods.
pub(crate) fn pause_launches(delays: &Delays, shapes: &mut Vec<Arc<PodShape>>, pods: &mut [planner::Pod]) {
    let mut known: BTreeMap<(usize, &[LaunchPause]), usize> = BTreeMap::new();
    for pod in pods {
        let pauses = match &pod.holder {
            Some(_) if !shapes[pod.shape].paused.is_empty() => continue,
            Some(holder) => delays.holders.get(holder),
            None => delays.pods.get(&pod.uid),
        };
        let Some(pauses) = pauses.filter(|pauses| !pauses.is_empty()) else { continue };
        pod.shape = *known.entry((pod.shape, pauses)).or_insert_with(|| {
            shapes.push(Arc::new(PodShape { paused: pauses.clone(), ..shapes[pod.shape].as_ref().clone() }));
            shapes.len() - 1
        });
    }
}

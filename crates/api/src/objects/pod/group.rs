//! Groups of pods that get their places together or not at all, from annotations of Kerf or of Kueue.

use super::Pod;
use crate::names::annotation::{
    CONSUMES_REQUEST, KUEUE_POD_GROUP, KUEUE_POD_GROUP_COUNT, OLDER_CONSUMES_REQUEST, POD_GROUP, POD_GROUP_MIN,
};

/// Group of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedGroup {
    /// Name, `namespace/name`.
    pub name: String,
    /// Number of pods that must get places together.
    pub least: u32,
}

/// Error for annotations that name no group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidGroup {
    /// Number of pods that is none.
    #[error("annotation {annotation} is ignored: {text:?} is not a number of pods; write a number such as 50")]
    Number {
        /// Key of the annotation.
        annotation: &'static str,
        /// Value of the annotation.
        text: String,
    },
    /// Group without a number of pods.
    #[error("annotation kerf.sh/pod-group is ignored: add kerf.sh/pod-group-min with the number of pods, such as 50")]
    NoNumber,
    /// Number of pods without a group.
    #[error(
        "annotation kerf.sh/pod-group-min is ignored: the pod has no owner, so name its group with kerf.sh/pod-group"
    )]
    NoName,
}

/// Returns the group of a pod, if it has one. Kerf's annotations take precedence over those of Kueue.
///
/// # Errors
/// Returns an error if the annotations name no group.
pub fn pod_group(pod: &Pod) -> Result<Option<RequestedGroup>, InvalidGroup> {
    let owner = || pod.controller().map(|owner| owner.name.as_str());
    let (key, number, name) = match (pod.annotation(POD_GROUP_MIN), pod.annotation(POD_GROUP)) {
        (Some(number), name) => (POD_GROUP_MIN, number, name.or_else(owner).ok_or(InvalidGroup::NoName)?),
        (None, Some(_)) => return Err(InvalidGroup::NoNumber),
        (None, None) => {
            let name = pod.metadata.labels.as_ref().and_then(|labels| labels.get(KUEUE_POD_GROUP));
            let Some((number, name)) = pod.annotation(KUEUE_POD_GROUP_COUNT).zip(name) else { return Ok(None) };
            (KUEUE_POD_GROUP_COUNT, number, name.as_str())
        }
    };
    let least = number.parse().ok().filter(|least| *least > 0);
    let least = least.ok_or_else(|| InvalidGroup::Number { annotation: key, text: number.to_owned() })?;
    Ok(Some(RequestedGroup { name: format!("{}/{name}", pod.namespace()), least }))
}

/// Returns the ProvisioningRequest that has capacity for the pod, as `namespace/name`.
#[must_use]
pub fn consumed_request(pod: &Pod) -> Option<String> {
    let name = pod.annotation(CONSUMES_REQUEST).or_else(|| pod.annotation(OLDER_CONSUMES_REQUEST))?;
    Some(format!("{}/{name}", pod.namespace()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn group(metadata: Value) -> Result<Option<RequestedGroup>, InvalidGroup> {
        let mut pod: Pod = serde_json::from_value(json!({"metadata": metadata, "spec": {"containers": []}})).unwrap();
        pod.metadata.namespace = Some("ml".to_owned());
        pod_group(&pod)
    }

    #[test]
    fn pod_group_reads_kerf_and_kueue() {
        let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "1", "controller": true}]);
        let named = |name: &str, least| Ok(Some(RequestedGroup { name: format!("ml/{name}"), least }));
        let kueue = json!({"kueue.x-k8s.io/pod-group-name": "sweep"});
        let rows = [
            (json!({}), Ok(None)),
            (json!({"annotations": {"kerf.sh/pod-group-min": "8"}, "ownerReferences": owner}), named("train", 8)),
            (json!({"annotations": {"kerf.sh/pod-group-min": "8", "kerf.sh/pod-group": "a"}}), named("a", 8)),
            (json!({"annotations": {"kueue.x-k8s.io/pod-group-total-count": "3"}, "labels": kueue}), named("sweep", 3)),
            (json!({"labels": kueue}), Ok(None)),
            (json!({"annotations": {"kerf.sh/pod-group-min": "8"}}), Err(InvalidGroup::NoName)),
            (json!({"annotations": {"kerf.sh/pod-group": "a"}}), Err(InvalidGroup::NoNumber)),
            (
                json!({"annotations": {"kerf.sh/pod-group-min": "all", "kerf.sh/pod-group": "a"}}),
                Err(InvalidGroup::Number { annotation: POD_GROUP_MIN, text: "all".to_owned() }),
            ),
            (
                json!({"annotations": {"kueue.x-k8s.io/pod-group-total-count": "0"}, "labels": kueue}),
                Err(InvalidGroup::Number { annotation: KUEUE_POD_GROUP_COUNT, text: "0".to_owned() }),
            ),
        ];
        for (metadata, expected) in rows {
            assert_eq!(group(metadata.clone()), expected, "{metadata}");
        }
    }
}

//! Pods whose requests change while they run: their original requests, the resources that kubelet has allocated so far, and the
//! pods that may change.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::container::{Container, ResourceRequirements};
use super::requests::{Amounts, amounts, pod_requests};
use super::{Pod, PodSpec};
use crate::names::{annotation, condition};
use crate::objects::ResourceList;
use crate::units::quantity::{self, CPU, InvalidQuantity, MEMORY, Quantity};

/// Reason of kubelet on a pod whose resize its node can never grant.
const INFEASIBLE: &str = "Infeasible";

/// CPU and memory requests of a pod's containers before Kerf lowered them, by container name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Requested(pub BTreeMap<String, ResourceList>);

/// Error for an annotation `kerf.sh/requested` that Kerf did not write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "annotation kerf.sh/requested is ignored: {text:?} is not a map from containers to amounts; delete the \
     annotation, or write it like {{\"web\":{{\"cpu\":\"2\"}}}}"
)]
pub struct InvalidRequested {
    /// Text as received.
    pub text: String,
}

impl Requested {
    /// Parses the annotation.
    ///
    /// # Errors
    /// Returns an error if the text is not a table of amounts.
    pub fn read(text: &str) -> Result<Self, InvalidRequested> {
        let read: Option<Self> = serde_json::from_str(text).ok();
        let valid = |own: &Self| own.0.values().all(|list| amounts(list).is_ok());
        read.filter(valid).ok_or_else(|| InvalidRequested { text: text.to_owned() })
    }

    /// Returns the text of the annotation.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::json!(self.0).to_string()
    }

    /// Returns the original request of a container for a resource, in Kerf's unit.
    #[must_use]
    pub fn amount(&self, container: &str, resource: &str) -> Option<i64> {
        self.0.get(container)?.get(resource)?.amount(resource).ok()
    }
}

impl Pod {
    /// Returns the requests of the pod before Kerf lowered them, or `None` if Kerf did not.
    ///
    /// # Errors
    /// Returns an error if the annotation is invalid.
    pub fn requested(&self) -> Result<Option<Requested>, InvalidRequested> {
        self.annotation(annotation::REQUESTED).map(Requested::read).transpose()
    }

    /// Returns the specification with which the owner of the pod would create it again: with the requests before Kerf lowered
    /// them. Higher requests that another client has set since then are kept.
    #[must_use]
    pub fn in_full(&self) -> Cow<'_, PodSpec> {
        let Ok(Some(requested)) = self.requested() else { return Cow::Borrowed(&self.spec) };
        let mut spec = PodSpec::clone(&self.spec);
        for container in &mut spec.containers {
            for resource in [CPU, MEMORY] {
                let before = requested.amount(&container.name, resource);
                raise(&mut container.resources.requests, resource, before);
            }
        }
        Cow::Owned(spec)
    }

    /// Returns the resources that the pod takes on its node, as the scheduler counts them. For each container the maximum
    /// counts of its requests, its allocated resources and the resources with which it runs. A resize therefore counts with its
    /// larger side until kubelet has completed it.
    ///
    /// # Errors
    /// Returns an error if an amount is not a quantity.
    pub fn taken(&self) -> Result<Amounts, InvalidQuantity> {
        if self.status.container_statuses.is_empty() {
            return pod_requests(&self.spec);
        }
        let mut spec = PodSpec::clone(&self.spec);
        for container in &mut spec.containers {
            for (resource, amount) in self.given(&container.name)? {
                raise(&mut container.resources.requests, &resource, Some(amount));
            }
        }
        pod_requests(&spec)
    }

    /// Returns the resources that kubelet has allocated to a container.
    fn given(&self, container: &str) -> Result<Amounts, InvalidQuantity> {
        let mut most = Amounts::new();
        for status in self.status.container_statuses.iter().filter(|status| status.name == container) {
            let running = status.resources.iter().map(|resources| &resources.requests);
            for list in running.chain([&status.allocated_resources]) {
                for (resource, amount) in amounts(list)? {
                    let known = most.entry(resource).or_default();
                    *known = amount.max(*known);
                }
            }
        }
        Ok(most)
    }

    /// Removes the statuses of containers that run with their requests, which is the case for nearly all containers. Keeps
    /// since when all containers run.
    pub fn forget_usual_statuses(&mut self) {
        self.status.containers_started = self.containers_started();
        let requests: BTreeMap<&str, &Container> =
            self.spec.containers.iter().map(|it| (it.name.as_str(), it)).collect();
        let more = |own: &ResourceList, known: &ResourceList| {
            own.iter().any(|(resource, amount)| {
                let requested = known.get(resource).and_then(|requested| requested.amount(resource).ok());
                amount.amount(resource).ok() > requested
            })
        };
        self.status.container_statuses.retain(|status| {
            let running = status.resources.iter().map(|resources| &resources.requests);
            let mut lists = running.chain([&status.allocated_resources]);
            requests.get(status.name.as_str()).is_some_and(|it| lists.any(|list| more(list, &it.resources.requests)))
        });
    }

    /// Reports whether the QoS class of the pod is Guaranteed. Any other request would change the class, which the API server
    /// refuses.
    #[must_use]
    pub fn is_guaranteed(&self) -> bool {
        let mut all = self.spec.containers.iter().chain(&self.spec.init_containers).peekable();
        let equal = |container: &Container, resource: &str| {
            let ResourceRequirements { requests, limits } = &container.resources;
            let amount = |list: &ResourceList| list.get(resource).and_then(|it| it.amount(resource).ok());
            amount(limits).is_some_and(|limit| amount(requests).is_none_or(|request| request == limit))
        };
        all.peek().is_some() && all.all(|container| [CPU, MEMORY].iter().all(|resource| equal(container, resource)))
    }

    /// Reports whether kubelet has reported that it can never grant the current requests of the pod.
    #[must_use]
    pub fn is_infeasible(&self) -> bool {
        let pending = self.condition(condition::POD_RESIZE_PENDING);
        pending.is_some_and(|it| it.status == condition::TRUE && it.reason == INFEASIBLE)
    }
}

/// Raises an amount that is present to at least `least`.
fn raise(list: &mut ResourceList, resource: &str, least: Option<i64>) {
    let Some((present, least)) = list.get_mut(resource).zip(least) else { return };
    if present.amount(resource).is_ok_and(|present| present < least) {
        *present = Quantity(quantity::text(resource, least));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(containers: serde_json::Value, statuses: serde_json::Value, requested: Option<&str>) -> Pod {
        let annotations = requested.map(|text| json!({annotation::REQUESTED: text}));
        let value = json!({
            "metadata": {"name": "a", "annotations": annotations},
            "spec": {"containers": containers},
            "status": {"containerStatuses": statuses},
        });
        serde_json::from_value(value).unwrap()
    }

    fn container(requests: serde_json::Value, limits: serde_json::Value) -> serde_json::Value {
        json!({"name": "web", "resources": {"requests": requests, "limits": limits}})
    }

    #[test]
    fn in_full_restores_lowered_requests_only() {
        let lowered = container(json!({"cpu": "500m", "memory": "4Gi"}), json!({}));
        let text = r#"{"web":{"cpu":"2","memory":"1Gi"},"gone":{"cpu":"7"}}"#;
        let full = pod_requests(&pod(json!([lowered.clone()]), json!([]), Some(text)).in_full()).unwrap();
        assert_eq!((full["cpu"], full["memory"]), (2000, 4 << 30));
        for unread in ["", "[]", r#"{"web":{"cpu":"two"}}"#] {
            let pod = pod(json!([lowered.clone()]), json!([]), Some(unread));
            assert_eq!(*pod.in_full(), *pod.spec);
            let error = pod.requested().unwrap_err().to_string();
            assert!(error.contains("kerf.sh/requested") && error.contains("delete the annotation"), "{error}");
        }
        let requested = Requested::read(text).unwrap();
        assert_eq!(Requested::read(&requested.text()), Ok(requested));
    }

    #[test]
    fn taken_counts_the_maximum_during_a_resize() {
        let lowered = container(json!({"cpu": "500m", "memory": "1Gi"}), json!({}));
        let status = |allocated: &str, runs: &str| json!([{"name": "web", "allocatedResources": {"cpu": allocated}, "resources": {"requests": {"cpu": runs}}}]);
        let rows = [
            (json!([]), 500, 0),
            (status("500m", "500m"), 500, 0),
            (status("500m", "2"), 2000, 1),
            (status("2", "2"), 2000, 1),
            (status("100m", "100m"), 500, 0),
        ];
        for (statuses, taken, kept) in rows {
            let mut pod = pod(json!([lowered.clone()]), statuses, None);
            assert_eq!(pod.taken().unwrap()["cpu"], taken);
            pod.forget_usual_statuses();
            assert_eq!((pod.status.container_statuses.len(), pod.taken().unwrap()["cpu"]), (kept, taken));
        }
    }

    #[test]
    fn is_guaranteed_matches_the_api_server() {
        let rows = [
            (json!({"cpu": "1", "memory": "1Gi"}), json!({"cpu": "1000m", "memory": "1024Mi"}), true),
            (json!({}), json!({"cpu": "1", "memory": "1Gi"}), true),
            (json!({"cpu": "1", "memory": "1Gi"}), json!({"cpu": "2", "memory": "1Gi"}), false),
            (json!({"cpu": "1", "memory": "1Gi"}), json!({"memory": "1Gi"}), false),
            (json!({}), json!({}), false),
        ];
        for (requests, limits, expected) in rows {
            let pod = pod(json!([container(requests, limits)]), json!([]), None);
            assert_eq!(pod.is_guaranteed(), expected, "{:?}", pod.spec);
        }
        assert!(!Pod::default().is_guaranteed());
    }
}

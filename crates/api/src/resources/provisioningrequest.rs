//! ProvisioningRequest (`autoscaling.x-k8s.io/v1`): capacity for pods that do not exist yet, for all of them or for none.
//!
//! Kueue creates one for each workload that it admits, and starts the pods once the capacity exists.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::capacitybuffer::LocalObjectRef;
use super::schema_rules::{cel_rule, values};
use super::status::Condition;
use crate::names::condition::{BOOKING_EXPIRED, CAPACITY_REVOKED, FAILED, PROVISIONED, TRUE};

/// Time for which provisioned capacity is kept for the pods of a request.
pub const BOOKING: SignedDuration = SignedDuration::from_mins(10);
/// Time in which the capacity of a request must exist, unless the request has [`VALID_UNTIL_SECONDS`].
const VALIDITY: SignedDuration = SignedDuration::from_hours(7 * 24);
/// Parameter: maximum time from the creation of the request until its capacity exists, in seconds.
pub const VALID_UNTIL_SECONDS: &str = "ValidUntilSeconds";
/// Parameter of [`RequestClass::CheckCapacity`]: `true` if the request fails when the capacity does not exist now.
pub const NO_RETRY: &str = "noRetry";

/// Pods for which capacity is requested.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "autoscaling.x-k8s.io",
    version = "v1",
    kind = "ProvisioningRequest",
    plural = "provisioningrequests",
    shortname = "provreq",
    shortname = "provreqs",
    category = "autoscaling",
    namespaced,
    status = "ProvisioningRequestStatus",
    derive = "PartialEq",
    doc = "Capacity for pods that do not exist yet, for all of them or for none.",
    printcolumn = r#"{"name":"Accepted","type":"string","jsonPath":".status.conditions[?(@.type=='Accepted')].status"}"#,
    printcolumn = r#"{"name":"Provisioned","type":"string","jsonPath":".status.conditions[?(@.type=='Provisioned')].status"}"#,
    printcolumn = r#"{"name":"Failed","type":"string","jsonPath":".status.conditions[?(@.type=='Failed')].status"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [cel_rule("self == oldSelf", "Value is immutable")]))]
pub struct ProvisioningRequestSpec {
    /// Groups of equal pods.
    #[schemars(extend("minItems" = 1, "maxItems" = 32))]
    pub pod_sets: Vec<PodSet>,
    /// Class of the request, which says who handles it and in which way.
    #[schemars(extend(
        "maxLength" = 253,
        "pattern" = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
    ))]
    pub provisioning_class_name: String,
    /// Parameters of the class.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 100), transform = values(serde_json::json!({"maxLength": 255})))]
    pub parameters: BTreeMap<String, String>,
}

/// Equal pods of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSet {
    /// PodTemplate of one pod, in the namespace of the request.
    pub pod_template_ref: LocalObjectRef,
    /// Number of pods.
    #[schemars(extend("minimum" = 1))]
    pub count: i32,
}

/// Observed state of a ProvisioningRequest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProvisioningRequestStatus {
    /// Conditions of the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Values for the pods of the request, which Kueue adds to them. Kerf sets none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64), transform = values(serde_json::json!({"maxLength": 32768})))]
    pub provisioning_class_details: BTreeMap<String, String>,
}

/// Class of a request that Kerf handles. Other programs handle other classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestClass {
    /// The capacity of existing nodes is booked. Nothing is launched.
    CheckCapacity,
    /// Nodes are launched, if all pods of the request get a place.
    AtomicScaleUp,
}

impl RequestClass {
    /// Classes with their names.
    const NAMES: [(&str, Self); 2] = [
        ("check-capacity.autoscaling.x-k8s.io", Self::CheckCapacity),
        ("best-effort-atomic-scale-up.autoscaling.x-k8s.io", Self::AtomicScaleUp),
    ];
}

/// Phase of a request, from its conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPhase {
    /// Its capacity does not exist yet.
    Waiting,
    /// Its capacity is kept until this time.
    Booked(Timestamp),
    /// Its capacity is no longer kept. The pods are planned like other pods.
    Ended,
    /// Its capacity never existed.
    Failed,
}

/// Error for a parameter with an invalid value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("spec.parameters[{name}]: {text:?} is not {expected}")]
pub struct InvalidParameter {
    /// Name of the parameter.
    pub name: &'static str,
    /// Value of the parameter.
    pub text: String,
    /// Description of valid values.
    expected: &'static str,
}

impl ProvisioningRequest {
    /// Returns the class of the request; `None` if another program handles it.
    #[must_use]
    pub fn class(&self) -> Option<RequestClass> {
        let class = &self.spec.provisioning_class_name;
        RequestClass::NAMES.iter().find(|(name, _)| name == class).map(|(_, class)| *class)
    }

    /// Returns the phase of the request.
    #[must_use]
    pub fn phase(&self) -> RequestPhase {
        let conditions = self.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let is_true = |type_: &str| conditions.iter().find(|it| it.type_ == type_ && it.status == TRUE);
        if is_true(FAILED).is_some() {
            return RequestPhase::Failed;
        }
        if is_true(BOOKING_EXPIRED).or_else(|| is_true(CAPACITY_REVOKED)).is_some() {
            return RequestPhase::Ended;
        }
        let provisioned = is_true(PROVISIONED).map(|it| it.last_transition_time.0);
        provisioned.map_or(RequestPhase::Waiting, |at| RequestPhase::Booked(at.saturating_add(BOOKING).unwrap_or(at)))
    }

    /// Returns the time by which the capacity must exist. A request that is in no cluster yet has all the time.
    ///
    /// # Errors
    /// Returns an error if the parameter is not a number of seconds.
    pub fn valid_until(&self) -> Result<Timestamp, InvalidParameter> {
        let validity = match self.spec.parameters.get(VALID_UNTIL_SECONDS) {
            None => VALIDITY,
            Some(text) => {
                let seconds = text.parse().ok().filter(|seconds| *seconds > 0).map(SignedDuration::from_secs);
                seconds.ok_or_else(|| InvalidParameter {
                    name: VALID_UNTIL_SECONDS,
                    text: text.clone(),
                    expected: "a number of seconds such as 3600",
                })?
            }
        };
        let created = self.metadata.creation_timestamp.as_ref();
        Ok(created.and_then(|at| at.0.checked_add(validity).ok()).unwrap_or(Timestamp::MAX))
    }

    /// Reports whether the request fails when the capacity does not exist now.
    ///
    /// # Errors
    /// Returns an error if the parameter is neither `true` nor `false`.
    pub fn is_tried_once(&self) -> Result<bool, InvalidParameter> {
        let text = self.spec.parameters.get(NO_RETRY).map_or("false", String::as_str);
        let invalid =
            |_| InvalidParameter { name: NO_RETRY, text: text.to_owned(), expected: "a switch: write true or false" };
        text.to_ascii_lowercase().parse().map_err(invalid)
    }

    /// Returns the parameters that no class reads.
    pub fn unknown_parameters(&self) -> impl Iterator<Item = &str> {
        let known: &[&str] = match self.class() {
            Some(RequestClass::CheckCapacity) => &[VALID_UNTIL_SECONDS, NO_RETRY],
            _ => &[VALID_UNTIL_SECONDS],
        };
        self.spec.parameters.keys().map(String::as_str).filter(|name| !known.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn request(parameters: Value, conditions: Value) -> ProvisioningRequest {
        serde_json::from_value(json!({
            "apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest",
            "metadata": {"name": "train", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "podSets": [{"podTemplateRef": {"name": "train"}, "count": 2}],
                "provisioningClassName": "best-effort-atomic-scale-up.autoscaling.x-k8s.io",
                "parameters": parameters,
            },
            "status": {"conditions": conditions},
        }))
        .unwrap()
    }

    fn condition(type_: &str, status: &str) -> Value {
        json!({
            "type": type_, "status": status, "reason": "Some", "message": "",
            "lastTransitionTime": "2026-01-01T01:00:00Z",
        })
    }

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn phase_follows_the_conditions() {
        let (provisioned, failed) = (condition(PROVISIONED, "True"), condition(FAILED, "True"));
        let rows = [
            (json!([]), RequestPhase::Waiting),
            (json!([condition(PROVISIONED, "False")]), RequestPhase::Waiting),
            (json!([provisioned]), RequestPhase::Booked(time("2026-01-01T01:10:00Z"))),
            (json!([provisioned, condition(BOOKING_EXPIRED, "True")]), RequestPhase::Ended),
            (json!([provisioned, condition(CAPACITY_REVOKED, "True")]), RequestPhase::Ended),
            (json!([condition(PROVISIONED, "False"), failed]), RequestPhase::Failed),
        ];
        for (conditions, expected) in rows {
            assert_eq!(request(json!({}), conditions.clone()).phase(), expected, "{conditions}");
        }
    }

    #[test]
    fn parameters_limit_the_time_of_a_request() {
        let until = |parameters| request(parameters, json!([])).valid_until().map_err(|error| error.to_string());
        assert_eq!(until(json!({})), Ok(time("2026-01-08T00:00:00Z")));
        assert_eq!(until(json!({VALID_UNTIL_SECONDS: "3600"})), Ok(time("2026-01-01T01:00:00Z")));
        for text in ["0", "-5", "1h", ""] {
            let expected = format!("spec.parameters[{VALID_UNTIL_SECONDS}]: {text:?} is not a number of seconds");
            let error = until(json!({VALID_UNTIL_SECONDS: text})).unwrap_err();
            assert!(error.starts_with(&expected), "{error}");
        }
    }

    #[test]
    fn parameters_that_no_class_reads_are_found() {
        let with = |parameters| request(parameters, json!([]));
        assert_eq!(with(json!({NO_RETRY: "TRUE"})).is_tried_once(), Ok(true));
        assert!(with(json!({NO_RETRY: "yes"})).is_tried_once().is_err());
        let request = with(json!({NO_RETRY: "true", VALID_UNTIL_SECONDS: "5", "partialCapacityCheck": "true"}));
        assert_eq!(request.unknown_parameters().collect::<Vec<_>>(), [NO_RETRY, "partialCapacityCheck"]);
    }
}

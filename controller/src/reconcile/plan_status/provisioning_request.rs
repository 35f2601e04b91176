//! Status of ProvisioningRequests: whether their capacity exists, as the last plan found, and until when it is kept.

use std::sync::Arc;
use std::time::Duration;

use api::provisioningrequest::{RequestClass, RequestPhase};
use api::{ProvisioningRequest, condition, reason};
use jiff::Timestamp;
use snapshot::RequestCapacity;

use super::{Decision, FoundCondition};
use crate::reconcile::queue::QueueAction;
use crate::state::plans::results::{RequestResult, RequestResultAtGeneration};
use crate::write::patches;
use crate::write::writer::{Operation, Target};

/// Input of a decision about a ProvisioningRequest.
pub struct RequestView {
    /// ProvisioningRequest to decide about.
    pub request: Arc<ProvisioningRequest>,
    /// Result of the last plan; `None` before the first plan, and for requests of other programs.
    pub finding: Option<RequestResultAtGeneration>,
    /// Time of the reconcile.
    pub now: Timestamp,
}

/// Decides about one ProvisioningRequest.
#[must_use]
pub fn decide(view: &RequestView) -> Decision {
    let request = &view.request;
    if request.class().is_none() || request.metadata.deletion_timestamp.is_some() {
        return Decision { steps: Vec::new(), next: QueueAction::Wait };
    }
    let (found, next) = match request.phase() {
        RequestPhase::Waiting => (waiting(view), request.valid_until().ok()),
        RequestPhase::Booked(until) if view.now < until => (Vec::new(), Some(until)),
        RequestPhase::Booked(_) => (vec![booking_expired()], None),
        RequestPhase::Ended | RequestPhase::Failed => (Vec::new(), None),
    };
    let next = next.filter(|until| *until > view.now).map_or(QueueAction::Wait, |until| {
        let remaining = Duration::try_from(until.duration_since(view.now)).unwrap_or_default();
        QueueAction::After(remaining)
    });
    Decision { steps: steps(view, &found), next }
}

/// Returns the operation that writes the conditions, if any of them changes.
fn steps(view: &RequestView, found: &[FoundCondition]) -> Vec<Operation> {
    let meta = &view.request.metadata;
    let generation = meta.generation.unwrap_or_default();
    let mut status = view.request.status.clone().unwrap_or_default();
    let changed = FoundCondition::set_all(found, &mut status.conditions, generation, view.now);
    let target = Target::Request {
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
    };
    let patch = || patches::status(meta, &view.request.status, &Some(status));
    changed.then(|| Operation::PatchStatus(target, patch())).into_iter().collect()
}

/// Returns the conditions of a request whose capacity does not exist yet.
fn waiting(view: &RequestView) -> Vec<FoundCondition> {
    let generation = view.request.metadata.generation.unwrap_or_default();
    let finding = view.finding.as_ref().filter(|finding| finding.generation == generation);
    let Some(RequestResult { state, capacity }) = finding.map(|finding| &finding.verdict) else { return Vec::new() };
    let until = match &state.resolved {
        Ok(size) => size.until,
        Err(error) => {
            let text = error.to_string();
            let refused = FoundCondition::new(condition::ACCEPTED, false, reason::INVALID_REQUEST, text.clone());
            let failed = || FoundCondition::new(condition::FAILED, true, reason::INVALID_REQUEST, text);
            return if error.is_final() { vec![refused, failed()] } else { vec![refused] };
        }
    };
    let mut found = vec![FoundCondition::new(condition::ACCEPTED, true, reason::ACCEPTED, "handled by Kerf")];
    let is_ready = *capacity == RequestCapacity::Ready;
    if *capacity != RequestCapacity::Unplanned {
        let why = capacity.reason(state.class);
        found.push(FoundCondition::new(condition::PROVISIONED, is_ready, why, capacity.to_string()));
    }
    if is_ready {
        return found;
    }
    let is_tried_once = state.class == RequestClass::CheckCapacity && view.request.is_tried_once() == Ok(true);
    if view.now >= until {
        let text = format!("the capacity did not exist by {until}: {capacity}");
        found.push(FoundCondition::new(condition::FAILED, true, reason::EXPIRED, text));
    } else if is_tried_once && matches!(capacity, RequestCapacity::Missing { .. }) {
        let why = capacity.reason(state.class);
        found.push(FoundCondition::new(condition::FAILED, true, why, capacity.to_string()));
    }
    found
}

fn booking_expired() -> FoundCondition {
    let text = "the capacity is no longer kept for the pods of this request";
    FoundCondition::new(condition::BOOKING_EXPIRED, true, reason::CAPACITY_RESERVATION_TIME_EXPIRED, text)
}

#[cfg(test)]
mod tests {
    use api::provisioningrequest::InvalidParameter;
    use serde_json::{Value, json};
    use snapshot::{RequestError, RequestSize, RequestState, TemplateError};

    use super::*;
    use crate::fixture::{at, body, words, written};
    use crate::state::plans::results::AtGeneration;

    const ATOMIC: &str = "best-effort-atomic-scale-up.autoscaling.x-k8s.io";
    const CHECK: &str = "check-capacity.autoscaling.x-k8s.io";

    fn request(class: &str, parameters: Value, status: Value) -> Arc<ProvisioningRequest> {
        let object = json!({
            "apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest",
            "metadata": {
                "name": "train", "namespace": "ml", "generation": 1, "creationTimestamp": at(0).to_string(),
            },
            "spec": {
                "podSets": [{"podTemplateRef": {"name": "train"}, "count": 3}],
                "provisioningClassName": class, "parameters": parameters,
            },
            "status": status,
        });
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn view(request: &Arc<ProvisioningRequest>, capacity: RequestCapacity, now: Timestamp) -> RequestView {
        let size = |until| RequestSize { pods: 3, until };
        let resolved = request.valid_until().map(size).map_err(RequestError::Parameter);
        with_state(request, resolved, capacity, now)
    }

    fn with_state(
        request: &Arc<ProvisioningRequest>,
        resolved: Result<RequestSize, RequestError>,
        capacity: RequestCapacity,
        now: Timestamp,
    ) -> RequestView {
        let class = request.class().unwrap_or(RequestClass::AtomicScaleUp);
        let state = RequestState { request: "ml/train".to_owned(), class, phase: request.phase(), resolved };
        let verdict = RequestResult { state, capacity };
        let finding = Some(AtGeneration { generation: 1, verdict });
        RequestView { request: Arc::clone(request), finding, now }
    }

    fn conditions(steps: &[Operation]) -> Vec<[String; 3]> {
        let types = [condition::ACCEPTED, condition::PROVISIONED, condition::FAILED, condition::BOOKING_EXPIRED];
        let found = types.map(|type_| written(steps, type_).map(|(status, why, _)| [type_.to_owned(), status, why]));
        found.into_iter().flatten().collect()
    }

    fn missing() -> RequestCapacity {
        let reasons = vec!["NodePool default: no instance type is available".to_owned()];
        RequestCapacity::Missing { placed: 1, of: 3, reasons }
    }

    #[test]
    fn decide_follows_the_capacity_of_a_waiting_request() {
        let starting = RequestCapacity::Starting { waiting: 2, of: 3 };
        let rows = [
            (ATOMIC, RequestCapacity::Ready, "True", reason::CAPACITY_IS_PROVISIONED),
            (CHECK, RequestCapacity::Ready, "True", reason::CAPACITY_IS_FOUND),
            (ATOMIC, starting, "False", reason::CAPACITY_IS_STARTING),
            (ATOMIC, missing(), "False", reason::CAPACITY_IS_NOT_FOUND),
            (CHECK, missing(), "False", reason::CAPACITY_IS_NOT_FOUND),
        ];
        for (class, capacity, status, why) in rows {
            let decision = decide(&view(&request(class, json!({}), json!({})), capacity.clone(), at(60)));
            assert_eq!(words(&decision.steps), ["status of request ml/train"]);
            let expected = [["Accepted", "True", reason::ACCEPTED], ["Provisioned", status, why]];
            assert_eq!(conditions(&decision.steps), expected, "{capacity:?}");
            assert_eq!(written(&decision.steps, condition::PROVISIONED).unwrap().2, capacity.to_string());
        }
    }

    #[test]
    fn decide_fails_a_request_that_can_never_succeed() {
        let failed = |request: &Arc<ProvisioningRequest>, now| {
            let decision = decide(&view(request, missing(), now));
            written(&decision.steps, condition::FAILED).map(|(status, why, _)| [status, why])
        };
        let expired = Some(["True".to_owned(), reason::EXPIRED.to_owned()]);
        let short = request(ATOMIC, json!({"ValidUntilSeconds": "600"}), json!({}));
        assert_eq!(failed(&short, at(599)), None);
        assert_eq!(failed(&short, at(600)), expired);
        assert_eq!(failed(&request(ATOMIC, json!({}), json!({})), at(7 * 24 * 3600)), expired);
        let once = request(CHECK, json!({"noRetry": "true"}), json!({}));
        assert_eq!(failed(&once, at(1)), Some(["True".to_owned(), reason::CAPACITY_IS_NOT_FOUND.to_owned()]));
        assert_eq!(failed(&request(ATOMIC, json!({"noRetry": "true"}), json!({})), at(1)), None);
    }

    #[test]
    fn decide_reports_a_request_that_cannot_be_planned() {
        let request = request(ATOMIC, json!({"ValidUntilSeconds": "soon"}), json!({}));
        let invalid: InvalidParameter = request.valid_until().unwrap_err();
        let template = TemplateError::Missing { name: "train".to_owned() };
        let rows = [
            (RequestError::Parameter(invalid), true, "spec.parameters[ValidUntilSeconds]: \"soon\" is not a number"),
            (
                RequestError::PodSet { position: 0, error: Box::new(template) },
                false,
                "spec.podSets[0]: PodTemplate train does",
            ),
        ];
        for (error, is_final, text) in rows {
            let unplanned = RequestCapacity::Unplanned;
            let decision = decide(&with_state(&request, Err(error), unplanned, at(60)));
            let (status, why, message) = written(&decision.steps, condition::ACCEPTED).unwrap();
            assert_eq!([status.as_str(), why.as_str()], ["False", reason::INVALID_REQUEST]);
            assert!(message.starts_with(text), "{message}");
            assert_eq!(written(&decision.steps, condition::FAILED).is_some(), is_final);
        }
    }

    #[test]
    fn decide_ends_the_booking_after_its_time() {
        let unbooked = request(ATOMIC, json!({}), json!({}));
        let booked = decide(&view(&unbooked, RequestCapacity::Ready, at(60)));
        let booked = request(ATOMIC, json!({}), body(&booked.steps)["status"].clone());
        let at_time = |seconds| decide(&view(&booked, RequestCapacity::Unplanned, at(seconds)));
        let before = at_time(659);
        assert!(before.steps.is_empty());
        assert_eq!(before.next, QueueAction::After(Duration::from_secs(1)));
        let after = at_time(660);
        let expected = ["BookingExpired", "True", reason::CAPACITY_RESERVATION_TIME_EXPIRED].map(str::to_owned);
        assert_eq!(conditions(&after.steps).last(), Some(&expected));
        let ended = request(ATOMIC, json!({}), body(&after.steps)["status"].clone());
        assert!(decide(&view(&ended, RequestCapacity::Unplanned, at(700))).steps.is_empty());
    }

    #[test]
    fn decide_leaves_requests_of_other_classes_alone() {
        let foreign = request("queued-provisioning.gke.io", json!({}), json!({}));
        assert!(decide(&view(&foreign, missing(), at(60))).steps.is_empty());
        let unknown = RequestView { finding: None, ..view(&request(ATOMIC, json!({}), json!({})), missing(), at(60)) };
        assert!(decide(&unknown).steps.is_empty());
    }
}

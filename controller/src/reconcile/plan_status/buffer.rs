//! Status of CapacityBuffers: their resolution and their capacity, as the last plan found.

use std::sync::Arc;

use api::capacitybuffer::{CapacityBufferStatus, LocalObjectRef};
use api::{CapacityBuffer, condition, reason};
use jiff::Timestamp;

use super::FoundCondition;
use crate::state::plans::results::{BufferResult, BufferResultAtGeneration};
use crate::write::patches;
use crate::write::writer::{Operation, Target};

/// Input of a decision about a CapacityBuffer.
pub struct BufferView {
    /// CapacityBuffer to decide about.
    pub buffer: Arc<CapacityBuffer>,
    /// Result of the last plan; `None` before the first plan, and for buffers of other programs.
    pub finding: Option<BufferResultAtGeneration>,
    /// Time of the reconcile.
    pub now: Timestamp,
}

/// Decides about one CapacityBuffer. A result for an older generation is ignored until the next plan.
#[must_use]
pub fn decide(view: &BufferView) -> Vec<Operation> {
    let meta = &view.buffer.metadata;
    let generation = meta.generation.unwrap_or_default();
    let Some(finding) = view.finding.as_ref().filter(|finding| finding.generation == generation) else {
        return Vec::new();
    };
    if meta.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let mut status = view.buffer.status.clone().unwrap_or_default();
    tell_size(&mut status, &finding.verdict, &view.buffer);
    let found = [resolution(&finding.verdict), provisioning(&finding.verdict)];
    FoundCondition::set_all(&found, &mut status.conditions, generation, view.now);
    let target = Target::Buffer {
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
    };
    let changed = view.buffer.status.as_ref() != Some(&status);
    let patch = || patches::status(meta, &view.buffer.status, &Some(status));
    changed.then(|| Operation::PatchStatus(target, patch())).into_iter().collect()
}

/// Writes the resolved size into the status, and removes fields that are no longer known.
fn tell_size(status: &mut CapacityBufferStatus, verdict: &BufferResult, buffer: &CapacityBuffer) {
    let size = verdict.state.resolved.as_ref().ok();
    status.pod_template_ref = size.and_then(|size| size.pod_template.clone()).map(|name| LocalObjectRef { name });
    status.pod_template_generation = size.and_then(|size| size.pod_template_generation);
    status.replicas = size.map(|size| size.replicas);
    status.provisioning_strategy = Some(buffer.spec.provisioning_strategy.clone());
}

fn resolution(verdict: &BufferResult) -> FoundCondition {
    match &verdict.state.resolved {
        Ok(_) => FoundCondition::new(condition::READY_FOR_PROVISIONING, true, reason::RESOLVED, ""),
        Err(trouble) => {
            FoundCondition::new(condition::READY_FOR_PROVISIONING, false, trouble.reason(), trouble.to_string())
        }
    }
}

fn provisioning(verdict: &BufferResult) -> FoundCondition {
    let found = verdict.provisioning;
    FoundCondition::new(condition::PROVISIONING, found.is_true(), found.reason(), found.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::{CapacityBuffer, condition, reason};
    use serde_json::{Value, json};
    use snapshot::{BufferError, BufferSize, BufferState, Provisioning, TemplateError};

    use super::{BufferView, decide};
    use crate::fixture::{at, body, buffer, words, written};
    use crate::state::plans::results::{AtGeneration, BufferResult};

    fn resolved(replicas: i32) -> Result<BufferSize, BufferError> {
        let template = Some("web".to_owned());
        Ok(BufferSize { replicas, pod_template: template, pod_template_generation: Some(3), is_inactive: false })
    }

    fn buffer_view(
        buffer: Arc<CapacityBuffer>,
        resolved: Result<BufferSize, BufferError>,
        provisioning: Provisioning,
    ) -> BufferView {
        let state = BufferState { buffer: "default/spare".to_owned(), resolved };
        let verdict = BufferResult { state, provisioning };
        BufferView { buffer, finding: Some(AtGeneration { generation: 1, verdict }), now: at(60) }
    }

    #[test]
    fn decide_writes_resolution_and_provisioning() {
        let missing = || Err(BufferError::Template(TemplateError::Missing { name: "web".to_owned() }));
        let some = Provisioning::RequiresNewCapacity { missing: 1, of: 2 };
        let not_ready = Provisioning::NotReadyForProvisioning;
        let rows = [
            (
                resolved(2),
                Provisioning::FitsExistingCapacity,
                ["True", reason::RESOLVED],
                ["True", reason::FITS_EXISTING_CAPACITY],
            ),
            (resolved(2), some, ["True", reason::RESOLVED], ["False", reason::REQUIRES_NEW_CAPACITY]),
            (resolved(0), Provisioning::BufferEmpty, ["True", reason::RESOLVED], ["False", reason::BUFFER_EMPTY]),
            (
                missing(),
                not_ready,
                ["False", reason::POD_TEMPLATE_NOT_FOUND],
                ["False", reason::NOT_READY_FOR_PROVISIONING],
            ),
        ];
        for (resolved, provisioning, ready, there) in rows {
            let steps = decide(&buffer_view(buffer(&json!({})), resolved.clone(), provisioning));
            assert_eq!(words(&steps), ["status of buffer default/spare"]);
            for (type_, expected) in [(condition::READY_FOR_PROVISIONING, ready), (condition::PROVISIONING, there)] {
                let (status, reason, _) = written(&steps, type_).unwrap();
                assert_eq!([status.as_str(), reason.as_str()], expected, "{provisioning:?}");
            }
            let status = &body(&steps)["status"];
            let size = resolved.ok();
            assert_eq!(status["replicas"], json!(size.as_ref().map(|size| size.replicas)));
            assert_eq!(status["podTemplateGeneration"], json!(size.as_ref().map(|_| 3)));
            assert_eq!(status["podTemplateRef"], size.map_or(Value::Null, |_| json!({"name": "web"})));
        }
    }

    #[test]
    fn decide_writes_nothing_when_status_is_current_or_unknown() {
        let fits = Provisioning::FitsExistingCapacity;
        let steps = decide(&buffer_view(buffer(&json!({})), resolved(2), fits));
        let mut settled = buffer(&json!({})).as_ref().clone();
        settled.status = serde_json::from_value(body(&steps)["status"].clone()).unwrap();
        let gone = json!({"metadata": {"deletionTimestamp": at(1).to_string()}});
        let changed = json!({"metadata": {"generation": 2}});
        let rows: [(&str, BufferView); 4] = [
            ("said already", buffer_view(Arc::new(settled), resolved(2), fits)),
            ("an older one", buffer_view(buffer(&changed), resolved(2), fits)),
            ("on its way out", buffer_view(buffer(&gone), resolved(2), fits)),
            ("not known", BufferView { finding: None, ..buffer_view(buffer(&json!({})), resolved(2), fits) }),
        ];
        for (what, view) in rows {
            assert!(decide(&view).is_empty(), "{what}");
        }
    }
}

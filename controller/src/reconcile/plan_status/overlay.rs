//! Status of NodeOverlays: their validation, as the last plan found.

use std::sync::Arc;

use api::status::Conditioned;
use api::{NodeOverlay, condition};
use jiff::Timestamp;

use crate::state::plans::results::OverlayResultAtGeneration;
use crate::write::patches;
use crate::write::writer::{Operation, Target};

/// Input of a decision about a NodeOverlay.
pub struct OverlayView {
    /// NodeOverlay to decide about.
    pub overlay: Arc<NodeOverlay>,
    /// Result of the last plan; `None` before the first plan.
    pub finding: Option<OverlayResultAtGeneration>,
    /// Time of the reconcile.
    pub now: Timestamp,
}

/// Decides about one NodeOverlay. A result for an older generation is ignored until the next plan.
#[must_use]
pub fn decide(view: &OverlayView) -> Vec<Operation> {
    let meta = &view.overlay.metadata;
    let generation = meta.generation.unwrap_or_default();
    let Some(finding) = view.finding.as_ref().filter(|finding| finding.generation == generation) else {
        return Vec::new();
    };
    if meta.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let mut overlay = NodeOverlay::clone(&view.overlay);
    overlay.initialize(view.now);
    match &finding.verdict {
        None => overlay.set_true(condition::VALIDATION_SUCCEEDED, view.now),
        Some(trouble) => {
            let message = trouble.to_string();
            overlay.set_false(condition::VALIDATION_SUCCEEDED, trouble.reason(), &message, view.now)
        }
    };
    let target = Target::Overlay(meta.name.clone().unwrap_or_default());
    let changed = overlay.status != view.overlay.status;
    let patch = || patches::status(meta, &view.overlay.status, &overlay.status);
    changed.then(|| Operation::PatchStatus(target, patch())).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::{NodeOverlay, condition, reason};
    use serde_json::json;
    use snapshot::OverlayError;

    use super::{OverlayView, decide};
    use crate::fixture::{at, body, overlay, words, written};
    use crate::state::plans::results::AtGeneration;

    fn overlay_view(overlay: Arc<NodeOverlay>, generation: i64, trouble: Option<OverlayError>) -> OverlayView {
        OverlayView { overlay, finding: Some(AtGeneration { generation, verdict: trouble }), now: at(60) }
    }

    fn conflict() -> OverlayError {
        OverlayError::Conflict {
            with: "other".to_owned(),
            pool: "default".to_owned(),
            instance_type: "m5.large".to_owned(),
            subject: "the price".to_owned(),
        }
    }

    #[test]
    fn decide_writes_the_validation_of_the_last_plan() {
        let invalid = || OverlayError::Invalid { message: "price: \"much\" is not a price".to_owned() };
        let rows = [
            (None, "True", condition::VALIDATION_SUCCEEDED, ""),
            (Some(conflict()), "False", reason::CONFLICT, "NodeOverlay other of the same weight"),
            (Some(invalid()), "False", reason::RUNTIME_VALIDATION, "is not a price"),
        ];
        for (trouble, status, why, part) in rows {
            let steps = decide(&overlay_view(overlay(&json!({})), 1, trouble));
            assert_eq!(words(&steps), ["status of overlay dear"]);
            let (found, reason, message) = written(&steps, condition::VALIDATION_SUCCEEDED).unwrap();
            assert_eq!((found.as_str(), reason.as_str()), (status, why));
            assert!(message.contains(part), "{message}");
            assert_eq!(written(&steps, condition::READY).unwrap().0, status);
        }
    }

    #[test]
    fn decide_writes_nothing_when_status_is_current_or_unknown() {
        let steps = decide(&overlay_view(overlay(&json!({})), 1, None));
        let mut settled = overlay(&json!({})).as_ref().clone();
        settled.status = serde_json::from_value(body(&steps)["status"].clone()).unwrap();
        let gone = json!({"metadata": {"deletionTimestamp": at(1).to_string()}});
        let changed = json!({"metadata": {"generation": 2}});
        let rows: [(&str, OverlayView); 4] = [
            ("said already", overlay_view(Arc::new(settled), 1, None)),
            ("an older one", overlay_view(overlay(&changed), 1, None)),
            ("on its way out", overlay_view(overlay(&gone), 1, Some(conflict()))),
            ("not known", OverlayView { finding: None, ..overlay_view(overlay(&json!({})), 1, None) }),
        ];
        for (what, view) in rows {
            assert!(decide(&view).is_empty(), "{what}");
        }
    }
}

//! Status of Commitments: what they pay for, and how much of them nodes use, as the last plan found.

use std::sync::Arc;

use api::commitment::CommitmentStatus;
use api::price::dollars;
use api::{Commitment, condition, reason};
use jiff::Timestamp;
use snapshot::{CommitmentState, UnusableCommitment};

use super::FoundCondition;
use crate::state::plans::results::CommitmentStateAtGeneration;
use crate::write::patches;
use crate::write::writer::{Operation, Target};

/// Input of a decision about a Commitment.
pub struct CommitmentView {
    /// Commitment to decide about.
    pub commitment: Arc<Commitment>,
    /// State in the last plan; `None` before the first plan.
    pub finding: Option<CommitmentStateAtGeneration>,
    /// Time of the reconcile.
    pub now: Timestamp,
}

/// Decides about one Commitment. A state of an older generation is ignored until the next plan.
#[must_use]
pub fn decide(view: &CommitmentView) -> Vec<Operation> {
    let meta = &view.commitment.metadata;
    let generation = meta.generation.unwrap_or_default();
    let finding = view.finding.as_ref().filter(|it| it.generation == generation);
    let Some(finding) = finding.filter(|_| meta.deletion_timestamp.is_none()) else { return Vec::new() };
    let status = next_status(view, &finding.verdict);
    if view.commitment.status.as_ref() == Some(&status) {
        return Vec::new();
    }
    let target = Target::Commitment(meta.name.clone().unwrap_or_default());
    vec![Operation::PatchStatus(target, patches::status(meta, &view.commitment.status, &Some(status)))]
}

fn next_status(view: &CommitmentView, state: &CommitmentState) -> CommitmentStatus {
    let conditions = view.commitment.status.clone().unwrap_or_default().conditions;
    let paying = state.verdict.as_ref().ok();
    let mut status = CommitmentStatus {
        pays_for: paying.map(|_| view.commitment.spec.pays_for()),
        used: paying.map(|it| format!("{}%", it.used_percent())),
        nodes: paying.map_or(0, |it| i64::try_from(it.nodes).unwrap_or(i64::MAX)),
        covered_cost_per_hour: paying.map(|it| dollars(it.covered.0)),
        conditions,
    };
    let generation = view.commitment.metadata.generation.unwrap_or_default();
    FoundCondition::set_all(&[readiness(state)], &mut status.conditions, generation, view.now);
    status
}

fn readiness(state: &CommitmentState) -> FoundCondition {
    let unusable = |reason, message: String| FoundCondition::new(condition::READY, false, reason, message);
    match &state.verdict {
        Ok(_) => FoundCondition::new(condition::READY, true, reason::VALID, ""),
        Err(UnusableCommitment::Invalid(faults)) => {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            unusable(reason::INVALID_FIELD, format!("pays for nothing: {}", faults.join("; ")))
        }
        Err(UnusableCommitment::NotStarted) => unusable(reason::NOT_STARTED, "startTime is in the future".to_owned()),
        Err(UnusableCommitment::Ended) => unusable(reason::ENDED, "endTime is in the past".to_owned()),
        Err(UnusableCommitment::NoTypes) => {
            let text = "no EC2NodeClass has an on-demand instance type for which it pays";
            unusable(reason::NO_EFFECT, text.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use api::FieldFault;
    use planner::MicroDollars;
    use serde_json::{Value, json};
    use snapshot::CommitmentUse;

    use super::*;
    use crate::fixture::{at, body, words, written};
    use crate::state::plans::results::AtGeneration;

    fn view(verdict: Result<CommitmentUse, UnusableCommitment>, status: Value) -> CommitmentView {
        let object = json!({
            "apiVersion": "kerf.sh/v1alpha1", "kind": "Commitment", "metadata": {"name": "plan", "generation": 1},
            "spec": {"savingsPlan": {"costPerHour": "12.5", "discountPercent": 34}}, "status": status,
        });
        let commitment = Arc::new(serde_json::from_value(object).unwrap());
        let state = CommitmentState { commitment: "plan".to_owned(), verdict };
        CommitmentView { commitment, finding: Some(AtGeneration { generation: 1, verdict: state }), now: at(60) }
    }

    #[test]
    fn decide_writes_what_nodes_use_once() {
        let used = CommitmentUse { amount: 12_500_000, used: 10_421_000, nodes: 17, covered: MicroDollars(15_800_000) };
        let steps = decide(&view(Ok(used), json!({})));
        assert_eq!(words(&steps), ["status of commitment plan"]);
        let status = body(&steps)["status"].clone();
        assert_eq!((&status["paysFor"], &status["used"]), (&json!("$12.5/h"), &json!("83.3%")));
        assert_eq!((&status["nodes"], &status["coveredCostPerHour"]), (&json!(17), &json!("15.8")));
        assert_eq!(written(&steps, condition::READY).unwrap().0, "True");
        assert!(decide(&view(Ok(used), status.clone())).is_empty());
        let older = CommitmentView { finding: None, ..view(Ok(used), json!({})) };
        assert!(decide(&older).is_empty());
        let ended = decide(&view(Err(UnusableCommitment::Ended), status));
        assert_eq!((&body(&ended)["status"]["used"], &body(&ended)["status"]["nodes"]), (&Value::Null, &json!(0)));
    }

    #[test]
    fn decide_reports_why_it_pays_for_nothing() {
        let fault = FieldFault { path: "spec.sharePercent".to_owned(), problem: "is wrong".to_owned() };
        let rows = [
            (
                UnusableCommitment::Invalid(vec![fault]),
                reason::INVALID_FIELD,
                "pays for nothing: spec.sharePercent: is wrong",
            ),
            (UnusableCommitment::NotStarted, reason::NOT_STARTED, "startTime is in the future"),
            (UnusableCommitment::Ended, reason::ENDED, "endTime is in the past"),
            (UnusableCommitment::NoTypes, reason::NO_EFFECT, "no EC2NodeClass has"),
        ];
        for (unusable, why, text) in rows {
            let steps = decide(&view(Err(unusable), json!({})));
            let (status, reason, message) = written(&steps, condition::READY).unwrap();
            assert_eq!((status.as_str(), reason.as_str()), ("False", why));
            assert!(message.starts_with(text), "{message}");
        }
    }
}

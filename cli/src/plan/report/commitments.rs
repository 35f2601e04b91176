//! Commitments of a plan: what nodes use of them before and after the plan.

use planner::PlannedCommand;
use serde::Serialize;
use snapshot::{CommitmentState, CommitmentUse};

use super::PlanAnswer;

/// Use of a Commitment that pays at the time of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CommitmentReport {
    /// Name of the Commitment.
    pub name: String,
    /// Part in percent that nodes use now.
    pub used_before: String,
    /// Part in percent that nodes use after the plan is carried out.
    pub used_after: String,
}

pub(super) fn commitments(answer: &PlanAnswer) -> Vec<CommitmentReport> {
    let report = |(state, used): (&CommitmentState, &CommitmentUse)| CommitmentReport {
        name: state.commitment.clone(),
        used_before: used.used_percent(),
        used_after: CommitmentUse { used: used_after(answer, &state.commitment, used), ..*used }.used_percent(),
    };
    paying(answer).map(report).collect()
}

/// Returns each Commitment as a sentence.
pub(crate) fn commitment_text(answer: &PlanAnswer) -> Vec<String> {
    let text = |it: CommitmentReport| {
        format!("Commitment {}: {} % used before, {} % after", it.name, it.used_before, it.used_after)
    };
    commitments(answer).into_iter().map(text).collect()
}

fn paying(answer: &PlanAnswer) -> impl Iterator<Item = (&CommitmentState, &CommitmentUse)> {
    answer.built.commitments.iter().filter_map(|state| Some((state, state.verdict.as_ref().ok()?)))
}

/// Returns the used amount without removed nodes and with the first instance type of each launch.
fn used_after(answer: &PlanAnswer, name: &str, used: &CommitmentUse) -> i64 {
    let (snapshot, plan) = (&answer.built.snapshot, &answer.plan);
    let removed = plan.moves.iter().flat_map(|command: &PlannedCommand| &command.nodes);
    let is_removed = |node: &str| removed.clone().any(|it| it.node == node);
    let leaves = snapshot.nodes.iter().filter(|node| is_removed(&node.name));
    let released = leaves.flat_map(|node| &node.paid).filter(|share| share.commitment == name);
    let launched = plan.launches.iter().filter(|launch| launch.commitment.as_deref() == Some(name));
    let commitment = snapshot.commitment(name);
    let added = launched.filter_map(|launch| commitment?.use_of(launch.instance_types.first()?));
    used.used - released.map(|share| share.amount).sum::<i64>() + added.sum::<i64>()
}

//! Preferences of placed pods, by workload: whether the plan honours them, and what separate hosts cost.

use std::collections::BTreeMap;

use planner::{PodShape, PodVerdict, Preference, PreferenceDecision, PreferencePolicy};
use serde::Serialize;

use crate::output::money::dollars;
use crate::plan::{PlanAnswer, view};

/// One preference of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreferenceReport {
    /// `Kind namespace/name` of the pods' controller.
    pub workload: String,
    /// Preference as a phrase.
    pub preference: String,
    /// Number of placed pods with the preference.
    pub pods: usize,
    /// Number of these pods for which the plan honours it.
    pub honoured: usize,
    /// Additional cost of honouring it in dollars per hour; `null` if no price was compared.
    pub premium: Option<String>,
    /// Maximum of this cost; `null` if it is unlimited or no price was compared.
    pub premium_limit: Option<String>,
}

/// Returns the preferences of all placed pods, by workload. Nothing if preferences are ignored.
pub(super) fn preferences(answer: &PlanAnswer) -> Vec<PreferenceReport> {
    let snapshot = &answer.built.snapshot;
    if snapshot.policy.preferences == PreferencePolicy::Ignore {
        return Vec::new();
    }
    let decisions = decisions(answer);
    let mut all: BTreeMap<(String, String), PreferenceReport> = BTreeMap::new();
    for (position, (pod, verdict)) in snapshot.pods.iter().zip(&answer.plan.report.pods).enumerate() {
        let Some(dropped) = dropped(verdict).filter(|_| pod.holder.is_none()) else { continue };
        let wanted = preferences_of(&snapshot.shapes[pod.shape]);
        if wanted.is_empty() {
            continue;
        }
        let workload = view::owners(answer, &[position]).pop().map(|(owner, _)| owner).unwrap_or_default();
        for preference in wanted {
            let text = preference.to_string();
            let decision = decisions.get(&position).filter(|_| preference.is_for_separate_hosts());
            let report = all.entry((workload.clone(), text.clone())).or_insert_with(|| PreferenceReport {
                workload: workload.clone(),
                preference: text,
                pods: 0,
                honoured: 0,
                premium: decision.and_then(|it| it.premium).map(|premium| dollars(premium.0)),
                premium_limit: decision.and_then(|it| it.limit).map(|limit| dollars(limit.0)),
            });
            report.pods += 1;
            report.honoured += usize::from(!dropped.contains(&preference));
        }
    }
    all.into_values().collect()
}

/// Returns a preference's result as a sentence.
pub(crate) fn preference_text(it: &PreferenceReport) -> String {
    let cost = match (&it.premium, &it.premium_limit) {
        (Some(premium), _) if premium == "0" => String::new(),
        (Some(premium), Some(limit)) => format!(", costs ${premium}/h more, the limit is ${limit}/h"),
        (Some(premium), None) => format!(", costs ${premium}/h more, without a limit"),
        (None, _) if it.honoured == 0 => ", no node satisfies it".to_owned(),
        (None, _) if it.honoured < it.pods => ", no node satisfies it for the others".to_owned(),
        (None, _) => String::new(),
    };
    let pods = match it.honoured {
        0 => "not honoured".to_owned(),
        count if count == it.pods => "honoured".to_owned(),
        count => format!("honoured for {count} of {} pods", it.pods),
    };
    format!("{}: {pods}{cost}", it.preference)
}

/// Returns the decisions of the plan by the position of each pod.
fn decisions(answer: &PlanAnswer) -> BTreeMap<usize, &PreferenceDecision> {
    let all = answer.plan.report.preferences.iter();
    all.flat_map(|decision| decision.pods.iter().map(move |pod| (*pod, decision))).collect()
}

/// Returns the dropped preferences of a placed pod; `None` for other pods.
fn dropped(verdict: &PodVerdict) -> Option<&[Preference]> {
    match verdict {
        PodVerdict::Existing { dropped, .. } | PodVerdict::Launch { dropped, .. } => Some(dropped),
        PodVerdict::Unschedulable { .. } | PodVerdict::Postponed => None,
    }
}

/// Returns the preferences of a shape, without those that only Kerf defines.
fn preferences_of(shape: &PodShape) -> Vec<Preference> {
    let near = shape.prefers_near.iter();
    let near = near.map(|it| Preference::Near { weight: it.weight, key: it.term.key.clone() });
    let apart = shape.prefers_apart.iter();
    let apart = apart.map(|it| Preference::Apart { weight: it.weight, key: it.term.key.clone() });
    let nodes = shape.preferred.iter();
    let nodes = nodes.map(|it| Preference::Nodes { weight: it.weight, term: it.term.clone() });
    let spread = shape.spread.iter().filter(|spread| !spread.hard);
    let spread = spread.map(|it| Preference::Spread { key: it.key.clone() });
    let mut all: Vec<Preference> = near.chain(apart).chain(nodes).chain(spread).collect();
    all.dedup();
    all
}

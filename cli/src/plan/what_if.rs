//! Comparison of two plans for the same objects: as they are, and with changes (`--set`).

use api::decisions::money;
use planner::{Plan, PodVerdict};
use serde::Serialize;

use super::{PlanAnswer, cost};
use crate::output::money::rounded;
use crate::output::wrap;

/// Width of the output.
const WIDTH: usize = 80;

/// The comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WhatIf {
    /// Sentences about the changes.
    pub changes: Vec<String>,
    /// Plan without the changes.
    pub without: PlanFigures,
    /// Plan with the changes.
    pub with: PlanFigures,
}

/// Figures of one plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanFigures {
    /// Cost after the plan, with volumes, addresses and fees, in micro-dollars per hour.
    #[serde(with = "money::required")]
    pub cost_per_hour: i64,
    /// Nodes after the plan.
    pub nodes: usize,
    /// New nodes.
    pub launched: usize,
    /// Nodes that disruption commands remove.
    pub removed: usize,
    /// Pods that these commands move.
    pub moved: usize,
    /// Pods without a place.
    pub unschedulable: usize,
}

impl WhatIf {
    /// Compares the plan for changed objects with the one for the objects as they are.
    #[must_use]
    pub fn new(without: &PlanAnswer, with: &PlanAnswer) -> Self {
        let changes = with.cluster.changes.clone();
        Self { changes, without: PlanFigures::new(without), with: PlanFigures::new(with) }
    }

    /// Returns the comparison as lines of text.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.changes.iter().flat_map(|change| wrap(change, WIDTH, "  ")).collect();
        let row = |name: &str, of: &dyn Fn(&PlanFigures) -> String| {
            format!("  {name:<22} {:>12} {:>12}", of(&self.without), of(&self.with))
        };
        lines.push(format!("  {:<22} {:>12} {:>12}", "", "as it is", "with --set"));
        lines.push(row("cost per hour", &|figures| rounded(figures.cost_per_hour)));
        lines.push(row("nodes after the plan", &|figures| figures.nodes.to_string()));
        lines.push(row("new nodes", &|figures| figures.launched.to_string()));
        lines.push(row("removed nodes", &|figures| figures.removed.to_string()));
        lines.push(row("moved pods", &|figures| figures.moved.to_string()));
        lines.push(row("pods without a place", &|figures| figures.unschedulable.to_string()));
        lines
    }
}

impl PlanFigures {
    fn new(answer: &PlanAnswer) -> Self {
        let Plan { launches, moves, report, .. } = &answer.plan;
        let removed: usize = moves.iter().map(|command| command.nodes.len()).sum();
        let staying = answer.built.snapshot.nodes.iter().filter(|node| node.leaving.is_none()).count();
        let pods = answer.built.snapshot.pods.iter().zip(&report.pods).filter(|(pod, _)| pod.holder.is_none());
        let is_unplaced =
            |verdict: &PodVerdict| matches!(verdict, PodVerdict::Unschedulable { .. } | PodVerdict::Postponed);
        Self {
            cost_per_hour: cost::before_and_after(answer).1.sum(),
            nodes: (staying + launches.len()).saturating_sub(removed),
            launched: launches.len(),
            removed,
            moved: moves.iter().map(|command| command.pods.len()).sum(),
            unschedulable: pods.filter(|(_, verdict)| is_unplaced(verdict)).count(),
        }
    }
}

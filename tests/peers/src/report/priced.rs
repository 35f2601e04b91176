//! Cost of fleets beside lower bounds, as lines of `planner.json` and as tables of docs/performance.md.

use std::fmt::{self, Write};

use super::{Measure, OVER};
use crate::bound::Bound;
use crate::price::PricedWorkload;

/// Workloads whose cost depends on constraints.
#[derive(Clone, Debug, Default)]
pub struct Constrained(pub Vec<PricedWorkload>);

impl fmt::Display for Constrained {
    fn fmt(&self, page: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(page, "\n## Cost under constraints, over a lower bound\n")?;
        for line in [
            "The same types and prices. The bound counts whole nodes of each type, by integer programs (`tests/peers/src/bound/whole.rs`).",
            "It respects spread over hosts and zones, anti-affinity and host ports, and affinity where all pods need the same one.",
            "Without these rules it would be lower; a row states if a longer search could raise it.\n",
            "- Kerf honours preferences for separate hosts if they cost at most 10 % more. The bound does not honour them, but a",
            "  workload has two hosts or more.",
            "- Kerf plans spread so that all pods are bound in whichever order nodes become ready. The bound requires only the final",
            "  distribution.\n",
        ] {
            writeln!(page, "{line}")?;
        }
        let mut table = String::new();
        write_table(&mut table, &self.0)?;
        page.write_str(&table)
    }
}

/// Writes the table, the means and what each workload is.
pub(super) fn write_table(page: &mut String, rows: &[PricedWorkload]) -> fmt::Result {
    writeln!(
        page,
        "| workload | bound $/h | Kerf $/h | over the bound | Karpenter $/h | over the bound | nodes: Kerf | Karpenter |"
    )?;
    writeln!(page, "|---|---|---|---|---|---|---|---|")?;
    for it in rows {
        let peer = match (it.peer, it.peer_over()) {
            (Some(peer), Some(over)) => {
                [format!("{:.4}", peer.dollars), format!("{over:.4}"), peer.launched.to_string()]
            }
            (Some(peer), None) => {
                [format!("schedules only {}", peer.scheduled), String::new(), peer.launched.to_string()]
            }
            (None, _) => [const { String::new() }; 3],
        };
        writeln!(
            page,
            "| {} | {:.4}{} | {:.4} | {:.4} | {} | {} | {} | {} |",
            it.name,
            it.bound.dollars,
            unproven(&it.bound),
            it.ours.dollars,
            it.over(),
            peer[0],
            peer[1],
            it.ours.launched,
            peer[2],
        )?;
    }
    let ours = mean(rows.iter().map(PricedWorkload::over));
    let peer = mean(rows.iter().filter_map(PricedWorkload::peer_over));
    writeln!(page, "| mean | | | {ours:.4} | | {peer:.4} | | |\n")?;
    rows.iter().try_for_each(|it| writeln!(page, "- **{}**: {}.", it.name, it.about))
}

impl PricedWorkload {
    /// Returns the line of `planner.json`.
    #[must_use]
    pub fn measure(&self) -> Measure {
        let name = format!("cost-over-bound/{}", self.name);
        match self.peer_over() {
            Some(peer) => Measure::beside(name, self.over(), peer, OVER),
            None => Measure::alone(name, self.over(), OVER),
        }
    }
}

/// Returns by how much the bound may be too low because the search ended early.
fn unproven(bound: &Bound) -> String {
    match bound.gap() {
        _ if bound.is_close() => String::new(),
        gap if gap.is_finite() => format!(" (or up to {:.1} % more)", 100.0 * gap),
        _ => " (or more)".to_owned(),
    }
}

fn mean(figures: impl Iterator<Item = f64>) -> f64 {
    let all: Vec<f64> = figures.collect();
    all.iter().sum::<f64>() / all.len() as f64
}

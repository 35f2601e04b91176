//! Taking nodes away, as `target/peers/disruption.json` for programs and a section of docs/performance.md for people.

use std::fmt;

use super::Measure;
use crate::consolidation::Consolidation;
use crate::daily::Bounded;
use crate::disruption::{Cost, Span};

/// Everything that was measured of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Disruption {
    /// One pass over a large cluster.
    pub consolidation: Option<Consolidation>,
    /// Half of the pods left.
    pub give_back: Option<Span>,
    /// All nodes drifted.
    pub drift: Option<Span>,
    /// The day, by policy.
    pub days: Vec<Cost>,
    /// The day with policy `observe` beside its hourly bound.
    pub bound: Option<Bounded>,
}

impl Disruption {
    /// The lines of `disruption.json`.
    #[must_use]
    pub fn measures(&self) -> Vec<Measure> {
        let mut all = self.consolidation.as_ref().map_or_else(Vec::new, Consolidation::measures);
        for (name, it) in [("give-back", &self.give_back), ("drift", &self.drift)] {
            let Some(it) = it else { continue };
            let name = format!("{name}-{}", rounded(it.before));
            all.push(it.peer.map_or_else(
                || Measure::alone(name.clone(), it.ours, "simulated s"),
                |peer| Measure::beside(name.clone(), it.ours, peer, "simulated s"),
            ));
            all.push(Measure::alone(format!("{name}-over-bound"), it.ours / it.bound, "times the drain-time bound"));
        }
        for it in &self.days {
            let name = format!("day-cost/{}", it.policy);
            all.push(match it.peer {
                Some(peer) => Measure::beside(name, it.dollars, peer, "dollars"),
                None => Measure::alone(name, it.dollars, "dollars"),
            });
        }
        if let Some(it) = self.bound {
            all.push(Measure::alone("day-cost-over-bound/observe".to_owned(), it.cost / it.least, super::OVER));
        }
        all
    }
}

/// A number of nodes as it was asked for: packing may take a few more or less.
fn rounded(nodes: usize) -> usize {
    if nodes >= 100 { (nodes + 50) / 100 * 100 } else { nodes }
}

impl fmt::Display for Disruption {
    fn fmt(&self, page: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::default() {
            return Ok(());
        }
        writeln!(page, "\n## Taking nodes away, beside Karpenter's rules\n")?;
        for line in [
            "Simulated (`tests/day`): the shipped planner, translator and drain on one clock. Beside them the same cluster under Karpenter's",
            "rules: one command a pass, a hundred candidates, halving within a minute, single ones within three, 15 s of validation, as if",
            "each of its simulations took no time. Budgets are 10 %; a pod takes 20 s to stop, a machine 26 to 42 s to come up. The bound",
            "is what budgets, the quickest boots and drains alone take.\n",
        ] {
            writeln!(page, "{line}")?;
        }
        writeln!(page, "| what | Kerf | Karpenter | times faster | bound | nodes before | after: Kerf | Karpenter |")?;
        writeln!(page, "|---|---|---|---|---|---|---|---|")?;
        for (what, it) in [("half of the pods leave", &self.give_back), ("every node drifts", &self.drift)] {
            let Some(it) = it else { continue };
            let peer = it.peer.map_or("not within the time played".to_owned(), |peer| format!("{peer:.0} s"));
            let times = it.peer.map_or(String::new(), |peer| format!("{:.1}", peer / it.ours));
            writeln!(
                page,
                "| {what} | {:.0} s | {peer} | {times} | {:.0} s | {} | {} | {} |",
                it.ours, it.bound, it.before, it.after, it.peer_after
            )?;
        }
        self.write_days(page)?;
        self.consolidation.as_ref().map_or(Ok(()), |it| write!(page, "{it}"))
    }
}

impl Disruption {
    fn write_days(&self, page: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.days.is_empty() {
            return Ok(());
        }
        writeln!(
            page,
            "\nThe simulated day with its faults, by `kerf.sh/utilization`; the peer has Karpenter's rules of taking away:\n"
        )?;
        writeln!(page, "| policy | $ a day | by Karpenter's rules | pods evicted | moves |\n|---|---|---|---|---|")?;
        for it in &self.days {
            let peer = it.peer.map_or(String::new(), |peer| format!("{peer:.2}"));
            writeln!(page, "| {} | {:.2} | {peer} | {} | {} |", it.policy, it.dollars, it.evicted, it.moves)?;
        }
        if let Some(it) = self.bound {
            writeln!(
                page,
                "\nFrom the second hour on the day costs {:.2} $ with `observe`. No fleets for the pods that were there at the hours'\n\
                 beginnings cost less than {:.2} $: {:.4} times the bound.",
                it.cost,
                it.least,
                it.cost / it.least,
            )?;
        }
        Ok(())
    }
}

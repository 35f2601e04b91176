//! Results for disruption, as `target/peers/disruption.json` for programs and a section of docs/performance.md for people.

use std::fmt;

use super::Measure;
use crate::consolidation::Consolidation;
use crate::daily::Bounded;
use crate::disruption::{Cost, Span};

/// All results for disruption.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Disruption {
    /// One pass over a large cluster.
    pub consolidation: Option<Consolidation>,
    /// Time to consolidate after half of the pods were removed.
    pub give_back: Option<Span>,
    /// Time to replace all nodes after all of them drifted.
    pub drift: Option<Span>,
    /// Cost of the day, by policy.
    pub days: Vec<Cost>,
    /// Cost of the day with policy `observe`, and its hourly bound.
    pub bound: Option<Bounded>,
}

impl Disruption {
    /// Returns the lines of `disruption.json`.
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
        if let Some(it) = &self.bound {
            all.push(Measure::alone("day-cost-over-bound/observe".to_owned(), it.cost() / it.least, super::OVER));
        }
        all
    }
}

/// Rounds a number of nodes to the requested one; packing may need a few more or less.
fn rounded(nodes: usize) -> usize {
    if nodes >= 100 { (nodes + 50) / 100 * 100 } else { nodes }
}

impl fmt::Display for Disruption {
    fn fmt(&self, page: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::default() {
            return Ok(());
        }
        writeln!(page, "\n## Disruption, beside Karpenter's rules\n")?;
        for line in [
            "Simulated (`tests/day`): the shipped controller on a paused clock, beside the same controller with plans by Karpenter's rules.\n",
            "- Karpenter's rules: one command per pass, 100 candidates, one minute for multi-node consolidation, three minutes for",
            "  single-node consolidation, 15 s of validation. Its scheduling simulations take no time.",
            "- Budgets are 10 %. A pod stops within 20 s; an instance needs 26 to 42 s until it is ready.",
            "- The bound is the time for budgets, the shortest boots and drains alone.\n",
        ] {
            writeln!(page, "{line}")?;
        }
        writeln!(
            page,
            "| change | Kerf | Karpenter | times faster | bound | nodes before | after: Kerf | Karpenter |"
        )?;
        writeln!(page, "|---|---|---|---|---|---|---|---|")?;
        for (what, it) in [("half of the pods are deleted", &self.give_back), ("every node drifts", &self.drift)] {
            let Some(it) = it else { continue };
            let peer = it.peer.map_or("not within the simulated time".to_owned(), |peer| format!("{peer:.0} s"));
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
            "\nCost of the simulated day with faults, by `kerf.sh/utilization`. The peer disrupts by Karpenter's rules:\n"
        )?;
        writeln!(
            page,
            "| policy | $ per day | by Karpenter's rules | evicted pods | commands |\n|---|---|---|---|---|"
        )?;
        for it in &self.days {
            let peer = it.peer.map_or(String::new(), |peer| format!("{peer:.2}"));
            writeln!(page, "| {} | {:.2} | {peer} | {} | {} |", it.policy, it.dollars, it.evicted, it.moves)?;
        }
        if let Some(it) = &self.bound {
            writeln!(
                page,
                "\nFrom the second hour on, the day costs {:.2} $ with `observe`. The lower bound for the pods at the start of each hour\n\
                 is {:.2} $; the ratio is {:.4}.",
                it.cost(),
                it.least,
                it.cost() / it.least,
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use day::spending::Use;

    use super::*;
    use crate::consolidation::Pass;
    use crate::disruption::POLICIES;
    use crate::karpenter::Simulated;

    fn span(before: usize, peer: Option<f64>) -> Option<Span> {
        Some(Span { before, after: before / 2, peer_after: before / 2, ours: 20.0, peer, bound: 10.0 })
    }

    fn whole() -> Disruption {
        let pass = Pass { took: Duration::from_secs(1), bytes: 1 << 20, moves: 1, going: 1, launched: 0 };
        let peer =
            Simulated { nodes: 5_000, pods: 100_000, candidates: 2, need_no_other: 1, simulate_nanos: 4_000_000_000 };
        let consolidation = Consolidation { nodes: 5_000, pods: 100_000, all: pass, tenth: pass, peer };
        let day =
            |policy| Cost { policy, dollars: 80.0, peer: (policy == "ignore").then_some(90.0), evicted: 3, moves: 2 };
        Disruption {
            consolidation: Some(consolidation),
            give_back: span(503, Some(40.0)),
            drift: span(3_996, None),
            days: POLICIES.map(day).to_vec(),
            bound: Some(Bounded { spent: [(Use::Requested, 76.0)].into(), least: 38.0, anew: 40.0 }),
        }
    }

    #[test]
    fn measures_has_a_line_for_every_value() {
        let measures = whole().measures();
        let names: Vec<&str> = measures.iter().map(|it| it.measure.as_str()).collect();
        let expected = [
            "consolidation-5000",
            "consolidation-5000/budget-10%",
            "consolidation-5000/node",
            "consolidation-5000/memory",
            "give-back-500",
            "give-back-500-over-bound",
            "drift-4000",
            "drift-4000-over-bound",
            "day-cost/ignore",
            "day-cost/observe",
            "day-cost/pack",
            "day-cost-over-bound/observe",
        ];
        assert_eq!(names, expected);
        let of = |name: &str| measures.iter().find(|it| it.measure == name).map(|it| (it.ours, it.peer, it.ratio));
        assert_eq!(of("give-back-500"), Some((20.0, Some(40.0), Some(2.0))));
        assert_eq!(of("drift-4000"), Some((20.0, None, None)));
        assert_eq!(of("drift-4000-over-bound"), Some((2.0, None, None)));
        assert_eq!(of("day-cost/ignore"), Some((80.0, Some(90.0), Some(1.125))));
        assert_eq!(of("day-cost/pack"), Some((80.0, None, None)));
        assert_eq!(of("day-cost-over-bound/observe"), Some((2.0, None, None)));
    }

    #[test]
    fn measures_is_empty_when_nothing_was_measured() {
        assert_eq!(Disruption::default().measures(), []);
    }
}

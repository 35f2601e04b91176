//! Growth with the cluster, as lines of `planner.json` and as a section of docs/performance.md.

use std::fmt;

use super::{Measure, mebibytes, time};
use crate::growth::Grown;

/// Measured sizes in ascending order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Growth(pub Vec<Grown>);

impl Growth {
    /// Returns the lines of `planner.json`.
    #[must_use]
    pub fn measures(&self) -> Vec<Measure> {
        let of = |it: &Grown| {
            let name = |what: &str| format!("growth-{}/{what}", it.snapshot.size.nodes);
            [
                Measure::alone(name("plan"), it.pending.as_secs_f64(), "s"),
                Measure::alone(name("consolidation"), it.pass.as_secs_f64(), "s"),
                Measure::alone(name("snapshot"), it.snapshot.again.as_secs_f64(), "s"),
                Measure::alone(name("memory"), mebibytes(it.memory()), "MiB"),
            ]
        };
        self.0.iter().flat_map(of).collect()
    }

    /// Returns the figure that grew most between the last two sizes, with both factors; `None` with fewer sizes.
    fn fastest_growth(&self) -> Option<(&'static str, f64, f64)> {
        let [.., before, last] = self.0.as_slice() else { return None };
        let seconds = |it: &Grown| {
            [
                ("the first translation", it.snapshot.first.as_secs_f64()),
                ("a translation after changes", it.snapshot.again.as_secs_f64()),
                ("a plan for pending pods", it.pending.as_secs_f64()),
                ("a consolidation pass", it.pass.as_secs_f64()),
                ("the memory", mebibytes(it.memory())),
            ]
        };
        let factors =
            seconds(before).into_iter().zip(seconds(last)).map(|((name, one), (_, other))| (name, other / one));
        let size = last.snapshot.size.nodes as f64 / before.snapshot.size.nodes as f64;
        factors.max_by(|one, other| one.1.total_cmp(&other.1)).map(|(name, factor)| (name, factor, size))
    }
}

impl Grown {
    /// Returns the memory of objects, snapshot and a pass.
    fn memory(&self) -> u64 {
        self.objects + self.snapshot.bytes + self.peak
    }
}

impl fmt::Display for Growth {
    fn fmt(&self, page: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        writeln!(page, "\n## Growth with the cluster\n")?;
        for line in [
            "Nodes with 32 CPUs and 20 pods each, of 500 owners. The pods request about 40 % of the CPU, and have a spread over zones",
            "with `ScheduleAnyway`. All instance types of EC2. Kubernetes supports up to 5,000 nodes and 150,000 pods.\n",
            "- Translation: from the objects of the index to a snapshot, first and after changes to 100 pods.",
            "- Plan: 1,000 pending pods of 500 shapes, without consolidation. Consolidation: every node is evaluated, with budgets of",
            "  10 %. Each is the best of three runs.",
            "- Memory: the index's objects, the snapshot, and the peak of a consolidation pass.\n",
        ] {
            writeln!(page, "{line}")?;
        }
        writeln!(
            page,
            "| nodes | pods | first translation | after changes | plan | consolidation | nodes removed | objects | snapshot | peak of a pass |"
        )?;
        writeln!(page, "|---|---|---|---|---|---|---|---|---|---|")?;
        for it in &self.0 {
            let memory = [it.objects, it.snapshot.bytes, it.peak].map(|bytes| format!("{:.0} MiB", mebibytes(bytes)));
            writeln!(
                page,
                "| {} | {} | {} | {} | {} | {} | {} | {} |",
                it.snapshot.size.nodes,
                it.snapshot.size.pods,
                time(it.snapshot.first),
                time(it.snapshot.again),
                time(it.pending),
                time(it.pass),
                it.removed,
                memory.join(" | "),
            )?;
        }
        match self.fastest_growth() {
            Some((name, factor, size)) => {
                writeln!(
                    page,
                    "\nThe next limit: from the last but one row to the last, with {size:.1} times the nodes, {name} grows by a factor of {factor:.1}."
                )
            }
            None => Ok(()),
        }
    }
}

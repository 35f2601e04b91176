//! Report of all measurements: `target/peers/planner.json` for programs and docs/performance.md for people.

mod agent;
mod consolidation;
mod disruption;
mod growth;
mod live;
mod machine;
mod priced;
mod rows;
mod sections;
mod stages;
mod traces;

use std::fmt::{self, Write};
use std::time::Duration;

use serde::Serialize;

use crate::compare::Compared;
use crate::curve::{Curve, TimedSnapshot};
use crate::memory::Measured;
use crate::price::PricedWorkload;

pub use agent::Agent;
pub use disruption::Disruption;
pub use growth::Growth;
pub use live::Live;
pub use machine::Machine;
pub use priced::Constrained;
pub use sections::{renewed, with_separate_sections};
pub use traces::PlayedTrace;

/// Unit of costs.
const OVER: &str = "times the lower bound";

/// All results of one run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Machine, date and versions.
    pub machine: Machine,
    /// Both planners on the fixtures of Karpenter's benchmark and similar ones.
    pub compared: Vec<Compared>,
    /// Cost of fleets, compared with the lower bound.
    pub priced: Vec<PricedWorkload>,
    /// The same for workloads with constraints.
    pub constrained: Constrained,
    /// Memory and time of a large snapshot.
    pub memory: Measured,
    /// Memory and times by the size of the cluster.
    pub growth: Growth,
    /// Planning time by pods and shapes.
    pub curve: Curve,
    /// Planning time with unschedulable pods.
    pub strangers: Vec<TimedSnapshot>,
    /// Results for disruption.
    pub disruption: Disruption,
    /// Results for the agent.
    pub agent: Agent,
}

/// One line of `planner.json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measure {
    /// Name of the measurement.
    pub measure: String,
    /// Kerf's value.
    pub ours: f64,
    /// Karpenter's value, if there is one.
    pub peer: Option<f64>,
    /// Factor by which Kerf's value is better.
    pub ratio: Option<f64>,
    /// Unit of the values; less is better.
    pub unit: &'static str,
}

impl Measure {
    fn beside(measure: String, ours: f64, peer: f64, unit: &'static str) -> Self {
        Self { measure, ours, peer: Some(peer), ratio: Some(peer / ours), unit }
    }

    fn alone(measure: String, ours: f64, unit: &'static str) -> Self {
        Self { measure, ours, peer: None, ratio: None, unit }
    }
}

impl Report {
    /// Returns the lines of `planner.json`.
    #[must_use]
    pub fn measures(&self) -> Vec<Measure> {
        let seconds = |it: &Compared| {
            Measure::beside(it.name.clone(), it.ours.took.as_secs_f64(), it.peer.took.as_secs_f64(), "s")
        };
        let pods = self.memory.size.pods;
        let mut all: Vec<Measure> = self.compared.iter().map(seconds).collect();
        all.extend(self.priced.iter().chain(&self.constrained.0).map(PricedWorkload::measure));
        all.push(Measure::alone(format!("memory-{pods}-pods"), mebibytes(self.memory.bytes), "MiB"));
        all.push(Measure::alone(format!("snapshot-{pods}-pods"), self.memory.again.as_secs_f64(), "s"));
        all.extend(self.growth.measures());
        all
    }

    /// Returns docs/performance.md, without the sections that are measured separately.
    #[must_use]
    pub fn page(&self) -> String {
        let mut page = String::new();
        // Writing to a String cannot fail.
        let _ = self.write(&mut page);
        page
    }

    fn write(&self, page: &mut String) -> fmt::Result {
        writeln!(page, "# Performance\n")?;
        for line in [
            "Reference. `make peers` measures Kerf beside its peers and writes this page; do not edit it by hand.",
            "Programs read the same figures from `target/peers/planner.json`. Both planners read the same fixture files.",
            "They run one after the other on the same machine, never at the same time.\n",
        ] {
            writeln!(page, "{line}")?;
        }
        write!(page, "{}", self.machine)?;
        self.write_compared(page)?;
        self.write_priced(page)?;
        write!(page, "{}", self.constrained)?;
        self.write_curve(page)?;
        self.write_memory(page)?;
        write!(page, "{}{}{}", self.growth, self.disruption, self.agent)
    }

    fn write_compared(&self, page: &mut String) -> fmt::Result {
        writeln!(page, "\n## Time for a plan, beside Karpenter\n")?;
        for line in [
            "Kerf: `planner::plan`, best of three runs. Karpenter: `Solve`, one run. All input is in memory.",
            "`planner::check` shares no code with the planner; it found no violation in any plan of Kerf.",
            "`tests/peers/karpenter/workloads.go` describes the fixtures.\n",
        ] {
            writeln!(page, "{line}")?;
        }
        writeln!(
            page,
            "| workload | nodes | pods | shapes | Kerf | Karpenter | times faster | Kerf pods/s | Karpenter pods/s |"
        )?;
        writeln!(page, "|---|---|---|---|---|---|---|---|---|")?;
        for it in &self.compared {
            let rate = |took: Duration| it.pods as f64 / took.as_secs_f64();
            writeln!(
                page,
                "| {} | {} | {} | {} | {} | {} | {:.0} | {:.0} | {:.0} |",
                it.name,
                it.nodes,
                it.pods,
                it.shapes,
                time(it.ours.took),
                time(it.peer.took),
                it.ratio(),
                rate(it.ours.took),
                rate(it.peer.took),
            )?;
        }
        writeln!(
            page,
            "\n| workload | scheduled: Kerf | Karpenter | new nodes: Kerf | Karpenter | $/h: Kerf | Karpenter | cheaper by |"
        )?;
        writeln!(page, "|---|---|---|---|---|---|---|---|")?;
        for it in &self.compared {
            let saved = match it.peer.dollars {
                0.0 => "–".to_owned(),
                dollars => format!("{:.1} %", 100.0 * (1.0 - it.ours.dollars / dollars)),
            };
            writeln!(
                page,
                "| {} | {} | {} | {} | {} | {:.2} | {:.2} | {saved} |",
                it.name,
                it.ours.scheduled,
                it.peer.scheduled,
                it.ours.launched,
                it.peer.launched,
                it.ours.dollars,
                it.peer.dollars,
            )?;
        }
        Ok(())
    }

    fn write_priced(&self, page: &mut String) -> fmt::Result {
        writeln!(page, "\n## Cost of the fleet, over a lower bound\n")?;
        for line in [
            "Input: EC2's instance types in three zones of us-east-1, at on-demand list prices.",
            "The bound is the lowest possible cost of any fleet. Column generation over all ways to fill a node computes it",
            "(`tests/peers/src/bound.rs`). A longer search would raise the bound by at most 0.1 %, or by the figure in the row.\n",
            "- The bound respects requests, allocatable, daemon overhead, requirements, and hostname anti-affinity of a",
            "  workload to itself.",
            "- The bound permits fractions of nodes and ignores topology spread. Even the best fleet may cost more.\n",
        ] {
            writeln!(page, "{line}")?;
        }
        priced::write_table(page, &self.priced)
    }

    fn write_curve(&self, page: &mut String) -> fmt::Result {
        writeln!(page, "\n## Time against pods and shapes\n")?;
        writeln!(
            page,
            "Pods with requests only, and the 400 instance types of Karpenter's benchmark. Each column is a number of"
        )?;
        writeln!(page, "distinct shapes. Times are the best of three runs.\n")?;
        let shapes: Vec<String> = self.curve.shapes.iter().map(|shapes| shape_count(*shapes)).collect();
        writeln!(page, "| pods | {} |", shapes.join(" | "))?;
        writeln!(page, "|---{}|", "|---".repeat(shapes.len()))?;
        for (pods, times) in &self.curve.rows {
            let times: Vec<String> = times.iter().map(|took| took.map_or_else(String::new, time)).collect();
            writeln!(page, "| {pods} | {} |", times.join(" | "))?;
        }
        writeln!(page, "\nSchedulable pods together with unschedulable pods:\n")?;
        writeln!(page, "| pods | scheduled | time |\n|---|---|---|")?;
        for it in &self.strangers {
            writeln!(page, "| {} {} | {} | {} |", it.scheduled, it.about, it.scheduled, time(it.took))?;
        }
        Ok(())
    }

    fn write_memory(&self, page: &mut String) -> fmt::Result {
        let it = &self.memory;
        writeln!(page, "\n## Snapshot of a large cluster\n")?;
        writeln!(
            page,
            "{} nodes and {} bound pods of {} owners. The figures exclude the API objects in the index.\n",
            it.size.nodes, it.size.pods, it.size.owners
        )?;
        writeln!(page, "| measure | figure |\n|---|---|")?;
        writeln!(
            page,
            "| snapshot and its records | {:.1} MiB, {} bytes per pod |",
            mebibytes(it.bytes),
            it.bytes / it.size.pods as u64
        )?;
        writeln!(page, "| peak during the first translation | {:.1} MiB |", mebibytes(it.peak))?;
        writeln!(page, "| first translation | {} |", time(it.first))?;
        writeln!(page, "| translation after changes to {} pods | {} |", it.changed, time(it.again))
    }
}

fn shape_count(shapes: usize) -> String {
    if shapes == 1 { "1 shape".to_owned() } else { format!("{shapes} shapes") }
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Formats a duration with about three digits.
fn time(took: Duration) -> String {
    let seconds = took.as_secs_f64();
    match seconds {
        s if s >= 100.0 => format!("{s:.0} s"),
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 0.1 => format!("{:.0} ms", s * 1e3),
        s => format!("{:.2} ms", s * 1e3),
    }
}

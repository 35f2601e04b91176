//! Public trace, played by the rules of both sides, as a section of docs/performance.md.

use std::fmt;

use crate::traces::{Origin, Outcome, Request};

/// Trace with the results of both sides.
#[derive(Clone, Debug)]
pub struct PlayedTrace {
    /// Trace and its part.
    pub request: Request,
    /// Number of pods that it created.
    pub pods: usize,
    /// Result by Kerf's rules, with the bound.
    pub ours: Outcome,
    /// Result by Karpenter's rules.
    pub peer: Outcome,
}

impl fmt::Display for PlayedTrace {
    fn fmt(&self, page: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request { origin, part, .. } = self.request;
        writeln!(page, "\n## Public trace {}, beside Karpenter's rules\n", origin.as_str())?;
        for line in about(origin) {
            writeln!(page, "{line}")?;
        }
        let owners = if part.every == 1 { "all owners".to_owned() } else { format!("one of {} owners", part.every) };
        writeln!(page, "Here: {} hours, {owners}, {} pods.\n", part.hours, self.pods)?;
        for line in COMMON {
            writeln!(page, "{line}")?;
        }
        writeln!(page, "| | Kerf | Karpenter's rules |\n|---|---|---|")?;
        let least = self.ours.bounded.least;
        for ((name, ours), (_, peer)) in rows(&self.ours, least).into_iter().zip(rows(&self.peer, least)) {
            writeln!(page, "| {name} | {ours} | {peer} |")?;
        }
        let (new_fleets, planning) = (self.ours.bounded.anew, self.ours.planning.as_secs_f64());
        writeln!(
            page,
            "\nThe bound is ${least:.2}, new fleets by Kerf for the pods of each hour would cost ${new_fleets:.2}. Kerf's plans took {planning:.1} s of CPU time."
        )
    }
}

/// Returns the rows of one side; `least` is the bound.
fn rows(side: &Outcome, least: f64) -> [(&'static str, String); 6] {
    let cost = side.bounded.cost();
    [
        ("cost (times the bound)", format!("${cost:.2} ({:.3})", cost / least)),
        ("time until a pod is bound, p50", format!("{:.1} s", side.wait(50))),
        ("time until a pod is bound, p99", format!("{:.1} s", side.wait(99))),
        ("evictions", side.evicted.to_string()),
        ("launched instances", side.launches.to_string()),
        ("instances at most", side.most_machines.to_string()),
    ]
}

/// Sentences on a trace.
fn about(origin: Origin) -> &'static [&'static str] {
    match origin {
        Origin::Azure => &[
            "Virtual machines of a region of Azure (Azure Public Dataset V1): each is a pod with its requests, each batch of a tenant",
            "an owner.",
        ],
        Origin::Openb => &[
            "Pods of a GPU cluster of Alibaba (cluster-trace-gpu-v2023), from its day 115 on; before, it was hardly in use. A pod with a",
            "share of a GPU requests a whole one, because device plugins give pods whole GPUs. Types with GPUs: g4dn, g5, g6 and p4d.",
        ],
    }
}

const COMMON: [&str; 6] = [
    "The shipped controller on the simulated clock, with two NodePools: one prefers spot, the other is on-demand. EC2's on-demand",
    "prices, constant spot prices, two spot interruptions and two shortages per hour. Beside it, Karpenter's rules select the",
    "disrupted nodes; the placement of pods is Kerf's on both sides. Cost of instances from the second hour on. The bound is the sum",
    "of lower bounds for the pods at the beginning of each hour: a sample, which contains neither the starts of nodes nor capacity",
    "that is free between two pods.",
    "",
];

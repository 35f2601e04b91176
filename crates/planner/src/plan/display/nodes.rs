//! Sentences of verdicts on nodes.

use std::fmt::{self, Display, Formatter};

use super::{counted, hourly, hours, last_attempts, list, seconds, thousandths, would_go};
use crate::{Balance, CommandReason, NodeVerdict};

impl Display for NodeVerdict {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Remove(reason) => write!(out, "is removed: {reason}"),
            Self::Leaving => out.write_str("is already being removed"),
            Self::NotInitialized => out.write_str("is not initialized yet"),
            Self::InUse { pods } => write!(out, "stays: not empty, {}", counted(*pods)),
            Self::HoldsCapacity { holder } => write!(out, "stays: keeps capacity for {holder}"),
            Self::Nominated => out.write_str("stays: nominated for pending pods"),
            Self::Watched => out.write_str("stays: pending pods depend on pods of this node"),
            Self::Quiet { remaining } => {
                write!(out, "stays: consolidateAfter ends in {} s", seconds(*remaining))
            }
            Self::ConsolidationDisabled => out.write_str("stays: NodePool has consolidation disabled"),
            Self::Static => out.write_str("stays: replica of a static NodePool"),
            Self::NoReplica => out.write_str(
                "stays: its static NodePool cannot launch a replacement, by its limits or for insufficient capacity",
            ),
            Self::AwaitsReplacement { pool, claim } => awaits_replacement(out, pool, claim.as_deref()),
            Self::ReplacementsFail { pool, failures, remaining } => {
                let last = last_attempts(*failures, ["replacement", "replacements"]);
                write!(out, "stays: {last} failed in NodePool {pool}, ")?;
                write!(out, "the next attempt is in {} s", seconds(*remaining))
            }
            Self::AwaitsCanary { pool, healthy, nodes, remaining } => {
                awaits_canary(out, pool, *healthy, *nodes, *remaining)
            }
            Self::CanaryUnhealthy { pool, node } => canary_unhealthy(out, pool, node),
            Self::Rebooting => out.write_str("stays: its instance reboots"),
            Self::DoNotDisrupt => out.write_str("stays: node has annotation karpenter.sh/do-not-disrupt"),
            Self::Budget { reason } => {
                write!(out, "stays: {}, but the disruption budget of its NodePool is exhausted", would_go(*reason))
            }
            Self::Cheapest { pods } => write!(out, "stays: no cheaper capacity for its {}", counted(*pods)),
            Self::ByTurns { pods } => rotated(out, *pods),
            Self::RoomSoon { remaining } => room_soon(out, *remaining),
            Self::RemovedTogether { remaining } => removed_together(out, *remaining),
            Self::NoPlace { pod } => write!(out, "stays: pod {pod} cannot be rescheduled"),
            Self::AboveCeiling { pod, node, strain } => {
                write!(out, "stays: pod {pod} fits on {node}, but above the utilization limit: ")?;
                strain.write_with(out, "would be")
            }
            Self::CheaperIsBusy { strain } => {
                out.write_str("stays: cheaper nodes would be above the utilization limit: ")?;
                strain.write_with(out, "would be")
            }
            Self::NotWorthIt { saving, asked, work } => {
                write!(out, "stays: savings of {} are less than the required {}", hourly(*saving), hourly(*asked))?;
                work.map_or(Ok(()), |work| {
                    write!(out, ", {} of it for work that evicted pods would do again", hourly(work))
                })
            }
            Self::Paid { commitment } => write!(out, "stays: Commitment {commitment} pays for it"),
            Self::Scattered { pods } => simulated_placement(out, *pods),
            Self::SpotToSpot { types } => spot_to_spot(out, *types),
            Self::Unbalanced { score } => unbalanced(out, *score),
            Self::ManyUnhealthy { unhealthy, nodes } => {
                write!(out, "stays: unhealthy, but so are {unhealthy} of {nodes} nodes of its NodePool, more than 20%")
            }
            Self::UnknownPrice => out.write_str("stays: price is unknown"),
            Self::Busy { strain } => write!(out, "stays: above the utilization limit: {strain}"),
            Self::PodDoNotDisrupt { pod, remaining } => {
                write!(out, "stays: pod {pod} has annotation karpenter.sh/do-not-disrupt")?;
                remaining.map_or(Ok(()), |left| write!(out, ", for up to {} h more", hours(left)))
            }
            Self::PodHeld { pod, budgets } => held(out, pod, budgets),
            Self::Resting { pod, remaining } => resting(out, pod, *remaining),
            Self::Disturbed { pod, workload } => disturbed(out, pod, workload),
            Self::AfterResize { nodes } => {
                out.write_str("waits for lower requests of pods on ")?;
                list(out, nodes, " and ")
            }
            Self::AfterMove { node } => {
                write!(out, "waits for removal of {node}: inter-pod constraints")
            }
            Self::LeftOut { reason, finding } => left_out(out, *reason, finding),
            Self::Postponed => out.write_str("not evaluated: step budget exhausted, continues in the next plan"),
            Self::NoPool => out.write_str("stays: its NodePool is unknown or not ready"),
        }
    }
}

fn held(out: &mut Formatter<'_>, pod: &str, budgets: &[String]) -> fmt::Result {
    write!(out, "stays: eviction of pod {pod} is blocked (PodDisruptionBudget ")?;
    list(out, budgets, ", ")?;
    out.write_str(")")
}

fn awaits_replacement(out: &mut Formatter<'_>, pool: &str, claim: Option<&str>) -> fmt::Result {
    match claim {
        Some(claim) => write!(out, "stays: replacement {claim} in NodePool {pool} is not initialized"),
        None => write!(out, "stays: after a failure, NodePool {pool} launches one replacement at a time"),
    }
}

fn awaits_canary(
    out: &mut Formatter<'_>,
    pool: &str,
    healthy: usize,
    nodes: u32,
    remaining: Option<i64>,
) -> fmt::Result {
    write!(
        out,
        "stays: drifted, and the canary of NodePool {pool} is not over: {healthy} of {nodes} nodes have been healthy"
    )?;
    out.write_str(" for long enough")?;
    remaining.map_or(Ok(()), |left| write!(out, ", the others follow in {} s", seconds(left)))
}

fn canary_unhealthy(out: &mut Formatter<'_>, pool: &str, node: &str) -> fmt::Result {
    write!(out, "stays: drifted, but node {node} of NodePool {pool} with the new configuration is unhealthy")
}

fn room_soon(out: &mut Formatter<'_>, remaining: i64) -> fmt::Result {
    write!(out, "stays: pods will fit on nodes that changed recently, no replacement for {} s", seconds(remaining))
}

fn removed_together(out: &mut Formatter<'_>, remaining: i64) -> fmt::Result {
    let seconds = seconds(remaining);
    write!(out, "waits up to {seconds} s for nodes that changed recently, to be removed together with them")
}

fn rotated(out: &mut Formatter<'_>, pods: usize) -> fmt::Result {
    let pods = counted(pods);
    write!(out, "stays: no cheaper capacity for its {pods} alone; multi-node consolidation not evaluated in this plan")
}

fn simulated_placement(out: &mut Formatter<'_>, pods: usize) -> fmt::Result {
    write!(out, "stays: kube-scheduler prefers the least-allocated nodes, so {pods} of the moved pods would not fit")
}

fn spot_to_spot(out: &mut Formatter<'_>, types: Option<usize>) -> fmt::Result {
    match types {
        None => {
            out.write_str("stays: SpotToSpotConsolidation is disabled, cannot replace a spot node with a spot node")
        }
        Some(types) => {
            write!(out, "stays: SpotToSpotConsolidation found only {types} cheaper instance types")
        }
    }
}

fn unbalanced(out: &mut Formatter<'_>, score: i64) -> fmt::Result {
    let (score, enough) = (thousandths(score), thousandths(Balance::ENOUGH));
    write!(out, "stays: savings are too small for the disruption (balance score {score}, required {enough})")
}

fn resting(out: &mut Formatter<'_>, pod: &str, remaining: i64) -> fmt::Result {
    let left = seconds(remaining);
    write!(
        out,
        "stays: workload of pod {pod} was disrupted or changed within kerf.sh/disrupt-at-most-once-per, {left} s left"
    )
}

fn disturbed(out: &mut Formatter<'_>, pod: &str, workload: &str) -> fmt::Result {
    write!(
        out,
        "stays: {workload} of pod {pod} is being disrupted by another command (kerf.sh/disrupt-at-most-once-per)"
    )
}

fn left_out(out: &mut Formatter<'_>, reason: CommandReason, finding: &str) -> fmt::Result {
    let would_go = would_go(reason);
    write!(out, "stays: {would_go}, but the plan failed its validation and is made again ({finding})")
}

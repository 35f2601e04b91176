//! One disruption pass of Kerf over a large settled cluster, with a verdict for every node, compared with Karpenter's
//! simulation for single candidates.

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use planner::{Budgets, NodeVerdict, Plan, Snapshot};

use crate::compare::{checked, fastest};
use crate::fixture;
use crate::karpenter::{Karpenter, Simulated};

/// Most candidates that Karpenter's multi-node consolidation combines.
pub(crate) const TOGETHER: usize = 100;
/// Time limit of Karpenter's single-node consolidation.
const PATIENCE: Duration = Duration::from_mins(3);

/// Results of both for one cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Consolidation {
    /// Number of nodes, all of them initialized.
    pub nodes: usize,
    /// Number of pods on them; no pod is pending.
    pub pods: usize,
    /// Kerf's pass with a budget of 100 %, so that no node is skipped for an exhausted budget.
    pub all: Pass,
    /// Kerf's pass with the default budget, 10 % of the nodes.
    pub tenth: Pass,
    /// Karpenter's simulations for some of the nodes, one at a time.
    pub peer: Simulated,
}

/// One pass of Kerf: a plan with a verdict for every node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pass {
    /// Duration of the pass.
    pub took: Duration,
    /// Peak memory in bytes, without the snapshot.
    pub bytes: u64,
    /// Number of disruption commands.
    pub moves: usize,
    /// Number of nodes that the commands remove.
    pub going: usize,
    /// Number of replacements that the commands launch first.
    pub launched: usize,
}

/// Writes a fixture and measures both planners on its cluster; Karpenter simulates `candidates` nodes, one at a time.
///
/// # Errors
/// Returns an error if the fixture cannot be written or read, or if the planners count different nodes and pods. The same
/// applies to a node without a verdict of Kerf, and to a plan of Kerf that fails its validation.
pub fn measure(folder: &Path, karpenter: &Karpenter, candidates: usize) -> anyhow::Result<Consolidation> {
    karpenter.write_fixture(folder)?;
    let mut snapshot = fixture::read(folder)?;
    let nodes = snapshot.nodes.len();
    let pods = snapshot.nodes.iter().map(|node| node.pods.len()).sum();
    let all = Pass::over(&snapshot)?;
    let tenth = u32::try_from(nodes.div_ceil(10))?;
    let budgets = Budgets { empty: tenth, underutilized: tenth, drifted: tenth, expired: tenth };
    snapshot.pools.iter_mut().for_each(|pool| pool.disruption.budgets = budgets);
    let tenth = Pass::over(&snapshot)?;
    drop(snapshot);
    let peer = karpenter.simulate(folder, candidates)?;
    let (read, read_pods) = (peer.nodes, peer.pods);
    ensure!(
        (read, read_pods) == (nodes, pods),
        "Karpenter reads {read} nodes with {read_pods} pods, Kerf {nodes} with {pods}"
    );
    Ok(Consolidation { nodes, pods, all, tenth, peer })
}

impl Pass {
    fn over(snapshot: &Snapshot) -> anyhow::Result<Self> {
        let (plan, took) = fastest(|| planner::plan(snapshot));
        ensure_complete(snapshot, &plan)?;
        checked("consolidation", snapshot, &plan)?;
        let counted = allocation_counter::measure(|| drop(planner::plan(snapshot)));
        let going = plan.moves.iter().map(|it| it.nodes.len()).sum();
        Ok(Self { took, bytes: counted.bytes_max, moves: plan.moves.len(), going, launched: plan.launches.len() })
    }
}

/// Checks that every node has a verdict, and that none was postponed.
fn ensure_complete(snapshot: &Snapshot, plan: &Plan) -> anyhow::Result<()> {
    let (nodes, verdicts) = (snapshot.nodes.len(), &plan.report.nodes);
    ensure!(verdicts.len() == nodes, "{} verdicts for {nodes} nodes", verdicts.len());
    let postponed = verdicts.iter().filter(|(_, verdict)| *verdict == NodeVerdict::Postponed).count();
    ensure!(postponed == 0, "the plan was out of steps before the turn of {postponed} nodes came");
    Ok(())
}

impl Consolidation {
    /// Returns Kerf's time per node with a budget of 100 %.
    #[must_use]
    pub fn ours_each(&self) -> Duration {
        self.all.took / u32::try_from(self.nodes).unwrap_or(u32::MAX).max(1)
    }

    /// Returns Karpenter's time for all nodes, one at a time: extrapolated, not measured.
    #[must_use]
    pub fn peer_for_all(&self) -> Duration {
        self.peer.each().mul_f64(self.nodes as f64)
    }

    /// Returns the most nodes that Karpenter considers in one pass before its time limit.
    #[must_use]
    pub fn peer_in_a_pass(&self) -> usize {
        let single = PATIENCE.as_secs_f64() / self.peer.each().as_secs_f64().max(1e-9);
        self.nodes.min(TOGETHER + single as usize)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use planner::{Node, Report};

    use super::*;

    fn beside(nodes: usize, each: Duration) -> Consolidation {
        let pass = Pass { took: Duration::from_millis(500), bytes: 0, moves: 0, going: 0, launched: 0 };
        let simulate_nanos = u64::try_from((each * 20).as_nanos()).unwrap();
        let peer = Simulated { nodes, pods: 0, candidates: 20, need_no_other: 0, simulate_nanos };
        Consolidation { nodes, pods: 0, all: pass, tenth: pass, peer }
    }

    #[test]
    fn peer_in_a_pass_is_limited_by_karpenters_time_limit() {
        assert_eq!(beside(5_000, Duration::from_secs(1)).peer_in_a_pass(), 280);
        assert_eq!(beside(150, Duration::from_secs(1)).peer_in_a_pass(), 150);
        assert_eq!(beside(5_000, Duration::from_mins(4)).peer_in_a_pass(), 100);
    }

    #[test]
    fn times_are_computed_for_one_node_and_for_all() {
        let it = beside(5_000, Duration::from_millis(400));
        assert_eq!(it.ours_each(), Duration::from_micros(100));
        assert_eq!(it.peer_for_all(), Duration::from_secs(2_000));
    }

    #[test]
    fn pass_fails_when_a_node_has_no_verdict_or_is_postponed() {
        let named = |name: &str| Arc::new(Node { name: name.to_owned(), ..Node::default() });
        let snapshot = Snapshot { nodes: vec![named("one"), named("two")], ..Snapshot::default() };
        let checked = |verdicts: Vec<NodeVerdict>| {
            let nodes = ["one", "two"].map(str::to_owned).into_iter().zip(verdicts).collect();
            ensure_complete(&snapshot, &Plan { report: Report { nodes, ..Report::default() }, ..Plan::default() })
        };
        assert!(checked(vec![NodeVerdict::Leaving, NodeVerdict::NotInitialized]).is_ok());
        assert!(checked(vec![NodeVerdict::Leaving]).unwrap_err().to_string().contains("1 verdicts for 2 nodes"));
        let late = checked(vec![NodeVerdict::Leaving, NodeVerdict::Postponed]).unwrap_err();
        assert!(late.to_string().contains("the turn of 1 nodes"), "{late}");
    }
}

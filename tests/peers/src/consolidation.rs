//! One pass over a large settled cluster in which every node is judged, beside Karpenter's simulation for one candidate.

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use planner::{Budgets, NodeVerdict, Plan, Snapshot};

use crate::compare::{checked, fastest};
use crate::fixture;
use crate::karpenter::{Karpenter, Simulated};

/// Candidates that Karpenter's multi-node consolidation takes together at most.
pub(crate) const TOGETHER: usize = 100;
/// How long its single-node consolidation goes on before it gives up.
const PATIENCE: Duration = Duration::from_mins(3);

/// What both make of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Consolidation {
    /// Its nodes, all of them initialized.
    pub nodes: usize,
    /// The pods on them; none is pending.
    pub pods: usize,
    /// Kerf's pass where all nodes may go at once, so that none is passed over because a budget is spent.
    pub all: Pass,
    /// Kerf's pass with the default budget, a tenth of the nodes.
    pub tenth: Pass,
    /// Karpenter's simulations for some of the nodes, one by one.
    pub peer: Simulated,
}

/// One pass of Kerf's: a plan with a verdict for every node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pass {
    /// How long it took.
    pub took: Duration,
    /// The most bytes that it held at any moment, beside the snapshot.
    pub bytes: u64,
    /// Moves that it found.
    pub moves: usize,
    /// Nodes that go in them.
    pub going: usize,
    /// Machines that have to come up before.
    pub launched: usize,
}

/// Has both look at the cluster of a fixture, which is written first; Karpenter at so many candidates, one by one.
///
/// # Errors
/// When the fixture cannot be written or read, when they do not count the same nodes and pods, when a node of ours has no
/// verdict, or when our plan breaks its own rules.
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
        judged(snapshot, &plan)?;
        checked("consolidation", snapshot, &plan)?;
        let counted = allocation_counter::measure(|| drop(planner::plan(snapshot)));
        let going = plan.moves.iter().map(|it| it.nodes.len()).sum();
        Ok(Self { took, bytes: counted.bytes_max, moves: plan.moves.len(), going, launched: plan.launches.len() })
    }
}

/// Whether every node has a verdict, and none the one that its turn never came.
fn judged(snapshot: &Snapshot, plan: &Plan) -> anyhow::Result<()> {
    let (nodes, verdicts) = (snapshot.nodes.len(), &plan.report.nodes);
    ensure!(verdicts.len() == nodes, "{} verdicts for {nodes} nodes", verdicts.len());
    let postponed = verdicts.iter().filter(|(_, verdict)| *verdict == NodeVerdict::Postponed).count();
    ensure!(postponed == 0, "the plan was out of steps before the turn of {postponed} nodes came");
    Ok(())
}

impl Consolidation {
    /// Kerf's time for each node that it judges, where all may go.
    #[must_use]
    pub fn ours_each(&self) -> Duration {
        self.all.took / u32::try_from(self.nodes).unwrap_or(u32::MAX).max(1)
    }

    /// What all nodes would take Karpenter one by one: not measured, but multiplied.
    #[must_use]
    pub fn peer_for_all(&self) -> Duration {
        self.peer.each().mul_f64(self.nodes as f64)
    }

    /// How many nodes Karpenter looks at in one pass at most, before its own time limit ends it.
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
    fn karpenters_time_limit_bounds_what_it_looks_at() {
        assert_eq!(beside(5_000, Duration::from_secs(1)).peer_in_a_pass(), 280);
        assert_eq!(beside(150, Duration::from_secs(1)).peer_in_a_pass(), 150);
        assert_eq!(beside(5_000, Duration::from_mins(4)).peer_in_a_pass(), 100);
    }

    #[test]
    fn times_are_told_for_one_node_and_for_all() {
        let it = beside(5_000, Duration::from_millis(400));
        assert_eq!(it.ours_each(), Duration::from_micros(100));
        assert_eq!(it.peer_for_all(), Duration::from_secs(2_000));
    }

    #[test]
    fn a_node_without_a_verdict_or_its_turn_is_no_pass() {
        let named = |name: &str| Arc::new(Node { name: name.to_owned(), ..Node::default() });
        let snapshot = Snapshot { nodes: vec![named("one"), named("two")], ..Snapshot::default() };
        let told = |verdicts: Vec<NodeVerdict>| {
            let nodes = ["one", "two"].map(str::to_owned).into_iter().zip(verdicts).collect();
            judged(&snapshot, &Plan { report: Report { nodes, ..Report::default() }, ..Plan::default() })
        };
        assert!(told(vec![NodeVerdict::Leaving, NodeVerdict::NotInitialized]).is_ok());
        assert!(told(vec![NodeVerdict::Leaving]).unwrap_err().to_string().contains("1 verdicts for 2 nodes"));
        let late = told(vec![NodeVerdict::Leaving, NodeVerdict::Postponed]).unwrap_err();
        assert!(late.to_string().contains("the turn of 1 nodes"), "{late}");
    }
}

//! Memory and times of clusters of several sizes, up to beyond the largest that Kubernetes supports.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use planner::{Budgets, Plan, Pod, Snapshot};
use snapshot::SnapshotCache;

use crate::compare::{checked, fastest};
use crate::memory::{Cluster, Measured, Size};
use crate::workloads;

/// Numbers of nodes; each has [`PODS_PER_NODE`] pods.
pub const NODES: [usize; 4] = [1_000, 2_500, 5_000, 15_000];
/// Pods of each node, which request about 40 % of its CPU.
const PODS_PER_NODE: usize = 20;
/// Owners of the pods.
const OWNERS: usize = 500;
/// Pending pods of the plan for new nodes, of as many shapes as there are owners.
const PENDING: usize = 1_000;

/// Measured values of one size.
#[derive(Clone, Debug, PartialEq)]
pub struct Grown {
    /// Memory and times of the snapshot.
    pub snapshot: Measured,
    /// Memory of the API objects, in bytes.
    pub objects: u64,
    /// Duration of a plan for 1,000 pending pods, without consolidation.
    pub pending: Duration,
    /// Duration of a plan that evaluates every node for consolidation, with budgets of 10 %.
    pub pass: Duration,
    /// Nodes that this plan removes.
    pub removed: usize,
    /// Peak memory of this plan in bytes, without the snapshot.
    pub peak: u64,
}

/// Measures one size.
///
/// # Errors
/// Returns an error if an object cannot be generated, or if a plan fails its validation or leaves pods without a place.
pub fn measure(nodes: usize) -> anyhow::Result<Grown> {
    let size = Size { nodes, pods: nodes * PODS_PER_NODE, owners: OWNERS.min(nodes) };
    let snapshot = crate::memory::measure(size)?;
    let mut cluster = Cluster::new(size)?;
    let objects = allocation_counter::measure(|| drop(Cluster::new(size))).bytes_max;
    cluster.set_types(workloads::on_demand_types()?);
    let mut settled = SnapshotCache::default().build(&cluster.input()).snapshot;
    drop(cluster);
    let tenth = u32::try_from(nodes.div_ceil(10))?;
    set_budgets(&mut settled, tenth);
    let (plan, pass) = fastest(|| planner::plan(&settled));
    checked("consolidation", &settled, &plan)?;
    let removed = plan.moves.iter().map(|it| it.nodes.len()).sum();
    ensure!(removed > 0, "no node is removed, so the pass measures nothing");
    drop(plan);
    let peak = allocation_counter::measure(|| drop(planner::plan(&settled))).bytes_max;
    set_budgets(&mut settled, 0);
    add_pending(&mut settled);
    let (plan, pending) = fastest(|| planner::plan(&settled));
    checked("pending pods", &settled, &plan)?;
    ensure_placed(&plan)?;
    Ok(Grown { snapshot, objects, pending, pass, removed, peak })
}

fn set_budgets(snapshot: &mut Snapshot, nodes: u32) {
    let budgets = Budgets { empty: nodes, underutilized: nodes, drifted: nodes, expired: nodes };
    snapshot.pools.iter_mut().for_each(|pool| pool.disruption.budgets = budgets);
}

/// Adds pending pods like those on the nodes.
fn add_pending(snapshot: &mut Snapshot) {
    let bound = snapshot.nodes.iter().flat_map(|node| &node.pods).map(|pod| Arc::clone(&pod.shape));
    snapshot.shapes = bound.collect::<BTreeSet<_>>().into_iter().collect();
    let shapes = snapshot.shapes.len();
    let pod = |index: usize| {
        let name = format!("default/pending-{index:04}");
        Pod { uid: name.clone(), name, shape: index % shapes, ..Pod::default() }
    };
    snapshot.pods.extend((0..PENDING).map(pod));
}

fn ensure_placed(plan: &Plan) -> anyhow::Result<()> {
    let placed = plan.report.order.len();
    ensure!(placed >= PENDING, "{placed} of {PENDING} pods have a place");
    Ok(())
}

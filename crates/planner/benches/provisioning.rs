//! Time of one plan, by number of pods and of distinct shapes, and on small copies of the workloads that
//! `make peers` compares with Karpenter: `cargo bench -p planner`.
//!
//! Figures are for comparing two versions of this program on one machine, not for quoting.

mod workload;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use planner::Snapshot;

use workload::Workload;

fn measure(criterion: &mut Criterion, group: &str, rows: Vec<(String, Snapshot)>) {
    let mut group = criterion.benchmark_group(group);
    group.sample_size(10);
    for (name, snapshot) in rows {
        group.throughput(Throughput::Elements(snapshot.pods.len() as u64));
        group.bench_with_input(BenchmarkId::from_parameter(name), &snapshot, |bencher, snapshot| {
            bencher.iter(|| planner::plan(snapshot));
        });
    }
    group.finish();
}

/// Time against pods, and against shapes.
fn curve(criterion: &mut Criterion) {
    let points = [(1_000, 30), (10_000, 30), (100_000, 30), (10_000, 1), (10_000, 100), (10_000, 1_000)];
    let row = |(pods, shapes): (usize, usize)| {
        (format!("{pods}-pods-{shapes}-shapes"), Workload::empty().plain(pods, shapes).finish())
    };
    measure(criterion, "curve", points.map(row).into());
}

/// The workloads of the comparison.
fn workloads(criterion: &mut Criterion) {
    let rows = vec![
        ("diverse-5000".to_owned(), Workload::empty().diverse(5_000).finish()),
        ("preferences-1000".to_owned(), Workload::empty().preferring(1_000).finish()),
        ("existing-500".to_owned(), Workload::empty().beside(500).diverse(2_000).finish()),
        ("pending-33000".to_owned(), Workload::empty().beside(2_000).plain(33_000, 50).finish()),
    ];
    measure(criterion, "workloads", rows);
}

/// Unschedulable pods must not slow the placement of others.
fn strangers(criterion: &mut Criterion) {
    let placeable = || Workload::empty().plain(10_000, 100);
    let rows = vec![
        ("alone".to_owned(), placeable().finish()),
        ("beside-5000-unplaceable".to_owned(), placeable().with_unplaceable(5_000, 50).finish()),
        ("beside-5000-unplaceable-shapes".to_owned(), placeable().with_unplaceable(5_000, 5_000).finish()),
        ("beside-a-full-pool".to_owned(), placeable().with_full_pool().finish()),
    ];
    measure(criterion, "strangers", rows);
}

/// Evaluates every node of a cluster in which most could be given back, and the budget allows ten in a hundred or all.
fn disruption(criterion: &mut Criterion) {
    let row = |nodes: usize, budget: u32| {
        (format!("{nodes}-nodes-{budget}-may-go"), Workload::empty().running(nodes, budget).finish())
    };
    let rows = vec![row(500, 50), row(500, u32::MAX), row(5_000, 500), row(5_000, u32::MAX)];
    for (name, snapshot) in &rows {
        let pods: usize = snapshot.nodes.iter().map(|node| node.pods.len()).sum();
        let plan = planner::plan(snapshot);
        println!("{name}: {pods} pods, {} moves, {} new nodes", plan.moves.len(), plan.launches.len());
    }
    measure(criterion, "disruption", rows);
}

criterion_group!(benches, curve, workloads, strangers, disruption);
criterion_main!(benches);

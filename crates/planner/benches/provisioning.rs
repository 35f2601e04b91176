//! How long one plan takes, by number of pods and of distinct shapes: `cargo bench -p planner`.
//!
//! The instance types are those of Karpenter's own scheduling benchmark (400 types, type i with i + 1 CPUs and twice as
//! many GiB); pods draw CPU and memory from its lists. Figures are for comparing two versions of this program in one
//! run on one machine, not for quoting.
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock; what it measures does not")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use planner::{
    CapacityType, Catalogue, InstanceType, MicroDollars, Millis, Offering, Pod, PodShape, Pool, Resources, Snapshot,
};

const RUNS: usize = 5;
const GIB: i64 = 1 << 30;
const MIB: i64 = 1 << 20;
const CPUS: [i64; 5] = [100, 250, 500, 1000, 1500];
const MEMORIES: [i64; 6] = [100, 256, 512, 1024, 2048, 4096];

fn main() {
    println!("{:>8} {:>8} {:>10} {:>12} {:>9}", "pods", "shapes", "median ms", "pods/s", "launches");
    for (pods, shapes) in [(100, 30), (1_000, 30), (10_000, 30), (10_000, 1), (100_000, 30)] {
        let snapshot = snapshot(pods, shapes);
        let mut launches = 0;
        let mut times: Vec<Duration> = (0..RUNS)
            .map(|_| {
                let started = Instant::now();
                launches = black_box(planner::plan(black_box(&snapshot))).launches.len();
                started.elapsed()
            })
            .collect();
        times.sort();
        let median = times[RUNS / 2];
        let rate = pods as u128 * 1_000_000 / median.as_micros().max(1);
        println!("{pods:>8} {shapes:>8} {:>10} {rate:>12} {launches:>9}", median.as_millis());
    }
}

fn snapshot(pods: usize, shapes: usize) -> Snapshot {
    let pool = Pool { name: "default".to_owned(), ..Pool::default() };
    let pod = |index: usize| Pod {
        uid: format!("uid-{index:06}"),
        name: format!("default/pod-{index}"),
        shape: index % shapes,
        created: Millis(0),
        ..Pod::default()
    };
    Snapshot {
        pools: vec![pool],
        catalogues: vec![Arc::new(Catalogue { name: "default".to_owned(), types: types() })],
        shapes: (0..shapes).map(|index| Arc::new(shape(index))).collect(),
        pods: (0..pods).map(pod).collect(),
        ..Snapshot::default()
    }
}

fn shape(index: usize) -> PodShape {
    let requests: Resources = [
        (Resources::CPU, CPUS[index % CPUS.len()]),
        (Resources::MEMORY, MEMORIES[index / CPUS.len() % MEMORIES.len()] * MIB),
        (Resources::PODS, 1),
    ]
    .into_iter()
    .collect();
    PodShape { requests, ..PodShape::default() }
}

fn types() -> Vec<InstanceType> {
    let mut types: Vec<InstanceType> = (1..=400).map(instance_type).collect();
    types.sort_by(|one, other| one.name.cmp(&other.name));
    types
}

fn instance_type(cpus: i64) -> InstanceType {
    let resources = |cpu: i64, memory: i64| -> Resources {
        [(Resources::CPU, cpu), (Resources::MEMORY, memory), (Resources::PODS, cpus * 10)].into_iter().collect()
    };
    let price = MicroDollars(cpus * 100_000 + cpus * 2 * GIB / 10_000);
    let offering = |zone: &str, capacity_type| Offering {
        zone: zone.to_owned(),
        capacity_type,
        price,
        available: true,
        labels: std::collections::BTreeMap::new(),
        reservation: None,
    };
    InstanceType {
        name: format!("fake-it-{}", cpus - 1),
        capacity: resources(cpus * 1000, cpus * 2 * GIB),
        allocatable: resources(cpus * 1000 - 100, cpus * 2 * GIB - 10 * MIB),
        offerings: vec![
            offering("test-zone-1", CapacityType::Spot),
            offering("test-zone-2", CapacityType::Spot),
            offering("test-zone-1", CapacityType::OnDemand),
            offering("test-zone-2", CapacityType::OnDemand),
            offering("test-zone-3", CapacityType::OnDemand),
        ],
        ..InstanceType::default()
    }
}

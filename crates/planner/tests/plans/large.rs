//! One large cluster, always the same, with many pods and as many types as EC2 offers.

use std::collections::BTreeMap;
use std::sync::Arc;

use planner::{
    CapacityType, Catalogue, InstanceType, MicroDollars, Millis, Offering, PodShape, Policy, Pool, Snapshot,
};

use crate::clusters::{ARCH, CPUS, NOW, add_pod, amounts, named, well_known};

/// Creates many pods of a few shapes, and many types whose prices follow their size.
pub fn large(pods: usize, types: usize) -> Snapshot {
    let kind = |position: usize| {
        let cpus = [2i64, 4, 8, 16, 32][position % 5];
        let family = i64::try_from(position / 5).unwrap();
        let sold = |zone: &str, capacity_type, price| Offering {
            zone: zone.to_owned(),
            capacity_type,
            price: MicroDollars(price),
            premium: MicroDollars(0),
            available: true,
            labels: BTreeMap::new(),
            reservation: None,
        };
        let price = cpus * (40_000 + 500 * family);
        InstanceType {
            name: format!("family-{family:03}.{cpus:02}"),
            labels: BTreeMap::from([(ARCH.into(), vec!["amd64".into()]), (CPUS.into(), vec![cpus.to_string()])]),
            capacity: amounts(cpus * 1000, cpus * 4096, 110),
            allocatable: amounts(cpus * 1000 - 100, cpus * 4096 - 500, 110),
            offerings: vec![
                sold("a", CapacityType::OnDemand, price),
                sold("b", CapacityType::OnDemand, price),
                sold("a", CapacityType::Spot, price / 3),
            ],
            ..InstanceType::default()
        }
    };
    let mut all: Vec<InstanceType> = (0..types).map(kind).collect();
    all.sort_by(|one, other| one.name.cmp(&other.name));
    let shape = |cpu, memory| Arc::new(PodShape { requests: amounts(cpu, memory, 1), ..PodShape::default() });
    let mut snapshot = Snapshot {
        now: Millis(NOW),
        policy: Policy { well_known: well_known(), ..Policy::default() },
        catalogues: vec![Arc::new(Catalogue { name: "default".to_owned(), types: all, ..Catalogue::default() })],
        pools: named(vec![Pool::default()]),
        shapes: vec![shape(250, 512), shape(500, 1024), shape(1000, 4096), shape(1500, 1024), shape(3000, 9000)],
        ..Snapshot::default()
    };
    for pod in 0..pods {
        add_pod(&mut snapshot, &format!("pod-{pod:05}"), pod % 5, 0);
    }
    snapshot
}

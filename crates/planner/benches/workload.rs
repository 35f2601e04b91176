//! Made-up snapshots of any size: what the planner's benchmark and `tests/peers` measure time on.
//!
//! The instance types are those of Karpenter's own scheduling benchmark (400 types, type i with i + 1 CPUs and twice as
//! many GiB); pods draw CPU, memory and labels from its lists. Snapshots are the same for the same numbers.

use std::collections::BTreeMap;
use std::sync::Arc;

use planner::{
    BoundPod, Budgets, CapacityType, Catalogue, InstanceType, MicroDollars, Millis, Node, NodePreference, Offering,
    Operator, Pod, PodPreference, PodShape, PodTerm, Pool, Requirement, Resources, Selector, Snapshot, Spread, label,
};

const GIB: i64 = 1 << 30;
const MIB: i64 = 1 << 20;
const CPUS: [i64; 5] = [100, 250, 500, 1000, 1500];
const MEMORIES: [i64; 6] = [100, 256, 512, 1024, 2048, 4096];
const LABELS: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
const ZONES: [&str; 3] = ["test-zone-1", "test-zone-2", "test-zone-3"];

/// A snapshot under construction.
#[derive(Clone)]
pub struct Workload {
    snapshot: Snapshot,
    shapes: BTreeMap<PodShape, usize>,
    draws: u64,
}

impl Workload {
    /// Returns a cluster without pods, with one NodePool of all types.
    pub fn empty() -> Self {
        let well_known = [label::ZONE, label::CAPACITY_TYPE, label::INSTANCE_TYPE, "kubernetes.io/arch"];
        let mut snapshot = Snapshot {
            pools: vec![Pool { name: "default".to_owned(), ..Pool::default() }],
            catalogues: vec![Arc::new(Catalogue {
                name: "default".to_owned(),
                types: types(),
                ..Catalogue::default()
            })],
            ..Snapshot::default()
        };
        snapshot.policy.well_known.extend(well_known.map(str::to_owned));
        snapshot.namespaces.insert("default".to_owned(), BTreeMap::new());
        Self { snapshot, shapes: BTreeMap::new(), draws: 42 }
    }

    /// Pods of so many sizes, and nothing else to them.
    pub fn plain(mut self, pods: usize, shapes: usize) -> Self {
        for index in 0..pods {
            let size = (index % shapes) as i64;
            // No two sizes are alike, and the sizes lie between 50m and 4 CPUs, 64 MiB and 16 GiB.
            let (cpu, memory) = (50 + size * 37 % 3950, (64 + size * 101 % 16_320) * MIB);
            self.add(sized(cpu, memory));
        }
        self
    }

    /// The benchmark's mix: a fifth each generic, zone-spread, host-spread, with their own kind in a zone, alone on a host.
    pub fn diverse(mut self, pods: usize) -> Self {
        for index in 0..pods {
            let mut shape = self.drawn();
            match index * 5 / pods {
                0 => self.mark(&mut shape, "my-label"),
                1 => self.spread(&mut shape, label::ZONE),
                2 => self.spread(&mut shape, label::HOSTNAME),
                3 => {
                    self.mark(&mut shape, "my-affinity");
                    shape.near.push(own_kind(&shape, label::ZONE));
                }
                _ => {
                    shape.labels.insert("app".to_owned(), "nginx".to_owned());
                    shape.apart.push(own_kind(&shape, label::HOSTNAME));
                }
            }
            self.add(shape);
        }
        self
    }

    /// Pods of one size that would like one zone, a zone without their kind and a host without their kind.
    pub fn preferring(mut self, pods: usize) -> Self {
        let mut shape = self.drawn();
        shape.labels.insert("app".to_owned(), "nginx".to_owned());
        let zone = Requirement::new(label::ZONE, Operator::In, [ZONES[0]]);
        shape.preferred.push(NodePreference { weight: 1, term: vec![zone] });
        for (weight, key) in [(10, label::ZONE), (1, label::HOSTNAME)] {
            shape.prefers_apart.push(PodPreference { weight, term: own_kind(&shape, key) });
        }
        (0..pods).for_each(|_| self.add(shape.clone()));
        self
    }

    /// So many nodes of 2 to 16 CPUs, a tenth to nine tenths full.
    pub fn beside(mut self, nodes: usize) -> Self {
        let catalogue = Arc::clone(&self.snapshot.catalogues[0]);
        for index in 0..nodes {
            let cpus = [2, 4, 8, 16][self.draw(4)];
            let Some(kind) = catalogue.types.iter().find(|kind| kind.name == name(cpus)) else { continue };
            let tenths = 1 + self.draw(9) as i64;
            let used: Resources = kind.allocatable.iter().map(|(name, amount)| (name, amount * tenths / 10)).collect();
            self.snapshot.nodes.push(Arc::new(Node { used, ..bare(index, kind) }));
        }
        self
    }

    /// So many nodes of 8 to 64 CPUs on which pods of 500 sizes run, until each is three to nine tenths full; all may go.
    pub fn running(mut self, nodes: usize, budget: u32) -> Self {
        self.snapshot.now = Millis(1_000_000);
        let disruption = &mut self.snapshot.pools[0].disruption;
        disruption.consolidate_after = Some(0);
        disruption.budgets = Budgets { empty: budget, underutilized: budget, drifted: budget, expired: budget };
        let shapes: Vec<Arc<PodShape>> =
            (0..500).map(|size| Arc::new(sized(50 + size * 37 % 1950, (64 + size * 101 % 4000) * MIB))).collect();
        let catalogue = Arc::clone(&self.snapshot.catalogues[0]);
        for index in 0..nodes {
            let cpus = [8, 16, 32, 64][self.draw(4)];
            let Some(kind) = catalogue.types.iter().find(|kind| kind.name == name(cpus)) else { continue };
            let tenths = 3 + self.draw(7) as i64;
            let mut node = bare(index, kind);
            while node.used.get(Resources::CPU) < kind.allocatable.get(Resources::CPU) * tenths / 10 {
                let shape = &shapes[self.draw(shapes.len())];
                let mut used = node.used.clone();
                used.add(&shape.requests);
                if !used.fits(&node.allocatable) {
                    break;
                }
                let pod = format!("default/pod-{index:05}-{:02}", node.pods.len());
                node.used = used;
                node.pods.push(BoundPod {
                    uid: pod.clone(),
                    name: pod,
                    reschedulable: true,
                    shape: Arc::clone(shape),
                    ..BoundPod::default()
                });
            }
            self.snapshot.nodes.push(Arc::new(node));
        }
        self
    }

    /// Pods of so many shapes that no machine can take: there is no such architecture.
    pub fn with_unplaceable(mut self, pods: usize, shapes: usize) -> Self {
        for index in 0..pods {
            let mut shape = sized(100 + (index % shapes) as i64, GIB);
            shape.selector.push(Requirement::new("kubernetes.io/arch", Operator::In, ["s390x"]));
            self.add(shape);
        }
        self
    }

    /// A second pool with the same types that comes first and has nothing left of its limit.
    pub fn with_full_pool(mut self) -> Self {
        let full: Resources = [(Resources::CPU, 1_000_000)].into_iter().collect();
        let pool =
            Pool { name: "full".to_owned(), weight: 10, limits: Some(full.clone()), usage: full, ..Pool::default() };
        self.snapshot.pools.push(pool);
        self
    }

    /// The snapshot.
    pub fn finish(self) -> Snapshot {
        self.snapshot
    }

    fn add(&mut self, shape: PodShape) {
        let shapes = &mut self.snapshot.shapes;
        let position = *self.shapes.entry(shape).or_insert_with_key(|shape| {
            shapes.push(Arc::new(shape.clone()));
            shapes.len() - 1
        });
        let index = self.snapshot.pods.len();
        self.snapshot.pods.push(Pod {
            uid: format!("uid-{index:06}"),
            name: format!("default/pod-{index:06}"),
            shape: position,
            created: Millis(0),
            ..Pod::default()
        });
    }

    fn drawn(&mut self) -> PodShape {
        sized(CPUS[self.draw(CPUS.len())], MEMORIES[self.draw(MEMORIES.len())] * MIB)
    }

    fn mark(&mut self, shape: &mut PodShape, key: &str) {
        shape.labels.insert(key.to_owned(), LABELS[self.draw(LABELS.len())].to_owned());
    }

    /// Spreads by a label that need not be the pod's own.
    fn spread(&mut self, shape: &mut PodShape, key: &str) {
        self.mark(shape, "my-label");
        let selected = LABELS[self.draw(LABELS.len())];
        shape.spread.push(Spread {
            key: key.to_owned(),
            max_skew: 1,
            min_domains: None,
            selector: Some(Selector(vec![Requirement::new("my-label", Operator::In, [selected])])),
            hard: true,
            honor_affinity: true,
            honor_taints: false,
        });
    }

    /// Steele, Lea and Flood's SplitMix64: enough for lists of seven.
    fn draw(&mut self, below: usize) -> usize {
        self.draws = self.draws.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (self.draws ^ (self.draws >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % below as u64) as usize
    }
}

/// A node on which nothing runs.
fn bare(index: usize, kind: &InstanceType) -> Node {
    let node = format!("node-{index:05}");
    let labels = [
        (label::HOSTNAME, node.as_str()),
        (label::ZONE, ZONES[index % 3]),
        (label::CAPACITY_TYPE, "on-demand"),
        (label::INSTANCE_TYPE, kind.name.as_str()),
        ("kubernetes.io/arch", "amd64"),
    ];
    Node {
        labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        pool: Some("default".to_owned()),
        claim: Some(format!("claim-{index:05}")),
        instance_type: Some(kind.name.clone()),
        allocatable: kind.allocatable.clone(),
        price: Some(kind.offerings[0].price),
        quiet_since: Some(Millis(0)),
        name: node,
        ..Node::default()
    }
}

fn sized(cpu: i64, memory: i64) -> PodShape {
    let requests = [(Resources::CPU, cpu), (Resources::MEMORY, memory), (Resources::PODS, 1)].into_iter().collect();
    PodShape { requests, namespace: "default".to_owned(), ..PodShape::default() }
}

/// A term that means all pods with the shape's labels.
fn own_kind(shape: &PodShape, key: &str) -> PodTerm {
    let labels = shape.labels.iter().map(|(key, value)| Requirement::new(key, Operator::In, [value.as_str()]));
    PodTerm { key: key.to_owned(), selector: Some(Selector(labels.collect())), ..PodTerm::default() }
}

fn name(cpus: i64) -> String {
    format!("fake-it-{}", cpus - 1)
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
        premium: MicroDollars(0),
        available: true,
        labels: BTreeMap::new(),
        reservation: None,
    };
    InstanceType {
        name: name(cpus),
        labels: [("kubernetes.io/arch".to_owned(), vec!["amd64".to_owned()])].into(),
        capacity: resources(cpus * 1000, cpus * 2 * GIB),
        allocatable: resources(cpus * 1000 - 100, cpus * 2 * GIB - 10 * MIB),
        offerings: vec![
            offering(ZONES[0], CapacityType::Spot),
            offering(ZONES[1], CapacityType::Spot),
            offering(ZONES[0], CapacityType::OnDemand),
            offering(ZONES[1], CapacityType::OnDemand),
            offering(ZONES[2], CapacityType::OnDemand),
        ],
        ..InstanceType::default()
    }
}

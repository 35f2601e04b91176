//! Consolidation after pods were deleted, until no plan has a command. Each plan is carried out, and each pod is bound to the
//! node with the most free capacity, as kube-scheduler does. Nothing may be launched in vain, and few pods may be evicted again.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use planner::{
    BoundPod, Budgets, CapacityType, Catalogue, Disruption, InstanceType, Launch, MicroDollars, Millis, Node, Offering,
    Plan, Pod, PodShape, Policy, Pool, Resources, Snapshot, Stage, check, label, plan,
};

use crate::applied::{Bought, account};
use crate::clusters::{NOW, add_pod, named, well_known};

const MIB: i64 = 1 << 20;
/// Interval between plans.
const STEP: i64 = 2_000;
/// `consolidateAfter` of the NodePool.
const QUIET: i64 = 30_000;
/// Number of plans: a cluster is at rest earlier.
const PLANS: usize = 150;

/// CPUs, MiB of memory, and number of the pods.
type Workload = [(i64, i64, usize)];

fn amounts(cpu: i64, mebibytes: i64, pods: i64) -> Resources {
    Resources::from_iter([(Resources::CPU, cpu), (Resources::MEMORY, mebibytes * MIB), (Resources::PODS, pods)])
}

/// Returns three families of seven sizes. Kubelet and the system need a part of each instance.
fn types() -> Vec<InstanceType> {
    let families = [("c", 2_048, 17_000), ("m", 4_096, 19_250), ("r", 8_192, 25_200)];
    let of_size = |cpus: i64| {
        families.map(|(family, memory, price)| {
            let offering = Offering {
                zone: "a".to_owned(),
                capacity_type: CapacityType::OnDemand,
                price: MicroDollars(price * cpus),
                premium: MicroDollars(0),
                available: true,
                labels: BTreeMap::new(),
                reservation: None,
            };
            let pods = if cpus < 16 { 58 } else { 234 };
            InstanceType {
                name: format!("{family}.{cpus:02}"),
                capacity: amounts(cpus * 1_000, memory * cpus, pods),
                allocatable: amounts(cpus * 997 - 60, memory * cpus * 925 / 1_000 - 800, pods),
                offerings: vec![offering],
                ..InstanceType::default()
            }
        })
    };
    let mut types: Vec<InstanceType> = [2, 4, 8, 16, 32, 48, 64].into_iter().flat_map(of_size).collect();
    types.sort_by(|one, other| one.name.cmp(&other.name));
    types
}

/// Cluster whose plans are carried out.
struct Fleet {
    snapshot: Snapshot,
    /// Evictions by UID of the pod.
    evicted: BTreeMap<String, usize>,
    launched: usize,
}

impl Fleet {
    /// Creates a cluster in which all pods of a workload run.
    fn running(workload: &Workload) -> Self {
        let disruption =
            Disruption { consolidate_after: Some(QUIET), budgets: Budgets::UNLIMITED, ..Disruption::default() };
        let shape = |(cpu, memory, _): &(i64, i64, usize)| {
            Arc::new(PodShape { requests: amounts(*cpu, *memory, 1), ..PodShape::default() })
        };
        let catalogue = Catalogue { name: "default".to_owned(), types: types(), ..Catalogue::default() };
        let mut snapshot = Snapshot {
            now: Millis(NOW),
            policy: Policy { well_known: well_known(), ..Policy::default() },
            catalogues: vec![Arc::new(catalogue)],
            pools: named(vec![Pool { disruption, ..Pool::default() }]),
            shapes: workload.iter().map(shape).collect(),
            ..Snapshot::default()
        };
        for (shape, (_, _, count)) in workload.iter().enumerate() {
            (0..*count).for_each(|pod| add_pod(&mut snapshot, &format!("pod-{shape}-{pod}"), shape, 0));
        }
        let mut fleet = Self { snapshot, evicted: BTreeMap::new(), launched: 0 };
        while !fleet.snapshot.pods.is_empty() {
            fleet.next();
        }
        fleet.launched = 0;
        fleet
    }

    /// Deletes pods, and keeps a percentage of them. The pods of each node end at another moment.
    fn scale_to(&mut self, percent: usize) {
        let mut count = 0;
        for (position, node) in self.snapshot.nodes.iter_mut().enumerate() {
            let node = Arc::make_mut(node);
            for pod in std::mem::take(&mut node.pods) {
                count += 1;
                // Multiples of a prime number mix the pods to keep with those to delete.
                if count * 7_919 % 100 < percent {
                    node.pods.push(pod);
                } else {
                    node.used.subtract(&pod.shape.requests);
                }
            }
            let ends = i64::try_from(position * 7_919 % 15_000).unwrap_or_default();
            node.quiet_since = Some(Millis(self.snapshot.now.0 + ends));
        }
    }

    /// Carries out the next plan.
    fn next(&mut self) {
        let decided = plan(&self.snapshot);
        assert_eq!(check(&self.snapshot, &decided), Vec::new());
        let mut pods = self.pending();
        pods.extend(self.evict(&decided));
        for launch in &decided.launches {
            self.launch(launch);
        }
        pods.sort_by_key(|pod| Reverse(pod.shape.requests.get(Resources::CPU)));
        pods.into_iter().for_each(|pod| self.bind(pod));
        self.snapshot.now.0 += STEP;
    }

    fn pending(&mut self) -> Vec<BoundPod> {
        let pods = std::mem::take(&mut self.snapshot.pods).into_iter();
        let bound = |pod: Pod| BoundPod {
            uid: pod.uid,
            name: pod.name,
            reschedulable: true,
            cost: BoundPod::COST,
            shape: Arc::clone(&self.snapshot.shapes[pod.shape]),
            ..BoundPod::default()
        };
        pods.map(bound).collect()
    }

    /// Removes the nodes of a plan's commands, and returns their pods.
    fn evict(&mut self, decided: &Plan) -> Vec<BoundPod> {
        let leaving: Vec<&str> =
            decided.moves.iter().flat_map(|it| &it.nodes).map(|leaver| leaver.node.as_str()).collect();
        let nodes = std::mem::take(&mut self.snapshot.nodes).into_iter();
        let (gone, left): (Vec<Arc<Node>>, Vec<Arc<Node>>) =
            nodes.partition(|node| leaving.contains(&node.name.as_str()));
        self.snapshot.nodes = left;
        let pods: Vec<BoundPod> = gone.iter().flat_map(|node| node.pods.clone()).collect();
        for pod in &pods {
            *self.evicted.entry(pod.uid.clone()).or_default() += 1;
        }
        pods
    }

    fn launch(&mut self, launch: &Launch) {
        let bought = Bought::of(&self.snapshot, launch);
        let name = format!("node-{}-{}", self.snapshot.now.0, self.snapshot.nodes.len());
        let capacity = bought.kind.capacity.clone();
        let mut node = Node {
            stage: Stage::Initialized,
            requirements: Vec::new(),
            created: self.snapshot.now,
            quiet_since: Some(self.snapshot.now),
            price: bought.offering.map(|offering| offering.price),
            ..bought.claim(&name)
        };
        let labels = [
            (label::HOSTNAME, name.as_str()),
            (label::INSTANCE_TYPE, bought.kind.name.as_str()),
            (label::ZONE, "a"),
            (label::CAPACITY_TYPE, CapacityType::OnDemand.as_str()),
        ];
        node.labels.extend(labels.map(|(key, value)| (key.to_owned(), value.to_owned())));
        account(&mut self.snapshot, launch, &capacity);
        self.snapshot.nodes.push(Arc::new(node));
        self.launched += 1;
    }

    /// Binds a pod to the node with the most free capacity; without such a node the pod is pending.
    fn bind(&mut self, pod: BoundPod) {
        let offers = self.snapshot.nodes.iter().enumerate();
        let best = offers.filter_map(|(at, node)| Some((free_after(node, &pod.shape.requests)?, Reverse(at)))).max();
        if let Some((_, Reverse(at))) = best {
            let node = Arc::make_mut(&mut self.snapshot.nodes[at]);
            node.used.add(&pod.shape.requests);
            node.quiet_since = Some(self.snapshot.now);
            node.pods.push(pod);
        } else {
            let shape = self.snapshot.shapes.iter().position(|shape| *shape == pod.shape).unwrap_or_default();
            self.snapshot.pods.push(Pod { uid: pod.uid, name: pod.name, shape, ..Pod::default() });
        }
    }

    fn price(&self) -> i64 {
        self.snapshot.nodes.iter().filter_map(|node| node.price).map(|price| price.0).sum()
    }

    /// Returns the price of a plan for all pods without any node.
    fn price_anew(&self) -> i64 {
        let mut fresh = Fleet { snapshot: self.snapshot.clone(), evicted: BTreeMap::new(), launched: 0 };
        let nodes = std::mem::take(&mut fresh.snapshot.nodes);
        nodes.iter().flat_map(|node| node.pods.clone()).for_each(|pod| fresh.bind(pod));
        fresh.snapshot.pools.iter_mut().for_each(|pool| pool.usage = Resources::default());
        plan(&fresh.snapshot).launches.iter().map(|launch| launch.price.0).sum()
    }
}

/// Returns the free share of CPU and memory after one more pod; `None` if the pod does not fit.
fn free_after(node: &Node, requests: &Resources) -> Option<i64> {
    let left = |name: &str| node.allocatable.get(name) - node.used.get(name) - requests.get(name);
    let fits = [Resources::CPU, Resources::MEMORY, Resources::PODS].iter().all(|name| left(name) >= 0);
    let share = |name: &str| left(name) * 1_000 / node.allocatable.get(name).max(1);
    fits.then(|| share(Resources::CPU) + share(Resources::MEMORY))
}

/// Rows: workload, percentage of the pods that stay, and the most of each: launches, evictions in percent of the pods, pods
/// evicted again in percent, and price in percent of a new fleet's.
#[test]
fn consolidation_launches_little_and_moves_few_pods_again() {
    let large: &Workload = &[(900, 3_100, 150), (3_500, 28 * 1_024, 150)];
    let web: &Workload = &[(500, 1_024, 130), (1_000, 4_096, 70), (250, 512, 100), (2_000, 4_096, 20)];
    let mixed: &Workload = &[(100, 128, 200), (1_500, 3_000, 70), (300, 4_000, 50), (4_000, 9_000, 10)];
    let rows = [
        (large, 50, [4, 50, 2, 104]),
        (large, 70, [6, 35, 2, 104]),
        (web, 50, [5, 62, 13, 106]),
        (web, 70, [8, 45, 5, 107]),
        (mixed, 50, [3, 72, 16, 114]),
        (mixed, 70, [2, 38, 7, 114]),
    ];
    for (workload, percent, most) in rows {
        let mut fleet = Fleet::running(workload);
        let pods: usize = workload.iter().map(|(_, _, count)| count * percent / 100).sum();
        fleet.scale_to(percent);
        (0..PLANS).for_each(|_| fleet.next());
        assert_eq!(plan(&fleet.snapshot).moves, Vec::new(), "{percent}%: not at rest after {PLANS} plans");
        let evictions: usize = fleet.evicted.values().sum();
        let again = fleet.evicted.values().filter(|count| **count > 1).count();
        let price = usize::try_from(fleet.price() * 100 / fleet.price_anew().max(1)).unwrap_or(usize::MAX);
        let found = [fleet.launched, evictions * 100 / pods, again * 100 / pods, price];
        let is_within = found.iter().zip(most).all(|(found, most)| *found <= most);
        assert!(is_within, "{percent}% of {pods} pods: {found:?}, limits {most:?}");
    }
}

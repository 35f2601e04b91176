//! Workloads with random sizes, from fixed seeds.

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use super::{Daemon, Deployment, Pool, Workload};

pub(super) type Requirement = (&'static str, &'static str, Vec<&'static str>);

const CATEGORY: &str = "karpenter.k8s.aws/instance-category";
const ARCH: &str = "kubernetes.io/arch";

/// Returns the requirements of the NodePool in Karpenter's getting-started page.
pub(super) fn usual() -> Vec<Requirement> {
    vec![
        (CATEGORY, "In", vec!["c", "m", "r"]),
        (ARCH, "In", vec!["amd64"]),
        ("karpenter.k8s.aws/instance-generation", "Gt", vec!["2"]),
    ]
}

/// Returns a workload with sizes as in traces of large clusters: most pods and deployments are small, and few are very large.
pub(super) fn heavy_tailed() -> Workload {
    let mut draws = Draws(ChaCha8Rng::seed_from_u64(1));
    let deployment = |index: usize| {
        let cpu = draws.around(250.0, 1.3).clamp(10.0, 30_000.0);
        let per_cpu = draws.around(3072.0, 0.8).clamp(256.0, 32_768.0);
        Deployment {
            name: format!("tail-{index:03}"),
            replicas: whole(draws.pareto(1.2).min(60.0)),
            cpu: round(cpu, 10.0),
            memory: round((cpu / 1000.0 * per_cpu).clamp(32.0, 245_760.0), 32.0),
            ..Deployment::default()
        }
    };
    Workload {
        name: "heavy-tailed",
        about: "300 deployments: CPU lognormal about 250m, memory lognormal about 3 GiB a CPU, replicas Pareto",
        pools: Pool::only(usual()),
        deployments: (0..300).map(deployment).collect(),
        daemons: Vec::new(),
        constrained: false,
    }
}

/// Returns a workload of CPU-heavy and memory-heavy pods. Together they fill nodes that each half alone would leave half empty.
pub(super) fn cpu_and_memory() -> Workload {
    let mut draws = Draws(ChaCha8Rng::seed_from_u64(2));
    let deployment = |index: usize| {
        let heavy = index.is_multiple_of(2);
        let cpu = if heavy { draws.between(4, 32) * 250 } else { draws.between(1, 8) * 250 };
        let per_cpu = if heavy { draws.between(2, 6) * 256 } else { draws.between(10, 28) * 1024 };
        Deployment {
            name: format!("{}-{index:02}", if heavy { "cpu" } else { "memory" }),
            replicas: if heavy { 10 } else { 20 },
            cpu,
            memory: round((cpu * per_cpu) as f64 / 1000.0, 64.0),
            ..Deployment::default()
        }
    };
    let mut pool = usual();
    pool[1].2.push("arm64");
    Workload {
        name: "cpu-and-memory",
        about: "30 CPU-heavy deployments of 10 pods and 30 memory-heavy ones of 20, either architecture",
        pools: Pool::only(pool),
        deployments: (0..60).map(deployment).collect(),
        daemons: Vec::new(),
        constrained: false,
    }
}

/// Returns a workload with twenty DaemonSets, some of them on certain nodes only, and pods of common sizes.
pub(super) fn many_daemons() -> Workload {
    let mut draws = Draws(ChaCha8Rng::seed_from_u64(3));
    let daemons = (0..20).map(|index| Daemon {
        name: format!("daemon-{index:02}"),
        cpu: draws.between(1, 15) * 10,
        memory: draws.between(1, 10) * 32,
        selector: match index {
            0 | 1 => Some((ARCH, "arm64")),
            2 | 3 => Some((ARCH, "amd64")),
            4 | 5 => Some((CATEGORY, "r")),
            6 => Some((CATEGORY, "c")),
            _ => None,
        },
    });
    let daemons = daemons.collect();
    let deployment = |index: usize| {
        let cpu = draws.between(1, 30) * 100;
        let per_cpu = [1024, 2048, 4096, 8192][draws.between(0, 3) as usize];
        Deployment {
            name: format!("app-{index:02}"),
            replicas: 25,
            cpu,
            memory: round((cpu * per_cpu) as f64 / 1000.0, 32.0),
            ..Deployment::default()
        }
    };
    let mut pool = usual();
    pool[1].2.push("arm64");
    Workload {
        name: "many-daemons",
        about: "20 DaemonSets of about 1.5 CPUs and 3 GiB a node, 40 deployments of 25 pods, either architecture",
        pools: Pool::only(pool),
        deployments: (0..40).map(deployment).collect(),
        daemons,
        constrained: false,
    }
}

/// Seeded random numbers.
struct Draws(ChaCha8Rng);

impl Draws {
    fn between(&mut self, least: u64, most: u64) -> u64 {
        self.0.random_range(least..=most)
    }

    /// Returns a nearly normal number with mean 0 and variance 1, as the sum of twelve uniform ones.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.0.random_range(0.0..1.0)).sum::<f64>() - 6.0
    }

    /// Returns a lognormal number with this median.
    fn around(&mut self, median: f64, sigma: f64) -> f64 {
        median * (sigma * self.normal()).exp()
    }

    /// Returns a number of at least 1 that exceeds x with probability 1 / x^alpha.
    fn pareto(&mut self, alpha: f64) -> f64 {
        let even: f64 = self.0.random_range(0.0..1.0);
        (1.0 - even).powf(-1.0 / alpha)
    }
}

/// Returns the nearest multiple, but at least one step.
fn round(value: f64, step: f64) -> u64 {
    (value / step).round().max(1.0) as u64 * step as u64
}

fn whole(value: f64) -> usize {
    value.floor() as usize
}

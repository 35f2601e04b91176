//! Workloads with sizes from a table: those of Karpenter's own end-to-end performance suites.

use super::{Deployment, Key, Pool, Rule, Workload};

const GIB: u64 = 1024;

/// CPU in millicores and memory in MiB of the suite "Wide", one row per deployment.
const WIDE: [(u64, u64); 30] = [
    (240, 300),
    (450, 400),
    (650, 700),
    (900, GIB),
    (1400, 2 * GIB),
    (1900, 4 * GIB),
    (2400, 8 * GIB),
    (2800, 4 * GIB),
    (3300, 16 * GIB),
    (3700, 10 * GIB),
    (2300, 64 * GIB),
    (900, 30 * GIB),
    (1300, 32 * GIB),
    (2800, 32 * GIB),
    (1800, 30 * GIB),
    (1850, 20 * GIB),
    (3300, 30 * GIB),
    (3800, 300),
    (225, 500),
    (450, 750),
    (700, GIB),
    (900, 2 * GIB),
    (1300, 4 * GIB),
    (1800, 8 * GIB),
    (2400, 16 * GIB),
    (2800, 32 * GIB),
    (3400, 28 * GIB),
    (3800, 64 * GIB),
    (3300, 13 * GIB),
    (2800, 24 * GIB),
];

/// Returns the requirement of the suites: fewer than 32 CPUs.
fn below_32() -> Vec<(&'static str, &'static str, Vec<&'static str>)> {
    vec![("karpenter.k8s.aws/instance-cpu", "Lt", vec!["32"])]
}

/// Returns 30 deployments with 1,000 pods, all spread over zones. Three have anti-affinity on hosts, three are spread over
/// hosts.
pub(super) fn wide() -> Workload {
    let rules = |index: usize| {
        let hosts = match index {
            0..3 => Some(Rule::Apart(Key::Host)),
            3..6 => Some(Rule::Spread(Key::Host, 1)),
            _ => None,
        };
        [Rule::Spread(Key::Zone, 1)].into_iter().chain(hosts).collect()
    };
    let row = |(index, (cpu, memory)): (usize, &(u64, u64))| Deployment {
        name: format!("wide-{:02}", index + 1),
        replicas: if index < 20 { 35 } else { 30 },
        cpu: *cpu,
        memory: *memory,
        rules: rules(index),
        ..Deployment::default()
    };
    Workload {
        name: "wide",
        about: "Karpenter's suite Wide: 30 deployments, 1,000 pods, all zone-spread, types below 32 CPUs",
        pools: Pool::only(below_32()),
        deployments: WIDE.iter().enumerate().map(row).collect(),
        daemons: Vec::new(),
        constrained: false,
    }
}

/// Returns 500 small and 500 large pods.
pub(super) fn small_and_large() -> Workload {
    let size = |name: &str, cpu, memory| Deployment {
        name: name.to_owned(),
        replicas: 500,
        cpu,
        memory,
        ..Deployment::default()
    };
    Workload {
        name: "small-and-large",
        about: "Karpenter's suite Basic: 500 pods of 900m and 3100Mi, 500 of 3500m and 28Gi, types below 32 CPUs",
        pools: Pool::only(below_32()),
        deployments: vec![size("small", 900, 3100), size("large", 3500, 28 * GIB)],
        daemons: Vec::new(),
        constrained: false,
    }
}

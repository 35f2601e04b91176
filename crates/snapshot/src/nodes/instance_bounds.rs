//! Bounds of the amounts that a node reports. Kubelet writes them, and root on the node may write any. The NodeClaim has
//! EC2's amounts of the instance, which a node cannot write.

use planner::Resources;

/// Share of EC2's memory that a machine has at least, in percent. The amount of the NodeClaim is an estimate within it.
const LEAST_MEMORY: i64 = 85;

/// Limits CPU and memory for pods to those of the instance. Otherwise plans would place the pods of all nodes on one that claims
/// enough. Other resources have no bound: device plugins and settings of kubelet determine them.
pub(crate) fn limit_allocatable(own: &mut Resources, of_claim: &Resources) {
    let limits = [(Resources::CPU, of_claim.get(Resources::CPU)), (Resources::MEMORY, most_memory(of_claim))];
    for (name, limit) in limits {
        if limit > 0 && own.get(name) > limit {
            own.set(name, limit);
        }
    }
}

/// Returns the capacity that counts for limits of the NodePool: EC2's amounts, with the memory that the node reports if that is
/// plausible, and with resources that EC2 does not list. Otherwise one node could use up the limits of its NodePool.
#[must_use]
pub fn instance_capacity(own: Resources, of_claim: &Resources) -> Resources {
    let mut all = own;
    let memory = all.get(Resources::MEMORY);
    for (name, amount) in of_claim.iter().filter(|(_, amount)| *amount > 0) {
        all.set(name, amount);
    }
    if memory > 0 && of_claim.get(Resources::MEMORY) > 0 {
        let least = of_claim.get(Resources::MEMORY) * LEAST_MEMORY / 100;
        all.set(Resources::MEMORY, memory.clamp(least, most_memory(of_claim)));
    }
    all
}

fn most_memory(of_claim: &Resources) -> i64 {
    of_claim.get(Resources::MEMORY) * 100 / LEAST_MEMORY
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates CPU, memory, pods and GPUs; zero is absent.
    fn amounts(amounts: [i64; 4]) -> Resources {
        let names = [Resources::CPU, Resources::MEMORY, Resources::PODS, "nvidia.com/gpu"];
        names.into_iter().zip(amounts).filter(|(_, amount)| *amount > 0).collect()
    }

    #[test]
    fn limit_allocatable_permits_at_most_the_instance() {
        let claim = amounts([2000, 850, 29, 0]);
        let rows = [
            ([1930, 700, 29, 0], [1930, 700, 29, 0]),
            ([1930, 990, 110, 4], [1930, 990, 110, 4]),
            ([i64::MAX, i64::MAX, 29, 0], [2000, 1000, 29, 0]),
            ([0, 1, 0, 0], [0, 1, 0, 0]),
        ];
        for (reported, expected) in rows {
            let mut own = amounts(reported);
            limit_allocatable(&mut own, &claim);
            assert_eq!(own, amounts(expected), "{reported:?}");
            let mut alone = amounts(reported);
            limit_allocatable(&mut alone, &Resources::default());
            assert_eq!(alone, amounts(reported), "without a NodeClaim");
        }
    }

    #[test]
    fn instance_capacity_is_that_of_the_instance() {
        let claim = amounts([2000, 850, 29, 0]);
        let rows = [
            ([2000, 900, 29, 0], [2000, 900, 29, 0]),
            ([i64::MAX, i64::MAX, i64::MAX, 4], [2000, 1000, 29, 4]),
            ([1, 1, 1, 0], [2000, 722, 29, 0]),
            ([0, 0, 0, 0], [2000, 850, 29, 0]),
        ];
        for (reported, expected) in rows {
            assert_eq!(instance_capacity(amounts(reported), &claim), amounts(expected), "{reported:?}");
            assert_eq!(
                instance_capacity(amounts(reported), &Resources::default()),
                amounts(reported),
                "without a NodeClaim"
            );
        }
    }
}

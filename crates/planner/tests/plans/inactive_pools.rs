//! NodePools outside of their active times: they get no nodes and no pods.

use planner::{PodVerdict, check, plan};
use proptest::prelude::{ProptestConfig, any, proptest};
use proptest::prop_assert;

use crate::applied;
use crate::clusters::{Cluster, cluster};

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn inactive_pools_get_no_nodes_and_no_pods(
        Cluster(mut snapshot) in cluster(),
        inactive in any::<[bool; 3]>(),
        twice in any::<bool>(),
    ) {
        for (pool, inactive) in snapshot.pools.iter_mut().zip(inactive) {
            pool.is_inactive = inactive;
        }
        if twice {
            snapshot = applied::to(&snapshot, &plan(&snapshot));
        }
        let plan = plan(&snapshot);
        let findings = check(&snapshot, &plan);
        prop_assert!(findings.is_empty(), "{:#?}", findings);
        let pools = snapshot.inactive_pools();
        prop_assert!(plan.launches.iter().all(|launch| !pools.contains(launch.pool.as_str())), "{:#?}", plan.launches);
        for verdict in &plan.report.pods {
            let PodVerdict::Existing { node, .. } = verdict else { continue };
            let node = snapshot.nodes.iter().find(|own| own.name == *node).unwrap();
            let is_inactive = node.pool.as_deref().is_some_and(|pool| pools.contains(pool));
            prop_assert!(!is_inactive, "a pod on {}", node.name);
        }
    }
}

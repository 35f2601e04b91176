//! Test of the policies of `kerf.sh/utilization` that `make peers` compares: `pack` must have enough usage history, or it would
//! cost as much as `observe`.

use day::faults::Kinds;
use day::trace::Size;
use peers::disruption::cost;

#[test]
fn day_costs_less_when_the_policy_is_pack() {
    let size = Size { services: 12, jobs: 4, faults: 18, kinds: Kinds::Cluster, from: 12, hours: 2 };
    let [observe, pack] = ["observe", "pack"].map(|policy| cost(policy, size, false).unwrap());
    assert!(pack.dollars < observe.dollars, "{pack:?} {observe:?}");
}

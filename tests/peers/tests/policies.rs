//! `make peers` puts the policies of `kerf.sh/utilization` side by side: where `pack` has nothing to go by, it would cost what `observe` does.

use day::trace::Size;
use peers::disruption::cost;

#[test]
fn the_day_that_is_compared_costs_less_where_requests_are_lowered() {
    let size = Size { services: 12, jobs: 4, faults: 18, from: 12, hours: 2 };
    let [observe, pack] = ["observe", "pack"].map(|policy| cost(policy, size, false).unwrap());
    assert!(pack.dollars < observe.dollars, "{pack:?} {observe:?}");
}

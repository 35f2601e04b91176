//! Runtime validation of SpendPolicies.

use super::Fault;
use crate::resources::cost::spendpolicy::SpendPolicySpec;

/// Returns all problems of a SpendPolicy; empty if it is valid.
#[must_use]
pub fn spend_policy(spec: &SpendPolicySpec) -> Vec<Fault> {
    let faults = spec.rules().err().unwrap_or_default();
    let mut found: Vec<Fault> = faults.into_iter().map(|fault| Fault::new(fault.path, fault.problem)).collect();
    let limits = [&spec.max_cost_per_hour, &spec.soft_cost_per_hour, &spec.max_cost_per_month];
    if spec.windows.is_empty() && limits.iter().all(|limit| limit.is_none()) {
        let problem =
            "the policy has no limit and so no effect: set maxCostPerHour, softCostPerHour or maxCostPerMonth";
        found.push(Fault::new("spec", problem));
    }
    for (at, window) in spec.windows.iter().enumerate() {
        if window.max_cost_per_hour.is_none() && window.soft_cost_per_hour.is_none() {
            let problem = "the window has no limit and so no effect: set maxCostPerHour or softCostPerHour";
            found.push(Fault::new(format!("spec.windows[{at}]"), problem));
        }
    }
    found
}

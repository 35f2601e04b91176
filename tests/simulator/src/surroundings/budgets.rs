//! Disruption controller: the allowed disruptions of PodDisruptionBudgets.

use std::sync::Arc;

use api::objects::{Pod, PodDisruptionBudget};
use serde::Serialize;
use serde_json::json;

use super::owners::Owners;
use super::{Place, app_of};
use crate::api_server::{BUDGETS, PODS};

/// Updates the status of each budget.
pub(super) fn count(place: &Place<'_>, owners: &Owners) {
    let budgets = place.server.shared::<PodDisruptionBudget>(BUDGETS);
    let pods = if budgets.is_empty() { Vec::new() } else { place.server.shared::<Pod>(PODS) };
    for budget in budgets {
        let own: Vec<&Arc<Pod>> = pods.iter().filter(|pod| budget.selects(pod) && !pod.is_terminating()).collect();
        let healthy = own.iter().filter(|pod| pod.is_ready()).count();
        let (stays, expected) = match whole(budget.spec.max_unavailable.as_ref()) {
            Some(away) => {
                let wanted = own.first().map_or(0, |pod| owners.wanted(app_of(pod)));
                (wanted.saturating_sub(away), wanted)
            }
            None => (whole(budget.spec.min_available.as_ref()).unwrap_or(0), own.len()),
        };
        let status = json!({
            "disruptionsAllowed": healthy.saturating_sub(stays), "currentHealthy": healthy, "desiredHealthy": stays,
            "expectedPods": expected,
        });
        if serde_json::to_value(&budget.status).unwrap() != status {
            let name = budget.metadata.name.as_deref().unwrap();
            place.server.change(BUDGETS, &format!("default/{name}"), &json!({"status": status}));
        }
    }
}

fn whole(amount: Option<&impl Serialize>) -> Option<usize> {
    usize::try_from(serde_json::to_value(amount?).unwrap().as_u64()?).ok()
}

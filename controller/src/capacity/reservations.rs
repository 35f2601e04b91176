//! Instances in capacity reservations. Their NodeClaims are deleted before a capacity block ends. A NodeClaim becomes on-demand
//! once EC2 has removed its instance from the reservation.

use std::collections::{BTreeMap, BTreeSet};

use api::{NodeClaim, label};
use cloud::Instance;
use kube::api::ObjectMeta;
use serde_json::json;

use crate::state::index::Index;
use crate::write::writer::{Operation, Target};

/// State of a capacity block in the status of an EC2NodeClass shortly before EC2 terminates its instances.
const EXPIRING: &str = "expiring";
/// Labels of a capacity reservation.
const LABELS: [&str; 3] =
    [label::CAPACITY_RESERVATION_ID, label::CAPACITY_RESERVATION_TYPE, label::CAPACITY_RESERVATION_INTERRUPTIBLE];

/// Returns the operations on NodeClaims in reservations. The keys of `instances` are provider ids.
#[must_use]
pub fn decide(index: &Index, instances: &BTreeMap<String, Instance>) -> Vec<Operation> {
    let shown = index.classes.values().flat_map(|class| &class.status);
    let expiring: BTreeSet<&str> = shown
        .flat_map(|status| &status.capacity_reservations)
        .filter(|reservation| reservation.state == EXPIRING)
        .map(|reservation| reservation.id.as_str())
        .collect();
    let mut steps = Vec::new();
    for claim in index.claims.values().filter(|claim| claim.metadata.deletion_timestamp.is_none()) {
        if says(&claim.metadata, label::CAPACITY_TYPE) != Some(label::CAPACITY_RESERVED) {
            continue;
        }
        if says(&claim.metadata, label::CAPACITY_RESERVATION_ID).is_some_and(|id| expiring.contains(id)) {
            steps.push(Operation::Delete(target(claim), claim.metadata.uid.clone().unwrap_or_default()));
        } else if has_lost(claim, instances) {
            steps.extend(call_on_demand(index, claim));
        }
    }
    steps
}

fn says<'m>(meta: &'m ObjectMeta, key: &str) -> Option<&'m str> {
    meta.labels.as_ref()?.get(key).map(String::as_str)
}

fn target(claim: &NodeClaim) -> Target {
    Target::Claim(claim.metadata.name.clone().unwrap_or_default())
}

/// Reports whether the instance runs outside any reservation.
fn has_lost(claim: &NodeClaim, instances: &BTreeMap<String, Instance>) -> bool {
    let instance = claim.provider_id().and_then(|id| instances.get(id));
    instance.is_some_and(|instance| instance.capacity_reservation_id.is_none() && instance.state == "running")
}

/// Returns patches that change the capacity type of NodeClaim and node to on-demand. The instance keeps running.
fn call_on_demand(index: &Index, claim: &NodeClaim) -> Vec<Operation> {
    let mut labels = json!({label::CAPACITY_TYPE: label::CAPACITY_ON_DEMAND});
    for key in LABELS {
        labels[key] = serde_json::Value::Null;
    }
    let body = json!({"metadata": {"labels": labels}});
    let nodes = index.nodes_of_claim(claim).into_iter();
    let nodes = nodes.map(|node| Target::Node(node.name().to_owned()));
    std::iter::once(target(claim)).chain(nodes).map(|target| Operation::Patch(target, body.clone())).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use api::label;
    use cloud::Instance;
    use serde_json::{Value, json};

    use super::decide;
    use crate::fixture::{PROVIDER_ID, at, body, claim, class, merge, node, status, words};
    use crate::state::index::Index;

    fn index(capacity_type: &str, reservation: &str, state: &str) -> Index {
        let mut of_claim = status(&[]);
        let labels = json!({label::CAPACITY_TYPE: capacity_type, label::CAPACITY_RESERVATION_ID: reservation});
        merge(&mut of_claim, &json!({"metadata": {"labels": labels}}));
        let shown = json!({"status": {"capacityReservations": [{
            "id": "cr-1", "state": state, "availabilityZone": "us-west-2a", "instanceMatchCriteria": "targeted",
            "instanceType": "p5.48xlarge", "ownerID": "123456789012", "reservationType": "capacity-block",
        }]}});
        let mut index = Index::default();
        drop(index.apply(claim(&of_claim).as_ref().clone(), at(0), false));
        drop(index.apply(node(&json!({})).as_ref().clone(), at(0), false));
        drop(index.apply(class(&shown).as_ref().clone(), at(0), false));
        index
    }

    fn instances(reservation: Option<&str>, state: &str) -> BTreeMap<String, Instance> {
        let instance = Instance {
            capacity_reservation_id: reservation.map(str::to_owned),
            state: state.to_owned(),
            ..Instance::default()
        };
        [(PROVIDER_ID.to_owned(), instance)].into()
    }

    #[test]
    fn decide_deletes_or_relabels_claims_when_reservations_end() {
        let (delete, renamed) = ("delete claim default-1 (claim-uid)", ["patch claim default-1", "patch node node-1"]);
        let in_it = || instances(Some("cr-1"), "running");
        let out = || instances(None, "running");
        let rows = [
            ("in its reservation", index("reserved", "cr-1", "active"), in_it(), vec![]),
            ("its block ends", index("reserved", "cr-1", "expiring"), in_it(), vec![delete]),
            ("another block ends", index("reserved", "cr-2", "expiring"), in_it(), vec![]),
            ("taken out of it", index("reserved", "cr-1", "active"), out(), renamed.to_vec()),
            ("not yet in it", index("reserved", "cr-1", "active"), instances(None, "pending"), vec![]),
            ("unknown instance", index("reserved", "cr-1", "active"), BTreeMap::new(), vec![]),
            ("on-demand", index("on-demand", "cr-1", "expiring"), out(), vec![]),
        ];
        for (what, index, instances, expected) in rows {
            assert_eq!(words(&decide(&index, &instances)), expected, "{what}");
        }
        let labels = &body(&decide(&index("reserved", "cr-1", "active"), &out()))["metadata"]["labels"];
        assert_eq!(labels[label::CAPACITY_TYPE], "on-demand");
        assert_eq!(labels.get(label::CAPACITY_RESERVATION_ID), Some(&Value::Null));
    }
}

//! Tests of the condition Drifted after a comparison with EC2.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{annotation, condition, label, reason};
use cloud::Instance;
use planner::{CapacityType, Catalogue, InstanceType, MicroDollars, Offering};
use serde_json::{Value, json};

use super::{DriftContext, decide};
use crate::fixture::{PROVIDER_ID, at, body, claim, class, condition as cond, merge, pool, status, words, written};
use crate::reconcile::hashes::OF_CLASS;
use crate::state::index::Index;
use crate::write::writer::Target;

fn index(of_claim: &Value, of_class: &Value) -> Index {
    let mut base = status(&[cond(condition::LAUNCHED, "True", 1)]);
    merge(
        &mut base,
        &json!({"metadata": {"labels": {label::INSTANCE_TYPE: "m5.large"}}, "status": {"imageID": "ami-1"}}),
    );
    merge(&mut base, of_claim);
    let mut known = json!({"status": {
        "subnets": [{"id": "subnet-1", "zone": "us-west-2a"}],
        "securityGroups": [{"id": "sg-1"}],
        "amis": [{"id": "ami-1", "requirements": []}],
    }});
    merge(&mut known, of_class);
    let mut index = Index::default();
    drop(index.apply(claim(&base).as_ref().clone(), at(0), false));
    drop(index.apply(class(&known).as_ref().clone(), at(0), false));
    index
}

fn instances() -> BTreeMap<String, Instance> {
    let instance = Instance {
        id: "i-1".to_owned(),
        subnet_id: "subnet-1".to_owned(),
        security_group_ids: vec!["sg-1".to_owned()],
        ..Instance::default()
    };
    [(PROVIDER_ID.to_owned(), instance)].into()
}

fn drift_context(instances: &BTreeMap<String, Instance>) -> DriftContext<'_> {
    DriftContext { instances, resolved: &|_| None, catalogue: &|_| None }
}

fn drifted(reason: &str) -> Value {
    let mut drifted = cond(condition::DRIFTED, "True", 2);
    drifted["reason"] = reason.into();
    json!({"status": {"conditions": [cond(condition::LAUNCHED, "True", 1), drifted]}})
}

/// Rows: a change of the NodeClaim, a change of the EC2NodeClass, and the expected write. `None` is no write, a text is the
/// reason, and an empty text is a cleared condition.
#[test]
fn decide_sets_and_clears_the_condition_drifted() {
    let other_image = json!({"status": {"amis": [{"id": "ami-2", "requirements": []}]}});
    let no_images = json!({"status": {"amis": null}});
    let deleting = json!({"metadata": {"deletionTimestamp": at(5).to_string(), "finalizers": ["f"]}});
    let launching = json!({"status": {"conditions": [cond(condition::LAUNCHED, "Unknown", 1)]}});
    let gone = json!({"status": {"conditions": [
        cond(condition::LAUNCHED, "Unknown", 1), drifted("AMIDrift")["status"]["conditions"][1],
    ]}});
    let rows = [
        ("like its class", json!({}), json!({}), None),
        ("an older image", json!({}), other_image.clone(), Some("AMIDrift")),
        ("reported already", drifted("AMIDrift"), other_image.clone(), Some("AMIDrift")),
        ("like its class again", drifted("AMIDrift"), json!({}), Some("")),
        ("the reason of another controller", drifted("NodePoolDrifted"), json!({}), None),
        ("images unknown", drifted("AMIDrift"), no_images, None),
        ("on its way out", deleting.clone(), other_image.clone(), None),
        (
            "a class on its way out",
            json!({}),
            {
                let mut all = other_image.clone();
                merge(&mut all, &deleting);
                all
            },
            None,
        ),
        ("not launched", launching, other_image.clone(), None),
        ("not launched any more", gone, other_image, Some("")),
    ];
    for (what, of_claim, of_class, expected) in rows {
        let steps = decide(&index(&of_claim, &of_class), &drift_context(&instances()), at(60));
        assert_eq!(words(&steps).is_empty(), expected.is_none(), "{what}: {:?}", words(&steps));
        let found = written(&steps, condition::DRIFTED);
        match expected.filter(|reason| !reason.is_empty()) {
            Some(reason) => assert_eq!(
                found.map(|(status, reason, _)| (status, reason)),
                Some(("True".to_owned(), reason.to_owned())),
                "{what}"
            ),
            None => assert_eq!(found, None, "{what}"),
        }
    }
    let alone = decide(&index(&json!({}), &json!({})), &drift_context(&BTreeMap::new()), at(60));
    assert!(alone.is_empty(), "EC2 has not described the instance");
}

/// Hashes of Karpenter are not compared, and the hashes that Kerf writes over them are equal.
#[test]
fn decide_reports_no_drift_when_hashes_are_from_karpenter() {
    let of_karpenter = json!({"metadata": {"annotations": {
        annotation::EC2_NODE_CLASS_HASH: "4182795473168236110", annotation::EC2_NODE_CLASS_HASH_VERSION: "v6",
    }}});
    let before = index(&of_karpenter, &of_karpenter);
    let (class, claim) = (class(&of_karpenter), claim(&of_karpenter));
    let steps = OF_CLASS.steps(&class.metadata, Target::Class("default".to_owned()), [&claim], "1", None);
    assert_eq!(words(&steps), ["patch claim default-1", "patch class default"]);
    let stamp = body(&steps);
    for (what, index) in [("as Karpenter left it", before), ("once it is ours", index(&stamp, &stamp))] {
        for minute in 0..24 * 60 {
            let steps = decide(&index, &drift_context(&instances()), at(60 * minute));
            assert!(steps.is_empty(), "{what}, minute {minute}: {:?}", words(&steps));
        }
    }
}

#[test]
fn decide_skips_claims_when_they_drifted_from_the_nodepool() {
    let other_image = json!({"status": {"amis": [{"id": "ami-2", "requirements": []}]}});
    let mut index = index(&json!({}), &other_image);
    let asks = json!([{"key": "rack", "operator": "Exists"}]);
    for (requirements, expected) in [(json!([]), 1), (asks, 0)] {
        let change = json!({"metadata": {"resourceVersion": (10 - expected).to_string()},
            "spec": {"template": {"spec": {"requirements": requirements}}}});
        drop(index.apply(pool(&change).as_ref().clone(), at(0), false));
        assert_eq!(decide(&index, &drift_context(&instances()), at(60)).len(), expected, "{change}");
    }
}

/// Rows: offerings by zone and capacity type, capacity type of the NodeClaim, its age in seconds, and whether it drifts.
#[test]
fn decide_reports_drift_when_offering_of_old_claim_is_gone() {
    use CapacityType::{OnDemand, Reserved, Spot};
    let hour = 3600;
    let rows = [
        ("sold, though out of stock", vec![("us-west-2a", Spot)], "spot", hour, false),
        ("in another zone", vec![("us-west-2b", Spot)], "spot", hour, true),
        ("not as spot", vec![("us-west-2a", OnDemand)], "spot", hour, true),
        ("not at all", vec![], "on-demand", hour, true),
        ("not at all, for a young machine", vec![], "on-demand", hour - 1, false),
        ("by its reservation", vec![("us-west-2a", Reserved)], "reserved", hour, false),
        ("without its reservation", vec![("us-west-2a", OnDemand)], "reserved", hour, false),
        ("neither way", vec![("us-west-2a", Spot)], "reserved", hour, true),
    ];
    for (what, sold, bought, age, drifts) in rows {
        let labels = json!({label::ZONE: "us-west-2a", label::CAPACITY_TYPE: bought});
        let index = index(&json!({"metadata": {"labels": labels}}), &json!({}));
        let offering = |(zone, capacity_type): (&str, CapacityType)| Offering {
            zone: zone.to_owned(),
            capacity_type,
            price: MicroDollars(1),
            premium: MicroDollars(0),
            available: false,
            labels: BTreeMap::new(),
            reservation: None,
        };
        let kind = InstanceType {
            name: "m5.large".to_owned(),
            offerings: sold.into_iter().map(offering).collect(),
            ..InstanceType::default()
        };
        let catalogue = Arc::new(Catalogue { types: vec![kind], ..Catalogue::default() });
        let instances = instances();
        let drift_context = DriftContext { catalogue: &|_| Some(Arc::clone(&catalogue)), ..drift_context(&instances) };
        let found = written(&decide(&index, &drift_context, at(age)), condition::DRIFTED).map(|(_, reason, _)| reason);
        assert_eq!(found, drifts.then(|| reason::INSTANCE_TYPE_NOT_FOUND.to_owned()), "{what}");
    }
}

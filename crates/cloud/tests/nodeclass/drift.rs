//! Tests of drift. Rows: an instance, its EC2NodeClass, and the expected drift.

use api::{EC2NodeClass, NodeClaim};
use cloud::Instance;
use cloud::nodeclass::{Group, drift};
use json_patch::merge;
use serde_json::{Value, json};

use super::class;

fn claim(change: &Value) -> NodeClaim {
    let mut base = json!({
        "metadata": {
            "name": "default-1",
            "labels": {"node.kubernetes.io/instance-type": "m5.large", "kubernetes.io/arch": "amd64"},
            "annotations": {
                "karpenter.k8s.aws/ec2nodeclass-hash": "1", "karpenter.k8s.aws/ec2nodeclass-hash-version": "kerf-v1",
            },
        },
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [], "expireAfter": "Never",
        },
        "status": {"imageID": "ami-1"},
    });
    merge(&mut base, change);
    serde_json::from_value(base).unwrap()
}

fn of_class(change: &Value) -> EC2NodeClass {
    let amd64 = json!([{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]);
    let arm64 = json!([{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]);
    let mut base = serde_json::to_value(class("")).unwrap();
    merge(
        &mut base,
        &json!({
            "metadata": {"annotations": {
                "karpenter.k8s.aws/ec2nodeclass-hash": "1", "karpenter.k8s.aws/ec2nodeclass-hash-version": "kerf-v1",
            }},
            "status": {
                "subnets": [{"id": "subnet-1", "zone": "us-west-2a"}, {"id": "subnet-2", "zone": "us-west-2b"}],
                "securityGroups": [{"id": "sg-1"}, {"id": "sg-2"}],
                "amis": [{"id": "ami-9", "requirements": arm64}, {"id": "ami-1", "requirements": amd64}],
                "capacityReservations": [{
                    "id": "cr-1", "availabilityZone": "us-west-2a", "instanceMatchCriteria": "open", "instanceType": "m5.large",
                    "ownerID": "123456789012",
                }],
            },
        }),
    );
    merge(&mut base, change);
    serde_json::from_value(base).unwrap()
}

fn instance(change: impl FnOnce(&mut Instance)) -> Option<Instance> {
    let mut instance = Instance {
        id: "i-1".to_owned(),
        subnet_id: "subnet-2".to_owned(),
        security_group_ids: vec!["sg-2".to_owned(), "sg-1".to_owned()],
        ..Instance::default()
    };
    change(&mut instance);
    Some(instance)
}

fn reserved(id: &str, preference: &str) -> Option<Instance> {
    instance(|one| {
        one.capacity_reservation_id = Some(id.to_owned());
        one.capacity_reservation_preference = Some(preference.to_owned());
    })
}

/// Returns the reason of the drift, empty without drift, or `?` and the unknown property.
fn drift_of(claim: &NodeClaim, class: &EC2NodeClass, instance: Option<&Instance>, group: Group<'_>) -> String {
    match drift(claim, class, instance, group) {
        Ok(found) => found.map_or_else(String::new, |drift| drift.reason.to_owned()),
        Err(unknown) => format!("?{}", unknown.what),
    }
}

fn hash(hash: &str, version: &str) -> Value {
    json!({"metadata": {"annotations": {
        "karpenter.k8s.aws/ec2nodeclass-hash": hash, "karpenter.k8s.aws/ec2nodeclass-hash-version": version,
    }}})
}

/// Rows: a change of the NodeClaim, a change of the EC2NodeClass, and the result. The instance has no drift of its own.
#[test]
fn drift_compares_claims_with_their_class() {
    let image = |id: &str| json!({"status": {"imageID": id}});
    let no_images = json!({"status": {"amis": []}});
    let rows = [
        ("like its class", json!({}), json!({}), ""),
        ("another hash", hash("2", "kerf-v1"), json!({}), "NodeClassDrift"),
        ("of another recipe", hash("2", "v5"), json!({}), ""),
        ("the hash comes first", hash("2", "kerf-v1"), no_images.clone(), "NodeClassDrift"),
        ("an older image", image("ami-0"), json!({}), "AMIDrift"),
        ("another architecture's image", image("ami-9"), json!({}), "AMIDrift"),
        ("no image of its own", image(""), json!({}), "?its image is unknown"),
        ("images unresolved", json!({}), no_images, "?the EC2NodeClass has no images"),
        (
            "groups unresolved",
            json!({}),
            json!({"status": {"securityGroups": []}}),
            "?the EC2NodeClass has no security groups",
        ),
        ("subnets unresolved", json!({}), json!({"status": {"subnets": []}}), "?the EC2NodeClass has no subnets"),
    ];
    for (what, of_claim, class_change, expected) in rows {
        let bare = instance(|_| ());
        let found = drift_of(&claim(&of_claim), &of_class(&class_change), bare.as_ref(), Group::None);
        assert_eq!(found, expected, "{what}");
    }
    let mut stranger = claim(&json!({}));
    stranger.metadata.annotations = None;
    let unknown = "?its instance is not described by EC2";
    assert_eq!(drift_of(&stranger, &of_class(&json!({})), None, Group::None), unknown, "no hash is no drift");
    stranger.metadata.labels = None;
    assert_eq!(drift_of(&stranger, &of_class(&json!({})), None, Group::None), "?its instance type is unknown");
}

/// Rows: the instance, and the result.
#[test]
fn drift_compares_instances_with_their_class() {
    let only = "capacity-reservations-only";
    let rows = [
        ("not described", None, "?its instance is not described by EC2"),
        ("a group less", instance(|one| one.security_group_ids.truncate(1)), "SecurityGroupDrift"),
        ("a group more", instance(|one| one.security_group_ids.push("sg-3".to_owned())), "SecurityGroupDrift"),
        ("another subnet", instance(|one| "subnet-3".clone_into(&mut one.subnet_id)), "SubnetDrift"),
        ("in its reservation", reserved("cr-1", only), ""),
        ("in another reservation", reserved("cr-2", only), "CapacityReservationDrift"),
        ("by chance in an open one", reserved("cr-2", "open"), ""),
    ];
    for (what, instance, expected) in rows {
        let found = drift_of(&claim(&json!({})), &of_class(&json!({})), instance.as_ref(), Group::None);
        assert_eq!(found, expected, "{what}");
    }
    let none = of_class(&json!({"status": {"capacityReservations": []}}));
    let fallen_back = drift_of(&claim(&json!({})), &none, instance(|_| ()).as_ref(), Group::None);
    assert_eq!(fallen_back, "", "its reservation has ended, and it runs on as on-demand");
}

/// Rows: the placement group of the NodeClaim, the one of the EC2NodeClass, and the result.
#[test]
fn drift_compares_placement_groups() {
    let rows = [
        ("pg-1", Group::Id("pg-1"), ""),
        ("pg-1", Group::Id("pg-2"), "PlacementGroupDrift"),
        ("pg-1", Group::None, "PlacementGroupDrift"),
        ("", Group::Id("pg-1"), "PlacementGroupDrift"),
        ("", Group::None, ""),
        ("pg-1", Group::Unknown, ""),
    ];
    for (stands, group, expected) in rows {
        let label = json!({"metadata": {"labels": {"karpenter.k8s.aws/placement-group-id": stands}}});
        let claim = claim(&if stands.is_empty() { json!({}) } else { label });
        let found = drift_of(&claim, &of_class(&json!({})), instance(|_| ()).as_ref(), group);
        assert_eq!(found, expected, "{stands} {group:?}");
    }
}

//! When the condition Drifted is written, and when it is left as it is.

use std::collections::BTreeMap;

use api::{condition, label};
use cloud::Instance;
use serde_json::{Value, json};

use super::decide;
use crate::fixture::{PROVIDER_ID, at, claim, class, condition as cond, merge, status, words, written};
use crate::index::Index;

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

fn drifted(reason: &str) -> Value {
    let mut drifted = cond(condition::DRIFTED, "True", 2);
    drifted["reason"] = reason.into();
    json!({"status": {"conditions": [cond(condition::LAUNCHED, "True", 1), drifted]}})
}

/// Rows: a change of the claim, a change of the class, and what comes of it: `None` no write, else the reason that is written,
/// empty where the condition goes.
#[test]
fn drift_is_written_and_taken_back() {
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
        ("told already", drifted("AMIDrift"), other_image.clone(), Some("AMIDrift")),
        ("like its class again", drifted("AMIDrift"), json!({}), Some("")),
        ("somebody else's reason", drifted("NodePoolDrifted"), json!({}), None),
        ("nobody can tell", drifted("AMIDrift"), no_images, None),
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
        let steps = decide(&index(&of_claim, &of_class), &instances(), &|_| None, at(60));
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
    let alone = decide(&index(&json!({}), &json!({})), &BTreeMap::new(), &|_| None, at(60));
    assert!(alone.is_empty(), "EC2 has not described the instance");
}

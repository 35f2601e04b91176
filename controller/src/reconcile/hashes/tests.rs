//! Tests of written hashes and of compared hashes.

use api::{annotation, condition, hash};
use serde_json::{Value, json};

use super::{HashAnnotation, OF_CLASS, OF_POOL};
use crate::fixture::{at, body, claim, condition as cond, merge, pool, words};
use crate::write::writer::{Operation, Target};

fn hashed(recipe: HashAnnotation, version: Option<&str>, hash: Option<&str>) -> Value {
    json!({"metadata": {"annotations": {recipe.hash: hash, recipe.version: version}}})
}

/// Rows: version and hash of the owner, version and hash of a NodeClaim, and whether the NodeClaim has drifted. Then the hash
/// written on the NodeClaim, and whether the owner is written. The current hash is "new".
#[test]
fn steps_migrate_hashes_of_other_versions() {
    for (recipe, foreign) in [(OF_CLASS, "v5"), (OF_POOL, "v2")] {
        let (foreign, ours) = (Some(foreign), Some(recipe.ours));
        let rows = [
            ("a switch", (foreign, Some("1")), (foreign, Some("1")), false, Some(json!("new")), true),
            ("a switch, changed before", (foreign, Some("2")), (foreign, Some("1")), false, Some(json!("new")), true),
            (
                "a drifted claim stays drifted",
                (foreign, Some("2")),
                (foreign, Some("1")),
                true,
                Some(Value::Null),
                true,
            ),
            ("a claim without any", (foreign, Some("1")), (None, None), false, Some(json!("new")), true),
            ("an owner without any", (None, None), (None, None), false, Some(json!("new")), true),
            ("a claim that came late", (ours, Some("new")), (foreign, Some("1")), false, Some(json!("new")), false),
            ("a claim planned too early", (ours, Some("new")), (None, None), false, None, false),
            ("a changed owner", (ours, Some("old")), (ours, Some("old")), false, None, true),
            ("nothing new", (ours, Some("new")), (ours, Some("new")), false, None, false),
            ("crashed between claims and owner", (foreign, Some("1")), (ours, Some("new")), false, None, true),
        ];
        for (what, of_owner, of_claim, drifted, on_claim, on_owner) in rows {
            let status = if drifted { vec![cond(condition::DRIFTED, "True", 5)] } else { Vec::new() };
            let mut change = hashed(recipe, of_claim.0, of_claim.1);
            merge(&mut change, &json!({"status": {"conditions": status}}));
            let owner = pool(&hashed(recipe, of_owner.0, of_owner.1));
            let target = Target::Pool("default".to_owned());
            let steps = recipe.steps(&owner.metadata, target, &[claim(&change)], "new", None);
            let expected: Vec<&str> =
                [on_claim.is_some().then_some("patch claim default-1"), on_owner.then_some("patch pool default")]
                    .into_iter()
                    .flatten()
                    .collect();
            assert_eq!(words(&steps), expected, "{what}");
            if let Some(hash) = on_claim {
                let written = &body(&steps)["metadata"]["annotations"];
                assert_eq!(written[recipe.version], recipe.ours, "{what}");
                assert_eq!(written[recipe.hash], hash, "{what}");
            }
            if let (true, Some(Operation::Patch(_, body))) = (on_owner, steps.last()) {
                assert_eq!(*body, hashed(recipe, ours, Some("new")), "{what}");
            }
        }
    }
}

#[test]
fn steps_note_the_takeover_of_claims() {
    let owner = pool(&hashed(OF_CLASS, Some("v6"), Some("1")));
    let claims = [claim(&hashed(OF_CLASS, Some("v6"), Some("1")))];
    let steps = OF_CLASS.steps(&owner.metadata, Target::Class("default".to_owned()), &claims, "new", Some(at(60)));
    let annotations = &body(&steps)["metadata"]["annotations"];
    assert_eq!(annotations[annotation::ADOPTED_AT], at(60).to_string());
    let ours = hashed(OF_CLASS, Some(hash::EC2_NODE_CLASS_VERSION), Some("new"));
    let target = Target::Class("default".to_owned());
    let steps = OF_CLASS.steps(&pool(&ours).metadata, target, &[claim(&ours)], "new", Some(at(60)));
    assert_eq!(words(&steps), [""; 0], "Kerf launched it");
}

#[test]
fn differs_compares_only_hashes_of_the_same_version() {
    let ours = Some(hash::NODEPOOL_VERSION);
    let rows = [
        (ours, Some("old"), true),
        (ours, Some("new"), false),
        (ours, None, false),
        (Some("v2"), Some("old"), false),
        (Some("v4"), Some("old"), false),
        (None, Some("old"), false),
        (None, None, false),
    ];
    for (version, hash, expected) in rows {
        let claim = claim(&hashed(OF_POOL, version, hash));
        assert_eq!(OF_POOL.differs(&claim, "new"), expected, "{version:?} {hash:?}");
    }
    let names = (annotation::NODEPOOL_HASH, annotation::NODEPOOL_HASH_VERSION);
    assert_eq!((OF_POOL.hash, OF_POOL.version), names);
}

//! NodePools, EC2NodeClasses and NodeClaims: annotations that Kerf will write, and objects that Kerf would reject as they are.

use std::collections::BTreeMap;

use api::{annotation, hash};
use serde_json::Value;

use super::report::Finding;
use super::{cluster, is_of, named, text};
use crate::input;

const CORE: &str = "karpenter.sh";
pub(super) const AWS: &str = "karpenter.k8s.aws";

pub(super) fn findings(objects: &[&Value]) -> Vec<Finding> {
    let of = |group: &'static str, kind: &'static str| {
        objects.iter().copied().filter(move |object| is_of(object, group, kind))
    };
    let mut findings = Vec::new();
    let classes: BTreeMap<&str, &Value> =
        of(AWS, "EC2NodeClass").map(|class| (text(class, "/metadata/name"), class)).collect();
    for object in objects.iter().filter(|object| is_of_karpenter(object)) {
        findings.extend(older(object));
    }
    for pool in of(CORE, "NodePool").filter(|pool| is_current(pool)) {
        let kind = text(pool, "/spec/template/spec/nodeClassRef/kind");
        if text(pool, "/spec/template/spec/nodeClassRef/group") != AWS || kind != "EC2NodeClass" {
            findings.push(Finding::change(named(pool), format!("has class kind {kind} and is ignored")));
            continue;
        }
        findings.extend(rejected(pool));
        findings.extend(missing_class(pool, &classes));
        findings.extend(migrated_hash(pool, annotation::NODEPOOL_HASH_VERSION, hash::NODEPOOL_VERSION, 0));
    }
    for (name, class) in classes.iter().filter(|(_, class)| is_current(class)) {
        let claims: Vec<&Value> =
            of(CORE, "NodeClaim").filter(|claim| text(claim, "/spec/nodeClassRef/name") == *name).collect();
        findings.extend(rejected(class));
        findings.extend(migrated_hash(
            class,
            annotation::EC2_NODE_CLASS_HASH_VERSION,
            hash::EC2_NODE_CLASS_VERSION,
            claims.len(),
        ));
        findings.extend(images(class, &claims));
    }
    findings
}

fn is_of_karpenter(object: &Value) -> bool {
    let group = text(object, "/apiVersion").split_once('/').map_or("", |(group, _)| group);
    [CORE, AWS].contains(&group)
}

fn is_current(object: &Value) -> bool {
    text(object, "/apiVersion").ends_with("/v1")
}

/// Reports objects of versions that Kerf does not support.
fn older(object: &Value) -> Option<Finding> {
    let api = text(object, "/apiVersion");
    let known = api.ends_with("/v1") || api == "karpenter.sh/v1alpha1";
    (!known).then(|| {
        Finding::before_start(
            named(object),
            format!("has version {api}, which is not supported: convert it with `kerf convert`"),
        )
    })
}

/// Reports errors that `kerf plan` would return and the controller would write into a condition.
fn rejected(object: &Value) -> Vec<Finding> {
    let written = serde_json::to_string(object).unwrap_or_default();
    let Err(errors) = input::read_text(&cluster().file, &written) else { return Vec::new() };
    let finding = |error: input::InputError| {
        let problem = error.problem.strip_prefix(&format!("{}: ", named(object))).unwrap_or(&error.problem).to_owned();
        Finding::before_start(named(object), format!("would not be Ready: {problem}; {}", error.cure))
    };
    errors.0.into_iter().map(finding).collect()
}

fn missing_class(pool: &Value, classes: &BTreeMap<&str, &Value>) -> Option<Finding> {
    let name = text(pool, "/spec/template/spec/nodeClassRef/name");
    let text = format!("would not be Ready: EC2NodeClass {name} does not exist; create it, or set another one");
    (!classes.contains_key(name)).then(|| Finding::before_start(named(pool), text))
}

/// Reports hashes of another version. The migration of a hash causes no drift.
fn migrated_hash(object: &Value, key: &str, ours: &str, claims: usize) -> Option<Finding> {
    let version = object["metadata"]["annotations"][key].as_str().filter(|version| *version != ours)?;
    let with = if claims == 0 { String::new() } else { format!(", with those of its {claims} NodeClaims") };
    Some(Finding::change(named(object), format!("its hash of version {version} is migrated to {ours}{with}")))
}

/// Reports NodeClaims whose image is no longer selected by their class. Such NodeClaims drift under Karpenter and under Kerf.
fn images(class: &Value, claims: &[&Value]) -> Option<Finding> {
    let known: Vec<&str> = class.pointer("/status/amis")?.as_array()?.iter().map(|ami| text(ami, "/id")).collect();
    let image = |claim: &&&Value| text(claim, "/status/imageID").to_owned();
    let old = claims.iter().filter(|claim| !image(claim).is_empty() && !known.contains(&image(claim).as_str())).count();
    let text = format!(
        "{old} of its {} NodeClaims run images that it no longer selects: they drift, as with Karpenter, within \
         the budgets",
        claims.len()
    );
    (old > 0).then(|| Finding::change(named(class), text))
}

//! Constraints of pods on nodes and on other pods.

use api::label;
use serde_json::{Map, Value, json};

use super::Dice;
use super::kinds::{Kind, Kinds};
use super::{RACK, RACKS, ZONES};

/// Values of the label `app`, which pod selectors use.
pub(super) const APPS: [&str; 3] = ["web", "db", "cache"];

/// Returns a node selector of one or two labels.
pub(super) fn node_selector(dice: &mut Dice) -> Value {
    let mut labels = Map::new();
    for _ in 0..dice.between(1, 2) {
        let (key, value) = match dice.between(0, 6) {
            0 | 1 => (label::ZONE, *dice.one(&ZONES)),
            2 => (label::ARCH, *dice.one(&[label::ARCH_AMD64, label::ARCH_ARM64])),
            3 => (label::CAPACITY_TYPE, *dice.one(&[label::CAPACITY_SPOT, label::CAPACITY_ON_DEMAND])),
            4 => (label::INSTANCE_SIZE, *dice.one(&["xlarge", "2xlarge"])),
            5 => (label::INSTANCE_CATEGORY, *dice.one(&["m", "c"])),
            _ => (RACK, *dice.one(&RACKS)),
        };
        labels.insert(key.to_owned(), json!(value));
    }
    Value::Object(labels)
}

/// Returns a term of node affinity: one or two expressions, with all operators that pods support.
pub(super) fn node_term(dice: &mut Dice) -> Value {
    let count = dice.between(1, 2);
    let all: Vec<Value> = (0..count).map(|_| node_demand(dice)).collect();
    json!({"matchExpressions": all})
}

fn node_demand(dice: &mut Dice) -> Value {
    let listed = *dice.one(&["In", "In", "NotIn"]);
    let there = *dice.one(&["Exists", "DoesNotExist"]);
    let bound = *dice.one(&["Gt", "Lt"]);
    match dice.between(0, 9) {
        0 | 1 => json!({"key": label::ZONE, "operator": listed, "values": dice.some(&ZONES)}),
        2 => json!({"key": label::ARCH, "operator": listed, "values": [label::ARCH_AMD64]}),
        3 => json!({"key": label::CAPACITY_TYPE, "operator": listed, "values": [label::CAPACITY_SPOT]}),
        4 => json!({"key": label::INSTANCE_CPU, "operator": bound, "values": [dice.one(&["2", "4", "8"])]}),
        5 => json!({"key": label::INSTANCE_GENERATION, "operator": bound, "values": [dice.one(&["6", "7"])]}),
        6 => json!({"key": RACK, "operator": listed, "values": dice.some(&RACKS)}),
        7 => json!({"key": RACK, "operator": there}),
        8 => json!({"key": label::HOSTNAME, "operator": listed, "values": ["node-0"]}),
        _ => json!({"key": label::INSTANCE_GPU_NAME, "operator": there}),
    }
}

/// Returns a selector of pods by their labels, most often by `app`.
fn pod_selector(dice: &mut Dice, app: &str) -> Value {
    let other = *dice.one(&APPS);
    match dice.between(0, 10) {
        10 => Value::Null,
        0..5 => json!({"matchLabels": {"app": app}}),
        5 => json!({"matchLabels": {"app": other}}),
        6 => json!({"matchExpressions": [{"key": "app", "operator": "In", "values": [app, other]}]}),
        7 => json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [other]}]}),
        8 => json!({"matchLabels": {"app": app}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]}),
        _ => json!({}),
    }
}

/// Returns a term of pod affinity or anti-affinity.
pub(super) fn pod_term(dice: &mut Dice, kinds: Kinds, app: &str) -> Value {
    let key = *dice.one(&[label::ZONE, label::ZONE, label::HOSTNAME, label::HOSTNAME, RACK, label::ARCH]);
    let mut term = json!({"topologyKey": key, "labelSelector": pod_selector(dice, app)});
    if kinds.has(Kind::Namespaces) {
        match dice.between(0, 4) {
            0 => term["namespaces"] = json!(dice.some(&["default", "blue", "green"])),
            1 => term["namespaceSelector"] = json!({}),
            2 => term["namespaceSelector"] = json!({"matchLabels": {"team": "sea"}}),
            3 => {
                term["namespaces"] = json!(["default"]);
                term["namespaceSelector"] = json!({"matchExpressions": [{"key": "team", "operator": "Exists"}]});
            }
            _ => {}
        }
    }
    if dice.chance(10) && !term["labelSelector"].is_null() {
        term[*dice.one(&["matchLabelKeys", "mismatchLabelKeys"])] = json!(["version"]);
    }
    term
}

/// Returns a topology spread constraint, hard or soft.
pub(super) fn spread(dice: &mut Dice, app: &str, hard: bool) -> Value {
    let keys = [label::ZONE, label::ZONE, label::HOSTNAME, label::CAPACITY_TYPE, RACK, label::ARCH];
    let key = *dice.one(&keys);
    let mut spread = json!({
        "topologyKey": key,
        "maxSkew": dice.one(&[1, 1, 2]),
        "whenUnsatisfiable": if hard { "DoNotSchedule" } else { "ScheduleAnyway" },
        "labelSelector": pod_selector(dice, app),
    });
    if hard && dice.chance(25) {
        spread["minDomains"] = json!(dice.between(1, 4));
    }
    if dice.chance(20) && !spread["labelSelector"].is_null() {
        spread["matchLabelKeys"] = json!(["version"]);
    }
    if dice.chance(25) {
        spread["nodeAffinityPolicy"] = json!(dice.one(&["Honor", "Ignore"]));
    }
    if dice.chance(25) {
        spread["nodeTaintsPolicy"] = json!(dice.one(&["Honor", "Ignore"]));
    }
    spread
}

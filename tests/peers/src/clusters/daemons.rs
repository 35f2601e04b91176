//! DaemonSets for all nodes or for those of one architecture, zone or rack. Some are in the namespaces of other pods and share
//! their labels.

use api::label;
use serde_json::{Value, json};

use super::Dice;
use super::kinds::{Kind, Kinds};
use super::pods::{has, port};
use super::selectors::APPS;
use super::{RACK, RACKS, ZONES};

/// Returns one or two DaemonSets.
pub(super) fn sets(dice: &mut Dice, kinds: Kinds) -> Vec<Value> {
    (0..dice.between(1, 2)).map(|number| set(dice, kinds, number)).collect()
}

fn set(dice: &mut Dice, kinds: Kinds, number: u32) -> Value {
    let name = format!("daemon-{number}");
    let among_others = kinds.has(Kind::Agents) && dice.chance(60);
    let namespaces: &[&str] = if kinds.has(Kind::Namespaces) { &["default", "blue", "green"] } else { &["default"] };
    let namespace = if among_others { *dice.one(namespaces) } else { "kube-system" };
    let mut labels = json!({"daemon": name});
    if dice.chance(if among_others { 70 } else { 30 }) {
        labels["app"] = json!(dice.one(&APPS));
    }
    if among_others && dice.chance(30) {
        labels["tier"] = json!("front");
    }
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "namespace": namespace, "uid": name},
        "spec": {
            "selector": {"matchLabels": {"daemon": name}},
            "template": {"metadata": {"labels": labels}, "spec": spec(dice, kinds, number)},
        },
    })
}

fn spec(dice: &mut Dice, kinds: Kinds, number: u32) -> Value {
    let cpu = *dice.one(&["50m", "200m", "700m"]);
    let mut container = json!({
        "name": "main", "image": "image", "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}},
    });
    // Two DaemonSets with the same host port would conflict on every node.
    if number == 0 && has(dice, kinds, Kind::Ports) {
        container["ports"] = json!([port(dice)]);
    }
    let mut spec = json!({"containers": [container]});
    if dice.chance(60) {
        spec["tolerations"] = json!([{"operator": "Exists"}]);
    }
    match dice.between(0, 9) {
        0..3 => spec["nodeSelector"] = json!({label::ARCH: label::ARCH_AMD64}),
        3 => spec["nodeSelector"] = json!({label::ZONE: dice.one(&ZONES)}),
        4 if kinds.has(Kind::Agents) => spec["nodeSelector"] = json!({RACK: dice.one(&RACKS)}),
        _ => {}
    }
    spec
}

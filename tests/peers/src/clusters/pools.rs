//! NodePools: broad or narrow, with taints, weights and limits.

use api::label;
use serde_json::{Value, json};

use super::Dice;
use super::kinds::{Kind, Kinds};
use super::{CLASS, RACK, RACKS, ZONES};

pub(super) fn pools(dice: &mut Dice, kinds: Kinds) -> Vec<Value> {
    let count = if kinds.has(Kind::Pools) { dice.between(1, 3) } else { 1 };
    (0..count).map(|number| pool(dice, kinds, &format!("pool-{number}"))).collect()
}

fn pool(dice: &mut Dice, kinds: Kinds, name: &str) -> Value {
    let mut labels = json!({"example.com/origin": name});
    let mut requirements = requirements(dice, kinds);
    match dice.between(0, 3) {
        0 => labels[RACK] = json!(dice.one(&RACKS)),
        1 => requirements.push(json!({"key": RACK, "operator": "In", "values": dice.some(&RACKS)})),
        2 => requirements.push(json!({"key": RACK, "operator": "Exists"})),
        _ => {}
    }
    let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": CLASS});
    let mut spec = json!({
        "template": {
            "metadata": {"labels": labels},
            "spec": {"requirements": requirements, "nodeClassRef": class, "taints": taints(dice, kinds)},
        },
        "disruption": {"consolidateAfter": "30s"},
    });
    if kinds.has(Kind::Taints) && dice.chance(30) {
        spec["template"]["spec"]["startupTaints"] = json!([{"key": "example.com/start", "effect": "NoSchedule"}]);
    }
    if kinds.has(Kind::Pools) && kinds.has(Kind::Static) && dice.chance(30) {
        spec["replicas"] = json!(dice.between(1, 2));
    } else if kinds.has(Kind::Pools) {
        spec["weight"] = json!(dice.one(&[1, 10, 10]));
    }
    if kinds.has(Kind::Limits) && dice.chance(60) {
        let limited = if spec["replicas"].is_null() { *dice.one(&["cpu", "nodes"]) } else { "nodes" };
        spec["limits"] = json!({limited: dice.one(&["2", "8", "24"])});
    }
    let ready = json!({"type": "Ready", "status": "True", "reason": "Ready", "message": "",
                       "lastTransitionTime": "2026-01-01T11:00:00Z"});
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": name, "uid": name}, "spec": spec, "status": {"conditions": [ready]},
    })
}

/// Returns the requirements of a NodePool. Without kind `Pools` there are none.
fn requirements(dice: &mut Dice, kinds: Kinds) -> Vec<Value> {
    let mut all = Vec::new();
    if !kinds.has(Kind::Pools) {
        return all;
    }
    let mut maybe = |dice: &mut Dice, requirement: Value| all.extend(dice.chance(30).then_some(requirement));
    let zones = dice.some(&ZONES);
    maybe(dice, json!({"key": label::ZONE, "operator": "In", "values": zones}));
    let arch = *dice.one(&[label::ARCH_AMD64, label::ARCH_ARM64]);
    maybe(dice, json!({"key": label::ARCH, "operator": "In", "values": [arch]}));
    let bought = dice.some(&[label::CAPACITY_SPOT, label::CAPACITY_ON_DEMAND]);
    maybe(dice, json!({"key": label::CAPACITY_TYPE, "operator": "In", "values": bought}));
    let (bound, operator) = (*dice.one(&["4", "8"]), *dice.one(&["Gt", "Lt", "Gte", "Lte"]));
    maybe(dice, json!({"key": label::INSTANCE_CPU, "operator": operator, "values": [bound]}));
    maybe(dice, json!({"key": label::INSTANCE_CATEGORY, "operator": "NotIn", "values": ["c"]}));
    let least = dice.between(2, 3);
    maybe(dice, json!({"key": label::INSTANCE_TYPE, "operator": "Exists", "minValues": least}));
    all
}

/// Returns the permanent taints of a NodePool's nodes, or of an existing node.
pub(super) fn taints(dice: &mut Dice, kinds: Kinds) -> Vec<Value> {
    let mut all = Vec::new();
    if kinds.has(Kind::Taints) && dice.chance(50) {
        let effect = *dice.one(&["NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule"]);
        all.push(json!({"key": "dedicated", "value": dice.one(&["web", "db"]), "effect": effect}));
    }
    all
}

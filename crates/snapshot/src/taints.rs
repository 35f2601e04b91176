//! Conversion of taints and tolerations for the planner.

use api::objects::Toleration;
use planner::{Effect, TolerationOperator};

/// Converts a toleration. A toleration with an unknown effect or operator matches no taint and is omitted.
pub(crate) fn toleration(it: &Toleration) -> Option<planner::Toleration> {
    let operator = match it.operator.as_str() {
        "" | "Equal" => TolerationOperator::Equal,
        "Exists" => TolerationOperator::Exists,
        _ => return None,
    };
    if it.key.is_empty() && operator == TolerationOperator::Equal {
        return None;
    }
    let effect = if it.effect.is_empty() { None } else { Some(effect(&it.effect)?) };
    let key = (!it.key.is_empty()).then(|| it.key.clone());
    Some(planner::Toleration { key, operator, value: it.value.clone(), effect })
}

/// Converts a taint. A taint with an unknown effect has no effect and is omitted.
pub(crate) fn taint(it: &api::Taint) -> Option<planner::Taint> {
    let effect = effect(&it.effect)?;
    Some(planner::Taint { key: it.key.clone(), value: it.value().to_owned(), effect })
}

fn effect(text: &str) -> Option<Effect> {
    match text {
        api::taint::NO_SCHEDULE => Some(Effect::NoSchedule),
        api::taint::PREFER_NO_SCHEDULE => Some(Effect::PreferNoSchedule),
        api::taint::NO_EXECUTE => Some(Effect::NoExecute),
        _ => None,
    }
}

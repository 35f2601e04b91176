//! Requirements, taints and sums, evaluated in the simplest way.

use std::collections::BTreeMap;

use crate::{Effect, InstanceType, Offering, Operator, PodShape, Requirement, Resources, Taint, Toleration, label};

/// Labels by key; a key without an entry is absent.
pub(super) type Labels = BTreeMap<String, String>;

/// Reports whether one label value, or its absence, satisfies one requirement.
pub(super) fn satisfied(requirement: &Requirement, value: Option<&str>) -> bool {
    let listed = || value.is_some_and(|value| requirement.values.iter().any(|it| it == value));
    let compare = |holds: fn(i64, i64) -> bool| {
        let bound = requirement.values.first().and_then(|it| it.parse().ok());
        let value = value.and_then(|value| value.parse().ok());
        requirement.values.len() == 1 && matches!((value, bound), (Some(value), Some(bound)) if holds(value, bound))
    };
    match requirement.operator {
        Operator::In => listed(),
        Operator::NotIn => !listed(),
        Operator::Exists => value.is_some(),
        Operator::DoesNotExist => value.is_none(),
        Operator::Gt => compare(|value, bound| value > bound),
        Operator::Lt => compare(|value, bound| value < bound),
        Operator::Gte => compare(|value, bound| value >= bound),
        Operator::Lte => compare(|value, bound| value <= bound),
    }
}

/// Reports whether all requirements of a conjunction may hold together: those on one label by one value. `has` reports whether a
/// label may have a value of this kind.
pub(super) fn may_hold(all: &[&Requirement], has: impl Fn(&str, &dyn Fn(Option<&str>) -> bool) -> bool) -> bool {
    let holds = |key: &str, value: Option<&str>| all.iter().filter(|it| it.key == key).all(|it| satisfied(it, value));
    all.iter().all(|asked| has(&asked.key, &|value| holds(&asked.key, value)))
}

/// Returns the conjunctions of a pod, one of which must hold.
pub(super) fn alternatives(shape: &PodShape) -> Vec<Vec<&Requirement>> {
    let terms: Vec<&[Requirement]> = match shape.affinity.as_slice() {
        [] => vec![&[]],
        terms => terms.iter().map(Vec::as_slice).collect(),
    };
    terms.into_iter().map(|term| shape.selector.iter().chain(term).collect()).collect()
}

/// Returns the first hard taint that the pod does not tolerate.
pub(super) fn first_untolerated<'t>(taints: &'t [Taint], tolerations: &[Toleration]) -> Option<&'t Taint> {
    let tolerates = |toleration: &Toleration, taint: &Taint| {
        let value = matches!(toleration.operator, crate::TolerationOperator::Exists) || toleration.value == taint.value;
        let key = toleration.key.as_deref().is_none_or(|key| key == taint.key);
        key && value && toleration.effect.is_none_or(|effect| effect == taint.effect)
    };
    taints.iter().find(|taint| {
        taint.effect != Effect::PreferNoSchedule && !tolerations.iter().any(|toleration| tolerates(toleration, taint))
    })
}

/// Returns the resources of which `wanted` exceeds `room`.
pub(super) fn missing_resources(wanted: &Resources, available: &Resources) -> Vec<String> {
    let short = wanted.iter().filter(|(name, amount)| *amount > 0 && *amount > available.get(name));
    short.map(|(name, amount)| format!("{name} {amount} of {}", available.get(name))).collect()
}

/// Reports whether the type, the offering or Kubernetes decides this label on a node of the type.
pub(super) fn carries(kind: &InstanceType, offering: &Offering, key: &str) -> bool {
    [label::ZONE, label::CAPACITY_TYPE, label::INSTANCE_TYPE].contains(&key)
        || kind.labels.contains_key(key)
        || offering.labels.contains_key(key)
        || (key == label::RESERVATION_ID && offering.reservation.is_some())
}

/// Returns the possible values of a label on a node of this type and offering; `None` for its absence.
pub(super) fn possible<'a>(kind: &'a InstanceType, offering: &'a Offering, key: &str) -> Vec<Option<&'a str>> {
    let several = |values: &'a [String]| match values {
        [] => vec![None],
        values => values.iter().map(|value| Some(value.as_str())).collect(),
    };
    match key {
        label::ZONE => vec![Some(&offering.zone)],
        label::CAPACITY_TYPE => vec![Some(offering.capacity_type.as_str())],
        label::RESERVATION_ID if offering.reservation.is_some() => {
            vec![offering.reservation.as_ref().map(|it| it.id.as_str())]
        }
        key => match (offering.labels.get(key), kind.labels.get(key)) {
            (Some(value), _) => vec![Some(value)],
            (None, Some(values)) => several(values),
            (None, None) if key == label::INSTANCE_TYPE => vec![Some(&kind.name)],
            (None, None) => vec![None],
        },
    }
}

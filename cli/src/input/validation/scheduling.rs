//! Validation rules of the API server for fields that affect scheduling. The slim object types do not validate them, because
//! the API server already did. Files have not passed that validation.

use serde_json::{Map, Value};

use crate::input::error::InputError;
use crate::input::kinds::Kind;
use crate::input::raw::Raw;

/// Names of maps from resource names to amounts, at any path.
const AMOUNTS: [&str; 8] =
    ["requests", "limits", "capacity", "allocatable", "overhead", "podFixed", "kubeReserved", "systemReserved"];
/// Further such names in a LimitRange.
const LIMIT_RANGE_AMOUNTS: [&str; 5] = ["default", "defaultRequest", "min", "max", "maxLimitRequestRatio"];
/// Lists whose items need a topology key, if they are pod affinity terms.
const TERMS: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Rules for the fields of list items: list, field, required or not, permitted values.
const FIELDS: [(&str, &str, bool, Allowed); 14] = [
    ("limits", "type", true, Allowed::OneOf(&["Container", "Pod", "PersistentVolumeClaim"])),
    ("topologySpreadConstraints", "maxSkew", true, Allowed::From(1)),
    ("topologySpreadConstraints", "minDomains", false, Allowed::From(1)),
    ("topologySpreadConstraints", "topologyKey", true, Allowed::Text),
    ("topologySpreadConstraints", "whenUnsatisfiable", true, Allowed::OneOf(&["DoNotSchedule", "ScheduleAnyway"])),
    ("topologySpreadConstraints", "nodeAffinityPolicy", false, Allowed::OneOf(&["Honor", "Ignore"])),
    ("topologySpreadConstraints", "nodeTaintsPolicy", false, Allowed::OneOf(&["Honor", "Ignore"])),
    ("preferredDuringSchedulingIgnoredDuringExecution", "weight", true, Allowed::From(1)),
    ("tolerations", "operator", false, Allowed::OneOf(&["", "Exists", "Equal", "Lt", "Gt"])),
    ("tolerations", "effect", false, Allowed::OneOf(&["", "NoSchedule", "PreferNoSchedule", "NoExecute"])),
    ("taints", "effect", true, Allowed::OneOf(&["NoSchedule", "PreferNoSchedule", "NoExecute"])),
    (TERMS, "topologyKey", true, Allowed::Text),
    ("ports", "hostPort", false, Allowed::Port),
    ("ports", "protocol", false, Allowed::OneOf(&["TCP", "UDP", "SCTP"])),
];

#[derive(Clone, Copy)]
enum Allowed {
    /// A whole number of at least this value.
    From(i64),
    /// A port number; 0 for none.
    Port,
    /// A string that is not empty.
    Text,
    /// One of these strings.
    OneOf(&'static [&'static str]),
}

impl Allowed {
    fn admits(self, value: &Value) -> bool {
        match self {
            Self::From(least) => value.as_i64().is_some_and(|number| number >= least),
            Self::Port => value.as_i64().is_some_and(|number| (0..=65_535).contains(&number)),
            Self::Text => value.as_str().is_some_and(|text| !text.is_empty()),
            Self::OneOf(list) => value.as_str().is_some_and(|text| list.contains(&text)),
        }
    }

    fn cure(self) -> String {
        match self {
            Self::From(least) => format!("write a whole number of at least {least}"),
            Self::Port => "write a number from 1 to 65535".to_owned(),
            Self::Text => "use a label of nodes, such as topology.kubernetes.io/zone".to_owned(),
            Self::OneOf(list) => {
                let words: Vec<&str> = list.iter().copied().filter(|word| !word.is_empty()).collect();
                format!("write one of {}", words.join(", "))
            }
        }
    }
}

/// Returns all fields that the API server would reject.
pub(in crate::input) fn faults(raw: &Raw) -> Vec<InputError> {
    let mut faults: Vec<InputError> = without_template(raw).into_iter().collect();
    let parts: &[&str] = match raw.kind {
        Kind::RuntimeClass => &["overhead", "scheduling"],
        _ => &["spec", "template", "status"],
    };
    for part in parts {
        walk(raw, &raw.value[part], part, &mut faults);
    }
    faults
}

/// Rejects a pod without a spec, and a workload without a pod template.
fn without_template(raw: &Raw) -> Option<InputError> {
    const WORKLOADS: [Kind; 5] = [Kind::Deployment, Kind::ReplicaSet, Kind::StatefulSet, Kind::DaemonSet, Kind::Job];
    let (path, cure) = match raw.kind {
        Kind::Pod => ("/spec", "write its containers"),
        kind if WORKLOADS.contains(&kind) => ("/spec/template", "write its pod template"),
        _ => return None,
    };
    let missing = raw.value.pointer(path).is_none();
    missing.then(|| raw.fault(&path[1..].replace('/', "."), "missing", cure))
}

fn walk(raw: &Raw, value: &Value, path: &str, faults: &mut Vec<InputError>) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                let path = format!("{path}.{name}");
                match inner {
                    Value::Object(amounts) if has_amounts(raw.kind, name) => check(raw, amounts, &path, faults),
                    Value::Array(items) => list(raw, name, items, &path, faults),
                    inner => walk(raw, inner, &path, faults),
                }
            }
        }
        Value::Array(items) => list(raw, "", items, path, faults),
        _ => {}
    }
}

fn list(raw: &Raw, name: &str, items: &[Value], path: &str, faults: &mut Vec<InputError>) {
    for (index, item) in items.iter().enumerate() {
        let path = format!("{path}[{index}]");
        for (_, field, must, allowed) in FIELDS.iter().filter(|(list, ..)| *list == name) {
            let problem = match &item[*field] {
                Value::Null if *must => "missing".to_owned(),
                Value::Null => continue,
                value if allowed.admits(value) => continue,
                value => format!("{value} is not allowed"),
            };
            faults.push(raw.fault(&format!("{path}.{field}"), &problem, allowed.cure()));
        }
        walk(raw, item, &path, faults);
    }
}

/// Reports whether a field is a map from resource names to amounts.
fn has_amounts(kind: Kind, name: &str) -> bool {
    AMOUNTS.contains(&name) || kind == Kind::LimitRange && LIMIT_RANGE_AMOUNTS.contains(&name)
}

/// Validates that amounts are quantities and not negative.
fn check(raw: &Raw, amounts: &Map<String, Value>, path: &str, faults: &mut Vec<InputError>) {
    for (resource, value) in amounts {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            // The typed parser reports the type error.
            _ => continue,
        };
        let path = format!("{path}[{resource}]");
        match api::quantity::millis(&text) {
            Ok(amount) if amount >= 0 && (is_divisible(resource) || amount % 1000 == 0) => {}
            Ok(amount) if amount >= 0 => {
                let problem = format!("{text} is not a whole number");
                faults.push(raw.fault(&path, &problem, "write a whole number"));
            }
            Ok(_) => faults.push(raw.fault(&path, &format!("{text} is negative"), "write an amount")),
            Err(_) => {
                let cure = "write an integer or decimal with an optional suffix, such as 1500m, 2 or 4Gi";
                faults.push(raw.fault(&path, &format!("{text:?} is not a quantity"), cure));
            }
        }
    }
}

/// Reports whether fractions of a resource are permitted; devices and other extended resources need whole numbers.
fn is_divisible(resource: &str) -> bool {
    resource.split_once('/').is_none_or(|(domain, _)| domain == "kubernetes.io" || domain.ends_with(".kubernetes.io"))
}

//! Validation of custom resources against their schema: unknown fields, wrong types, and values that are not permitted. Rules
//! between fields are left to `api::validate` and to the API server. The crate `jsonschema` does not know Kubernetes'
//! extensions of schemas, and its errors contain no fix for a field.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::Value;

use crate::input::error::{InputError, quoted};
use crate::input::kinds::Kind;
use crate::input::raw::Raw;

/// Returns the paths of fields that the schema does not have, each with a similar field; some belong to another version of
/// Karpenter.
pub(super) fn unknown_fields(raw: &Raw) -> Vec<(String, Option<String>)> {
    let mut walk = Walk::default();
    walk.object(raw);
    walk.unknown
}

/// Returns errors for values that the API server would reject.
pub(super) fn faults(raw: &Raw) -> Vec<InputError> {
    let mut walk = Walk::default();
    walk.object(raw);
    walk.faults.into_iter().map(|(path, problem, cure)| raw.fault(&path, &problem, cure)).collect()
}

/// Returns the schema of a custom resource kind.
fn schema(kind: Kind) -> Option<&'static Value> {
    static SCHEMAS: OnceLock<BTreeMap<String, Value>> = OnceLock::new();
    let all = SCHEMAS.get_or_init(|| {
        let named = |crd: Value| {
            let kind = crd.pointer("/spec/names/kind")?.as_str()?.to_owned();
            Some((kind, crd.pointer("/spec/versions/0/schema/openAPIV3Schema")?.clone()))
        };
        api::crds::values().into_iter().filter_map(named).collect()
    });
    all.get(&kind.to_string())
}

#[derive(Default)]
struct Walk {
    /// Path, and a similar field of the schema.
    unknown: Vec<(String, Option<String>)>,
    /// Path, problem and fix.
    faults: Vec<(String, String, String)>,
}

impl Walk {
    /// Validates the specification. The API server writes the other fields.
    fn object(&mut self, raw: &Raw) {
        let Some(schema) = schema(raw.kind) else { return };
        let (Some(shape), spec) = (schema.pointer("/properties/spec"), &raw.value["spec"]) else { return };
        if spec.is_null() {
            self.fault("spec", "missing", format!("see `kubectl explain {}.spec`", lower(raw.kind)));
        } else {
            self.value(shape, spec, "spec");
        }
        for field in raw.value.as_object().into_iter().flat_map(|object| object.keys()) {
            if !["apiVersion", "kind", "metadata", "spec", "status"].contains(&field.as_str()) {
                self.unknown.push((field.clone(), None));
            }
        }
    }

    fn fault(&mut self, path: &str, problem: &str, cure: String) {
        self.faults.push((path.to_owned(), problem.to_owned(), cure));
    }

    fn value(&mut self, schema: &Value, value: &Value, path: &str) {
        if value.is_null() || !self.has_type(schema, value, path) {
            return;
        }
        if let Some(allowed) = schema["enum"].as_array().filter(|allowed| !allowed.contains(value)) {
            let words: Vec<&str> = allowed.iter().filter_map(Value::as_str).collect();
            self.fault(path, &format!("{value} is not allowed"), format!("write one of {}", words.join(", ")));
        }
        if let (Some(pattern), Some(text)) = (schema["pattern"].as_str(), value.as_str())
            && regex_lite::Regex::new(pattern).is_ok_and(|known| !known.is_match(text))
        {
            self.fault(path, &format!("{text:?} is not allowed"), pattern_fix(pattern));
        }
        self.bounds(schema, value, path);
        if let Some(items) = value.as_array() {
            for (index, item) in items.iter().enumerate() {
                self.value(&schema["items"], item, &format!("{path}[{index}]"));
            }
        }
        if let Some(fields) = value.as_object() {
            self.fields(schema, fields, path);
        }
    }

    fn fields(&mut self, schema: &Value, fields: &serde_json::Map<String, Value>, path: &str) {
        let (known, rest) = (schema["properties"].as_object(), &schema["additionalProperties"]);
        for (name, value) in fields {
            match known.and_then(|known| known.get(name)) {
                Some(shape) => self.value(shape, value, &format!("{path}.{name}")),
                None if rest.is_object() => self.value(rest, value, &format!("{path}[{name}]")),
                None if known.is_some() => {
                    let names: Vec<&str> = known.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
                    let similar = api::similar::nearest(name, &names).map(str::to_owned);
                    self.unknown.push((format!("{path}.{name}"), similar));
                }
                None => {}
            }
        }
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if fields.get(name).is_none_or(Value::is_null) {
                self.fault(&format!("{path}.{name}"), "missing", "add it".to_owned());
            }
        }
    }

    fn has_type(&mut self, schema: &Value, value: &Value, path: &str) -> bool {
        let Some(wanted) = schema["type"].as_str() else { return true };
        let (fits, cure) = match wanted {
            "string" => (value.is_string(), quoted(value)),
            "integer" => (value.is_i64() || value.is_u64(), "write a whole number without quotes".to_owned()),
            "number" => (value.is_number(), "write a number without quotes".to_owned()),
            "boolean" => (value.is_boolean(), "write true or false without quotes".to_owned()),
            "array" => (value.is_array(), "write a list".to_owned()),
            "object" => (value.is_object(), "write fields under it".to_owned()),
            _ => (true, String::new()),
        };
        if !fits {
            let cure = if value.is_object() || value.is_array() { format!("write one {wanted}") } else { cure };
            self.fault(path, &format!("{} where {wanted} is expected", kind_of(value)), cure);
        }
        fits
    }

    fn bounds(&mut self, schema: &Value, value: &Value, path: &str) {
        let size = match value {
            Value::String(text) => Some((text.chars().count() as u64, "minLength", "maxLength", "characters")),
            Value::Array(list) => Some((list.len() as u64, "minItems", "maxItems", "items")),
            Value::Object(map) => Some((map.len() as u64, "minProperties", "maxProperties", "entries")),
            _ => None,
        };
        if let Some((size, least, most, what)) = size {
            if let Some(most) = schema[most].as_u64().filter(|most| size > *most) {
                self.fault(path, &format!("{size} {what}"), format!("at most {most} are allowed"));
            }
            if let Some(least) = schema[least].as_u64().filter(|least| size < *least) {
                self.fault(path, &format!("{size} {what}"), format!("at least {least} are needed"));
            }
        }
        if let Some(number) = value.as_i64() {
            let bound = |name: &str| schema[name].as_i64().or_else(|| schema[name].as_f64().map(|bound| bound as i64));
            if bound("minimum").is_some_and(|least| number < least)
                || bound("maximum").is_some_and(|most| number > most)
            {
                self.fault(path, &format!("{number} is out of range"), range(bound("minimum"), bound("maximum")));
            }
        }
    }
}

fn range(least: Option<i64>, most: Option<i64>) -> String {
    match (least, most) {
        (Some(least), Some(most)) => format!("write a number from {least} to {most}"),
        (Some(least), None) => format!("write a number of at least {least}"),
        (None, Some(most)) => format!("write a number of at most {most}"),
        (None, None) => "write another number".to_owned(),
    }
}

/// Descriptions of the most common patterns.
const PATTERNS: [(&str, &str); 5] = [
    ("^(([0-9]+(s|m|h))+|Never)$", "write hours, minutes and seconds such as 720h or 1h30m, or Never"),
    ("^([0-9]+(s|m|h))+$", "write hours, minutes and seconds such as 24h or 1h30m"),
    ("^((100|[0-9]{1,2})%|[0-9]+)$", "write a number of nodes such as 5, or a percentage up to 100% such as 10%"),
    (
        r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
        "write an integer or decimal with an optional suffix, such as 1500m, 2 or 4Gi",
    ),
    ("^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$", "write hours and minutes such as 8h or 1h30m"),
];

fn pattern_fix(pattern: &str) -> String {
    let known = PATTERNS.iter().find(|(known, _)| *known == pattern);
    known.map_or_else(|| format!("it must match {pattern}"), |(_, cure)| (*cure).to_owned())
}

fn kind_of(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a map".to_owned(),
        scalar => scalar.to_string(),
    }
}

fn lower(kind: Kind) -> String {
    kind.to_string().to_lowercase()
}

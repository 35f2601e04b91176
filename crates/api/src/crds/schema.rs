//! Conversion of derived schemas into the published ones. Keywords that only the derive macro adds are removed, then the schema
//! rules of the kind are applied. One table for each kind lists its rules in the order of its fields.

mod capacitybuffer;
mod common_rules;
mod nodeclaim;
mod nodeclass;
mod nodeoverlay;
mod nodepool;
mod nodeusage;

use serde_json::{Map, Value, json};

/// Schema rule: keywords for the schema at one path.
pub(crate) struct SchemaRule {
    /// Steps from the root: field names, `[]` for the items of a list, `{}` for the values of a map.
    path: String,
    /// Keywords and their values, which replace derived keywords. The value `null` removes a keyword.
    keywords: Value,
}

/// Returns a schema rule that sets keywords at a path, for example `spec.template.spec.taints.[]`.
pub(crate) fn set(path: impl Into<String>, keywords: Value) -> SchemaRule {
    SchemaRule { path: path.into(), keywords }
}

/// Column of `kubectl get`: name, type, JSON path of the value, and priority: 0 for always, 1 for `-o wide` only.
pub(crate) type Column = (&'static str, &'static str, &'static str, u8);

/// Schema rules and columns of one kind.
pub(crate) struct Kind {
    rules: Vec<SchemaRule>,
    columns: &'static [Column],
}

/// Error for a rule whose path the derived schema does not have: the rules and the types disagree.
#[derive(Debug, thiserror::Error)]
#[error("schema has no {path:?}: correct the schema rule or its field")]
pub(crate) struct UnknownPath {
    path: String,
}

/// Returns the definition of one kind with its rules and columns applied.
pub(crate) fn complete(mut crd: Value, kind: &Kind) -> Result<Value, UnknownPath> {
    let versions = crd.pointer_mut("/spec/versions");
    for version in versions.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema") {
            strip(schema);
            for rule in &kind.rules {
                apply(schema, rule)?;
            }
        }
        version["additionalPrinterColumns"] = kind.columns.iter().map(column).collect();
    }
    Ok(crd)
}

fn column((name, type_, path, priority): &Column) -> Value {
    let mut column = json!({ "name": name, "type": type_, "jsonPath": path });
    if *priority > 0 {
        column["priority"] = json!(priority);
    }
    column
}

/// Returns the schema rules and columns of a kind, by the name of its definition.
pub(crate) fn kind(name: &str) -> Kind {
    match name {
        "nodepools.karpenter.sh" => Kind { rules: nodepool::schema_rules(), columns: nodepool::COLUMNS },
        "nodeclaims.karpenter.sh" => Kind { rules: nodeclaim::schema_rules(), columns: nodeclaim::COLUMNS },
        "ec2nodeclasses.karpenter.k8s.aws" => Kind { rules: nodeclass::schema_rules(), columns: nodeclass::COLUMNS },
        "nodeoverlays.karpenter.sh" => Kind { rules: nodeoverlay::schema_rules(), columns: nodeoverlay::COLUMNS },
        "nodeusages.kerf.sh" => Kind { rules: nodeusage::schema_rules(), columns: nodeusage::COLUMNS },
        "capacitybuffers.autoscaling.x-k8s.io" => {
            Kind { rules: capacitybuffer::schema_rules(), columns: capacitybuffer::COLUMNS }
        }
        _ => Kind { rules: Vec::new(), columns: &[] },
    }
}

/// Removes keywords that the derive macro adds and the published schemas do not have: Rust defaults, titles, and `nullable`.
/// With `nullable` the API server would store an explicit null instead of dropping it.
fn strip(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    for keyword in ["default", "nullable", "title"] {
        object.remove(keyword);
    }
    // The structural form of "integer or string". The derive macro leaves two empty alternatives instead.
    if object.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        object.insert("anyOf".to_owned(), json!([{ "type": "integer" }, { "type": "string" }]));
    }
    if let Some(Value::String(text)) = object.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        properties.values_mut().for_each(strip);
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(inner) = object.get_mut(keyword) {
            strip(inner);
        }
    }
}

fn apply(root: &mut Value, rule: &SchemaRule) -> Result<(), UnknownPath> {
    let unknown = || UnknownPath { path: rule.path.clone() };
    let mut place = root;
    for step in rule.path.split('.') {
        place = descend(place, step).ok_or_else(unknown)?;
    }
    let target = place.as_object_mut().ok_or_else(unknown)?;
    for (keyword, value) in rule.keywords.as_object().unwrap_or(&Map::new()) {
        match value {
            Value::Null => target.remove(keyword),
            value => target.insert(keyword.clone(), value.clone()),
        };
    }
    Ok(())
}

fn descend<'a>(schema: &'a mut Value, step: &str) -> Option<&'a mut Value> {
    match step {
        "[]" => schema.get_mut("items"),
        "{}" => schema.get_mut("additionalProperties"),
        field => schema.get_mut("properties")?.get_mut(field),
    }
}

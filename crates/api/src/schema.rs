//! Turns derived schemas into the published ones: strips what derive adds by itself, then lays the laws of
//! one kind over it. What the API server holds is written in one table a kind, in the order of its fields.

mod laws;
mod nodeclaim;
mod nodeclass;
mod nodepool;

use serde_json::{Map, Value, json};

/// What the schema at a path must also say.
pub(crate) struct Law {
    /// Steps from the root: field names, `[]` for the items of a list, `{}` for the values of a map.
    path: String,
    /// Keywords and their values; they replace derived ones, `null` removes one.
    keywords: Value,
}

/// A law at a path, for example `spec.template.spec.taints.[]`.
pub(crate) fn law(path: impl Into<String>, keywords: Value) -> Law {
    Law { path: path.into(), keywords }
}

/// A path of a law that the derived schema does not have: the table and the types disagree.
#[derive(Debug, thiserror::Error)]
#[error("schema has no {path:?}: correct the law or the field that it speaks of")]
pub(crate) struct UnknownPath {
    path: String,
}

/// The definition of one kind with its laws in place.
pub(crate) fn complete(mut crd: Value, laws: &[Law]) -> Result<Value, UnknownPath> {
    let versions = crd.pointer_mut("/spec/versions");
    for version in versions.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema") {
            strip(schema);
            for law in laws {
                apply(schema, law)?;
            }
        }
    }
    Ok(crd)
}

/// Every kind's laws, by the name of its definition.
pub(crate) fn laws(name: &str) -> Vec<Law> {
    match name {
        "nodepools.karpenter.sh" => nodepool::laws(),
        "nodeclaims.karpenter.sh" => nodeclaim::laws(),
        "ec2nodeclasses.karpenter.k8s.aws" => nodeclass::laws(),
        _ => Vec::new(),
    }
}

/// Removes what derive says and the published schemas do not: defaults and titles of the Rust side, and
/// `nullable`, with which an explicit null would be stored instead of dropped.
fn strip(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    for keyword in ["default", "nullable", "title"] {
        object.remove(keyword);
    }
    // The structural form of "integer or text"; derive leaves two empty alternatives behind.
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

fn apply(root: &mut Value, law: &Law) -> Result<(), UnknownPath> {
    let unknown = || UnknownPath { path: law.path.clone() };
    let mut place = root;
    for step in law.path.split('.') {
        place = descend(place, step).ok_or_else(unknown)?;
    }
    let target = place.as_object_mut().ok_or_else(unknown)?;
    for (keyword, value) in law.keywords.as_object().unwrap_or(&Map::new()) {
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

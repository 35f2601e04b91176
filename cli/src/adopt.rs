//! `kerf adopt --check`: what changes when Kerf takes over a cluster in which Karpenter runs, told from the cluster's objects before
//! anyone touches it.

mod others;
mod pools;
mod report;

use std::io::Read;
use std::path::PathBuf;

use serde_json::Value;

use crate::input::{self, InputErrors, Place};

pub use report::{Finding, Report, Weight};

/// Looks at the objects in files and folders, and in standard input for `-`, as `kubectl get -o yaml` prints them.
///
/// # Errors
/// What cannot be read.
pub fn check(paths: &[PathBuf], stdin: &mut dyn Read) -> Result<Report, InputErrors> {
    let (files, mut errors) = input::files(paths, stdin);
    let mut objects = Vec::new();
    for file in &files {
        let (found, wrong) = input::values(file);
        objects.extend(found.into_iter().map(|(_, value)| value));
        errors.extend(wrong);
    }
    if errors.is_empty() { Ok(report(&objects)) } else { Err(InputErrors::new(errors)) }
}

/// What a look at the objects of a cluster finds. Lists are taken apart; the order of objects does not matter.
#[must_use]
pub fn report(objects: &[Value]) -> Report {
    let mut flat = Vec::new();
    objects.iter().for_each(|object| flatten(object, &mut flat));
    let mut findings = others::findings(&flat);
    findings.extend(pools::findings(&flat));
    Report::new(findings)
}

fn flatten<'a>(object: &'a Value, into: &mut Vec<&'a Value>) {
    match object["items"].as_array() {
        Some(items) if object["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) => {
            items.iter().for_each(|item| flatten(item, into));
        }
        _ => into.push(object),
    }
}

/// A text at a JSON pointer; empty where there is none.
fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Kind and name, as findings call an object.
fn named(object: &Value) -> String {
    let namespace = text(object, "/metadata/namespace");
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!("{} {namespace}{slash}{}", text(object, "/kind"), text(object, "/metadata/name"))
}

/// Whether an object is of a group and a kind, in any version.
fn is_of(object: &Value, group: &str, kind: &str) -> bool {
    let own = text(object, "/apiVersion").split_once('/').map_or("", |(group, _)| group);
    own == group && text(object, "/kind") == kind
}

/// The place of what comes from a cluster.
fn cluster() -> Place {
    Place { file: "cluster".to_owned(), ..Place::default() }
}

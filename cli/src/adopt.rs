//! `kerf adopt --check`: changes on takeover from Karpenter, computed from the objects of a cluster. Nothing is written to the
//! cluster.

mod disruption;
mod iam;
mod ineffective;
mod pools;
mod programs;
mod report;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

use jiff::Timestamp;
use serde_json::Value;

use crate::args::Settings;
use crate::failure::Failure;
use crate::input::{self, InputErrors, Place};

pub use iam::{RolePolicies, add_limits, read_policies};
pub use report::{Finding, Report, Severity};

/// Commands that write the policies of the controller's role into a file.
pub const IAM_COMMANDS: &str = r#"Commands that write the IAM policies of the controller's role into a file:
  ROLE=KarpenterControllerRole-CLUSTER
  for arn in $(aws iam list-attached-role-policies --role-name "$ROLE" \
      --query 'AttachedPolicies[].PolicyArn' --output text); do
    version=$(aws iam get-policy --policy-arn "$arn" \
      --query Policy.DefaultVersionId --output text)
    aws iam get-policy-version --policy-arn "$arn" --version-id "$version" --output json
  done > policies.json
  for name in $(aws iam list-role-policies --role-name "$ROLE" \
      --query 'PolicyNames[]' --output text); do
    aws iam get-role-policy --role-name "$ROLE" --policy-name "$name" --output json
  done >> policies.json
  kerf adopt --check --iam-policy policies.json

A permissions boundary limits them. Where this prints an ARN, and not None,
  aws iam get-role --role-name "$ROLE" --output text \
    --query Role.PermissionsBoundary.PermissionsBoundaryArn
write that policy into boundary.json by the two commands for an arn above, and
add --iam-limit boundary.json. Each further --iam-limit FILE has the service
control policies of one account, organizational unit or root:
  aws organizations list-policies-for-target --target-id "$ACCOUNT" \
    --filter SERVICE_CONTROL_POLICY --query 'Policies[].Id' --output text
  aws organizations describe-policy --policy-id "$ID" --output json"#;

/// Reads the objects in files and folders, and in standard input for `-`, in the format of `kubectl get -o yaml`.
///
/// # Errors
/// Returns every file or document that cannot be read.
pub fn read(paths: &[PathBuf], stdin: &mut dyn Read) -> Result<Vec<Value>, InputErrors> {
    let (files, mut errors) = input::files(paths, stdin);
    let mut objects = Vec::new();
    for file in &files {
        let (found, wrong) = input::values(file);
        objects.extend(found.into_iter().map(|(_, value)| value));
        errors.extend(wrong);
    }
    if errors.is_empty() { Ok(objects) } else { Err(InputErrors::new(errors)) }
}

/// Returns the settings of the controller's Deployment that a plan depends on; `None` without such a Deployment.
///
/// # Errors
/// Returns an error with the Deployment's setting that cannot be parsed.
pub(crate) fn settings(objects: &[&Value]) -> Result<Option<Settings>, String> {
    let Some(container) = programs::controller(objects) else { return Ok(None) };
    let settings = Settings::of_controller(|name| programs::variable(container, name));
    settings.map(Some).map_err(|error| format!("Deployment of the controller: {error}"))
}

/// Returns the variables of the controller's Deployment that a plan depends on; `None` without such a Deployment.
pub(crate) fn variables(objects: &[&Value]) -> Option<BTreeMap<String, String>> {
    let container = programs::controller(objects)?;
    let value = |name: &&str| Some(((*name).to_owned(), programs::variable(container, name)?.to_owned()));
    Some(Settings::VARIABLES.iter().filter_map(value).collect())
}

/// Reports whether the object is a Deployment of the controller of Karpenter or Kerf.
pub(crate) fn is_controller(object: &Value) -> bool {
    programs::controller(&[object]).is_some()
}

/// Returns the namespace of the controller's Deployment; `None` without one.
pub(crate) fn namespace<'a>(objects: &[&'a Value]) -> Option<&'a str> {
    programs::namespace(objects)
}

/// Returns the findings for the objects of a cluster at a time, and for the policies of the controller's role. Lists are
/// flattened; the order of objects does not matter.
///
/// # Errors
/// Returns an error if the policies are given and the name of the cluster is unknown.
pub fn report(objects: &[Value], role: Option<&RolePolicies>, now: Timestamp) -> Result<Report, Failure> {
    let mut flat = Vec::new();
    objects.iter().for_each(|object| flatten(object, &mut flat));
    let mut findings = programs::findings(&flat);
    findings.extend(pools::findings(&flat));
    findings.extend(ineffective::findings(&flat));
    findings.extend(disruption::findings(&flat, now));
    if let Some(role) = role {
        findings.extend(iam::findings(&flat, role)?);
    }
    Ok(Report::new(findings))
}

fn flatten<'a>(object: &'a Value, into: &mut Vec<&'a Value>) {
    match object["items"].as_array() {
        Some(items) if object["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) => {
            items.iter().for_each(|item| flatten(item, into));
        }
        _ => into.push(object),
    }
}

/// Returns the string at a JSON pointer, or an empty string.
fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns kind, namespace and name, as findings refer to an object.
fn named(object: &Value) -> String {
    let namespace = text(object, "/metadata/namespace");
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!("{} {namespace}{slash}{}", text(object, "/kind"), text(object, "/metadata/name"))
}

/// Reports whether an object has a group and a kind, in any version.
fn is_of(object: &Value, group: &str, kind: &str) -> bool {
    let own = text(object, "/apiVersion").split_once('/').map_or("", |(group, _)| group);
    own == group && text(object, "/kind") == kind
}

/// Returns the place of objects that come from a cluster.
fn cluster() -> Place {
    Place { file: "cluster".to_owned(), ..Place::default() }
}

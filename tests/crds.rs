//! Rules, defaults and printer columns of the custom resources on a real API server. Each row of data proves one rule.
//!
//! `crds/rows/PLURAL.yaml` holds the rows of one resource:
//!
//! ```yaml
//! base: {}            # a complete and valid object without a name; every row starts from it
//! rows:
//!   - name: behaviour that the row shows
//!     patch: {}       # JSON merge patch (RFC 7386) on the base, before it is created
//!     then: {}        # optional: merge patch on the stored object; `accepted` is about this update
//!     accepted: false
//!     message: text   # rejected rows: part of the error of the API server
//!     stored: {}      # accepted rows, optional: fields that the stored object must have, such as defaults
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use api::crds;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::Scope;
use kube::{Client, ResourceExt};
use serde::Deserialize;
use serde_json::{Value, json};
use testbed::controlplane::{ControlPlane, Options};
use tokio::sync::OnceCell;

/// API server for all tests of this file; stops at the end of the test binary.
static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sheet {
    base: Value,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    #[serde(default)]
    patch: Value,
    then: Option<Value>,
    accepted: bool,
    message: Option<String>,
    stored: Option<Value>,
}

async fn shared() -> Result<&'static ControlPlane> {
    SHARED
        .get_or_try_init(|| async {
            let control_plane = ControlPlane::start(Options::api_server("crds")).await?;
            control_plane.apply_crds().await?;
            Ok(control_plane)
        })
        .await
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("crds/rows")
}

fn sheet(plural: &str) -> Result<Sheet> {
    let path = folder().join(format!("{plural}.yaml"));
    let text = std::fs::read_to_string(&path).with_context(|| format!("no rows at {}", path.display()))?;
    serde_saphyr::from_str(&text).with_context(|| format!("{} is no sheet", path.display()))
}

fn definition(plural: &str) -> Result<CustomResourceDefinition> {
    let found = crds().into_iter().find(|definition| definition.spec.names.plural == plural);
    found.with_context(|| format!("no CRD has the plural {plural}"))
}

fn objects(client: &Client, definition: &CustomResourceDefinition) -> Result<Api<DynamicObject>> {
    let spec = &definition.spec;
    let version = spec.versions.iter().find(|version| version.storage).context("no stored version")?;
    let kind = GroupVersionKind::gvk(&spec.group, &version.name, &spec.names.kind);
    let resource = ApiResource::from_gvk_with_plural(&kind, &spec.names.plural);
    Ok(match spec.scope.as_str() {
        "Namespaced" => Api::default_namespaced_with(client.clone(), &resource),
        _ => Api::all_with(client.clone(), &resource),
    })
}

#[tokio::test]
async fn nodepool_crd_enforces_its_rules() -> Result<()> {
    check("nodepools").await
}

#[tokio::test]
async fn nodeclaim_crd_enforces_its_rules() -> Result<()> {
    check("nodeclaims").await
}

#[tokio::test]
async fn ec2nodeclass_crd_enforces_its_rules() -> Result<()> {
    check("ec2nodeclasses").await
}

#[tokio::test]
async fn nodeoverlay_crd_enforces_its_rules() -> Result<()> {
    check("nodeoverlays").await
}

#[tokio::test]
async fn capacitybuffer_crd_enforces_its_rules() -> Result<()> {
    check("capacitybuffers").await
}

#[tokio::test]
async fn nodeusage_crd_enforces_its_rules() -> Result<()> {
    check("nodeusages").await
}

#[tokio::test]
async fn commitment_crd_enforces_its_rules() -> Result<()> {
    check("commitments").await
}

#[tokio::test]
async fn spendpolicy_crd_enforces_its_rules() -> Result<()> {
    check("spendpolicies").await
}

#[tokio::test]
async fn provisioningrequest_crd_enforces_its_rules() -> Result<()> {
    check("provisioningrequests").await
}

/// Resources without rows, and rows without a test, would go unnoticed.
#[test]
fn crds_all_have_rows_and_a_test() -> Result<()> {
    let tested = [
        "nodepools",
        "nodeclaims",
        "ec2nodeclasses",
        "nodeoverlays",
        "capacitybuffers",
        "commitments",
        "nodeusages",
        "provisioningrequests",
        "spendpolicies",
    ];
    let tested = BTreeSet::from(tested.map(str::to_owned));
    let defined: BTreeSet<String> = crds().into_iter().map(|definition| definition.spec.names.plural).collect();
    let mut files = BTreeSet::new();
    for entry in std::fs::read_dir(folder())? {
        let path = entry?.path();
        files.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
    }
    assert_eq!(tested, defined);
    assert_eq!(tested, files);
    Ok(())
}

/// Each message of a CEL rule in the schema must be the error of some row.
#[test]
fn crd_rules_all_have_a_row_that_violates_them() -> Result<()> {
    let mut silent = Vec::new();
    for definition in crds() {
        let plural = &definition.spec.names.plural;
        let rows = sheet(plural)?.rows;
        let row_messages: Vec<&str> = rows.iter().filter_map(|row| row.message.as_deref()).collect();
        let mut rules = BTreeSet::new();
        messages(&serde_json::to_value(&definition)?, &mut rules);
        ensure!(!rules.is_empty(), "{plural} has no rules");
        let unbroken = rules.into_iter().filter(|rule| !row_messages.iter().any(|message| rule.contains(message)));
        silent.extend(unbroken.map(|rule| format!("{plural}: {rule}")));
    }
    ensure!(silent.is_empty(), "no row breaks these rules:\n{}", silent.join("\n"));
    Ok(())
}

/// Collects the messages of all CEL rules below `schema`.
fn messages(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Array(items) => items.iter().for_each(|item| messages(item, found)),
        Value::Object(fields) => {
            let rules = fields.get("x-kubernetes-validations").and_then(Value::as_array);
            for rule in rules.into_iter().flatten() {
                found.insert(rule["message"].as_str().unwrap_or("a rule without message").to_owned());
            }
            fields.values().for_each(|value| messages(value, found));
        }
        _ => {}
    }
}

#[tokio::test]
async fn apply_crds_changes_nothing_when_repeated() -> Result<()> {
    let control_plane = shared().await?;
    let api: Api<CustomResourceDefinition> = Api::all(control_plane.admin().await?);
    let versions = async || -> Result<Vec<_>> {
        let listed = api.list(&ListParams::default()).await?;
        Ok(listed.items.into_iter().map(|item| (item.name_any(), item.metadata.generation)).collect())
    };
    let before = versions().await?;
    control_plane.apply_crds().await?;
    let after = versions().await?;
    assert!(before.iter().all(|one| after.contains(one)), "{before:?}\n{after:?}");
    // Other tests of this control plane install Kueue's definitions.
    let ours = before.iter().filter(|(name, _)| crds().iter().any(|own| own.name_any() == *name));
    assert_eq!(ours.count(), crds().len());
    Ok(())
}

#[tokio::test]
async fn api_server_prints_columns_of_each_crd() -> Result<()> {
    let client = shared().await?.admin().await?;
    for definition in crds() {
        let request = http::Request::get(objects(&client, &definition)?.resource_url())
            .header(http::header::ACCEPT, "application/json;as=Table;v=v1;g=meta.k8s.io")
            .body(Vec::new())?;
        let table: Value = client.request(request).await?;
        let shown = table["columnDefinitions"].as_array().context("no columns")?;
        let shown: Vec<&str> = shown.iter().filter_map(|column| column["name"].as_str()).collect();
        let version = definition.spec.versions.iter().find(|version| version.storage);
        let columns = version.and_then(|version| version.additional_printer_columns.as_ref());
        let mut wanted = vec!["Name"];
        wanted.extend(columns.into_iter().flatten().map(|column| column.name.as_str()));
        assert_eq!(shown, wanted, "columns of {}", definition.name_any());
        assert!(wanted.len() > 1, "{} shows nothing but names", definition.name_any());
    }
    Ok(())
}

/// Users copy the examples, so the check is strict: unknown fields are errors.
#[tokio::test]
async fn api_server_accepts_all_examples() -> Result<()> {
    let control_plane = shared().await?;
    testbed::kueue::install(control_plane).await?;
    let client = control_plane.admin().await?;
    let mut names = Vec::new();
    for folder in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples"))? {
        for file in std::fs::read_dir(folder?.path())? {
            let path = file?.path();
            if path.extension().is_some_and(|extension| extension == "yaml") {
                let text = std::fs::read_to_string(&path)?;
                for document in text.split("\n---\n") {
                    let name = try_example(&client, document).await;
                    names.push(name.with_context(|| path.display().to_string())?);
                }
            }
        }
    }
    names.sort();
    assert!(names.contains(&"NodePool default".to_owned()), "{names:?}");
    Ok(())
}

/// Applies one manifest with dry run; returns kind and name.
async fn try_example(client: &Client, document: &str) -> Result<String> {
    let object: DynamicObject = serde_saphyr::from_str(document)?;
    let kind = GroupVersionKind::try_from(&object.types.clone().context("no apiVersion and kind")?)?;
    let (resource, capabilities) = kube::discovery::pinned_kind(client, &kind).await?;
    let namespace = object.namespace().unwrap_or_else(|| "default".to_owned());
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Namespaced => Api::namespaced_with(client.clone(), &namespace, &resource),
        Scope::Cluster => Api::all_with(client.clone(), &resource),
    };
    let params = PatchParams { dry_run: true, ..PatchParams::apply("examples").validation_strict() };
    api.patch(&object.name_any(), &params, &Patch::Apply(&object)).await?;
    Ok(format!("{} {}", kind.kind, object.name_any()))
}

/// Runs all rows of one resource and reports all failures.
async fn check(plural: &str) -> Result<()> {
    let sheet = sheet(plural)?;
    let definition = definition(plural)?;
    let api = objects(&shared().await?.admin().await?, &definition)?;
    let mut failures = Vec::new();
    for (number, row) in sheet.rows.iter().enumerate() {
        if let Err(error) = run(&api, &definition, &sheet.base, number, row).await {
            failures.push(format!("row {number}, {}: {error:#}", row.name));
        }
    }
    ensure!(sheet.rows.iter().any(|row| row.accepted), "no row of {plural} is accepted");
    ensure!(failures.is_empty(), "{} of {} rows:\n{}", failures.len(), sheet.rows.len(), failures.join("\n"));
    Ok(())
}

async fn run(
    api: &Api<DynamicObject>,
    definition: &CustomResourceDefinition,
    base: &Value,
    number: usize,
    row: &Row,
) -> Result<()> {
    let name = format!("{}-{number}", definition.spec.names.plural);
    let mut object = base.clone();
    merge(&mut object, &row.patch);
    merge(&mut object, &json!({"metadata": {"name": name}}));
    let mut answer = create(api, &object).await;
    if let Some(then) = &row.then {
        answer.context("the object to be updated is refused")?;
        answer = api.patch(&name, &PatchParams::default(), &Patch::Merge(then)).await;
    }
    match (row.accepted, answer) {
        (true, Ok(stored)) => contains(&serde_json::to_value(stored)?, row.stored.as_ref().unwrap_or(&json!({}))),
        (true, Err(error)) => bail!("should be accepted, but: {}", message(&error)),
        (false, Ok(_)) => bail!("should be refused, but is accepted"),
        (false, Err(error)) => {
            let wanted =
                row.message.as_deref().filter(|text| !text.is_empty()).context("a refused row needs a message")?;
            let text = message(&error);
            ensure!(text.contains(wanted), "refused, but not with {wanted:?}: {text}");
            Ok(())
        }
    }
}

/// Creates an object unchanged, as `kubectl` would. Unknown fields are errors, so that a misspelt row cannot pass. No type of
/// the API crate is involved, because only the API server may reject the object.
async fn create(api: &Api<DynamicObject>, object: &Value) -> kube::Result<DynamicObject> {
    let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
    let request = http::Request::post(format!("{}?fieldValidation=Strict", api.resource_url()))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body)
        .map_err(kube::Error::HttpError)?;
    api.clone().into_client().request(request).await
}

fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => format!("{other:?}"),
    }
}

/// Applies a JSON merge patch: `null` removes, objects merge, every other value replaces.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        if !patch.is_null() {
            *target = patch.clone();
        }
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in fields {
        if value.is_null() {
            if let Some(map) = target.as_object_mut() {
                map.remove(key);
            }
        } else {
            merge(&mut target[key.as_str()], value);
        }
    }
}

/// Asserts that `wanted` is part of `value`: objects may have more fields, all other values are equal.
fn contains(value: &Value, wanted: &Value) -> Result<()> {
    match (value, wanted) {
        (_, Value::Object(fields)) => {
            for (key, wanted) in fields {
                let inner = value.get(key).with_context(|| format!("{key} is missing"))?;
                contains(inner, wanted).with_context(|| key.clone())?;
            }
            Ok(())
        }
        _ => {
            ensure!(value == wanted, "is {value}, not {wanted}");
            Ok(())
        }
    }
}

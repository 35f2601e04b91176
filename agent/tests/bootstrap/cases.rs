//! Folders of input and expected files. A case holds `case.json` (the kubelet, metadata that differs, further files of
//! the machine), `user-data`, and `expected/`: what the machine has afterwards. A file that is written without being
//! expected fails the case, as does an expected one that is missing. `BLESS=1` writes what it finds: read it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::imds::FakeImds;
use crate::room::{Room, metadata};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Case {
    /// What the case is about.
    about: String,
    /// Content of the image's kubelet version file.
    kubelet: String,
    /// Metadata that differs from the usual machine: text, or a document whose fields are laid over the usual one.
    #[serde(default)]
    imds: BTreeMap<String, Value>,
    /// Files that the machine has beforehand.
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// Whose expected files these are, if not its own.
    same_as: Option<String>,
    /// Warnings, by their beginnings.
    #[serde(default)]
    warnings: Vec<String>,
}

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bootstrap/cases")
}

#[tokio::test]
async fn each_case_writes_what_is_expected() {
    let mut folders: Vec<PathBuf> = fs::read_dir(cases()).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    assert!(folders.len() >= 10, "cases are missing: {folders:?}");
    for folder in folders {
        check(&folder).await;
    }
}

async fn check(folder: &Path) {
    let case: Case = serde_json::from_slice(&fs::read(folder.join("case.json")).unwrap()).unwrap();
    let room = Room::new(&case.kubelet);
    for (path, content) in &case.files {
        room.write(path, content);
    }
    let before = tree(&room.root());
    let fake = FakeImds::start(items(&case, &fs::read_to_string(folder.join("user-data")).unwrap())).await;
    let plan = room.bootstrap(&fake.endpoint).run().await;
    let mut written = tree(&room.root());
    written.retain(|path, content| !path.starts_with("run/") && before.get(path) != Some(content));

    let name = folder.file_name().unwrap().to_string_lossy();
    let expected = case.same_as.map_or(folder.join("expected"), |other| cases().join(other).join("expected"));
    if std::env::var_os("BLESS").is_some() {
        bless(&expected, &written);
    }
    let expected = tree(&expected);
    let paths = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(paths(&written), paths(&expected), "{name}: {}", case.about);
    for (path, content) in &expected {
        assert_eq!(readable(&written[path]), readable(content), "{name}: {path}: {}", case.about);
    }
    assert_eq!(plan.warnings.len(), case.warnings.len(), "{name}: {:?}", plan.warnings);
    for (warning, beginning) in plan.warnings.iter().zip(&case.warnings) {
        assert!(warning.starts_with(beginning), "{name}: {warning}");
    }
}

fn items(case: &Case, user_data: &str) -> BTreeMap<String, Vec<u8>> {
    let mut items = metadata(user_data);
    for (path, value) in &case.imds {
        let body = match value {
            Value::Object(fields) => {
                let mut usual: serde_json::Map<String, Value> = serde_json::from_slice(&items[path]).unwrap();
                usual.extend(fields.clone());
                Value::Object(usual).to_string()
            }
            text => text.as_str().unwrap().to_owned(),
        };
        items.insert(path.clone(), body.into_bytes());
    }
    items
}

/// JSON by its values, text by its bytes.
fn readable(content: &str) -> Result<Value, String> {
    serde_json::from_str(content).map_err(|_| content.to_owned())
}

fn tree(folder: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
                files.insert(name, fs::read_to_string(path).unwrap());
            }
        }
    }
    files
}

fn bless(folder: &Path, files: &BTreeMap<String, String>) {
    let _ = fs::remove_dir_all(folder);
    for (path, content) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

/// The figures that published cases of nodeadm assert, so that blessing cannot move them.
#[test]
fn published_figures_hold() {
    for (case, max_pods, memory, keys) in [
        ("kubelet-config-dir", 58, "893Mi", 24),
        ("new-instance-type", 110, "1465Mi", 26),
        ("mime-userdata-merge", 58, "893Mi", 26),
    ] {
        let path = cases().join(case).join("expected/etc/kubernetes/kubelet/config.json");
        let config: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        assert_eq!(config["maxPods"], max_pods, "{case}");
        assert_eq!(config["kubeReserved"]["memory"], memory, "{case}");
        assert_eq!(config["kubeReserved"]["cpu"], "70m", "{case}");
        assert_eq!(config.as_object().unwrap().len(), keys, "{case}");
        assert!(config.get("kubeAPIQPS").is_none(), "{case}");
    }
}

//! Check of the pod network, as the container runtime sees it: the first valid configuration, and a program for each plugin
//! that the configuration names. A plugin's DaemonSet writes both, but not at once.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use machine::agent::gates::CniGate;
use serde::Deserialize;

/// A configuration: a list of plugins, or one plugin.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Configuration {
    plugins: Vec<Plugin>,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Plugin {
    #[serde(rename = "type")]
    kind: String,
}

/// Returns the missing part below the machine's root; `None` when nothing is missing.
#[must_use]
pub fn trouble(root: &Path, gate: &CniGate) -> Option<String> {
    let below = |path: &str| root.join(path.trim_start_matches('/'));
    let files = files(&below(&gate.config_dir));
    if files.is_empty() {
        return Some(format!("no CNI configuration in {}", gate.config_dir));
    }
    let Some((file, plugins)) = files.iter().find_map(|file| Some((file, plugins(file)?))) else {
        return Some(format!("no CNI configuration in {} names a plugin", gate.config_dir));
    };
    let folders: Vec<PathBuf> = gate.binary_dirs.iter().map(|folder| below(folder)).collect();
    let missing: Vec<String> =
        plugins.into_iter().filter(|name| !folders.iter().any(|folder| is_program(&folder.join(name)))).collect();
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    (!missing.is_empty()).then(|| {
        format!("{name} requires plugin {}, which is missing in {}", missing.join(", "), gate.binary_dirs.join(", "))
    })
}

/// Returns the configurations in the order in which the runtime reads them.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_configuration = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        matches!(extension, Some("conf" | "conflist" | "json"))
    };
    let mut files: Vec<PathBuf> = entries.filter(is_configuration).collect();
    files.sort();
    files
}

fn plugins(file: &Path) -> Option<Vec<String>> {
    let read: Configuration = machine::document::read_json(&fs::read(file).ok()?).ok()?;
    let named = read.plugins.into_iter().map(|plugin| plugin.kind).chain([read.kind]);
    let named: Vec<String> = named.filter(|kind| !kind.is_empty() && !kind.contains('/')).collect();
    (!named.is_empty()).then_some(named)
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

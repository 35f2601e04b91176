//! Configuration of kubelet from its sources: a file, drop-ins merged over it in the order of their names, and the command line
//! of the systemd unit.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Variable with the command line of the unit.
const ARGUMENTS: &str = "NODEADM_KUBELET_ARGS";

/// Returns the flags in an environment file, by name without dashes. A repeated flag keeps its last value, except the lists
/// `node-labels` and `register-with-taints`, which are joined.
///
/// # Errors
/// Returns an error if the file does not set `NODEADM_KUBELET_ARGS`, or if an element of it is neither `--name=value` nor
/// `--name`.
pub fn flags(environment: &str) -> Result<BTreeMap<String, String>> {
    let line = environment.lines().rev().find_map(|line| line.trim().strip_prefix(ARGUMENTS)?.strip_prefix('='));
    let line = line.with_context(|| format!("it does not set {ARGUMENTS}"))?;
    let mut flags = BTreeMap::new();
    for word in words(&value(line)) {
        let flag = word.strip_prefix("--").with_context(|| format!("{word:?} in {ARGUMENTS} is no flag"))?;
        let (name, value) = flag.split_once('=').unwrap_or((flag, "true"));
        let entry: &mut String = flags.entry(name.to_owned()).or_default();
        if matches!(name, "node-labels" | "register-with-taints") && !entry.is_empty() {
            entry.push(',');
            entry.push_str(value);
        } else {
            value.clone_into(entry);
        }
    }
    Ok(flags)
}

/// Parses a value of an environment file as systemd does: quoted and unquoted parts are joined, a backslash escapes.
fn value(text: &str) -> String {
    let mut value = String::new();
    let mut quote = None;
    let mut letters = text.trim().chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            (None | Some('"'), '\\') => value.extend(letters.next()),
            _ => value.push(letter),
        }
    }
    value
}

/// Splits a variable in a unit's command line at white space; quotes are respected and then removed.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    for letter in text.chars() {
        match (quote, letter) {
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            (None, _) if letter.is_whitespace() => words.push(std::mem::take(&mut word)),
            _ => word.push(letter),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the configuration file with the drop-ins of a folder merged over it; a missing folder has none.
///
/// # Errors
/// Returns an error with the file's name if it cannot be read, is no JSON or YAML, or is no KubeletConfiguration.
pub fn merged(file: &Path, folder: Option<&Path>) -> Result<Value> {
    let mut config = document(file)?;
    for path in folder.map(drop_ins).transpose()?.unwrap_or_default() {
        merge(&mut config, document(&path)?);
    }
    Ok(config)
}

fn drop_ins(folder: &Path) -> Result<Vec<std::path::PathBuf>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "conf"));
    paths.sort();
    Ok(paths)
}

fn document(path: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let config: Value = serde_saphyr::from_str(&text).with_context(|| format!("{} is not YAML", path.display()))?;
    let is = |key: &str, expected: &str| config[key].as_str() == Some(expected);
    ensure!(
        is("kind", "KubeletConfiguration") && is("apiVersion", "kubelet.config.k8s.io/v1beta1"),
        "{} is no KubeletConfiguration of kubelet.config.k8s.io/v1beta1",
        path.display()
    );
    Ok(config)
}

/// Merges maps; any other value is replaced.
fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

//! Commands of other programs on the pages. Commands that need a cluster, an AWS account or minutes of build time are not run.
//! Their references to this repository are validated: targets, paths, chart values, template parameters, kinds and names of
//! objects.

use serde_json::Value;

use super::{manifests, names, read, read_file};
use crate::page::here;

/// Kubernetes' own kinds on the pages; Kerf's kinds come from its CRDs.
const KINDS: [&str; 8] = ["deployment", "deployments", "events", "jobs", "node", "nodes", "pods", "statefulset"];

/// Objects that the chart and the cluster create.
const MADE: [&str; 1] = ["karpenter"];

/// Validates a line. Panics if a reference to this repository is invalid, or if the program is unknown.
pub fn validate(line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    paths(line, &words);
    match words[0] {
        "make" => assert!(read("Makefile").contains(&format!("\n{}:", words[1])), "{line}: no such target"),
        "kubectl" => kubectl(line, &words),
        "helm" => helm(line, &words),
        "aws" => parameters(line, &words),
        "cargo" | "kind" | "skopeo" => {}
        _ => panic!("{line}: unknown program {}", words[0]),
    }
}

/// Returns the names and values of an `export`.
pub fn exported(line: &str) -> Vec<(String, String)> {
    let pairs = line.split_whitespace().skip(1).filter_map(|word| word.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Asserts that every variable was exported.
pub fn variables(line: &str, known: &[(&str, &str)]) {
    for rest in line.split('$').skip(1).filter(|rest| rest.starts_with(|it: char| it.is_ascii_uppercase())) {
        let name: String = rest.chars().take_while(|it| it.is_ascii_uppercase() || *it == '_').collect();
        assert!(name == "HOME" || known.iter().any(|(it, _)| *it == name), "{line}: {name} is not exported");
    }
}

/// Asserts that every file of the repository exists.
fn paths(line: &str, words: &[&str]) {
    let folders = ["cli", "controller/", "docs/", "examples/", "packer/"];
    for path in words.iter().filter(|word| folders.iter().any(|folder| word.starts_with(folder))) {
        assert!(here(path).exists(), "{line}: {path} is missing");
    }
}

/// Asserts that kinds are known, and that named objects are in an example.
fn kubectl(line: &str, words: &[&str]) {
    let plain: Vec<&str> = words.iter().skip(1).copied().take_while(|word| !word.starts_with('-')).collect();
    let [verb, rest @ ..] = plain.as_slice() else { panic!("{line}: a verb comes first") };
    if words.contains(&"-f") {
        return;
    }
    let [kinds, objects @ ..] = rest else { panic!("{line}: {verb} what?") };
    let (kinds, object) =
        kinds.split_once('/').map_or((*kinds, objects.first().copied()), |(it, name)| (it, Some(name)));
    let ours = definitions();
    for kind in kinds.split(',') {
        assert!(KINDS.contains(&kind) || ours.iter().any(|it| it == kind), "{line}: is {kind} a kind?");
    }
    // Names of objects have no capital letters, so these stand for a name.
    let is_placeholder = |name: &str| name.bytes().all(|byte| byte.is_ascii_uppercase());
    let known =
        |name: &str| MADE.contains(&name) || is_placeholder(name) || objects_of_examples().iter().any(|it| it == name);
    assert!(object.is_none_or(known), "{line}: no example has this object");
}

/// Returns Kerf's kinds, in singular and plural.
fn definitions() -> Vec<String> {
    let folder = "controller/chart/crds";
    let texts = names(folder).into_iter().map(|name| read(&format!("{folder}/{name}")));
    let definitions = texts.map(|text| serde_saphyr::from_str::<Value>(&text).unwrap());
    let names = |it: Value| ["plural", "singular"].map(|form| it["spec"]["names"][form].as_str().unwrap().to_owned());
    definitions.flat_map(names).collect()
}

/// Returns the names of all objects in examples.
fn objects_of_examples() -> Vec<String> {
    let folders = names("examples").into_iter().map(|name| here("examples").join(name));
    let texts = folders.flat_map(|folder| manifests(&folder)).map(|path| read_file(&path));
    let named = |text: String| {
        let lines = text.lines().filter_map(|line| line.strip_prefix("  name: ")).map(str::to_owned);
        lines.collect::<Vec<_>>()
    };
    texts.flat_map(named).collect()
}

/// Asserts that all set values exist in the chart.
fn helm(line: &str, words: &[&str]) {
    let chart: Value = serde_saphyr::from_str(&read("controller/chart/values.yaml")).unwrap();
    for pair in words.windows(2).filter(|pair| pair[0] == "--set").map(|pair| pair[1]) {
        let (name, _) = pair.split_once('=').unwrap();
        let value = name.split('.').try_fold(&chart, |value, part| value.get(part));
        assert!(value.is_some(), "{line}: the chart has no value {name}");
    }
}

/// Asserts that all set parameters exist in the template.
fn parameters(line: &str, words: &[&str]) {
    let template = read("controller/rights/cloudformation.yaml");
    let set = words.iter().skip_while(|word| **word != "--parameter-overrides").skip(1);
    for pair in set.take_while(|word| !word.starts_with('-')) {
        let (name, _) = pair.split_once('=').unwrap();
        assert!(template.contains(&format!("\n  {name}:\n    Type: String")), "{line}: there is no parameter {name}");
    }
}

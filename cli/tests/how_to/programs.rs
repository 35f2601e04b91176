//! Commands of other programs on the pages. What needs a cluster, an AWS account or minutes of building is not run, but whatever such a
//! line says about this repository must hold: targets, paths, values of the chart, parameters of the template, kinds and names of objects.

use serde_json::Value;

use super::{manifests, names, read, read_file};
use crate::page::here;

/// Kubernetes' own kinds that the pages ask for, beside those of our definitions.
const KINDS: [&str; 8] = ["deployment", "deployments", "events", "jobs", "node", "nodes", "pods", "statefulset"];

/// Objects that the chart and the cluster make.
const MADE: [&str; 1] = ["karpenter"];

/// Fails when the line says something of this repository that does not hold, or is of a program that nobody evaluates.
pub fn judge(line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    paths(line, &words);
    match words[0] {
        "make" => assert!(read("Makefile").contains(&format!("\n{}:", words[1])), "{line}: no such target"),
        "kubectl" => kubectl(line, &words),
        "helm" => helm(line, &words),
        "aws" => parameters(line, &words),
        "cargo" | "skopeo" => {}
        _ => panic!("{line}: nobody judges commands of {}", words[0]),
    }
}

/// What an `export` says, by name.
pub fn exported(line: &str) -> Vec<(String, String)> {
    let pairs = line.split_whitespace().skip(1).filter_map(|word| word.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Every variable has been exported.
pub fn variables(line: &str, known: &[(&str, &str)]) {
    for rest in line.split('$').skip(1).filter(|rest| rest.starts_with(|it: char| it.is_ascii_uppercase())) {
        let name: String = rest.chars().take_while(|it| it.is_ascii_uppercase() || *it == '_').collect();
        assert!(name == "HOME" || known.iter().any(|(it, _)| *it == name), "{line}: nobody has exported {name}");
    }
}

/// Every file of the repository is there.
fn paths(line: &str, words: &[&str]) {
    let rooms = ["cli", "controller/", "docs/", "examples/", "packer/"];
    for path in words.iter().filter(|word| rooms.iter().any(|room| word.starts_with(room))) {
        assert!(here(path).exists(), "{line}: {path} is missing");
    }
}

/// Kinds are known, and objects that are named stand in an example.
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
    let known = |name: &str| MADE.contains(&name) || objects_of_examples().iter().any(|it| it == name);
    assert!(object.is_none_or(known), "{line}: no example has this object");
}

/// Our kinds, in the singular and the plural.
fn definitions() -> Vec<String> {
    let folder = "controller/chart/crds";
    let texts = names(folder).into_iter().map(|name| read(&format!("{folder}/{name}")));
    let definitions = texts.map(|text| serde_saphyr::from_str::<Value>(&text).unwrap());
    let names = |it: Value| ["plural", "singular"].map(|form| it["spec"]["names"][form].as_str().unwrap().to_owned());
    definitions.flat_map(names).collect()
}

/// The names of all objects in examples.
fn objects_of_examples() -> Vec<String> {
    let folders = names("examples").into_iter().map(|name| here("examples").join(name));
    let texts = folders.flat_map(|folder| manifests(&folder)).map(|path| read_file(&path));
    let named = |text: String| {
        let lines = text.lines().filter_map(|line| line.strip_prefix("  name: ")).map(str::to_owned);
        lines.collect::<Vec<_>>()
    };
    texts.flat_map(named).collect()
}

/// Values that are set are values of the chart.
fn helm(line: &str, words: &[&str]) {
    let chart: Value = serde_saphyr::from_str(&read("controller/chart/values.yaml")).unwrap();
    for pair in words.windows(2).filter(|pair| pair[0] == "--set").map(|pair| pair[1]) {
        let (name, _) = pair.split_once('=').unwrap();
        let value = name.split('.').try_fold(&chart, |value, part| value.get(part));
        assert!(value.is_some(), "{line}: the chart has no value {name}");
    }
}

/// Parameters that are set are parameters of the template.
fn parameters(line: &str, words: &[&str]) {
    let template = read("controller/rights/cloudformation.yaml");
    let set = words.iter().skip_while(|word| **word != "--parameter-overrides").skip(1);
    for pair in set.take_while(|word| !word.starts_with('-')) {
        let (name, _) = pair.split_once('=').unwrap();
        assert!(template.contains(&format!("\n  {name}:\n    Type: String")), "{line}: there is no parameter {name}");
    }
}

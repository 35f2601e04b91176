//! Properties of `kerf convert` beyond the transcripts: it is idempotent, `kerf plan` accepts its output, comments are kept,
//! and old defaults keep their meaning.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::path::{Path, PathBuf};

use crate::support::kerf;
use cli::convert::Converted;
use cli::input::{InputErrors, read_text};
use proptest::prelude::{Just, Strategy, any, prop};
use proptest::{prop_assert, prop_assert_eq, prop_oneof, proptest, sample};
use serde_json::Value;

fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name)
}

/// Inputs in the cases that can be converted, as folder and arguments.
const CONVERTED: [(&str, &[&str]); 15] = [
    ("convert_alpha", &["pools.yaml"]),
    ("convert_beta", &["all.yaml"]),
    ("convert_mistakes", &["."]),
    ("convert_values", &["aws.yaml"]),
    ("convert_values", &["first.yaml"]),
    ("convert_values", &["umbrella.yaml"]),
    ("convert_rules", &["rules.yml"]),
    ("convert_current", &["odd.yaml"]),
    ("convert_kubelet", &["annotation.yaml"]),
    ("convert_kubelet", &["shared.yaml"]),
    ("convert_role", &["template.yaml", "values.yaml"]),
    ("convert_boards", &["clean.json"]),
    ("convert_tags", &["--from", "cluster-autoscaler", "groups.json", "--role", "nodes"]),
    ("without_effect", &["capacity.yaml"]),
    ("convert_groups", &["--from", "cluster-autoscaler", "nodegroup.json", "asg.json", "--role", "nodes"]),
];

fn convert_text(name: &str, text: &str) -> Result<Converted, InputErrors> {
    cli::convert::convert_text(name, text, None)
}

fn convert(folder: &str, arguments: &[&str]) -> crate::support::Answer {
    let all: Vec<&str> = ["convert"].into_iter().chain(arguments.iter().copied()).collect();
    kerf(&case(folder), &all, "", &[])
}

#[test]
fn convert_is_idempotent() {
    for (folder, arguments) in CONVERTED {
        let first = convert(folder, arguments);
        assert_eq!(first.code, 0, "{folder}: {}", first.stderr);
        let second = kerf(&case(folder), &["convert", "-"], &first.stdout, &[]);
        assert_eq!((second.code, second.stderr.as_str()), (0, ""), "{folder}: {}", first.stdout);
        assert_eq!(second.stdout, first.stdout, "{folder}");
    }
}

#[test]
fn plan_accepts_the_output_of_convert() {
    for (folder, arguments) in
        CONVERTED.iter().filter(|(folder, _)| !["convert_boards", "convert_rules", "convert_values"].contains(folder))
    {
        let text = convert(folder, arguments).stdout;
        let plan = kerf(&case(folder), &["plan", "-", "--now", "2026-11-22T00:00:00Z"], &text, &[]);
        assert!([0, 3].contains(&plan.code), "{folder}: {}", plan.stderr);
        assert!(!plan.stderr.contains("is not a field"), "{folder}: {}", plan.stderr);
    }
}

/// Every comment of a file is in the output.
#[test]
fn convert_keeps_comments() {
    for (folder, file) in
        [("convert_alpha", "pools.yaml"), ("convert_beta", "all.yaml"), ("convert_values", "aws.yaml")]
    {
        let before = std::fs::read_to_string(case(folder).join(file)).unwrap();
        let after = convert(folder, &[file]).stdout;
        let comments: Vec<&str> = before.lines().filter_map(|line| Some(&line[line.find("# ")?..])).collect();
        assert!(comments.len() > 1, "{file} has comments");
        for comment in comments {
            assert!(after.contains(comment), "{comment:?} is not in\n{after}");
        }
    }
}

/// Parses the objects of a text as plain values.
fn values(text: &str) -> Vec<Value> {
    let documents = text.split("---\n").filter(|document| !document.trim().is_empty());
    documents.map(|document| serde_saphyr::from_str(document).unwrap()).collect()
}

const CLASS: &str = "---\napiVersion: karpenter.k8s.aws/v1alpha1\nkind: AWSNodeTemplate\nmetadata: {name: a}\nspec: {instanceProfile: nodes, subnetSelector: {a: b}, securityGroupSelector: {a: b}}\n";

/// Generates Provisioners whose spec has any subset of these parts.
fn provisioner() -> impl Strategy<Value = String> {
    let requirements = sample::subsequence(
        vec![
            "    - {key: kubernetes.io/arch, operator: In, values: [arm64]}\n",
            "    - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}\n",
            "    - {key: node.kubernetes.io/instance-type, operator: In, values: [m6g.large]}\n",
            "    - {key: beta.kubernetes.io/os, operator: In, values: [linux]}\n",
        ],
        0..=4,
    );
    let lifetimes = (any::<Option<u16>>(), any::<Option<u16>>(), prop::option::of(any::<bool>()));
    (requirements, lifetimes).prop_map(|(requirements, (empty, expired, consolidation))| {
        let mut text = "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: a}\nspec:\n  providerRef: {name: a}\n".to_owned();
        if !requirements.is_empty() {
            text.push_str(&format!("  requirements:\n{}", requirements.concat()));
        }
        // A Provisioner has only one of the two.
        match (empty, consolidation) {
            (_, Some(enabled)) => text.push_str(&format!("  consolidation: {{enabled: {enabled}}}\n")),
            (Some(seconds), None) => text.push_str(&format!("  ttlSecondsAfterEmpty: {seconds}\n")),
            (None, None) => {}
        }
        expired.iter().for_each(|seconds| text.push_str(&format!("  ttlSecondsUntilExpired: {seconds}\n")));
        text
    })
}

/// Compares a NodePool with the meaning of its Provisioner, computed independently of the converter.
fn meant(old: &Value, new: &Value) -> Result<(), String> {
    let (spec, pool) = (&old["spec"], &new["spec"]);
    let expiry = spec["ttlSecondsUntilExpired"].as_u64().map_or("Never".to_owned(), |it| format!("{it}s"));
    let after = match (&spec["consolidation"]["enabled"], spec["ttlSecondsAfterEmpty"].as_u64()) {
        (Value::Bool(true), _) => "0s".to_owned(),
        (_, Some(seconds)) => format!("{seconds}s"),
        _ => "Never".to_owned(),
    };
    let options = [
        (pool["template"]["spec"]["expireAfter"].as_str(), expiry),
        (pool["disruption"]["consolidateAfter"].as_str(), after),
    ];
    for (options, meant) in options {
        if options != Some(meant.as_str()) {
            return Err(format!("{options:?}, but {meant} was meant"));
        }
    }
    let keys: Vec<&str> = pool["template"]["spec"]["requirements"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["key"].as_str().unwrap())
        .collect();
    let count = |names: &[&str]| keys.iter().filter(|key| names.contains(key)).count();
    let once = [
        &["kubernetes.io/arch"][..],
        &["kubernetes.io/os", "beta.kubernetes.io/os"],
        &["karpenter.sh/capacity-type"],
        &["node.kubernetes.io/instance-type", "karpenter.k8s.aws/instance-category"],
    ];
    once.iter().try_for_each(|names| if count(names) == 1 { Ok(()) } else { Err(format!("{names:?} in {keys:?}")) })
}

/// Lines of manifests of all versions, valid and invalid.
const LINES: [&str; 26] = [
    "apiVersion: karpenter.sh/v1beta1",
    "apiVersion: karpenter.sh/v1",
    "apiVersion: karpenter.sh/v1alpha5",
    "apiVersion: karpenter.k8s.aws/v1beta1",
    "apiVersion: v1",
    "kind: NodePool",
    "kind: Provisioner",
    "kind: EC2NodeClass",
    "kind: List",
    "metadata: {name: a} # who",
    "# words",
    "",
    "spec:",
    "  template: {spec: {requirements: [], nodeClassRef: {name: a}, kubelet: {maxPods: 1}}}",
    "  disruption: {consolidationPolicy: WhenUnderutilized, expireAfter: 1h}",
    "  amiFamily: AL2",
    "  limits: {resources: {cpu: 1}}",
    "  consolidation: yes",
    "  weight: |",
    "    text",
    "items: [{apiVersion: karpenter.sh/v1beta1, kind: NodePool, metadata: {name: b}}]",
    "settings: {aws: {clusterName: a}}",
    "groups: [{rules: [{expr: karpenter_nodes_created}]}]",
    "---",
    "a: &x [*x]",
    "\tb: c",
];

/// A value of several lines must not look like two messages, and no file may send control characters to a terminal.
#[test]
fn convert_text_escapes_line_ends_and_control_characters() {
    let errors = convert_text("f", "kind: NodePool\napiVersion: karpenter.sh/v1beta1\n\n    text").unwrap_err();
    assert!(errors.to_string().contains(r"of karpenter.sh/v1beta1\ntext; write one of these"), "{errors}");
    let errors = convert_text("f", "kind: NodePool\napiVersion: \"karpenter.sh/v2\\e[2J\"").unwrap_err();
    assert!(errors.to_string().contains(r"of karpenter.sh/v2\u{1b}[2J; write one of these"), "{errors}");
}

proptest! {
    #[test]
    fn convert_text_keeps_the_meaning_of_a_provisioner(text in provisioner()) {
        let done = convert_text("f", &format!("{text}{CLASS}")).unwrap_or_else(|errors| panic!("{errors}"));
        let (old, new) = (values(&text), values(&done.text));
        if let Err(error) = meant(&old[0], &new[0]) {
            panic!("{error}:\n{}", done.text);
        }
        prop_assert!(read_text("g", &done.text).is_ok());
        let again = convert_text("f", &done.text).unwrap();
        prop_assert_eq!(again.text, done.text);
        prop_assert!(again.changed.is_empty() && again.lost.is_empty());
    }

    #[test]
    fn convert_text_is_idempotent_when_lines_are_random(lines in prop::collection::vec(prop_oneof![Just(""), sample::select(&LINES[..])], 0..18)) {
        match convert_text("f", &lines.join("\n")) {
            Ok(done) => {
                let again = convert_text("f", &done.text);
                prop_assert!(again.is_ok(), "{:?}\n{}", again, done.text);
                prop_assert_eq!(again.unwrap().text, done.text);
            }
            Err(errors) => {
                prop_assert!(!errors.0.is_empty());
                prop_assert!(errors.to_string().lines().all(|line| line.starts_with("f") && line.contains("; ")), "{errors}");
            }
        }
    }

    #[test]
    fn convert_text_does_not_panic_when_text_is_random(text in ".{0,200}") {
        let _ = convert_text("f", &text);
    }
}

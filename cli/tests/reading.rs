//! For any file content, the parser returns objects, or errors that name a place.

use cli::input::read_text;
use proptest::prelude::{Strategy, prop};
use proptest::{prop_assert, proptest, sample};

/// Lines of manifests, valid and invalid.
const LINES: [&str; 24] = [
    "apiVersion: v1",
    "apiVersion: apps/v1",
    "apiVersion: karpenter.sh/v1",
    "kind: Pod",
    "kind: List",
    "kind: NodePool",
    "kind: Deployment",
    "metadata: {name: a}",
    "metadata: {generateName: b-}",
    "metadata:",
    "  name: c",
    "spec: {}",
    "spec:",
    "  replicas: -1",
    "  containers: [{name: c, resources: {requests: {cpu: x}}}]",
    "  template: {spec: {requirements: [{key: a, operator: In}]}}",
    "items: [{}, 1, {apiVersion: v1, kind: Pod, metadata: {name: a}}]",
    "items: null",
    "---",
    "--- # words",
    "{{ .Values.name }}",
    "a: &x [*x]",
    "\t- tab",
    "{\"apiVersion\": \"v1\"}",
];

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(sample::select(&LINES[..]), 0..16).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn read_text_returns_objects_or_errors_when_lines_are_random(text in text()) {
        if let Err(errors) = read_text("f", &text) {
            prop_assert!(!errors.0.is_empty());
            prop_assert!(errors.to_string().lines().all(|line| line.starts_with("f")), "{errors}");
        }
    }

    #[test]
    fn read_text_does_not_panic_when_text_is_random(text in ".{0,200}") {
        let _ = read_text("f", &text);
    }
}

/// Readers call themselves once for each level, so deep documents would end the process.
#[test]
fn read_text_and_convert_text_refuse_deep_and_repeated_content() {
    let (open, close) = ("[".repeat(40), "]".repeat(40));
    let link = |number: usize| match number {
        0 => format!("a0: &a0 {open}{close}\n"),
        _ => format!("a{number}: &a{number} {open}*a{}{close}\n", number - 1),
    };
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), "*a,".repeat(1000));
    let deep = [(0..30).map(link).collect(), "[".repeat(100_000), format!("{}x", "- ".repeat(400)), long];
    for text in deep {
        let error = read_text("f.yaml", &text).unwrap_err().to_string();
        assert!(error.starts_with("f.yaml, document 1: "), "{error}");
        assert!(error.ends_with("; nest less deeply, and write fewer aliases"), "{error}");
        let error = cli::convert::convert_text("f.yaml", &text, None).unwrap_err().to_string();
        assert!(error.starts_with("f.yaml, document 1: line ") && error.contains("not YAML: "), "{error}");
    }
    let many = format!("a: &a {{x: {}}}\nb: [{}]\n", "x".repeat(100), "*a,".repeat(60_000));
    let error = read_text("f.yaml", &many).unwrap_err().to_string();
    assert!(!error.contains("not YAML"), "the aliases of a large document are permitted: {error}");
}

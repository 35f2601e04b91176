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

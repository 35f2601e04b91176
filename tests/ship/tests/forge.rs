//! Tests of the CI workflow. Its steps are Makefile targets that run on any machine. Actions of others are pinned to a commit,
//! and only the job that uploads has write permission.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Map, Value};
use ship::root;

const DEFINITION: &str = ".github/workflows/ci.yaml";

fn definition() -> Value {
    serde_saphyr::from_str(&fs::read_to_string(root().join(DEFINITION)).unwrap()).unwrap()
}

fn jobs() -> Map<String, Value> {
    definition()["jobs"].as_object().unwrap().clone()
}

/// Returns every step with the name of its job.
fn steps() -> Vec<(String, Value)> {
    let of = |(name, job): (String, Value)| {
        job["steps"].as_array().unwrap().iter().map(|step| (name.clone(), step.clone())).collect::<Vec<_>>()
    };
    jobs().into_iter().flat_map(of).collect()
}

/// Returns the targets that `make help` lists.
fn verbs() -> BTreeSet<String> {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let named = makefile.lines().filter(|line| line.contains(":") && line.contains("## "));
    let verbs: BTreeSet<String> = named.filter_map(|line| line.split(':').next()).map(str::to_owned).collect();
    assert!(verbs.contains("test") && verbs.contains("e2e"), "{verbs:?}");
    verbs
}

/// Returns the commands of a step, with a matrix of targets expanded.
fn commands(job: &str, command: &str) -> Vec<String> {
    let matrix = jobs()[job]["strategy"]["matrix"]["verb"].as_array().cloned().unwrap_or_default();
    let place = "${{ matrix.verb }}";
    if !command.contains(place) {
        return vec![command.to_owned()];
    }
    assert!(!matrix.is_empty(), "{job} has no matrix of verbs");
    matrix.iter().map(|verb| command.replace(place, verb.as_str().unwrap())).collect()
}

/// Reports whether the command is `make VERB [NAME=VALUE]...` without any shell syntax.
fn is_verb(command: &str, verbs: &BTreeSet<String>) -> bool {
    let mut words = command.split(' ');
    let plain = |word: &str| word.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.=/".contains(letter));
    words.next() == Some("make")
        && words.next().is_some_and(|verb| verbs.contains(verb))
        && words.all(|word| word.contains('=') && plain(word))
}

#[test]
fn ci_step_runs_an_existing_make_target() {
    let verbs = verbs();
    let mut asked = BTreeSet::new();
    for (job, step) in steps() {
        for command in step["run"].as_str().map(|run| commands(&job, run)).unwrap_or_default() {
            assert!(is_verb(&command, &verbs), "{job} runs `{command}`, which is no verb of the Makefile");
            asked.extend(command.split(' ').nth(1).map(str::to_owned));
        }
    }
    for verb in ["lint", "test", "demo", "e2e", "soak", "fuzz", "day", "fidelity", "release", "publish"] {
        assert!(asked.contains(verb), "no job runs `make {verb}`");
    }
    for wrong in ["make tset", "make test && true", "cargo test", "make release TAG=$(id)"] {
        assert!(!is_verb(wrong, &verbs), "{wrong}");
    }
}

#[test]
fn ci_pins_actions_to_a_commit() {
    let used: Vec<String> = steps().iter().filter_map(|(_, step)| step["uses"].as_str()).map(str::to_owned).collect();
    assert_eq!(used.len(), jobs().len(), "each job checks out, and takes nothing else");
    for action in used {
        let commit = action.strip_prefix("actions/checkout@").unwrap();
        assert!(commit.len() == 40 && commit.chars().all(|letter| letter.is_ascii_hexdigit()), "{action}");
    }
}

#[test]
fn ci_grants_write_only_to_the_release_job() {
    assert_eq!(definition()["permissions"], serde_json::json!({"contents": "read"}));
    for (name, job) in jobs() {
        let own = (name == "release").then(|| serde_json::json!({"contents": "write"}));
        assert_eq!(job.get("permissions"), own.as_ref(), "{name}");
    }
    for (job, step) in steps() {
        let token = step["env"]["GH_TOKEN"].is_string();
        assert_eq!(token, step["run"] == "make publish", "{job}: the token is for the step that uploads");
        assert!(
            step["uses"].is_null() || step["with"]["persist-credentials"] == false,
            "{job} leaves a token lying about"
        );
    }
}

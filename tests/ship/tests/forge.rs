//! The definition for the forge says nothing that a developer could not say on any machine: its steps are verbs of the Makefile, it takes
//! in nobody's code by a name that can be moved, and only the job that uploads may write.
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

/// Every step with the name of its job.
fn steps() -> Vec<(String, Value)> {
    let of = |(name, job): (String, Value)| {
        job["steps"].as_array().unwrap().iter().map(|step| (name.clone(), step.clone())).collect::<Vec<_>>()
    };
    jobs().into_iter().flat_map(of).collect()
}

/// What `make help` lists.
fn verbs() -> BTreeSet<String> {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let named = makefile.lines().filter(|line| line.contains(":") && line.contains("## "));
    let verbs: BTreeSet<String> = named.filter_map(|line| line.split(':').next()).map(str::to_owned).collect();
    assert!(verbs.contains("test") && verbs.contains("e2e"), "{verbs:?}");
    verbs
}

/// What a job runs, with a matrix of verbs written out.
fn commands(job: &str, command: &str) -> Vec<String> {
    let matrix = jobs()[job]["strategy"]["matrix"]["verb"].as_array().cloned().unwrap_or_default();
    let place = "${{ matrix.verb }}";
    if !command.contains(place) {
        return vec![command.to_owned()];
    }
    assert!(!matrix.is_empty(), "{job} has no matrix of verbs");
    matrix.iter().map(|verb| command.replace(place, verb.as_str().unwrap())).collect()
}

/// `make VERB [NAME=VALUE]...`, and nothing that a shell would read as anything else.
fn is_verb(command: &str, verbs: &BTreeSet<String>) -> bool {
    let mut words = command.split(' ');
    let plain = |word: &str| word.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.=/".contains(letter));
    words.next() == Some("make")
        && words.next().is_some_and(|verb| verbs.contains(verb))
        && words.all(|word| word.contains('=') && plain(word))
}

#[test]
fn each_step_is_a_verb_that_exists() {
    let verbs = verbs();
    let mut asked = BTreeSet::new();
    for (job, step) in steps() {
        for command in step["run"].as_str().map(|run| commands(&job, run)).unwrap_or_default() {
            assert!(is_verb(&command, &verbs), "{job} runs `{command}`, which is no verb of the Makefile");
            asked.extend(command.split(' ').nth(1).map(str::to_owned));
        }
    }
    for verb in ["lint", "test", "demo", "e2e", "soak", "fuzz", "day", "fidelity", "release", "publish"] {
        assert!(asked.contains(verb), "nobody runs `make {verb}`");
    }
    for wrong in ["make tset", "make test && true", "cargo test", "make release TAG=$(id)"] {
        assert!(!is_verb(wrong, &verbs), "{wrong}");
    }
}

#[test]
fn actions_of_others_are_named_by_their_commit() {
    let used: Vec<String> = steps().iter().filter_map(|(_, step)| step["uses"].as_str()).map(str::to_owned).collect();
    assert_eq!(used.len(), jobs().len(), "each job checks out, and takes nothing else");
    for action in used {
        let commit = action.strip_prefix("actions/checkout@").unwrap();
        assert!(commit.len() == 40 && commit.chars().all(|letter| letter.is_ascii_hexdigit()), "{action}");
    }
}

#[test]
fn only_the_release_may_write() {
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

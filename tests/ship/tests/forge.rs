//! Tests of the CI workflow. Its steps are Makefile targets that run on any machine. Actions of others are pinned to a
//! commit, and only the job that uploads has write permission. That job compiles nothing.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::{Map, Value, json};
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
    for verb in ["lint", "test", "demo", "e2e", "soak", "fuzz", "day", "fidelity", "release", "publish", "advisories"] {
        assert!(asked.contains(verb), "no job runs `make {verb}`");
    }
    for wrong in ["make tset", "make test && true", "cargo test", "make release TAG=$(id)"] {
        assert!(!is_verb(wrong, &verbs), "{wrong}");
    }
}

/// Actions that a job may use beside the checkout.
const ACTIONS: [(&str, &[&str]); 2] = [
    ("release", &["actions/upload-artifact"]),
    ("publish", &["actions/download-artifact", "actions/attest-build-provenance"]),
];

#[test]
fn ci_pins_actions_to_a_commit() {
    let mut used: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (job, step) in steps() {
        let Some(action) = step["uses"].as_str() else { continue };
        let (name, commit) = action.split_once('@').unwrap();
        assert!(commit.len() == 40 && commit.chars().all(|letter| letter.is_ascii_hexdigit()), "{action}");
        used.entry(job).or_default().push(name.to_owned());
    }
    for job in jobs().keys() {
        let more = ACTIONS.iter().find(|(name, _)| name == job).map_or(&[][..], |(_, more)| more);
        let expected: Vec<&str> = ["actions/checkout"].iter().chain(more).copied().collect();
        assert_eq!(used[job], expected, "{job}");
    }
}

#[test]
fn ci_grants_write_only_to_the_publish_job() {
    assert_eq!(definition()["permissions"], json!({"contents": "read"}));
    for (name, job) in jobs() {
        let expected = match name.as_str() {
            "publish" => Some(json!({"attestations": "write", "contents": "write", "id-token": "write"})),
            "release" => Some(json!({"contents": "read"})),
            _ => None,
        };
        assert_eq!(job.get("permissions"), expected.as_ref(), "{name}");
    }
    for (job, step) in steps() {
        let token = step["env"]["GH_TOKEN"].is_string();
        assert_eq!(token, step["run"] == "make publish", "{job}: the token is for the step that uploads");
        let checks_out = step["uses"].as_str().is_some_and(|action| action.starts_with("actions/checkout@"));
        assert!(!checks_out || step["with"]["persist-credentials"] == false, "{job} keeps the token of its checkout");
    }
}

/// The job that may write takes the files of the build by their checksum, before it attests or uploads any of them.
#[test]
fn ci_publish_verifies_files_before_it_attests_them() {
    let jobs = jobs();
    assert_eq!(jobs["publish"]["needs"], "release");
    assert_eq!(jobs["release"]["outputs"]["sums"], "${{ steps.build.outputs.sums }}");
    let steps = jobs["publish"]["steps"].as_array().unwrap();
    let position = |text: &str| {
        let named =
            |step: &Value| [&step["run"], &step["uses"]].iter().any(|it| it.as_str().unwrap_or("").contains(text));
        steps.iter().position(named).unwrap()
    };
    let verify = position("make verify-release");
    assert!(position("download-artifact") < verify && verify < position("attest-build-provenance"));
    assert!(position("attest-build-provenance") < position("make publish"));
    for step in [verify, position("make publish")] {
        assert_eq!(steps[step]["env"]["SUMS"], "${{ needs.release.outputs.sums }}");
    }
}

#[test]
fn ci_searches_advisories_on_a_schedule() {
    let scheduled = |name: &str| jobs()[name]["if"].as_str().is_some_and(|when| when.contains("'schedule'"));
    assert!(scheduled("advisories") && scheduled("night"));
}

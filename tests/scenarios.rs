//! Scenarios with reviewed results: every `scenarios/FOLDER/NAME.txt` is a cluster, `---`, and the plan for it.
//!
//! Each file is one test, `FOLDER/NAME`, with six checks. The expectations hold for any transcript. The transcript is the
//! reviewed one. Plan validation has no findings. The order of the input does not matter. A second run gives the same plan.
//! Another plan changes nothing, both right after the plan is applied and after its nodes are ready and its pods are bound.
//!
//! `BLESS=1` writes the transcripts anew, to be reviewed like code. `SCENARIO_FOLDER=FOLDER` uses the scenarios of another folder.
//! Arguments select tests by name, as with any test.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed assumption should fail the test")]

#[path = "scenarios/applied.rs"]
mod applied;
#[path = "scenarios/expected.rs"]
mod expected;
#[path = "scenarios/format.rs"]
mod format;
#[path = "scenarios/settled.rs"]
mod settled;
#[path = "scenarios/transcript.rs"]
mod transcript;
#[path = "scenarios/values.rs"]
mod values;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use format::turned;
use libtest_mimic::{Arguments, Failed, Trial};
use planner::{CommandReason, PodVerdict, Snapshot, check, plan};

/// Most further plans in which moved or resized pods may be moved again to save money.
const MOST_ROUNDS: usize = 3;
const RULE: &str = "---\n";

fn folder() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().find(|it| it.join("tests/scenarios").is_dir());
    root.expect("the folder tests/scenarios above the package").join("tests/scenarios")
}

/// Returns all scenarios below a folder, sorted by path.
fn scenario_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(scenario_files(&path));
        } else if path.extension().is_some_and(|it| it == "txt") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn main() -> ExitCode {
    let root = std::env::var_os("SCENARIO_FOLDER").map_or_else(folder, PathBuf::from);
    let bless = std::env::var_os("BLESS").is_some();
    let trial = |file: PathBuf| {
        let name = file.strip_prefix(&root).unwrap().with_extension("").display().to_string();
        Trial::test(name, move || run(&file, bless).map_err(Failed::from))
    };
    let trials: Vec<Trial> = scenario_files(&root).into_iter().map(trial).collect();
    assert!(!trials.is_empty(), "no scenarios below {}", root.display());
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn run(file: &Path, bless: bool) -> Result<(), String> {
    let text = fs::read_to_string(file).unwrap();
    let (input, blessed) = text.split_once(RULE).unwrap_or((&text, ""));
    let scenario = format::read(input, &folder())?;
    let snapshot = &scenario.snapshot;
    let printed = transcript_of(snapshot)?;
    let broken = expected::broken(&scenario.expected, snapshot, &plan(snapshot));
    if !broken.is_empty() {
        return Err(format!("{}\n--- the plan\n{printed}", broken.join("\n")));
    }
    for turned in [turned::reversed(snapshot), turned::rotated(snapshot), turned::combed(snapshot)] {
        let other = transcript_of(&turned)?;
        same("another order of the input gives another plan", &printed, &other)?;
    }
    settles(snapshot)?;
    if bless {
        fs::write(file, format!("{input}{RULE}{printed}")).unwrap();
        return Ok(());
    }
    same("the transcript differs from the reviewed one (BLESS=1 accepts it)", blessed, &printed)
}

/// Returns the transcript of a plan without findings of its validation.
fn transcript_of(snapshot: &Snapshot) -> Result<String, String> {
    let decided = plan(snapshot);
    let findings = check(snapshot, &decided);
    if !findings.is_empty() {
        let list: Vec<String> = findings.iter().map(ToString::to_string).collect();
        let printed = transcript::of(snapshot, &decided);
        return Err(format!("the checker found:\n  {}\n--- the plan\n{printed}", list.join("\n  ")));
    }
    if decided != plan(snapshot) {
        return Err("the same snapshot gave two plans".to_owned());
    }
    Ok(transcript::of(snapshot, &decided))
}

/// Checks that another plan is empty, both with the plan applied and with its nodes ready and its pods bound. A plan that ran
/// out of search steps is excluded, because the next plan continues.
fn settles(snapshot: &Snapshot) -> Result<(), String> {
    let decided = plan(snapshot);
    if decided.report.pods.contains(&PodVerdict::Postponed) {
        return Ok(());
    }
    quiet(&applied::to(snapshot, &decided), "planning again with the plan applied is not empty", true)?;
    converges(settled::to(snapshot, &decided))
}

/// Checks that the cluster converges. Moved pods may leave a node for which there is a cheaper one now, and lowered requests
/// free capacity. Kerf uses both within few plans and never reverses them.
fn converges(mut after: Snapshot) -> Result<(), String> {
    for _ in 0..MOST_ROUNDS {
        let again = plan(&after);
        if again.moves.iter().all(|it| it.reason != CommandReason::Underutilized) && again.resizes.is_empty() {
            break;
        }
        transcript_of(&after)?;
        after = settled::to(&after, &again);
    }
    quiet(&after, "planning again with the nodes up and the pods bound is not empty", false)
}

/// Checks that another plan is empty. With `waits`, kubelet has not applied the resizes of the plan yet, so the next plan
/// repeats them.
fn quiet(after: &Snapshot, what: &str, waits: bool) -> Result<(), String> {
    let printed = transcript_of(after)?;
    let again = plan(after);
    if again.launches.is_empty() && again.moves.is_empty() && (waits || again.resizes.is_empty()) {
        return Ok(());
    }
    Err(format!("{what}:\n{printed}"))
}

fn same(what: &str, expected: &str, actual: &str) -> Result<(), String> {
    if expected == actual {
        return Ok(());
    }
    Err(format!("{what}\n--- expected\n{expected}--- actual\n{actual}"))
}

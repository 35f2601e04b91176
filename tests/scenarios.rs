//! Stories with blessed endings: every `scenarios/NAME.txt` is a cluster in words, `---`, and what the planner decides.
//!
//! Each file is one case, and each case proves five things: the transcript is the blessed one; the checker finds nothing;
//! the order of the input does not matter; a second run gives the same plan; and planning again, with the plan applied,
//! changes nothing. `BLESS=1` writes the transcripts anew, to be reviewed like code.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed assumption should fail the test")]

#[path = "scenarios/applied.rs"]
mod applied;
#[path = "scenarios/story.rs"]
mod story;
#[path = "scenarios/transcript.rs"]
mod transcript;
#[path = "scenarios/words.rs"]
mod words;

use std::fs;
use std::path::{Path, PathBuf};

use planner::{Snapshot, check, plan};

const RULE: &str = "---\n";

fn folder() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().find(|it| it.join("tests/scenarios").is_dir());
    root.expect("the folder tests/scenarios above the package").join("tests/scenarios")
}

fn stories() -> Vec<PathBuf> {
    let entries = fs::read_dir(folder()).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|it| it == "txt"));
    files.sort();
    files
}

#[test]
fn every_story_ends_as_blessed() {
    let bless = std::env::var_os("BLESS").is_some();
    let files = stories();
    assert!(files.len() >= 20, "only {} stories found", files.len());
    let mut failed = Vec::new();
    for file in &files {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        match run(file, bless) {
            Ok(()) => println!("story {name} ... ok"),
            Err(why) => failed.push(format!("story {name}: {why}")),
        }
    }
    assert!(failed.is_empty(), "{} of {} stories failed\n\n{}", failed.len(), files.len(), failed.join("\n\n"));
}

fn run(file: &Path, bless: bool) -> Result<(), String> {
    let text = fs::read_to_string(file).unwrap();
    let (input, blessed) = text.split_once(RULE).unwrap_or((&text, ""));
    let snapshot = story::read(input, &folder())?;
    let told = tell(&snapshot)?;
    for turned in [story::reversed(&snapshot), story::rotated(&snapshot)] {
        let other = tell(&turned)?;
        same("another order of the input gives another plan", &told, &other)?;
    }
    settles(&snapshot)?;
    if bless {
        fs::write(file, format!("{input}{RULE}{told}")).unwrap();
        return Ok(());
    }
    same("the transcript is not the blessed one (BLESS=1 accepts it)", blessed, &told)
}

/// The transcript of a plan that the checker has nothing to say about.
fn tell(snapshot: &Snapshot) -> Result<String, String> {
    let decided = plan(snapshot);
    let findings = check(snapshot, &decided);
    if !findings.is_empty() {
        let list: Vec<String> = findings.iter().map(ToString::to_string).collect();
        return Err(format!("the checker found:\n  {}", list.join("\n  ")));
    }
    if decided != plan(snapshot) {
        return Err("the same snapshot gave two plans".to_owned());
    }
    Ok(transcript::of(snapshot, &decided))
}

/// With the plan applied nothing is left to launch or remove.
fn settles(snapshot: &Snapshot) -> Result<(), String> {
    let after = applied::to(snapshot, &plan(snapshot));
    let again = plan(&after);
    if again.launches.is_empty() && again.removals.is_empty() {
        return Ok(());
    }
    Err(format!("planning again with the plan applied is not empty:\n{}", transcript::of(&after, &again)))
}

fn same(what: &str, expected: &str, actual: &str) -> Result<(), String> {
    if expected == actual {
        return Ok(());
    }
    Err(format!("{what}\n--- expected\n{expected}--- actual\n{actual}"))
}

//! Stories with blessed endings: every `scenarios/NAME.txt` is a cluster in words, `---`, and what the planner decides.
//!
//! Each file is one case, and each case proves six things: what the story expects holds, whatever is blessed; the
//! transcript is the blessed one; the checker finds nothing; the order of the input does not matter; a second run gives
//! the same plan; and planning again, with the plan applied and later with its nodes up and its pods bound, changes
//! nothing. `BLESS=1` writes the transcripts anew, to be reviewed like code. `STORIES=FOLDER` takes stories of another
//! folder, `STORY=NAME` those whose name contains it.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed assumption should fail the test")]

#[path = "scenarios/applied.rs"]
mod applied;
#[path = "scenarios/expected.rs"]
mod expected;
#[path = "scenarios/settled.rs"]
mod settled;
#[path = "scenarios/story.rs"]
mod story;
#[path = "scenarios/transcript.rs"]
mod transcript;
#[path = "scenarios/words.rs"]
mod words;

use std::fs;
use std::path::{Path, PathBuf};

use planner::{MoveReason, PodVerdict, Snapshot, check, plan};
use story::turned;

/// How often what a plan has moved or resized may be moved again for less money.
const MOST_ROUNDS: usize = 3;
const RULE: &str = "---\n";

fn folder() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().find(|it| it.join("tests/scenarios").is_dir());
    root.expect("the folder tests/scenarios above the package").join("tests/scenarios")
}

/// All stories below a folder, in the order of their paths.
fn stories(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(stories(&path));
        } else if path.extension().is_some_and(|it| it == "txt") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn chosen() -> Vec<PathBuf> {
    let only = std::env::var_os("STORY").unwrap_or_default().to_string_lossy().into_owned();
    let mut files = std::env::var_os("STORIES").map_or_else(|| stories(&folder()), |it| stories(Path::new(&it)));
    files.retain(|file| file.file_stem().is_some_and(|it| it.to_string_lossy().contains(&only)));
    files
}

#[test]
fn every_story_ends_as_blessed() {
    let bless = std::env::var_os("BLESS").is_some();
    let files = chosen();
    assert!(!files.is_empty(), "no stories found");
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

#[test]
fn no_story_is_lost() {
    let files = stories(&folder());
    assert!(files.len() >= 400, "only {} stories found", files.len());
}

/// The stories that `docs/differences.md` names in backquotes in the last column of a row, as `folder/` or `folder/story`.
#[test]
fn every_story_that_a_difference_names_exists() {
    let text = fs::read_to_string(folder().join("../../docs/differences.md")).unwrap();
    let (_, rows) = text.split_once("## Where pods go").expect("the section on where pods go");
    let cells = rows.lines().filter(|line| line.starts_with('|')).filter_map(|line| line.rsplit('|').nth(1));
    let names: Vec<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    assert!(names.len() >= 10, "only {names:?} are named");
    for name in names {
        let story = folder().join(format!("{name}.txt"));
        assert!(story.is_file() || folder().join(name).is_dir(), "there is no story {name}");
    }
}

/// The numbers of the inventory of Karpenter's scenarios; those between were never given.
const INVENTORY: [u32; 66] = [
    1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15, 17, 18, 19, 21, 22, 23, 25, 26, 27, 29, 30, 31, 33, 34, 35, 37, 38, 39,
    41, 42, 43, 45, 46, 47, 49, 50, 51, 53, 54, 55, 57, 58, 59, 61, 62, 63, 65, 66, 67, 69, 70, 71, 73, 74, 75, 77, 78,
    79, 81, 82, 83, 85, 86, 87,
];

/// The same of the provider for AWS.
const OF_AWS: [u32; 49] = [
    1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15, 17, 18, 19, 21, 22, 23, 25, 26, 27, 29, 30, 31, 33, 34, 35, 37, 38, 39,
    40, 41, 42, 43, 47, 48, 49, 50, 51, 53, 54, 55, 56, 57, 58, 59, 61, 62, 63,
];

/// `docs/scenarios.md` has a row for each scenario, and what the last column of a row names in backquotes is there: a story of ours,
/// one with its folder, or `FILE::TEST`.
#[test]
fn every_scenario_is_shown_by_something_that_exists() {
    let root = folder().join("../..");
    let text = fs::read_to_string(root.join("docs/scenarios.md")).unwrap();
    let cells = text.lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let rows = cells.filter_map(|cells| {
        let name = *cells.get(1)?;
        name.strip_prefix("aws ").unwrap_or(name).parse::<u32>().ok()?;
        Some((name.to_owned(), cells.get(3)?.to_string()))
    });
    let rows: Vec<(String, String)> = rows.collect();
    let inventory = INVENTORY.iter().map(u32::to_string).chain(OF_AWS.iter().map(|number| format!("aws {number}")));
    let named: Vec<&String> = rows.iter().map(|(name, _)| name).collect();
    assert_eq!(named, inventory.collect::<Vec<_>>().iter().collect::<Vec<_>>(), "the rows of docs/scenarios.md");
    for (number, shown) in &rows {
        let names: Vec<&str> = shown.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "nothing shows scenario {number}");
        for name in names {
            let exists = match name.split_once("::") {
                Some((file, test)) => fs::read_to_string(root.join(file)).is_ok_and(|it| has_test(&it, test)),
                None => [folder(), root.clone()].iter().any(|from| from.join(format!("{name}.txt")).is_file()),
            };
            assert!(exists, "scenario {number} is said to be shown by {name}, which does not exist");
        }
    }
}

/// Whether a source has a test of that name.
fn has_test(source: &str, name: &str) -> bool {
    let head = format!("fn {name}(");
    let lines: Vec<&str> = source.lines().map(str::trim_start).collect();
    let found = lines.iter().position(|line| line.strip_prefix("async ").unwrap_or(line).starts_with(&head));
    found.is_some_and(|at| lines[..at].iter().rev().take(6).any(|line| line.starts_with("#[") && line.contains("test")))
}

fn run(file: &Path, bless: bool) -> Result<(), String> {
    let text = fs::read_to_string(file).unwrap();
    let (input, blessed) = text.split_once(RULE).unwrap_or((&text, ""));
    let story = story::read(input, &folder())?;
    let snapshot = &story.snapshot;
    let told = tell(snapshot)?;
    let broken = expected::broken(&story.expected, snapshot, &plan(snapshot));
    if !broken.is_empty() {
        return Err(format!("{}\n--- the plan\n{told}", broken.join("\n")));
    }
    for turned in [turned::reversed(snapshot), turned::rotated(snapshot), turned::combed(snapshot)] {
        let other = tell(&turned)?;
        same("another order of the input gives another plan", &told, &other)?;
    }
    settles(snapshot)?;
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
        let told = transcript::of(snapshot, &decided);
        return Err(format!("the checker found:\n  {}\n--- the plan\n{told}", list.join("\n  ")));
    }
    if decided != plan(snapshot) {
        return Err("the same snapshot gave two plans".to_owned());
    }
    Ok(transcript::of(snapshot, &decided))
}

/// With the plan applied nothing is left to launch or remove; nor when its nodes have come up and its pods are bound.
/// Unless the search was not through: then the next plan goes on.
fn settles(snapshot: &Snapshot) -> Result<(), String> {
    let decided = plan(snapshot);
    if decided.report.pods.contains(&PodVerdict::Postponed) {
        return Ok(());
    }
    quiet(&applied::to(snapshot, &decided), "planning again with the plan applied is not empty", true)?;
    comes_to_rest(settled::to(snapshot, &decided))
}

/// Pods that were moved may leave a node for which there is a cheaper one now, and requests that were lowered make room. That is
/// done soon, and never undone.
fn comes_to_rest(mut after: Snapshot) -> Result<(), String> {
    for _ in 0..MOST_ROUNDS {
        let again = plan(&after);
        if again.moves.iter().all(|it| it.reason != MoveReason::Underutilized) && again.resizes.is_empty() {
            break;
        }
        tell(&after)?;
        after = settled::to(&after, &again);
    }
    quiet(&after, "planning again with the nodes up and the pods bound is not empty", false)
}

/// `waits` where kubelet has not carried out yet what the plan resizes, so that the next plan says it again.
fn quiet(after: &Snapshot, what: &str, waits: bool) -> Result<(), String> {
    let told = tell(after)?;
    let again = plan(after);
    if again.launches.is_empty() && again.moves.is_empty() && (waits || again.resizes.is_empty()) {
        return Ok(());
    }
    Err(format!("{what}:\n{told}"))
}

fn same(what: &str, expected: &str, actual: &str) -> Result<(), String> {
    if expected == actual {
        return Ok(());
    }
    Err(format!("{what}\n--- expected\n{expected}--- actual\n{actual}"))
}

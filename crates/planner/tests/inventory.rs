//! Inventory of scenarios: none is lost, and documents name only existing ones.

#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::fs;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scenarios")
}

/// Returns the number of scenarios below a folder.
fn count(folder: &Path) -> usize {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths
        .map(
            |path| {
                if path.is_dir() { count(&path) } else { usize::from(path.extension().is_some_and(|it| it == "txt")) }
            },
        )
        .sum()
}

#[test]
fn scenarios_folder_keeps_at_least_400_scenarios() {
    let count = count(&folder());
    assert!(count >= 400, "only {count} scenarios found");
}

/// Covers the scenarios that `docs/differences.md` names in backquotes in the last column of a row, as `folder/` or
/// `folder/scenario`.
#[test]
fn differences_doc_names_only_existing_scenarios() {
    let text = fs::read_to_string(folder().join("../../docs/differences.md")).unwrap();
    let (_, rows) = text.split_once("## Scheduling").expect("the section on scheduling");
    let cells = rows.lines().filter(|line| line.starts_with('|')).filter_map(|line| line.rsplit('|').nth(1));
    let names: Vec<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    assert!(names.len() >= 10, "only {names:?} are named");
    for name in names {
        let scenario = folder().join(format!("{name}.txt"));
        assert!(scenario.is_file() || folder().join(name).is_dir(), "there is no scenario {name}");
    }
}

/// Numbers in the inventory of Karpenter's scenarios; the missing numbers were never used.
const INVENTORY: [u32; 66] = [
    1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15, 17, 18, 19, 21, 22, 23, 25, 26, 27, 29, 30, 31, 33, 34, 35, 37, 38, 39,
    41, 42, 43, 45, 46, 47, 49, 50, 51, 53, 54, 55, 57, 58, 59, 61, 62, 63, 65, 66, 67, 69, 70, 71, 73, 74, 75, 77, 78,
    79, 81, 82, 83, 85, 86, 87,
];

/// Numbers in the inventory of scenarios of Karpenter's AWS provider.
const OF_AWS: [u32; 49] = [
    1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15, 17, 18, 19, 21, 22, 23, 25, 26, 27, 29, 30, 31, 33, 34, 35, 37, 38, 39,
    40, 41, 42, 43, 47, 48, 49, 50, 51, 53, 54, 55, 56, 57, 58, 59, 61, 62, 63,
];

/// Checks that `docs/scenarios.md` has a row for each scenario. Each name in backquotes in the last column must exist: a
/// scenario file with its folder, or `FILE::TEST`.
#[test]
fn scenarios_doc_names_only_existing_tests() {
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

/// Reports whether a source has a test with this name.
fn has_test(source: &str, name: &str) -> bool {
    let head = format!("fn {name}(");
    let lines: Vec<&str> = source.lines().map(str::trim_start).collect();
    let found = lines.iter().position(|line| line.strip_prefix("async ").unwrap_or(line).starts_with(&head));
    found.is_some_and(|at| lines[..at].iter().rev().take(6).any(|line| line.starts_with("#[") && line.contains("test")))
}

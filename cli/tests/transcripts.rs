//! The command as people meet it: each folder of `cases` holds manifests and `commands`; `transcript.txt` is what the
//! built program answered when someone last reviewed it. `BLESS=1` writes the transcripts anew.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

#[path = "support/kerf.rs"]
mod support;

use std::path::{Path, PathBuf};

use support::kerf;

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

/// Everything that the commands of one case print, with their exit codes.
fn transcript(case: &Path) -> String {
    let input = std::fs::read_to_string(case.join("input")).unwrap_or_default();
    let mut text = String::new();
    for line in std::fs::read_to_string(case.join("commands")).unwrap().lines() {
        let words: Vec<&str> = line.split(' ').skip(1).collect();
        let answer = kerf(case, &words, &input, &[]);
        text.push_str(&format!("$ {line}\n{}", answer.stdout));
        answer.stderr.lines().for_each(|line| text.push_str(&format!("! {line}\n")));
        text.push_str(&format!("exit {}\n\n", answer.code));
    }
    text
}

fn check(name: &str) {
    let case = cases().join(name);
    let (found, place) = (transcript(&case), case.join("transcript.txt"));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&place, &found).unwrap();
    }
    let expected = std::fs::read_to_string(&place).unwrap_or_default();
    for (number, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "{}, line {}; review with BLESS=1", place.display(), number + 1);
    }
    assert_eq!(found.lines().count(), expected.lines().count(), "{}; review with BLESS=1", place.display());
}

macro_rules! cases {
    ($($name:ident)*) => {
        $(#[test] fn $name() { check(stringify!($name)); })*

        #[test]
        fn every_folder_is_a_case() {
            let folders = cases().read_dir().unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
            let mut found: Vec<String> =
                folders.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
            found.sort();
            assert_eq!(found, [$(stringify!($name)),*]);
        }
    };
}

cases! { catalogue covered crowd empty gates good ignored moving older refused stdin told types unplaced unpriced unready volumes wrong }

/// Lines of every table fit 80 columns, and nothing is coloured where nobody looks.
#[test]
fn tables_fit_eighty_columns() {
    for name in ["covered", "crowd", "good", "unplaced"] {
        let answer = kerf(&cases().join(name), &["plan", ".", "--catalogue", "../catalogue.json"], "", &[]);
        assert!(!answer.stdout.contains('\u{1b}'));
        for line in answer.stdout.lines() {
            assert!(line.chars().count() <= 80, "{name}: {line}");
        }
    }
}

//! Finds the drain scenarios and compares the result of each with its reviewed transcript, for any kind of driver.

#[path = "cluster.rs"]
pub mod cluster;
#[path = "expected.rs"]
mod expected;
#[path = "scenario.rs"]
pub mod scenario;

use std::fs;
use std::path::{Path, PathBuf};

use cluster::DrainDriver;
pub use scenario::Scenario;

/// Folder of the scenarios that all drivers share.
pub const SHARED: &str = "crates/drain/tests/scenarios";
const RULE: &str = "---\n";

/// Treatment of the transcripts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TranscriptMode {
    /// `true` to rewrite the transcripts.
    pub bless: bool,
    /// `true` if another driver wrote the transcripts: scenarios whose result depends on the pace differ.
    pub of_another_driver: bool,
}

/// Runs all scenarios of a folder that `chosen` accepts, each with its own driver.
pub fn all<P: DrainDriver>(
    folder: &str,
    mode: TranscriptMode,
    chosen: impl Fn(&Scenario) -> bool,
    driver: impl Fn(&Scenario) -> P,
) {
    let (mut count, mut failed) = (0, Vec::new());
    for file in files(folder) {
        let text = fs::read_to_string(&file).unwrap();
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let (input, blessed) = text.split_once(RULE).unwrap_or((&text, ""));
        let scenario = scenario::read(input).unwrap_or_else(|why| unreachable!("scenario {name}: {why}"));
        if !chosen(&scenario) || mode.of_another_driver && scenario.is_of_pace() {
            continue;
        }
        count += 1;
        let outcome = cluster::run(&scenario, driver(&scenario));
        let broken = expected::broken(&scenario.expected, &outcome);
        let transcript = outcome.transcript;
        if !broken.is_empty() {
            failed.push(format!("scenario {name}: {}\n--- transcript\n{transcript}", broken.join("\n")));
        } else if mode.bless {
            fs::write(&file, format!("{input}{RULE}{transcript}")).unwrap();
        } else if transcript != blessed {
            let what = "the transcript differs from the reviewed one (BLESS=1 accepts it)";
            failed.push(format!("scenario {name}: {what}\n--- expected\n{blessed}--- actual\n{transcript}"));
        }
    }
    assert!(count >= 4, "only {count} scenarios found");
    assert!(failed.is_empty(), "{} of {count} scenarios failed\n\n{}", failed.len(), failed.join("\n\n"));
}

fn files(folder: &str) -> Vec<PathBuf> {
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|it| it.join(folder));
    let folder = above.find(|it| it.is_dir()).expect("the folder of scenarios above the package");
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|it| it == "txt")).collect();
    files.sort();
    files
}

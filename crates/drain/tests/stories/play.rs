//! Finds the stories of drains and compares the result of each with its reviewed transcript, for any kind of driver.

#[path = "expected.rs"]
mod expected;
#[path = "story.rs"]
pub mod story;
#[path = "world.rs"]
pub mod world;

use std::fs;
use std::path::{Path, PathBuf};

pub use story::Story;
use world::Player;

/// Folder of the stories that all drivers share.
pub const SHARED: &str = "crates/drain/tests/stories";
const RULE: &str = "---\n";

/// Treatment of the transcripts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Telling {
    /// `true` to rewrite the transcripts.
    pub bless: bool,
    /// `true` if another driver wrote the transcripts: stories whose result depends on the pace differ.
    pub anothers: bool,
}

/// Runs all stories of a folder that `chosen` accepts, each with its own player.
pub fn all<P: Player>(folder: &str, telling: Telling, chosen: impl Fn(&Story) -> bool, player: impl Fn(&Story) -> P) {
    let (mut played, mut failed) = (0, Vec::new());
    for file in files(folder) {
        let text = fs::read_to_string(&file).unwrap();
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let (input, blessed) = text.split_once(RULE).unwrap_or((&text, ""));
        let story = story::read(input).unwrap_or_else(|why| unreachable!("story {name}: {why}"));
        if !chosen(&story) || telling.anothers && story.is_of_pace() {
            continue;
        }
        played += 1;
        let outcome = world::play(&story, player(&story));
        let broken = expected::broken(&story.expected, &outcome);
        let told = outcome.told;
        if !broken.is_empty() {
            failed.push(format!("story {name}: {}\n--- what happened\n{told}", broken.join("\n")));
        } else if telling.bless {
            fs::write(&file, format!("{input}{RULE}{told}")).unwrap();
        } else if told != blessed {
            let what = "the transcript is not the blessed one (BLESS=1 accepts it)";
            failed.push(format!("story {name}: {what}\n--- expected\n{blessed}--- actual\n{told}"));
        }
    }
    assert!(played >= 4, "only {played} stories found");
    assert!(failed.is_empty(), "{} of {played} stories failed\n\n{}", failed.len(), failed.join("\n\n"));
}

fn files(folder: &str) -> Vec<PathBuf> {
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|it| it.join(folder));
    let folder = above.find(|it| it.is_dir()).expect("the folder of stories above the package");
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|it| it == "txt")).collect();
    files.sort();
    files
}

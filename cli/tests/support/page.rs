//! A page of the documentation: its blocks of code and the text between them.

#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::path::{Path, PathBuf};

/// Returns the path of a file in the repository.
pub fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// A block of code.
pub struct Block {
    /// Language of the fence.
    pub language: String,
    /// Lines of the block, each with a line end.
    pub text: String,
}

impl Block {
    /// Returns the commands of the block; a line that ends in a backslash is joined with the next one.
    pub fn commands(&self) -> Vec<String> {
        self.text.replace("\\\n", "").lines().map(str::to_owned).collect()
    }
}

/// Returns all blocks of a page, in order: every second piece between fences.
pub fn blocks(page: &str) -> Vec<Block> {
    let block = |piece: &str| {
        let (language, text) = piece.split_once('\n').unwrap();
        Block { language: language.to_owned(), text: text.to_owned() }
    };
    page.split("```").skip(1).step_by(2).map(block).collect()
}

/// Copies a folder with its content.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in from.read_dir().unwrap().map(Result::unwrap) {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(path, target).unwrap();
        }
    }
}

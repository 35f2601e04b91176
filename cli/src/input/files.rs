//! Files at a path, and their texts.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::error::{InputError, Place};

/// A text with the file name for errors.
#[derive(Clone)]
pub(crate) struct File {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// Extensions of the files that are read in folders; a file that is named directly may have any extension.
const ENDINGS: [&str; 3] = ["json", "yaml", "yml"];

/// Reads the file at `path`, all manifests below the folder at `path`, or standard input for `-`.
pub(super) fn read(path: &Path, stdin: &mut dyn Read) -> Result<Vec<File>, InputError> {
    if path == Path::new("-") {
        let mut text = String::new();
        stdin.read_to_string(&mut text).map_err(|error| unreadable(path, &error))?;
        if text.trim().is_empty() {
            let problem = "is empty";
            return Err(InputError::new(&whole(path), problem, "send manifests to it, and use - only once"));
        }
        return Ok(vec![File { name: "-".to_owned(), text }]);
    }
    if !path.is_dir() {
        return Ok(vec![one(path)?]);
    }
    let mut found = Vec::new();
    below(path, &mut found)?;
    found.sort();
    if found.is_empty() {
        let problem = "the folder contains no manifest";
        return Err(InputError::new(&whole(path), problem, "use files, or folders with .yaml, .yml or .json files"));
    }
    found.iter().map(|path| one(path)).collect()
}

/// Collects the manifests below a folder. Hidden files and folders are skipped, as `ls` does. Links to folders are skipped,
/// because they may form a cycle.
fn below(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), InputError> {
    for entry in folder.read_dir().map_err(|error| unreadable(folder, &error))? {
        let entry = entry.map_err(|error| unreadable(folder, &error))?;
        let (path, link) = (entry.path(), entry.file_type().is_ok_and(|kind| kind.is_symlink()));
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if hidden {
            continue;
        }
        if path.is_dir() {
            if !link {
                below(&path, found)?;
            }
        } else if path.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known)) {
            found.push(path);
        }
    }
    Ok(())
}

fn one(path: &Path) -> Result<File, InputError> {
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
    Ok(File { name: path.display().to_string(), text })
}

fn unreadable(path: &Path, error: &std::io::Error) -> InputError {
    InputError::new(&whole(path), format!("cannot be read: {error}"), "check the path and its permissions")
}

fn whole(path: &Path) -> Place {
    Place::document(&path.display().to_string(), 0)
}

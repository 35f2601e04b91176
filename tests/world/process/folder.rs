//! One folder a run: logs, keys and data side by side, gone with the run unless something failed.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::lifeline::{self, KEPT};

/// Set to anything, this environment variable keeps every run folder.
pub const KEEP: &str = "KERF_KEEP";

/// A fresh folder, readable by its owner alone. Dropping it removes it, except while a test panics or with `KERF_KEEP`.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Makes `kerf-NAME-` and six random letters in the folder for temporary files.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn create(name: &str) -> Result<Self> {
        let path = tempfile::Builder::new()
            .prefix(&format!("kerf-{name}-"))
            .tempdir()
            .with_context(|| format!("cannot make a run folder for {name}"))?
            .keep();
        let folder = Self { path };
        if std::env::var_os(KEEP).is_some() {
            folder.keep();
        }
        lifeline::remove_at_end(&folder.path)?;
        Ok(folder)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// From now on nothing removes it: somebody will want to read its logs.
    pub fn keep(&self) {
        if let Err(error) = std::fs::write(self.path.join(KEPT), "") {
            log::warn!(folder = self.path.display().to_string().as_str(); "cannot keep: {error}");
        }
    }

    /// The log file of one component in it.
    #[must_use]
    pub fn log(&self, component: &str) -> PathBuf {
        self.path.join(format!("{component}.log"))
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.keep();
        }
        if self.path.join(KEPT).exists() {
            return;
        }
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            log::warn!(folder = self.path.display().to_string().as_str(); "cannot remove: {error}");
        }
    }
}

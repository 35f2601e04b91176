//! Run folder: logs, keys and data of one run, removed with the run unless it failed.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::lifeline::{self, KEPT};

/// Environment variable that keeps every run folder, with any value.
pub const KEEP: &str = "KERF_KEEP";

/// New folder that only its owner may read. Dropping it removes it, except while a test panics or with `KERF_KEEP`.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Creates `kerf-NAME-` and six random letters in the folder for temporary files.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be created.
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

    /// Returns the path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Excludes the folder from removal, so that its logs can be read.
    pub fn keep(&self) {
        if let Err(error) = std::fs::write(self.path.join(KEPT), "") {
            log::warn!(folder = self.path.display().to_string().as_str(); "cannot keep: {error}");
        }
    }

    /// Returns the log file of one component in the folder.
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

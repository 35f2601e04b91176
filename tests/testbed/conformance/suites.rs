//! The suites of Karpenter and what each of them needs.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::folder;

/// Suite of end-to-end cases, one test program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suite {
    /// Go module that builds the program: `core` or `provider`.
    pub module: &'static str,
    /// Path of the package.
    path: String,
    /// Last part of the path, as in the name of the program.
    pub package: String,
}

impl Suite {
    /// Returns module and package, such as `core/regression`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.module, self.package)
    }

    /// Returns the folder of the package's sources, in which its cases read their data.
    ///
    /// # Errors
    /// Returns an error if Go does not know the package.
    pub fn sources(&self) -> Result<PathBuf> {
        let mut command = Command::new("go");
        command.args(["list", "-f", "{{.Dir}}", &self.path]).current_dir(folder().join(self.module));
        let output = command.output().context("cannot run go")?;
        ensure!(output.status.success(), "go list {}: {}", self.path, String::from_utf8_lossy(&output.stderr).trim());
        Ok(PathBuf::from(String::from_utf8(output.stdout).context("the folder is no UTF-8")?.trim_end()))
    }

    /// Reports whether cases of this suite have hundreds of nodes, which run without agents.
    #[must_use]
    pub fn has_many_nodes(&self) -> bool {
        matches!(self.package.as_str(), "performance" | "scale")
    }

    /// Returns the file of the results.
    #[must_use]
    pub fn results(&self) -> PathBuf {
        folder().join("results").join(format!("{}-{}.json", self.module, self.package))
    }
}

/// Modules that contain suites, below [`folder`].
const MODULES: [&str; 2] = ["core", "provider"];

/// Returns all suites.
///
/// # Errors
/// Returns an error if a module's list of packages cannot be read.
pub fn all() -> Result<Vec<Suite>> {
    let mut suites = Vec::new();
    for module in MODULES {
        let list = folder().join(module).join("suites");
        let text = std::fs::read_to_string(&list).with_context(|| format!("cannot read {}", list.display()))?;
        let package = |path: &str| path.rsplit_once('/').map_or(path, |(_, name)| name).to_owned();
        suites.extend(text.lines().map(|path| Suite { module, path: path.to_owned(), package: package(path) }));
    }
    Ok(suites)
}

/// Returns the suites of these names; all without a name.
///
/// # Errors
/// Returns an error with the known names if there is no such suite.
pub fn named(names: &[String]) -> Result<Vec<Suite>> {
    let all = all()?;
    let known: Vec<String> = all.iter().map(Suite::name).collect();
    for name in names {
        ensure!(known.contains(name), "there is no suite {name}: choose among {}", known.join(", "));
    }
    Ok(all.into_iter().filter(|suite| names.is_empty() || names.contains(&suite.name())).collect())
}

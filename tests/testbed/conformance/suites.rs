//! The suites of Karpenter and what each of them needs.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use super::folder;

/// Suite of end-to-end cases, one test program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suite {
    /// Module and package, such as `core/regression`.
    pub name: String,
    /// Import path of the package.
    pub package: String,
}

impl Suite {
    /// Returns the Go module that builds the program.
    #[must_use]
    pub fn module(&self) -> &str {
        self.name.split_once('/').map_or(&self.name, |(module, _)| module)
    }

    /// Returns the name of the package, as in its program's name.
    #[must_use]
    pub fn short_name(&self) -> &str {
        self.package.rsplit_once('/').map_or(&self.package, |(_, name)| name)
    }

    /// Returns the file of the results.
    #[must_use]
    pub fn results(&self) -> PathBuf {
        folder().join("results").join(format!("{}.json", self.name.replace('/', "-")))
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
        suites.extend(text.lines().map(|package| {
            let short = package.rsplit_once('/').map_or(package, |(_, name)| name);
            Suite { name: format!("{module}/{short}"), package: package.to_owned() }
        }));
    }
    Ok(suites)
}

/// Returns the suites of these names; all without a name.
///
/// # Errors
/// Returns an error with the known names if there is no such suite.
pub fn named(names: &[String]) -> Result<Vec<Suite>> {
    let all = all()?;
    for name in names {
        let known: Vec<&str> = all.iter().map(|suite| suite.name.as_str()).collect();
        ensure!(known.contains(&name.as_str()), "there is no suite {name}: choose among {}", known.join(", "));
    }
    Ok(all.into_iter().filter(|suite| names.is_empty() || names.contains(&suite.name)).collect())
}

//! Results of a suite, as a file of the checkout.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::suites::Suite;

/// Longest stored message of a failed case.
const MESSAGE: usize = 600;

/// End of a case; the worst one is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// All expectations were met.
    Passed,
    /// The suite itself left it out.
    Skipped,
    /// It has not run yet.
    NotRun,
    /// An expectation was not met.
    Failed,
}

/// Result of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// File of the suite.
    pub file: String,
    /// Full name.
    pub name: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Duration.
    pub seconds: f64,
    /// Failed expectation, or why the suite skips the case.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Results of all cases of a suite, by file and name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results(BTreeMap<(String, String), Case>);

impl Results {
    /// Reads the results of the checkout; none before the first run.
    ///
    /// # Errors
    /// Returns an error with the file's name if it is invalid.
    pub fn read(suite: &Suite) -> Result<Self> {
        let file = suite.results();
        let Ok(text) = std::fs::read_to_string(&file) else { return Ok(Self::default()) };
        let cases: Vec<Case> =
            serde_json::from_str(&text).with_context(|| format!("{} is no list of cases", file.display()))?;
        Ok(cases.into_iter().collect())
    }

    /// Writes the results, one case a line.
    ///
    /// # Errors
    /// Returns an error with the file's name if it cannot be written.
    pub fn write(&self, suite: &Suite) -> Result<()> {
        let file = suite.results();
        let lines: Vec<String> = self.cases().map(serde_json::to_string).collect::<Result<_, _>>()?;
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let text = format!("[\n{}\n]\n", lines.join(",\n"));
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
    }

    /// Replaces the results of these cases.
    pub fn replace(&mut self, ran: Vec<Case>) {
        let ran: Self = ran.into_iter().collect();
        self.0.extend(ran.0);
    }

    /// Returns all cases in the order of file and name.
    pub fn cases(&self) -> impl Iterator<Item = &Case> {
        self.0.values()
    }
}

impl FromIterator<Case> for Results {
    /// Two cases of one name count as one with the worse end.
    fn from_iter<T: IntoIterator<Item = Case>>(cases: T) -> Self {
        let mut all = BTreeMap::new();
        for mut case in cases {
            case.message = case.message.chars().take(MESSAGE).collect();
            let key = (case.file.clone(), case.name.clone());
            let worse = all.get(&key).is_none_or(|known: &Case| known.outcome < case.outcome);
            if worse {
                all.insert(key, case);
            }
        }
        Self(all)
    }
}

//! Settings of the running agent: the settings part of user data, else the file in the machine image, else the defaults.
//! Invalid settings never stop the agent: it uses the defaults and reports the problem.

use std::fs;
use std::path::Path;

use machine::agent::{self, AgentSettings};
use machine::userdata;

use crate::aws::imds::{Imds, ImdsError};

/// Settings of the image, below the machine's root.
pub const FILE: &str = "etc/kerf/agent.yaml";

/// Settings, with the problem of reading them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policies {
    /// The settings.
    pub settings: AgentSettings,
    /// The problem in one sentence with its remedy.
    pub problem: Option<String>,
}

/// Reads the settings.
///
/// # Errors
/// Only when IMDS does not respond; the caller retries.
pub async fn read(root: &Path, imds: &Imds) -> Result<Policies, ImdsError> {
    let user_data = imds.user_data().await?;
    let parsed = user_data.map(|raw| userdata::parse_agent(&raw)).transpose();
    Ok(match parsed.map(Option::flatten) {
        Ok(Some(settings)) => Policies { settings, problem: None },
        Ok(None) => from_file(root),
        Err(error) => Policies { problem: Some(daemon::error::chain(&error)), ..from_file(root) },
    })
}

fn from_file(root: &Path) -> Policies {
    let path = root.join(FILE);
    let Ok(text) = fs::read_to_string(&path) else {
        return Policies::default();
    };
    match agent::parse(&text) {
        Ok(settings) => Policies { settings, problem: None },
        Err(error) => {
            let problem = format!("cannot use {}: {}", path.display(), daemon::error::chain(&error));
            Policies { problem: Some(problem), ..Policies::default() }
        }
    }
}

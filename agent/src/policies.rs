//! The settings of the running agent: the settings part of user data, else the file that the image's builder left, else the defaults.
//! Settings that cannot be read never stop the agent: it guards the node by the defaults, and says what is wrong.

use std::fs;
use std::path::Path;

use machine::agent::{self, AgentSettings};
use machine::userdata;

use crate::imds::{Imds, ImdsError};

/// The image's own settings, below the machine's root.
pub const FILE: &str = "etc/kerf/agent.yaml";

/// Settings, and where they are from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policies {
    /// What to follow.
    pub settings: AgentSettings,
    /// What could not be read, in a sentence with its cure.
    pub problem: Option<String>,
}

/// Reads the settings.
///
/// # Errors
/// Only when metadata does not answer: ask again.
pub async fn read(root: &Path, imds: &Imds) -> Result<Policies, ImdsError> {
    let user_data = imds.user_data().await?;
    let told = user_data.map(|raw| userdata::parse_agent(&raw)).transpose();
    Ok(match told.map(Option::flatten) {
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

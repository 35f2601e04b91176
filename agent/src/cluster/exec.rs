//! Tokens printed by a command (`aws eks get-token`), cached until shortly before they expire.

use std::process::Stdio;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;

use super::error::ClusterError;
use crate::aws::identity::{Audience, Token, recognise};
use crate::host::secret::Secret;

/// Time limit for the command.
const PATIENCE: Duration = Duration::from_secs(30);
/// Lifetime of a token without an expiry, and the time before an expiry at which a token is renewed.
const UNDATED: jiff::SignedDuration = jiff::SignedDuration::from_mins(10);
const MARGIN: jiff::SignedDuration = jiff::SignedDuration::from_mins(1);

/// The `exec` entry of a kubeconfig's user.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Command {
    /// The program, searched in PATH.
    pub command: String,
    /// Arguments of the program.
    #[serde(default)]
    pub args: Vec<String>,
    /// Environment variables of the program.
    pub env: Option<Vec<Variable>>,
}

/// Environment variable of the command.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Variable {
    /// Name of the variable.
    pub name: String,
    /// Value of the variable, which may be a password.
    pub value: Secret,
}

#[derive(Deserialize)]
struct ExecCredential {
    status: ExecStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecStatus {
    token: Secret,
    expiration_timestamp: Option<Timestamp>,
}

impl Command {
    /// Returns the audience of the token that the agent can sign itself instead of running the command.
    #[must_use]
    pub fn audience(&self) -> Option<Audience> {
        let variables = self.env.iter().flatten().map(|it| (it.name.clone(), it.value.expose().to_owned()));
        recognise::audience(&self.command, &self.args, &variables.collect::<Vec<_>>())
    }

    /// Runs the command and parses the token that it prints.
    pub(super) async fn token(&self, now: Timestamp) -> Result<Token, ClusterError> {
        let failed = |problem: String| ClusterError::Exec { command: self.command.clone(), problem };
        let variables = self.env.iter().flatten().map(|variable| (&variable.name, variable.value.expose()));
        let mut command = tokio::process::Command::new(&self.command);
        command.args(&self.args).envs(variables).stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(PATIENCE, command.output()).await;
        let output = output.map_err(|_| failed(format!("no exit within {} s", PATIENCE.as_secs())))?;
        let output = output.map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            let said: String = String::from_utf8_lossy(&output.stderr).trim().chars().take(200).collect();
            return Err(failed(format!("{}: {said}", output.status)));
        }
        credential(&output.stdout, now).map_err(failed)
    }
}

/// Parses the token that a command printed as an `ExecCredential`, valid from `now` on.
///
/// # Errors
/// The parse error of any other text.
pub fn credential(text: &[u8], now: Timestamp) -> Result<Token, String> {
    let read: ExecCredential = machine::document::read_json(text).map_err(|fault| fault.to_string())?;
    let status = read.status;
    let end = status.expiration_timestamp.unwrap_or(now + UNDATED + MARGIN);
    // An expiry near the least timestamp is no error: the next token may be valid.
    let renew = end.checked_sub(MARGIN).unwrap_or(end);
    Ok(Token { text: status.token, signed: now, renew, end })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: &str = "2026-01-01T12:00:00Z";

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap_or_default()
    }

    #[test]
    fn credential_is_fresh_until_a_minute_before_its_expiry() {
        let text = br#"{"kind":"ExecCredential","status":{"token":"t","expirationTimestamp":"2026-01-01T12:14:00Z"}}"#;
        let fresh = |now| credential(text, at(NOON)).map(|token| token.is_fresh(at(now)));
        assert_eq!(fresh("2026-01-01T12:12:59Z"), Ok(true));
        assert_eq!(fresh("2026-01-01T12:13:00Z"), Ok(false));
    }

    #[test]
    fn credential_lasts_ten_minutes_when_it_has_no_expiry() {
        let fresh = |now| credential(br#"{"status":{"token":"t"}}"#, at(NOON)).map(|token| token.is_fresh(at(now)));
        assert_eq!(fresh("2026-01-01T12:09:59Z"), Ok(true));
        assert_eq!(fresh("2026-01-01T12:10:00Z"), Ok(false));
    }
}

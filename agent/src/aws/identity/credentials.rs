//! The instance role's credentials from IMDS, cached until shortly before their end. When IMDS does not respond, the
//! credentials are used to their very end, because a machine with valid credentials should not stop using them early.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use machine::quote::quote;
use serde::Deserialize;
use tokio::sync::Mutex;

use super::signing::Keys;
use crate::aws::imds::{Imds, ImdsError};

const PATH: &str = "meta-data/iam/security-credentials/";
/// Time before the end of credentials at which they are renewed. EC2 provides the next credentials at least this long before
/// the end.
const RENEW_BEFORE: SignedDuration = SignedDuration::from_mins(5);
/// Least interval between requests while IMDS has no newer credentials.
const ASK_AGAIN: SignedDuration = SignedDuration::from_secs(30);

/// Reasons why the machine has no credentials.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialsError {
    /// IMDS did not respond.
    #[error("cannot read the credentials of the instance role")]
    Metadata(#[source] ImdsError),
    /// The instance has no role.
    #[error(
        "the instance has no role; attach an instance profile whose role is mapped in the cluster (it appears \
         seconds after the boot)"
    )]
    NoRole,
    /// IMDS has a role, but no credentials for it.
    #[error("no credentials for role {role} ({code}); check that its trust policy allows ec2.amazonaws.com")]
    Refused {
        /// Name of the role.
        role: String,
        /// Code in the response of IMDS.
        code: String,
    },
    /// The response of IMDS is no credentials document.
    #[error("metadata did not return credentials for role {role}; is a proxy or another agent in between?")]
    Content {
        /// Name of the role.
        role: String,
    },
    /// The credentials have expired and IMDS has no newer ones.
    #[error(
        "the credentials of role {role} expired at {end}, and metadata has no newer ones; check the clock and the \
         role"
    )]
    Ended {
        /// Name of the role.
        role: String,
        /// Time of expiration.
        end: Timestamp,
    },
}

/// Credentials of a role, with their expiration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Name of the role.
    pub role: String,
    /// Keys for signatures.
    pub keys: Keys,
    /// Time of expiration.
    pub end: Timestamp,
}

/// Role of this instance. Sharing it behind an `Arc` is cheap.
#[derive(Debug)]
pub struct Role {
    imds: Arc<Imds>,
    fips: bool,
    held: Mutex<Option<CachedCredentials>>,
}

#[derive(Debug)]
struct CachedCredentials {
    credentials: Credentials,
    asked: Timestamp,
}

impl CachedCredentials {
    /// Reports whether these credentials can be used without a request to IMDS.
    fn will_do(&self, now: Timestamp) -> bool {
        let end = self.credentials.end;
        now + RENEW_BEFORE < end || (self.is_new(now) && now < end)
    }

    fn is_new(&self, now: Timestamp) -> bool {
        let age = now.duration_since(self.asked);
        age >= SignedDuration::ZERO && age < ASK_AGAIN
    }
}

impl Role {
    /// Returns the role that `imds` has, without a request.
    #[must_use]
    pub fn new(imds: Arc<Imds>) -> Self {
        Self { imds, fips: false, held: Mutex::default() }
    }

    /// Sets whether tokens are for FIPS endpoints, for all callers.
    #[must_use]
    pub fn with_fips(self, fips: bool) -> Self {
        Self { fips, ..self }
    }

    /// Reports whether tokens are for FIPS endpoints.
    #[must_use]
    pub fn fips(&self) -> bool {
        self.fips
    }

    /// Returns credentials that are valid at `now`.
    ///
    /// # Errors
    /// [`CredentialsError`]; a later retry may succeed.
    pub async fn credentials(&self, now: Timestamp) -> Result<Credentials, CredentialsError> {
        let mut held = self.held.lock().await;
        if let Some(held) = held.as_ref().filter(|held| held.will_do(now)) {
            return Ok(held.credentials.clone());
        }
        let asked = self.ask().await;
        let known = held.take().map(|held| held.credentials);
        let credentials = choose(known, asked, now)?;
        *held = Some(CachedCredentials { credentials: credentials.clone(), asked: now });
        Ok(credentials)
    }

    /// Drops credentials that the server has refused, unless they were requested just now. The next caller receives the
    /// credentials that IMDS has then.
    pub async fn doubt(&self, now: Timestamp) {
        let mut held = self.held.lock().await;
        if held.as_ref().is_some_and(|held| !held.is_new(now)) {
            *held = None;
        }
    }

    async fn ask(&self) -> Result<Credentials, CredentialsError> {
        let names = self.imds.get(PATH).await.map_err(CredentialsError::Metadata)?.ok_or(CredentialsError::NoRole)?;
        let role = role_name(&names).ok_or(CredentialsError::NoRole)?;
        let document = self.imds.get(&format!("{PATH}{role}")).await.map_err(CredentialsError::Metadata)?;
        parse(&role, &document.ok_or(CredentialsError::NoRole)?)
    }
}

/// Chooses the credentials of IMDS, or the known ones while they are valid and IMDS has none.
fn choose(
    known: Option<Credentials>,
    asked: Result<Credentials, CredentialsError>,
    now: Timestamp,
) -> Result<Credentials, CredentialsError> {
    match (asked, known.filter(|known| now < known.end)) {
        (Ok(asked), _) if now < asked.end => Ok(asked),
        (Err(error), Some(known)) => {
            log::warn!(role = known.role.as_str(), error = daemon::error::chain(&error).as_str(); "failed to refresh the credentials, using the present ones");
            Ok(known)
        }
        (_, Some(known)) => Ok(known),
        (Ok(asked), None) => Err(CredentialsError::Ended { role: asked.role, end: asked.end }),
        (Err(error), None) => Err(error),
    }
}

/// Returns the name of the role from the list of IMDS; `None` for a body that is no list of names.
#[must_use]
pub fn role_name(body: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(body).ok()?.lines().next()?.trim();
    let plain = |c: char| c.is_ascii_alphanumeric() || "+=,.@_-".contains(c);
    (!name.is_empty() && name.chars().all(plain)).then(|| name.to_owned())
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Document {
    #[serde(default)]
    code: String,
    #[serde(default)]
    access_key_id: String,
    #[serde(default)]
    secret_access_key: String,
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    expiration: Option<Timestamp>,
}

/// Parses the credentials that IMDS has for `role`.
///
/// # Errors
/// [`CredentialsError::Refused`] with the code of IMDS, [`CredentialsError::Content`] for any other content.
pub fn parse(role: &str, body: &[u8]) -> Result<Credentials, CredentialsError> {
    let content = || CredentialsError::Content { role: role.to_owned() };
    let document: Document = machine::document::read_json(body).map_err(|_| content())?;
    if !document.code.is_empty() && document.code != "Success" {
        return Err(CredentialsError::Refused { role: role.to_owned(), code: quote(&document.code) });
    }
    let end = document.expiration.ok_or_else(content)?;
    if document.access_key_id.is_empty() || document.secret_access_key.is_empty() {
        return Err(content());
    }
    let keys = Keys {
        access_key: document.access_key_id,
        secret_key: document.secret_access_key,
        session_token: document.token.filter(|token| !token.is_empty()),
    };
    Ok(Credentials { role: role.to_owned(), keys, end })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
    }

    fn until(end: i64, key: &str) -> Credentials {
        let keys = Keys { access_key: key.into(), secret_key: "s".into(), session_token: None };
        Credentials { role: "node".into(), keys, end: at(end) }
    }

    #[test]
    fn will_do_returns_false_five_minutes_before_expiration() {
        let held = CachedCredentials { credentials: until(1000, "a"), asked: at(0) };
        assert!(held.will_do(at(699)) && !held.will_do(at(700)) && !held.will_do(at(999)));
        let held = CachedCredentials { credentials: until(1000, "a"), asked: at(800) };
        assert!(held.will_do(at(829)) && !held.will_do(at(830)) && !held.will_do(at(1000)));
    }

    #[test]
    fn choose_keeps_known_credentials_until_they_expire() {
        let gone = || Err(CredentialsError::NoRole);
        let key = |chosen: Result<Credentials, CredentialsError>| {
            chosen.map_or_else(|error| error.to_string(), |chosen| chosen.keys.access_key)
        };
        let (old, new) = (|| Some(until(1000, "old")), || Ok(until(2000, "new")));
        assert_eq!(key(choose(old(), new(), at(900))), "new");
        assert_eq!(key(choose(old(), gone(), at(900))), "old");
        assert_eq!(key(choose(None, new(), at(900))), "new");
        assert_eq!(key(choose(old(), Ok(until(800, "stale")), at(900))), "old");
        assert!(key(choose(old(), gone(), at(1000))).contains("has no role"));
        assert!(key(choose(None, Ok(until(800, "stale")), at(900))).contains("expired at 1970-01-01T00:13:20Z"));
    }

    #[test]
    fn parse_rejects_documents_without_credentials() {
        let good = r#"{"Code":"Success","LastUpdated":"2026-11-21T20:00:00Z","Type":"AWS-HMAC","AccessKeyId":"ASIA1",
            "SecretAccessKey":"s/1","Token":"t","Expiration":"2026-11-22T02:00:00Z"}"#;
        let parsed = parse("node", good.as_bytes()).map_err(|error| error.to_string());
        let keys = Keys { access_key: "ASIA1".into(), secret_key: "s/1".into(), session_token: Some("t".into()) };
        let end = "2026-11-22T02:00:00Z".parse().unwrap_or_default();
        assert_eq!(parsed, Ok(Credentials { role: "node".into(), keys, end }));
        let rows = [
            (
                r#"{"Code":"AssumeRoleUnauthorizedAccess","Message":"EC2 cannot assume the role"}"#,
                "(AssumeRoleUnauthorizedAccess)",
            ),
            ("<html>", "did not return credentials"),
            ("{}", "did not return credentials"),
            (&good.replace("ASIA1", ""), "did not return credentials"),
        ];
        for (body, part) in rows {
            let result = parse("node", body.as_bytes()).map_or_else(|error| error.to_string(), |_| "accepted".into());
            assert!(result.contains(part), "{body}: {result}");
        }
        assert_eq!(role_name(b"node-role\nother\n"), Some("node-role".to_owned()));
        assert_eq!((role_name(b""), role_name(b"<html>")), (None, None));
    }
}

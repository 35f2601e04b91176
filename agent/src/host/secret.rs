//! Texts that no log may show.

use std::fmt;

use serde::Deserialize;

/// A token, a password or another credential. Its debug format has no part of the text.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Returns the text, for the request that needs it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::aws::identity::Token;
    use crate::aws::identity::credentials;
    use crate::cluster::{Command, Credentials, Material, Variable};
    use crate::host::environment::Environment;

    #[test]
    fn debug_of_credentials_has_no_secret() {
        const SECRET: &str = "hunter2";
        let now = Timestamp::UNIX_EPOCH;
        let secret = || Secret::from(SECRET.to_owned());
        let variable = Variable { name: "PASSWORD".to_owned(), value: secret() };
        let command = Command { command: "print".to_owned(), args: Vec::new(), env: Some(vec![variable]) };
        let data = Material::Data(SECRET.into());
        let of_role = format!(
            r#"{{"Code": "Success", "AccessKeyId": "ASIA", "SecretAccessKey": "{SECRET}", "Token": "{SECRET}",
                "Expiration": "2026-01-01T12:00:00Z"}}"#
        );
        let role = credentials::parse("node", of_role.as_bytes());
        assert!(role.is_ok(), "{role:?}");
        let environment: Environment =
            [("HTTPS_PROXY".to_owned(), format!("http://me:{SECRET}@proxy"))].into_iter().collect();
        let shown = [
            format!("{:?}", Credentials::Token(secret())),
            format!("{:?}", Credentials::Exec(command)),
            format!("{:?}", Credentials::Certificate { certificate: data.clone(), key: data }),
            format!("{:?}", Token { text: secret(), signed: now, renew: now, end: now }),
            format!("{role:?}"),
            format!("{environment:?}"),
        ];
        let bytes = format!("{:?}", SECRET.as_bytes());
        for text in shown {
            assert!(!text.contains(SECRET) && !text.contains(&bytes), "{text}");
        }
    }
}

//! `kerf-agent token`: a credential plugin for kubelet's kubeconfig, so that an image does not need the AWS CLI for it.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Audience, CredentialsError, Role, Token, token};

/// Version of the output, unless the caller requests the other one.
const BETA: &str = "client.authentication.k8s.io/v1beta1";
const STABLE: &str = "client.authentication.k8s.io/v1";

/// Returns the `ExecCredential` that kubelet reads from our output. `asked` is the caller's request, an `ExecCredential` too.
///
/// # Errors
/// [`CredentialsError`]; kubelet retries by itself.
pub async fn credential(
    role: &Role,
    audience: &Audience,
    asked: Option<&str>,
    now: Timestamp,
) -> Result<Value, CredentialsError> {
    let credentials = role.credentials(now).await?;
    Ok(rendered(&token::sign(audience, &credentials.keys, credentials.end, now), asked))
}

fn rendered(token: &Token, asked: Option<&str>) -> Value {
    let asked: Value = asked.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let version = if asked["apiVersion"] == STABLE { STABLE } else { BETA };
    json!({
        "apiVersion": version,
        "kind": "ExecCredential",
        "spec": {},
        "status": {"expirationTimestamp": format!("{:.0}", token.end), "token": token.text.expose()},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rendered_uses_the_api_version_of_the_caller() {
        let end: Timestamp = "2026-11-21T21:14:00.5Z".parse().unwrap_or_default();
        let token = Token { text: "k8s-aws-v1.x".to_owned().into(), signed: end, renew: end, end };
        let stable = r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{}}"#;
        for (asked, version) in [(Some(stable), STABLE), (Some("junk"), BETA), (None, BETA)] {
            let rendered_json = rendered(&token, asked);
            assert_eq!(rendered_json["apiVersion"], version);
            assert_eq!(rendered_json["status"]["token"], "k8s-aws-v1.x");
            assert_eq!(rendered_json["status"]["expirationTimestamp"], "2026-11-21T21:14:00Z");
        }
    }
}

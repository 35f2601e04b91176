//! The account, and STS: AssumeRoleWithWebIdentity, by which a pod with an IAM role gets its credentials, and GetCallerIdentity,
//! which only other clients use.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::answer::{Failure, Reply, invalid};
use super::form::Form;
use super::xml::Xml;

/// Account of all resources.
pub(super) const ACCOUNT: &str = "123456789012";
/// Call that a token authenticates in place of a signature.
pub(super) const WEB_IDENTITY: &str = "AssumeRoleWithWebIdentity";
/// Audience of tokens for STS.
const AUDIENCE: &str = "sts.amazonaws.com";
/// Duration of the credentials.
const SESSION: SignedDuration = SignedDuration::from_hours(1);

/// Runs the call of STS in `form`.
pub(super) fn sts(form: &Form, now: Timestamp) -> Result<Reply, Failure> {
    match form.text("Action") {
        "GetCallerIdentity" => Ok(caller_identity()),
        WEB_IDENTITY => assume_role(form, now),
        other => Err(invalid("InvalidAction", format!("Could not find operation {other}"))),
    }
}

fn caller_identity() -> Reply {
    let body = Xml::sts_response("GetCallerIdentity", |xml| {
        xml.text("Arn", format!("arn:aws:iam::{ACCOUNT}:user/tester"));
        xml.text("UserId", "AIDAFAKEFAKEFAKEFAKE1");
        xml.text("Account", ACCOUNT);
    });
    Reply { body, summary: ACCOUNT.to_owned() }
}

/// Issues credentials for a service account's token. Its signature is not verified; a test may show the token to the API server.
fn assume_role(form: &Form, now: Timestamp) -> Result<Reply, Failure> {
    let claims = claims(form.text("WebIdentityToken"))
        .ok_or_else(|| invalid("InvalidIdentityToken", "The token is no JWT.".to_owned()))?;
    let audiences = claims["aud"].as_array().into_iter().flatten();
    if !audiences.into_iter().any(|audience| audience == AUDIENCE) {
        return Err(invalid("InvalidIdentityToken", format!("Incorrect token audience: {}", claims["aud"])));
    }
    if claims["exp"].as_i64().is_none_or(|end| end < now.as_second()) {
        return Err(invalid("ExpiredTokenException", format!("Token expired: {}", claims["exp"])));
    }
    let subject = claims["sub"].as_str().unwrap_or_default().to_owned();
    let (role, session) = (form.text("RoleArn"), form.text("RoleSessionName"));
    let body = Xml::sts_response(WEB_IDENTITY, |xml| {
        xml.element("Credentials", |xml| {
            xml.text("AccessKeyId", "ASIAFAKEWEBIDENTITY1");
            xml.text("SecretAccessKey", "secret");
            xml.text("SessionToken", "session");
            xml.text("Expiration", now + SESSION);
        });
        xml.text("SubjectFromWebIdentityToken", &subject);
        xml.element("AssumedRoleUser", |xml| {
            xml.text(
                "Arn",
                format!("{}/{session}", role.replace(":iam:", ":sts:").replace(":role/", ":assumed-role/")),
            );
            xml.text("AssumedRoleId", format!("AROAFAKE:{session}"));
        });
        xml.text("Audience", AUDIENCE);
    });
    Ok(Reply { body, summary: format!("{role} for {subject}") })
}

/// Returns the claims of a JWT.
fn claims(token: &str) -> Option<Value> {
    let payload = token.split('.').nth(1)?;
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()
}

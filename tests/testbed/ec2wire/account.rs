//! The account, and STS' GetCallerIdentity, which Kerf does not use; other clients do.

use super::answer::{Failure, Reply, invalid};
use super::form::Form;
use super::xml::Xml;

/// Account of all resources.
pub(super) const ACCOUNT: &str = "123456789012";

/// Runs the call of STS in `form`.
pub(super) fn sts(form: &Form) -> Result<Reply, Failure> {
    let action = form.text("Action");
    if action != "GetCallerIdentity" {
        return Err(invalid("InvalidAction", format!("Could not find operation {action}")));
    }
    let body = Xml::sts_response(action, |xml| {
        xml.text("Arn", format!("arn:aws:iam::{ACCOUNT}:user/tester"));
        xml.text("UserId", "AIDAFAKEFAKEFAKEFAKE1");
        xml.text("Account", ACCOUNT);
    });
    Ok(Reply { body, summary: ACCOUNT.to_owned() })
}

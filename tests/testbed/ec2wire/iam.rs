//! Instance profiles and roles of IAM in its query protocol.

use std::collections::BTreeMap;

use cloud::fake::FakeCloud;
use cloud::policy::evaluation::{DocumentError, PolicySet};
use cloud::{Cloud, InstanceProfile, InstanceProfileRequest};
use serde_json::{Value, json};

use super::answer::{Failure, Reply, cut, invalid};
use super::form::Form;
use super::xml::Xml;
use super::{Shared, lock};
use crate::controller_pods::ROLE;

/// Number of profiles per page.
const PAGE: usize = 1000;

/// Creation time of all roles.
const CREATED: &str = "2026-01-01T00:00:00Z";

/// Inline policies of roles: documents by the names of role and policy.
#[derive(Debug, Default)]
pub(super) struct InlinePolicies(BTreeMap<(String, String), Value>);

impl InlinePolicies {
    /// Returns the policies that authorize the controller: those of its role, besides one that allows every call. Returns `None`
    /// without policies.
    fn of_controller(&self) -> Result<Option<PolicySet>, Failure> {
        let own: Vec<&Value> =
            self.0.iter().filter(|((role, _), _)| role == ROLE).map(|(_, document)| document).collect();
        if own.is_empty() {
            return Ok(None);
        }
        let all = json!({"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}});
        let mut policies = PolicySet::default();
        for document in std::iter::once(&all).chain(own) {
            let wrong = |error: DocumentError| invalid("MalformedPolicyDocument", error.to_string());
            policies.add(document).map_err(wrong)?;
        }
        Ok(Some(policies))
    }
}

/// Adds or deletes an inline policy of a role.
fn change_inline_policy(shared: &Shared, form: &Form) -> Result<(), Failure> {
    let (role, policy) = (form.owned("RoleName"), form.owned("PolicyName"));
    if !shared.cloud.account().has_role(&role) {
        return Err(missing_role(&role));
    }
    let mut policies = lock(&shared.inline_policies);
    let key = (role, policy);
    if form.text("Action") == "DeleteRolePolicy" {
        let missing = || invalid("NoSuchEntity", format!("The role policy with name {} cannot be found.", key.1));
        policies.0.remove(&key).ok_or_else(missing)?;
    } else {
        let wrong = |error: serde_json::Error| invalid("MalformedPolicyDocument", error.to_string());
        let document = serde_json::from_str(form.text("PolicyDocument")).map_err(wrong)?;
        policies.0.insert(key, document);
    }
    shared.cloud.set_policies(policies.of_controller()?);
    Ok(())
}

/// Runs the call in `form`.
pub(super) async fn act(shared: &Shared, form: &Form) -> Result<Reply, Failure> {
    let cloud = &shared.cloud;
    let (profile, role) = (form.text("InstanceProfileName"), form.text("RoleName"));
    match form.text("Action") {
        "GetInstanceProfile" => return get(cloud, profile).await,
        "ListInstanceProfiles" => return list(cloud, form).await,
        "CreateInstanceProfile" => return create(cloud, form).await,
        "AddRoleToInstanceProfile" => cloud.add_role_to_instance_profile(profile, role).await?,
        "RemoveRoleFromInstanceProfile" => cloud.remove_role_from_instance_profile(profile, role).await?,
        "DeleteInstanceProfile" => cloud.delete_instance_profile(profile).await?,
        "GetRole" => return role_named(cloud, "GetRole", role),
        "CreateRole" => {
            cloud.add_role(role);
            return role_named(cloud, "CreateRole", role);
        }
        "PutRolePolicy" | "DeleteRolePolicy" => change_inline_policy(shared, form)?,
        other => change_role(cloud, other, role)?,
    }
    let body = Xml::iam_response(form.text("Action"), |_| {});
    Ok(Reply { body, summary: "done".to_owned() })
}

/// Changes a role. Attached policies have no effect: the fake's instances may do everything.
fn change_role(cloud: &FakeCloud, action: &str, name: &str) -> Result<(), Failure> {
    let found = match action {
        "DeleteRole" => {
            let found = cloud.account().has_role(name);
            cloud.remove_role(name);
            found
        }
        "AttachRolePolicy" | "DetachRolePolicy" => cloud.account().has_role(name),
        other => return Err(invalid("InvalidAction", format!("Could not find operation {other}"))),
    };
    if found { Ok(()) } else { Err(missing_role(name)) }
}

fn role_named(cloud: &FakeCloud, action: &str, name: &str) -> Result<Reply, Failure> {
    if !cloud.account().has_role(name) {
        return Err(missing_role(name));
    }
    let body = Xml::iam_response(action, |xml| {
        xml.element("Role", |xml| role(xml, name, CREATED));
    });
    Ok(Reply { body, summary: name.to_owned() })
}

fn missing_role(name: &str) -> Failure {
    invalid("NoSuchEntity", format!("The role with name {name} cannot be found."))
}

async fn get(cloud: &dyn Cloud, name: &str) -> Result<Reply, Failure> {
    let Some(found) = cloud.instance_profile(name).await? else {
        return Err(invalid("NoSuchEntity", format!("Instance Profile {name} cannot be found.")));
    };
    let body = Xml::iam_response("GetInstanceProfile", |xml| {
        xml.element("InstanceProfile", |xml| profile(xml, &found));
    });
    Ok(Reply { body, summary: found.roles.join(", ") })
}

async fn list(cloud: &dyn Cloud, form: &Form) -> Result<Reply, Failure> {
    let found = cloud.instance_profiles(form.text("PathPrefix")).await?;
    let summary = format!("{} profiles", found.len());
    let (rows, next) = cut(found, form.read("MaxItems").unwrap_or(100), form.get("Marker"), PAGE)?;
    let body = Xml::iam_response("ListInstanceProfiles", |xml| {
        members(xml, "InstanceProfiles", &rows, profile);
        xml.text("IsTruncated", next.is_some());
        xml.some("Marker", next);
    });
    Ok(Reply { body, summary })
}

async fn create(cloud: &dyn Cloud, form: &Form) -> Result<Reply, Failure> {
    let tags = form.list("Tags.member").iter().map(|tag| (tag.owned("Key"), tag.owned("Value"))).collect();
    let request = InstanceProfileRequest {
        name: form.owned("InstanceProfileName"),
        path: form.get("Path").unwrap_or("/").to_owned(),
        tags,
    };
    cloud.create_instance_profile(&request).await?;
    let made = cloud.instance_profile(&request.name).await?.unwrap_or_default();
    let body = Xml::iam_response("CreateInstanceProfile", |xml| {
        xml.element("InstanceProfile", |xml| profile(xml, &made));
    });
    Ok(Reply { body, summary: "created".to_owned() })
}

fn profile(xml: &mut Xml, row: &InstanceProfile) {
    xml.text("InstanceProfileName", &row.name);
    xml.text("InstanceProfileId", "AIPAFAKEFAKEFAKEFAKE1");
    xml.text("Arn", format!("arn:aws:iam::123456789012:instance-profile{}{}", row.path, row.name));
    xml.text("Path", &row.path);
    xml.text("CreateDate", &row.created);
    members(xml, "Roles", &row.roles, |xml, name| role(xml, name, &row.created));
    members(xml, "Tags", &row.tags, |xml, (key, value)| {
        xml.text("Key", key);
        xml.text("Value", value);
    });
}

fn role(xml: &mut Xml, name: &str, created: &str) {
    xml.text("RoleName", name);
    xml.text("RoleId", "AROAFAKEFAKEFAKEFAKE1");
    xml.text("Arn", format!("arn:aws:iam::123456789012:role/{name}"));
    xml.text("Path", "/");
    xml.text("CreateDate", created);
}

/// Writes a list of IAM, which contains `member` instead of `item`.
fn members<T>(xml: &mut Xml, name: &str, rows: impl IntoIterator<Item = T>, each: impl Fn(&mut Xml, T)) {
    xml.element(name, |xml| {
        for row in rows {
            xml.element("member", |xml| each(xml, row));
        }
    });
}

/// Returns IAM's error document.
pub(super) fn error_xml(code: &str, message: &str) -> String {
    let mut xml = Xml::default();
    xml.element("ErrorResponse", |xml| {
        xml.element("Error", |xml| {
            xml.text("Type", "Sender");
            xml.text("Code", code);
            xml.text("Message", message);
        });
        xml.text("RequestId", super::answer::REQUEST_ID);
    });
    xml.into_text()
}

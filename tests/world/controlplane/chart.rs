//! The rights that the chart grants, applied: in every test the controller and the nodes may do what the chart lets them do, and nothing
//! else. `rights.json` holds them as Helm renders them, so that a control plane needs no Helm; a test of the chart keeps it fresh.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};

use super::CONTROLLER;
use crate::eventually;
use crate::helm::{Helm, Version};

/// Kinds that say who may do what.
const RIGHTS: [&str; 7] = [
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

/// Values that the chart asks for and that rights do not depend on.
const VALUES: [&str; 2] = ["--set=settings.clusterName=kerf", "--set=kerf.image.repository=kerf"];

/// How long the API server may take to hear of its own new roles.
const HEARD: Duration = Duration::from_secs(120);

/// One right of each role that is bound.
const ONE_OF_EACH: [(&str, &str, &str); 3] = [
    ("karpenter.k8s.aws", "ec2nodeclasses", "list"),
    ("", "pods", "list"),
    ("coordination.k8s.io", "leases", "create"),
];

/// The chart's objects of these kinds, as Helm renders them for release `karpenter` in kube-system.
const RENDERED: &str = include_str!("rights.json");

/// Returns the text of `rights.json`, as Helm renders the chart now.
///
/// # Errors
/// When Helm cannot be built or refuses the chart.
pub fn render_rights() -> Result<String> {
    let mut objects = Helm::find(Version::Four)?.render(&Helm::chart("chart"), &VALUES)?;
    objects.retain(|object| object.types.as_ref().is_some_and(|types| RIGHTS.contains(&types.kind.as_str())));
    Ok(serde_json::to_string_pretty(&objects)? + "\n")
}

/// Server-side applies the rights of the chart and waits until the controller's roles hold.
pub(super) async fn apply_rights(client: &Client) -> Result<()> {
    let objects: Vec<DynamicObject> = serde_json::from_str(RENDERED).context("rights.json holds no objects")?;
    for object in objects {
        let kind = object.types.as_ref().context("a document without kind")?;
        apply(client, &object, &GroupVersionKind::try_from(kind)?).await?;
    }
    for (group, resource, verb) in ONE_OF_EACH {
        eventually(&format!("the right to {verb} {resource}"), HEARD, async || {
            ensure!(is_allowed(client, group, resource, verb).await?, "it is not granted");
            Ok(Some(()))
        })
        .await?;
    }
    Ok(())
}

async fn is_allowed(client: &Client, group: &str, resource: &str, verb: &str) -> Result<bool> {
    let attributes = ResourceAttributes {
        group: Some(group.to_owned()),
        namespace: Some("kube-system".to_owned()),
        resource: Some(resource.to_owned()),
        verb: Some(verb.to_owned()),
        ..ResourceAttributes::default()
    };
    let spec = SubjectAccessReviewSpec {
        user: Some(CONTROLLER.to_owned()),
        resource_attributes: Some(attributes),
        ..SubjectAccessReviewSpec::default()
    };
    let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
    let answer = Api::all(client.clone()).create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

async fn apply(client: &Client, object: &DynamicObject, kind: &GroupVersionKind) -> Result<()> {
    let resource = ApiResource::from_gvk(kind);
    let api: Api<DynamicObject> = match object.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let (name, params) = (object.name_any(), PatchParams::apply("kerf-tests").force());
    let applied = api.patch(&name, &params, &Patch::Apply(object)).await;
    applied.with_context(|| format!("the API server refuses the {} {name}", kind.kind))?;
    Ok(())
}

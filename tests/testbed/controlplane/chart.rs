//! Permissions of the chart, applied to the control plane: in every test, the controller and the nodes have exactly these
//! permissions. `rights.json` contains them as rendered by Helm, so that a control plane needs no Helm. A test of the chart
//! keeps the file up to date.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};

use super::CONTROLLER;
use crate::eventually;
use crate::helm::{Helm, Version};

/// Kinds of objects that grant or restrict permissions.
const RIGHTS: [&str; 7] = [
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

/// Values that the chart requires, and those that grant every optional permission.
const VALUES: [&str; 4] = [
    "--set=settings.clusterName=kerf",
    "--set=kerf.image.repository=kerf",
    "--set=kerf.packing.enabled=true",
    "--set=kerf.surge.enabled=true",
];

/// Values of a controller that only observes.
const OBSERVER: [&str; 3] = [VALUES[0], VALUES[1], "--set=kerf.observe=true"];

/// Time limit until the API server applies its new roles.
const RELOAD: Duration = Duration::from_secs(120);

/// One permission of each bound role: group, resource, verb, and the name of the object if the role names one.
const ONE_OF_EACH: [(&str, &str, &str, Option<&str>); 4] = [
    ("karpenter.k8s.aws", "ec2nodeclasses", "list", None),
    ("", "pods", "list", None),
    ("coordination.k8s.io", "leases", "create", None),
    ("", "services", "get", Some("kube-dns")),
];

/// Objects of these kinds as rendered by Helm for release `karpenter` in kube-system.
const RENDERED: &str = include_str!("rights.json");

/// Returns the text of `rights.json`, as Helm renders the chart now.
///
/// # Errors
/// Returns an error if Helm cannot be built or rejects the chart.
pub fn render_rights() -> Result<String> {
    Ok(serde_json::to_string_pretty(&rendered(&VALUES)?)? + "\n")
}

fn rendered(values: &[&str]) -> Result<Vec<DynamicObject>> {
    let mut objects = Helm::find(Version::Four)?.render(&Helm::chart("chart"), values)?;
    objects.retain(|object| object.types.as_ref().is_some_and(|types| RIGHTS.contains(&types.kind.as_str())));
    Ok(objects)
}

/// Server-side applies the permissions of the chart and waits until the controller's roles take effect.
pub(super) async fn apply_rights(client: &Client) -> Result<()> {
    apply_all(client, serde_json::from_str(RENDERED).context("rights.json holds no objects")?).await
}

/// The same for a controller that only observes.
pub(super) async fn apply_observer_rights(client: &Client) -> Result<()> {
    let objects = tokio::task::spawn_blocking(|| rendered(&OBSERVER)).await;
    apply_all(client, objects.context("Helm was interrupted")??).await
}

async fn apply_all(client: &Client, objects: Vec<DynamicObject>) -> Result<()> {
    for object in objects {
        let kind = object.types.as_ref().context("a document without kind")?;
        apply(client, &object, &GroupVersionKind::try_from(kind)?).await?;
    }
    for (group, resource, verb, name) in ONE_OF_EACH {
        let attributes = ResourceAttributes {
            group: Some(group.to_owned()),
            name: name.map(str::to_owned),
            namespace: Some("kube-system".to_owned()),
            resource: Some(resource.to_owned()),
            verb: Some(verb.to_owned()),
            ..ResourceAttributes::default()
        };
        eventually(&format!("the right to {verb} {resource}"), RELOAD, async || {
            ensure!(is_allowed(client, &attributes).await?, "it is not granted");
            Ok(Some(()))
        })
        .await?;
    }
    Ok(())
}

async fn is_allowed(client: &Client, attributes: &ResourceAttributes) -> Result<bool> {
    let spec = SubjectAccessReviewSpec {
        user: Some(CONTROLLER.to_owned()),
        resource_attributes: Some(attributes.clone()),
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

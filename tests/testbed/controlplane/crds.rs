//! Installation of CustomResourceDefinitions: apply, then wait until they are served.

use std::time::Duration;

use anyhow::{Result, bail};
use futures::future::try_join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::{Scope, pinned_kind};
use kube::{Client, ResourceExt};

use crate::eventually;

const SERVED: Duration = Duration::from_secs(120);

/// Server-side applies all of `definitions`, then waits until objects of each served version can be listed and discovered. The API
/// server serves the objects of a new kind some time before it names the kind in its discovery.
pub(super) async fn apply(client: &Client, definitions: &[CustomResourceDefinition]) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply("kerf-tests").force();
    for definition in definitions {
        let name = definition.name_any();
        if let Err(error) = api.patch(&name, &params, &Patch::Apply(definition)).await {
            bail!("the API server refuses the CRD {name}: {}", reason(&error));
        }
    }
    try_join_all(definitions.iter().map(|definition| served(client, &api, definition))).await?;
    Ok(())
}

/// Returns the server's message without the status object that repeats it.
fn reason(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

async fn served(
    client: &Client,
    api: &Api<CustomResourceDefinition>,
    definition: &CustomResourceDefinition,
) -> Result<()> {
    let name = definition.name_any();
    eventually(&format!("the CRD {name} to be served"), SERVED, async || {
        let current = api.get(&name).await?;
        let conditions = current.status.and_then(|status| status.conditions);
        if let Some(broken) =
            conditions.iter().flatten().find(|c| c.type_ == "NonStructuralSchema" && c.status == "True")
        {
            bail!("{}", broken.message.as_deref().unwrap_or("not structural"));
        }
        for version in definition.spec.versions.iter().filter(|v| v.served) {
            let spec = &definition.spec;
            let kind = GroupVersionKind::gvk(&spec.group, &version.name, &spec.names.kind);
            let (resource, capabilities) = pinned_kind(client, &kind).await?;
            let objects: Api<DynamicObject> = match capabilities.scope {
                Scope::Namespaced => Api::default_namespaced_with(client.clone(), &resource),
                Scope::Cluster => Api::all_with(client.clone(), &resource),
            };
            objects.list(&ListParams::default().limit(1)).await?;
            take_first_creation(&objects, &resource).await;
        }
        Ok(Some(()))
    })
    .await
}

/// Sends one invalid creation of the kind. The API server delays the first creation of a new kind by 2 s for the sake of its
/// replicas. Kinds are old in real clusters, so this request takes the delay instead of a measurement.
async fn take_first_creation(objects: &Api<DynamicObject>, resource: &ApiResource) {
    let nothing = DynamicObject::new("first", resource);
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    drop(objects.create(&dry_run, &nothing).await);
}

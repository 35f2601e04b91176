//! Reads objects of a live cluster, for commands that can run without files. Only this module uses Kubernetes' client, and it only
//! lists, watches and gets objects.

mod events;
mod follow;
mod kinds;
mod seen;

use api::endpoint;
use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::config::KubeConfigOptions;
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::args::LiveCluster;
use crate::failure::{Failure, chain};
pub use events::events;
pub use follow::Follower;
use kinds::{CLAIMS, CLUSTER, LEASE, OLDEST, Resource, WORKLOADS, WRITTEN};
pub use seen::Seen;

/// Maximum number of objects in a response. Large lists would be a burden for the API server.
const PAGE: usize = 500;

/// Kinds to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveKinds {
    /// Kinds that users write: NodePools and classes of every version.
    Written,
    /// The same kinds, NodeClaims, Deployments, DaemonSets and the leader's Lease; also Nodes, pods and the other kinds of a
    /// plan, if the user may list all of them.
    Everything,
    /// Kinds that a plan depends on, in their current versions.
    Plan,
}

/// Reads the objects from the cluster of the kubeconfig.
///
/// # Errors
/// Returns an error if there is no cluster, if it does not respond, or if a list is forbidden; the message contains the fix.
pub fn read(kinds: LiveKinds, cluster: &LiveCluster) -> Result<Vec<Value>, Failure> {
    runtime()?.block_on(all(kinds, cluster))
}

fn runtime() -> Result<Runtime, Failure> {
    // Another part of the program may have installed the same provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::internal)
}

/// Reads these ConfigMaps, without those that do not exist.
///
/// # Errors
/// Returns the same errors as [`read`].
pub fn config_maps(cluster: &LiveCluster, namespace: &str, names: &[String]) -> Result<Vec<Value>, Failure> {
    runtime()?.block_on(async {
        let client = client(cluster).await?;
        let mut found = Vec::new();
        for name in names {
            found.extend(config_map(&client, namespace, name).await?);
        }
        Ok(found)
    })
}

async fn config_map(client: &Client, namespace: &str, name: &str) -> Result<Option<Value>, Failure> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let map = api.get_opt(name).await.map_err(|error| unreadable_map(namespace, name, &error))?;
    map.map(serde_json::to_value).transpose().map_err(Failure::internal)
}

/// Returns the error for a ConfigMap, with the missing right if there is one.
fn unreadable_map(namespace: &str, name: &str, error: &kube::Error) -> Failure {
    if is_forbidden(error) {
        let right = format!("verb get on resource configmaps in namespace {namespace}");
        return Failure::usage(format!("ConfigMap {name}: forbidden; you need {right}"));
    }
    Failure::unavailable(format!("ConfigMap {name}: {}; check the kubeconfig", chain(error)))
}

/// Reads the objects that users write, as YAML documents.
///
/// # Errors
/// Returns the same errors as [`read`].
pub fn manifests(cluster: &LiveCluster) -> Result<String, Failure> {
    let mut texts = Vec::new();
    for object in read(LiveKinds::Written, cluster)? {
        texts.push(serde_saphyr::to_string(&object).map_err(|error| Failure::fault(error.to_string()))?);
    }
    Ok(texts.join("---\n"))
}

async fn all(kinds: LiveKinds, cluster: &LiveCluster) -> Result<Vec<Value>, Failure> {
    let reader = Reader { client: client(cluster).await? };
    match kinds {
        LiveKinds::Written => reader.lists(WRITTEN.iter().chain(OLDEST)).await,
        LiveKinds::Everything => {
            let mut objects =
                reader.lists(WRITTEN.iter().chain(OLDEST).chain(CLAIMS).chain(WORKLOADS).chain(LEASE)).await?;
            objects.extend(reader.lists_if_permitted(CLUSTER).await?);
            Ok(objects)
        }
        LiveKinds::Plan => reader.lists(WRITTEN.iter().chain(CLAIMS).chain(WORKLOADS).chain(CLUSTER)).await,
    }
}

async fn client(cluster: &LiveCluster) -> Result<Client, Failure> {
    let config = match &cluster.context {
        None => Config::infer()
            .await
            .map_err(|error| Failure::usage(format!("no cluster: {}; set KUBECONFIG, or use files", chain(&error))))?,
        Some(context) => {
            let options = KubeConfigOptions { context: Some(context.clone()), ..KubeConfigOptions::default() };
            Config::from_kubeconfig(&options).await.map_err(|error| {
                let cure = "`kubectl config get-contexts` lists the contexts";
                Failure::usage(format!("--context {context}: {}; {cure}", chain(&error)))
            })?
        }
    };
    let server = config.cluster_url.to_string();
    if endpoint::is_plain_remote(&server) {
        return Err(Failure::usage(format!("kubeconfig: server {server} is not https; {}", endpoint::CURE)));
    }
    Client::try_from(config).map_err(|error| Failure::usage(chain(&error)))
}

struct Reader {
    client: Client,
}

impl Reader {
    /// Returns the objects of all kinds that the cluster serves.
    async fn lists(&self, resources: impl Iterator<Item = &Resource>) -> Result<Vec<Value>, Failure> {
        let mut objects = Vec::new();
        for resource in resources {
            objects.extend(self.list(resource).await.map_err(|error| unreadable(resource, &error, &["list"]))?);
        }
        Ok(objects)
    }

    /// Returns the same objects; nothing if the user may not list one of the kinds, because a plan needs all of them.
    async fn lists_if_permitted(&self, resources: &[Resource]) -> Result<Vec<Value>, Failure> {
        let mut objects = Vec::new();
        for resource in resources {
            match self.list(resource).await {
                Ok(found) => objects.extend(found),
                Err(error) if is_forbidden(&error) => return Ok(Vec::new()),
                Err(error) => return Err(unreadable(resource, &error, &["list"])),
            }
        }
        Ok(objects)
    }

    /// Returns the objects of a kind in the newest version that the cluster serves; none if it serves no version.
    async fn list(&self, resource: &Resource) -> Result<Vec<Value>, kube::Error> {
        Ok(self.newest(resource).await?.map_or_else(Vec::new, |(_, objects, _)| objects))
    }

    /// Returns the newest version of a kind that the cluster serves, the objects, and the resource version of their list.
    async fn newest(&self, resource: &Resource) -> Result<Option<(&'static str, Vec<Value>, String)>, kube::Error> {
        for version in resource.versions {
            match self.pages(resource, version).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                result => return result.map(|(objects, listed)| Some((*version, objects, listed))),
            }
        }
        Ok(None)
    }

    /// Returns the items of all pages with their type, which items of a list lack, and the resource version of the list.
    async fn pages(&self, resource: &Resource, version: &str) -> Result<(Vec<Value>, String), kube::Error> {
        let api_version = resource.api_version(version);
        let (mut objects, listed) = self.items(|next| resource.path(version, PAGE, next)).await?;
        for item in &mut objects {
            item["apiVersion"] = json!(api_version);
            item["kind"] = json!(resource.kind);
        }
        Ok((objects, listed))
    }

    /// Returns the items of all pages, and the resource version of the list. `path` gets the continue token of the page before, empty for
    /// the first one.
    async fn items(&self, path: impl Fn(&str) -> String) -> Result<(Vec<Value>, String), kube::Error> {
        let (mut objects, mut next) = (Vec::new(), String::new());
        loop {
            let request = Request::get(path(&next)).body(Vec::new()).map_err(kube::Error::HttpError)?;
            let mut page = self.client.request::<Value>(request).await?;
            objects.extend(page["items"].as_array_mut().map(std::mem::take).unwrap_or_default());
            next = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
            if next.is_empty() {
                let listed = page["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
                return Ok((objects, listed));
            }
        }
    }
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

/// Returns the error for a list or watch, with the missing right if there is one.
fn unreadable(resource: &Resource, error: &kube::Error, verbs: &[&str]) -> Failure {
    let name = resource.full_name();
    if is_forbidden(error) {
        let verbs = format!("verb{} {}", if verbs.len() > 1 { "s" } else { "" }, verbs.join(" and "));
        let page = if verbs.contains("watch") { "docs/replay.md" } else { "docs/live.md" };
        let right = format!("{verbs} on resource {} of API group \"{}\"", resource.plural, resource.group);
        return Failure::usage(format!("{name}: forbidden; you need {right} ({page} has the ClusterRole)"));
    }
    Failure::unavailable(format!("{name}: {}; check the kubeconfig", chain(error)))
}

//! Reads objects of a live cluster, for commands that can run without files. Only this file uses Kubernetes' client.

use api::endpoint;
use http::Request;
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::failure::{Failure, chain};

/// Kinds of Karpenter's APIs: group, versions from the newest, plural, kind.
const KINDS: [(&str, &[&str], &str, &str); 5] = [
    ("karpenter.k8s.aws", &["v1", "v1beta1"], "ec2nodeclasses", "EC2NodeClass"),
    ("karpenter.k8s.aws", &["v1alpha1"], "awsnodetemplates", "AWSNodeTemplate"),
    ("karpenter.sh", &["v1", "v1beta1"], "nodepools", "NodePool"),
    ("karpenter.sh", &["v1", "v1beta1"], "nodeclaims", "NodeClaim"),
    ("karpenter.sh", &["v1alpha5"], "provisioners", "Provisioner"),
];
/// Workloads of other programs, and the Lease of the leader. The name filter skips the many other Leases, of which each node
/// has one.
const PROGRAMS: [(&str, &str, &str, &str); 3] = [
    ("apps", "v1", "deployments", "Deployment"),
    ("apps", "v1", "daemonsets", "DaemonSet"),
    ("coordination.k8s.io", "v1", "leases?fieldSelector=metadata.name%3Dkarpenter-leader-election", "Lease"),
];

/// Further kinds that a plan depends on: group and version, and plurals with their kinds.
const WORKLOADS: [(&str, &[(&str, &str)]); 5] = [
    (
        "v1",
        &[
            ("nodes", "Node"),
            ("pods", "Pod"),
            ("persistentvolumeclaims", "PersistentVolumeClaim"),
            ("persistentvolumes", "PersistentVolume"),
            ("namespaces", "Namespace"),
        ],
    ),
    ("apps/v1", &[("replicasets", "ReplicaSet"), ("statefulsets", "StatefulSet")]),
    ("policy/v1", &[("poddisruptionbudgets", "PodDisruptionBudget")]),
    ("storage.k8s.io/v1", &[("storageclasses", "StorageClass"), ("csinodes", "CSINode")]),
    ("scheduling.k8s.io/v1", &[("priorityclasses", "PriorityClass")]),
];

/// Kinds to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveKinds {
    /// Kinds that users write: NodePools and classes of every version.
    Written,
    /// The same kinds, NodeClaims, Deployments, DaemonSets and the leader's Lease; also Nodes, pods and the other kinds of a
    /// plan, if the user may list all of them.
    Everything,
}

/// Reads the objects from the cluster of the kubeconfig.
///
/// # Errors
/// Returns an error if there is no cluster, or if it does not respond; the message contains the fix.
pub fn read(kinds: LiveKinds) -> Result<Vec<Value>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::internal)?;
    // Another part of the program may have installed the same provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    runtime.block_on(all(kinds))
}

/// Reads the objects that users write, as YAML documents.
///
/// # Errors
/// Returns the same errors as [`read`].
pub fn manifests() -> Result<String, Failure> {
    let mut texts = Vec::new();
    for object in read(LiveKinds::Written)? {
        texts.push(serde_saphyr::to_string(&object).map_err(|error| Failure::fault(error.to_string()))?);
    }
    Ok(texts.join("---\n"))
}

async fn all(kinds: LiveKinds) -> Result<Vec<Value>, Failure> {
    let config = Config::infer()
        .await
        .map_err(|error| Failure::usage(format!("no cluster: {}; set KUBECONFIG, or use files", chain(&error))))?;
    let server = config.cluster_url.to_string();
    if endpoint::is_plain_remote(&server) {
        return Err(Failure::usage(format!("kubeconfig: server {server} is not https; {}", endpoint::CURE)));
    }
    let client = Client::try_from(config).map_err(|error| Failure::usage(chain(&error)))?;
    let mut objects = Vec::new();
    for (group, versions, plural, kind) in KINDS {
        if kinds == LiveKinds::Written && kind == "NodeClaim" {
            continue;
        }
        for version in versions {
            if let Some(items) = list(&client, group, version, plural, kind).await? {
                objects.extend(items);
                break;
            }
        }
    }
    if kinds == LiveKinds::Everything {
        for (group, version, plural, kind) in PROGRAMS {
            objects.extend(list(&client, group, version, plural, kind).await?.unwrap_or_default());
        }
        objects.extend(workloads(&client).await?);
    }
    Ok(objects)
}

/// Returns the objects of [`WORKLOADS`]; nothing if the user may not list one of the kinds, because a plan needs all of them.
async fn workloads(client: &Client) -> Result<Vec<Value>, Failure> {
    let mut objects = Vec::new();
    for (api, kinds) in WORKLOADS {
        let root = if api.contains('/') { "apis" } else { "api" };
        for (plural, kind) in kinds {
            match items(client, &format!("/{root}/{api}/{plural}"), api, kind).await {
                Ok(found) => objects.extend(found.unwrap_or_default()),
                Err(kube::Error::Api(status)) if status.code == 403 => return Ok(Vec::new()),
                Err(error) => {
                    return Err(Failure::unavailable(format!("{plural}: {}; check the kubeconfig", chain(&error))));
                }
            }
        }
    }
    Ok(objects)
}

/// Returns all objects of a kind; `None` if the cluster does not serve the kind.
async fn list(
    client: &Client,
    group: &str,
    version: &str,
    plural: &str,
    kind: &str,
) -> Result<Option<Vec<Value>>, Failure> {
    let api = format!("{group}/{version}");
    items(client, &format!("/apis/{api}/{plural}"), &api, kind).await.map_err(|error| {
        Failure::unavailable(format!(
            "{}.{group}: {}; check the kubeconfig and your permissions to list them",
            plural.split('?').next().unwrap_or(plural),
            chain(&error)
        ))
    })
}

/// Returns the items at a path with their type, which items of a list lack; `None` if the cluster does not serve the path.
async fn items(client: &Client, path: &str, api: &str, kind: &str) -> Result<Option<Vec<Value>>, kube::Error> {
    let request = Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
    match client.request::<Value>(request).await {
        Ok(mut answer) => {
            let items = answer["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
            let typed = |mut item: Value| {
                item["apiVersion"] = json!(api);
                item["kind"] = json!(kind);
                item
            };
            Ok(Some(items.into_iter().map(typed).collect()))
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

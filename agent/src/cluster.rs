//! Kubernetes client of the agent: exactly the calls that a node's identity may make, on one HTTP library. A general client
//! would double the memory of this process. The client never retries, because the drain must see a refused eviction.

mod access;
mod bearer;
mod clock;
mod error;
mod exec;
mod follow;
mod http;
mod objects;
mod tls;
mod updates;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::NodeUsageSpec;
use hyper::Method;
use jiff::SignedDuration;
use serde_json::{Value, json};

pub use access::{Access, Credentials, Material};
pub use error::ClusterError;
pub use exec::{Command, Variable, credential};
pub use follow::{WatchEvent, Watched, follow};
pub use objects::{Metadata, Node, NodeCondition, Owner, Pod, Toleration};
pub use updates::{ConditionUpdate, NodeEvent, status_patch};

use crate::aws::identity::Role;
use crate::host::clock::ClockOffset;
use http::Http;

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const PRECISE: &str = "application/json-patch+json";
const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";

/// Client of the API server, and the Node of this agent.
#[derive(Clone, Debug)]
pub struct ConnectionState {
    /// Client of the API server.
    pub cluster: Arc<Cluster>,
    /// Name of this agent's Node.
    pub node: String,
}

impl PartialEq for ConnectionState {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.cluster, &other.cluster) && self.node == other.node
    }
}

/// Client for one API server. Sharing it behind an `Arc` is cheap; connections are kept alive and reused.
#[derive(Debug)]
pub struct Cluster {
    http: Http,
}

impl Cluster {
    /// Returns a client without a connection. `timeout` limits each call except watches.
    #[must_use]
    pub fn new(access: Access, timeout: Duration) -> Self {
        Self { http: Http::new(access, timeout) }
    }

    /// Signs tokens with the instance's role where the kubeconfig names a command that would do the same. Any other command is
    /// run.
    #[must_use]
    pub fn with_role(self, role: Arc<Role>) -> Self {
        Self { http: self.http.with_role(role) }
    }

    /// Returns how far our clock is behind the API server's, by its last response; zero where the difference is less than a
    /// minute.
    #[must_use]
    pub fn clock_is_behind(&self) -> SignedDuration {
        self.http.clock_is_behind()
    }

    /// Reads the Node of this name; `None` when it does not exist.
    ///
    /// # Errors
    /// [`ClusterError`] of the call.
    pub async fn node(&self, name: &str) -> Result<Option<Node>, ClusterError> {
        let path = format!("/api/v1/nodes/{name}");
        match self.http.call(Method::GET, &path, None).await {
            Ok(body) => error::parse(&path, &body).map(Some),
            Err(error) if error.status() == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Merges `patch` into the Node, except its status.
    ///
    /// # Errors
    /// [`ClusterError`] of the call.
    pub async fn patch_node(&self, name: &str, patch: &Value) -> Result<(), ClusterError> {
        let path = format!("/api/v1/nodes/{name}");
        self.write(Method::PATCH, &path, MERGE, patch).await
    }

    /// Merges `patch` into the Node's status; conditions are matched by their type.
    ///
    /// # Errors
    /// [`ClusterError`] of the call.
    pub async fn patch_node_status(&self, name: &str, patch: &Value) -> Result<(), ClusterError> {
        let path = format!("/api/v1/nodes/{name}/status");
        self.write(Method::PATCH, &path, STRATEGIC, patch).await
    }

    /// Removes an annotation from the Node if it has exactly this value; the API server refuses the request otherwise.
    ///
    /// # Errors
    /// [`ClusterError`] of the call; 422 means that no annotation has this value.
    pub async fn unannotate(&self, name: &str, key: &str, value: &str) -> Result<(), ClusterError> {
        let place = format!("/metadata/annotations/{}", key.replace('/', "~1"));
        let at = |op: &str| json!({"op": op, "path": place, "value": value});
        let patch = Value::Array(vec![at("test"), at("remove")]);
        self.write(Method::PATCH, &format!("/api/v1/nodes/{name}"), PRECISE, &patch).await
    }

    /// Requests the eviction of the pod with exactly this UID; `grace` in seconds replaces the pod's own. Nothing is sent from
    /// `by` on.
    ///
    /// # Errors
    /// [`ClusterError`] of the call; 429 means that a PodDisruptionBudget blocks the eviction.
    pub async fn evict(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        grace: Option<u64>,
        by: ClockOffset,
    ) -> Result<(), ClusterError> {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction");
        let body = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": delete_options(uid, grace),
        });
        self.write_by(Method::POST, &path, JSON, &body, by).await
    }

    /// Deletes the pod with exactly this UID within `grace` seconds, regardless of its PodDisruptionBudgets. Nothing is sent
    /// from `by` on.
    ///
    /// # Errors
    /// [`ClusterError`] of the call.
    pub async fn delete_pod(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        grace: u64,
        by: ClockOffset,
    ) -> Result<(), ClusterError> {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        let mut body = delete_options(uid, Some(grace));
        body["apiVersion"] = json!("v1");
        body["kind"] = json!("DeleteOptions");
        self.write_by(Method::DELETE, &path, JSON, &body, by).await
    }

    /// Creates a `core/v1` Event in the namespace of its metadata.
    ///
    /// # Errors
    /// [`ClusterError`] of the call; 409 means that an event of this name exists.
    pub async fn create_event(&self, event: &Value) -> Result<(), ClusterError> {
        let namespace = event["metadata"]["namespace"].as_str().unwrap_or("default");
        let path = format!("/api/v1/namespaces/{namespace}/events");
        self.write(Method::POST, &path, JSON, event).await
    }

    /// Creates or updates the NodeUsage of this name with `spec`, in one request that needs no permission to read.
    ///
    /// # Errors
    /// [`ClusterError`] of the call; 404 means that the cluster lacks the resource.
    pub async fn apply_node_usage(&self, name: &str, spec: &NodeUsageSpec) -> Result<(), ClusterError> {
        let path = format!("/apis/kerf.sh/v1alpha1/nodeusages/{name}?fieldManager=kerf-agent&force=true");
        let body = json!({
            "apiVersion": "kerf.sh/v1alpha1",
            "kind": "NodeUsage",
            "metadata": {"name": name},
            "spec": spec,
        });
        self.write(Method::PATCH, &path, APPLY, &body).await
    }

    /// Returns all pods bound to the node, read without a cache. Invalid pods are logged and skipped.
    ///
    /// # Errors
    /// [`ClusterError`] of the call.
    pub async fn pods(&self, node: &str) -> Result<Vec<Pod>, ClusterError> {
        Ok(follow::list(&self.http, &Watched::pods_of(node)).await?.items)
    }

    /// Returns the CSI drivers that have registered on the node; empty before the first has registered.
    ///
    /// # Errors
    /// [`ClusterError`] of the call.
    pub async fn csi_drivers(&self, node: &str) -> Result<Vec<String>, ClusterError> {
        let path = format!("/apis/storage.k8s.io/v1/csinodes/{node}");
        match self.http.call(Method::GET, &path, None).await {
            Ok(body) => {
                let found: objects::CsiNode = error::parse(&path, &body)?;
                Ok(found.spec.drivers.into_iter().map(|driver| driver.name).collect())
            }
            Err(error) if error.status() == Some(404) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Reports whether a VolumeAttachment of this name exists. A node's identity may only read those of its own node. The API
    /// server answers 403 for a deleted one, because it belongs to no node.
    ///
    /// # Errors
    /// [`ClusterError`] of the call.
    pub async fn has_attachment(&self, name: &str) -> Result<bool, ClusterError> {
        let path = format!("/apis/storage.k8s.io/v1/volumeattachments/{name}");
        match self.http.call(Method::GET, &path, None).await {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.status(), Some(403 | 404)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the pods of a namespace that are bound to the node and have all these labels.
    ///
    /// # Errors
    /// [`ClusterError`] of the call.
    pub async fn selected_pods(
        &self,
        node: &str,
        namespace: &str,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<Pod>, ClusterError> {
        Ok(follow::list(&self.http, &Watched::labelled(node, namespace, labels)).await?.items)
    }

    fn write(
        &self,
        method: Method,
        path: &str,
        kind: &'static str,
        body: &Value,
    ) -> impl Future<Output = Result<(), ClusterError>> {
        self.write_by(method, path, kind, body, ClockOffset::EVER)
    }

    async fn write_by(
        &self,
        method: Method,
        path: &str,
        kind: &'static str,
        body: &Value,
        by: ClockOffset,
    ) -> Result<(), ClusterError> {
        let body = body.to_string().into();
        self.http.call_by(method, path, Some((kind, body)), by).await.map(drop)
    }
}

fn delete_options(uid: &str, grace: Option<u64>) -> Value {
    let mut options = json!({"preconditions": {"uid": uid}});
    if let Some(grace) = grace {
        options["gracePeriodSeconds"] = json!(grace);
    }
    options
}

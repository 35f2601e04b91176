//! Only writer of the controller. An operation contains all data of a write; the writer decides nothing.
//!
//! Every operation can be repeated: creations have their name, patches the version of the decision, and deletions the UID of
//! the object.

mod target;

use std::sync::Arc;
use std::time::Duration;

use api::decisions::Decision;
use api::objects::{Node, NodeReport, Pod};
use api::{
    CapacityBuffer, Commitment, EC2NodeClass, NodeClaim, NodeOverlay, NodePool, ProvisioningRequest, SpendPolicy, label,
};
use cloud::Cloud;
use cloud::batcher::TerminateBatcher;
use cloud::nodeclass::ProfileStep;
use daemon::metric::Metrics;
use futures::{StreamExt, stream};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::sync::Semaphore;
use tracing::{Span, info_span};

use crate::lease::Leading;
use crate::metrics;
use crate::state::cluster::Cluster;
use crate::state::index::Indexed;
use crate::state::span;
use crate::write::events::Event;
pub use target::Target;

/// Maximum number of concurrent nominations of one operation.
const EXPECTED_ABREAST: usize = 16;
/// Maximum number of concurrent requests to the API server. Each request is a connection, with its buffers and a handshake on
/// both sides, and a plan may have a thousand NodeClaims to write.
const REQUESTS_ABREAST: usize = 32;

/// Time limit of a request to the API server. A dead connection may otherwise hold its permit for minutes, and a request that
/// times out closes its connection.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);

/// One write.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Creates a NodeClaim.
    CreateClaim(Box<NodeClaim>),
    /// Changes an object by a merge patch. With `metadata.resourceVersion` in the patch, only that version is changed.
    Patch(Target, Value),
    /// Changes the status of an object by a merge patch.
    PatchStatus(Target, Value),
    /// Deletes an object, if it still has this UID.
    Delete(Target, String),
    /// Changes a pod by a merge patch, in the version of the patch.
    PatchPod(PodRef, Value),
    /// Changes the requests of a running pod by a strategic merge patch.
    ResizePod(PodRef, Value),
    /// Reports to kube-scheduler that these pods are nominated to a Node. A failure has no consequence.
    Expect(Vec<PodRef>, String),
    /// Requests the eviction of a pod from the API server, with this many seconds of grace instead of its own.
    Evict(PodRef, Option<u64>),
    /// Deletes a pod with this many seconds of grace.
    DeletePod(PodRef, u64),
    /// Terminates an instance.
    Terminate(String),
    /// Tags an instance.
    Tag(String, cloud::Tags),
    /// Deletes a launch template by name.
    DeleteLaunchTemplate(String),
    /// Changes an instance profile.
    Profile(ProfileStep),
    /// Publishes an event.
    Note(Event),
    /// Adds a record to the decision log.
    Record(Box<Decision>),
}

/// Pod, identified by name and UID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRef {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
}

/// Reason why an operation did not happen.
#[derive(Debug, Error)]
pub enum WriteError {
    /// Another replica leads: this one must not write.
    #[error("not the leader")]
    NotLeader,
    /// The API server refused the request or did not respond.
    #[error("API request failed")]
    Kube(#[source] Box<kube::Error>),
    /// The API server did not respond in time. The outcome is unknown.
    #[error("no response from the API server within {} s", REQUEST_LIMIT.as_secs())]
    NoResponse,
    /// AWS refused the call or did not respond.
    #[error(transparent)]
    Cloud(#[from] cloud::CloudError),
}

impl From<kube::Error> for WriteError {
    fn from(error: kube::Error) -> Self {
        Self::Kube(Box::new(error))
    }
}

impl WriteError {
    /// Returns the HTTP status of the API server's response.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Kube(error) => match error.as_ref() {
                kube::Error::Api(status) => Some(status.code),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Clients of the API server.
#[derive(Clone)]
pub struct Clients {
    /// Client for everything except evictions.
    pub general: Client,
    /// Client for evictions without retries of its own: a blocked eviction must return at once.
    pub eviction: Client,
}

/// Executor of operations.
#[derive(Clone)]
pub struct Writer {
    clients: Clients,
    /// Permits for the requests of `clients.general`.
    seats: Arc<Semaphore>,
    cloud: Arc<dyn Cloud>,
    terminations: Arc<TerminateBatcher>,
    cluster: Arc<Cluster>,
    metrics: Arc<Metrics>,
    leading: Leading,
}

impl Writer {
    /// Creates a writer that writes while this replica leads.
    #[must_use]
    pub fn new(
        clients: Clients,
        cloud: Arc<dyn Cloud>,
        cluster: Arc<Cluster>,
        metrics: Arc<Metrics>,
        leading: Leading,
    ) -> Self {
        let terminations = Arc::new(TerminateBatcher::new(Arc::clone(&cloud)));
        let seats = Arc::new(Semaphore::new(REQUESTS_ABREAST));
        Self { clients, seats, cloud, terminations, cluster, metrics, leading }
    }

    /// Lists the pods of a node live, for a decision that cannot be taken back.
    ///
    /// # Errors
    /// Returns an error if the API server does not return them.
    pub async fn pods_on(&self, node: &str) -> Result<Vec<Arc<Pod>>, WriteError> {
        let api: Api<Pod> = Api::all(self.clients.general.clone());
        let of_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
        Ok(self.send(api.list(&of_node)).await?.items.into_iter().map(Arc::new).collect())
    }

    /// Returns all NodeClaims from the API server, not from the index.
    ///
    /// # Errors
    /// Returns an error if the API server does not return them.
    pub async fn claims(&self) -> Result<Vec<NodeClaim>, WriteError> {
        let api: Api<NodeClaim> = Api::all(self.clients.general.clone());
        Ok(self.send(api.list(&ListParams::default())).await?.items)
    }

    /// Runs the operations in order and stops at the first failure.
    ///
    /// # Errors
    /// Returns the failure of that operation.
    pub async fn run_all(&self, steps: Vec<Operation>) -> Result<(), WriteError> {
        for step in steps {
            self.run(step).await?;
        }
        Ok(())
    }

    /// Runs one operation. The deletion of an object that is already gone is a success. An operation under way is abandoned when
    /// leadership ends.
    ///
    /// # Errors
    /// Returns an error if the operation did not happen, or its outcome is unknown.
    pub async fn run(&self, step: Operation) -> Result<(), WriteError> {
        let name = step.name();
        let result = self.leading.run(self.carry_out(step)).await.unwrap_or(Err(WriteError::NotLeader));
        let outcome = if result.is_ok() { "ok" } else { "error" };
        self.metrics.add(&metrics::ACT_STEPS, metrics::ByStepOutcome { step: name, outcome }, 1.0);
        result
    }

    async fn carry_out(&self, step: Operation) -> Result<(), WriteError> {
        match step {
            Operation::CreateClaim(claim) => {
                let api: Api<NodeClaim> = Api::all(self.clients.general.clone());
                let created = self.send(api.create(&PostParams::default(), &claim)).await?;
                self.remember(created);
                Ok(())
            }
            Operation::Patch(target, body) => self.patch(target, body, false).await,
            Operation::PatchStatus(target, body) => self.patch(target, body, true).await,
            Operation::Delete(target, uid) => self.delete(target, uid).await,
            Operation::PatchPod(pod, body) => self.patch_one(self.pods(&pod), &pod.name, &body, false).await,
            Operation::ResizePod(pod, body) => {
                let (params, patch) = (PatchParams::default(), Patch::Strategic(&body));
                let api = self.pods(&pod);
                let resized = self.send(api.patch_subresource("resize", &pod.name, &params, &patch)).await?;
                self.remember(resized);
                Ok(())
            }
            Operation::Expect(pods, node) => {
                stream::iter(&pods).for_each_concurrent(EXPECTED_ABREAST, |pod| self.expect(pod, &node)).await;
                Ok(())
            }
            Operation::Evict(pod, grace) => self.evict(&pod, grace).await,
            Operation::DeletePod(pod, grace) => self.delete_pod(&pod, grace).await,
            Operation::Terminate(id) => self.terminate(&id).await,
            Operation::Tag(id, tags) => Ok(self.cloud.create_tags(&[id], &tags).await?),
            Operation::DeleteLaunchTemplate(name) => gone_is_fine(self.cloud.delete_launch_template(&name).await),
            Operation::Profile(step) => self.change_profile(step).await,
            Operation::Note(note) => {
                self.cluster.notes.publish(note);
                Ok(())
            }
            Operation::Record(decision) => {
                self.cluster.log.record(*decision);
                Ok(())
            }
        }
    }

    async fn terminate(&self, id: &str) -> Result<(), WriteError> {
        let result = gone_is_fine(self.terminations.end(id).await);
        if result.is_err() {
            self.cluster.read(|index| {
                let labels = zone_labels(index.claim_of_instance(id).map(AsRef::as_ref));
                self.metrics.add(&metrics::TERMINATION_FAILURES, labels, 1.0);
            });
        }
        result
    }

    /// Sends a request to the API server once a permit is free; the semaphore is never closed. Requests of a drain have no time
    /// to queue behind writes with retries.
    async fn send<T>(&self, request: impl Future<Output = kube::Result<T>>) -> Result<T, WriteError> {
        let _seat = self.seats.acquire().await.ok();
        in_time(request).await
    }

    /// Applies the response of a write to the index, so that the next plan includes it before the watch reports it.
    fn remember<K: Indexed>(&self, object: K) {
        self.cluster.change(|index| index.apply(object, self.cluster.now(), true));
    }

    async fn patch(&self, target: Target, body: Value, status: bool) -> Result<(), WriteError> {
        match target {
            Target::Claim(name) => self.patch_one(self.all::<NodeClaim>(), &name, &body, status).await,
            Target::Pool(name) => self.patch_one(self.all::<NodePool>(), &name, &body, status).await,
            Target::Class(name) => self.patch_one(self.all::<EC2NodeClass>(), &name, &body, status).await,
            Target::Node(name) => self.patch_one(self.all::<Node>(), &name, &body, status).await,
            Target::Overlay(name) => self.patch_one(self.all::<NodeOverlay>(), &name, &body, status).await,
            Target::Buffer { namespace, name } => self.patch_one(self.buffers(&namespace), &name, &body, status).await,
            Target::Request { namespace, name } => {
                self.patch_one(self.requests(&namespace), &name, &body, status).await
            }
            Target::SpendPolicy(name) => self.patch_one(self.all::<SpendPolicy>(), &name, &body, status).await,
            Target::Commitment(name) => self.patch_one(self.all::<Commitment>(), &name, &body, status).await,
            Target::Usage(name) => self.patch_one(self.all::<NodeReport>(), &name, &body, status).await,
        }
    }

    fn all<K: Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.clients.general.clone())
    }

    fn pods(&self, pod: &PodRef) -> Api<Pod> {
        Api::namespaced(self.clients.general.clone(), &pod.namespace)
    }

    fn requests(&self, namespace: &str) -> Api<ProvisioningRequest> {
        Api::namespaced(self.clients.general.clone(), namespace)
    }

    fn buffers(&self, namespace: &str) -> Api<CapacityBuffer> {
        Api::namespaced(self.clients.general.clone(), namespace)
    }

    async fn patch_one<K>(&self, api: Api<K>, name: &str, body: &Value, status: bool) -> Result<(), WriteError>
    where
        K: Indexed + DeserializeOwned,
    {
        let (params, patch) = (PatchParams::default(), Patch::Merge(body));
        let patched = match status {
            true => self.send(api.patch_status(name, &params, &patch)).await?,
            false => self.send(api.patch(name, &params, &patch)).await?,
        };
        self.remember(patched);
        Ok(())
    }

    async fn delete(&self, target: Target, uid: String) -> Result<(), WriteError> {
        match target {
            Target::Claim(name) => self.delete_one(self.all::<NodeClaim>(), &name, uid).await,
            Target::Pool(name) => self.delete_one(self.all::<NodePool>(), &name, uid).await,
            Target::Class(name) => self.delete_one(self.all::<EC2NodeClass>(), &name, uid).await,
            Target::Node(name) => self.delete_one(self.all::<Node>(), &name, uid).await,
            Target::Overlay(name) => self.delete_one(self.all::<NodeOverlay>(), &name, uid).await,
            Target::Buffer { namespace, name } => self.delete_one(self.buffers(&namespace), &name, uid).await,
            Target::Request { namespace, name } => self.delete_one(self.requests(&namespace), &name, uid).await,
            Target::SpendPolicy(name) => self.delete_one(self.all::<SpendPolicy>(), &name, uid).await,
            Target::Commitment(name) => self.delete_one(self.all::<Commitment>(), &name, uid).await,
            Target::Usage(name) => self.delete_one(self.all::<NodeReport>(), &name, uid).await,
        }
    }

    async fn delete_one<K>(&self, api: Api<K>, name: &str, uid: String) -> Result<(), WriteError>
    where
        K: Clone + std::fmt::Debug + DeserializeOwned,
    {
        let only_this = Preconditions { uid: Some(uid), resource_version: None };
        match self.send(api.delete(name, &DeleteParams::default().preconditions(only_this))).await {
            Ok(_) => Ok(()),
            Err(error) if matches!(error.status(), Some(404 | 409)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn change_profile(&self, step: ProfileStep) -> Result<(), WriteError> {
        let cloud = &self.cloud;
        match step {
            ProfileStep::Create(request) => there_is_fine(cloud.create_instance_profile(&request).await.map(drop)),
            ProfileStep::AddRole { profile, role } => {
                there_is_fine(cloud.add_role_to_instance_profile(&profile, &role).await)
            }
            ProfileStep::RemoveRole { profile, role } => {
                gone_is_fine(cloud.remove_role_from_instance_profile(&profile, &role).await)
            }
            ProfileStep::Delete(profile) => gone_is_fine(cloud.delete_instance_profile(&profile).await),
        }
    }

    /// Sets the nomination of a pod. A pod that is bound meanwhile or gone does not need it. Without the permission,
    /// kube-scheduler chooses a node by itself.
    async fn expect(&self, pod: &PodRef, node: &str) {
        let body = json!({"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node}});
        let (api, params) = (self.pods(pod), PatchParams::default());
        match self.send(api.patch_status(&pod.name, &params, &Patch::Merge(&body))).await {
            Ok(patched) => self.remember(patched),
            Err(error) => {
                let (pod, error) = (format!("{}/{}", pod.namespace, pod.name), daemon::error::chain(&error));
                tracing::debug!(pod = pod.as_str(), node, error = error.as_str(), "failed to set nominatedNodeName");
            }
        }
    }

    /// Evicts a pod. kube's own `evict` loses the delete options, so the sub-resource is written in full here.
    async fn evict(&self, pod: &PodRef, grace: Option<u64>) -> Result<(), WriteError> {
        let api: Api<Pod> = Api::namespaced(self.clients.eviction.clone(), &pod.namespace);
        let mut options = json!({"preconditions": {"uid": pod.uid}});
        if let Some(grace) = grace {
            options["gracePeriodSeconds"] = grace.into();
        }
        let eviction = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": options,
        });
        let params = PostParams::default();
        let answer = in_time(api.create_subresource::<_, Value>("eviction", &pod.name, &params, &eviction)).await;
        let code = answer.as_ref().err().map_or(201, |error| error.status().unwrap_or(0));
        self.metrics.add(&metrics::EVICTION_REQUESTS, metrics::ByCode { code: &code.to_string() }, 1.0);
        answer.map(drop)
    }

    async fn delete_pod(&self, pod: &PodRef, grace: u64) -> Result<(), WriteError> {
        let api: Api<Pod> = Api::namespaced(self.clients.eviction.clone(), &pod.namespace);
        let params = DeleteParams {
            grace_period_seconds: Some(u32::try_from(grace.max(1)).unwrap_or(u32::MAX)),
            preconditions: Some(Preconditions { uid: Some(pod.uid.clone()), resource_version: None }),
            ..DeleteParams::default()
        };
        in_time(api.delete(&pod.name, &params)).await.map(drop)
    }
}

/// Awaits the response of the API server, not longer than [`REQUEST_LIMIT`].
async fn in_time<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, WriteError> {
    match tokio::time::timeout(REQUEST_LIMIT, request).await {
        Ok(response) => Ok(response?),
        Err(_) => Err(WriteError::NoResponse),
    }
}

fn there_is_fine(result: Result<(), cloud::CloudError>) -> Result<(), WriteError> {
    match result {
        Err(error) if error.kind == cloud::ErrorKind::AlreadyExists => Ok(()),
        other => other.map_err(WriteError::from),
    }
}

/// Returns the zone of an instance; empty without a NodeClaim.
fn zone_labels(claim: Option<&NodeClaim>) -> metrics::ByZoneZoneId<'_> {
    let labels = claim.and_then(|claim| claim.metadata.labels.as_ref());
    let label = |key: &str| labels.and_then(|all| all.get(key)).map_or("", String::as_str);
    metrics::ByZoneZoneId { zone: label(label::ZONE), zone_id: label(label::ZONE_ID) }
}

fn gone_is_fine(result: Result<(), cloud::CloudError>) -> Result<(), WriteError> {
    match result {
        Err(error) if error.kind == cloud::ErrorKind::NotFound => Ok(()),
        other => other.map_err(WriteError::from),
    }
}

impl Operation {
    /// Returns the span of the log for the object of the operation.
    #[must_use]
    pub fn span(&self) -> Span {
        match self {
            Self::CreateClaim(claim) => span::object("NodeClaim", claim.metadata.name.as_deref().unwrap_or_default()),
            Self::Patch(target, _) | Self::PatchStatus(target, _) | Self::Delete(target, _) => target.span(),
            Self::PatchPod(pod, _) | Self::ResizePod(pod, _) | Self::Evict(pod, _) | Self::DeletePod(pod, _) => {
                span::object("Pod", &format!("{}/{}", pod.namespace, pod.name))
            }
            Self::Expect(_, node) => span::object("Node", node),
            Self::Terminate(instance) | Self::Tag(instance, _) => info_span!("instance", instance_id = instance),
            Self::DeleteLaunchTemplate(template) => info_span!("launch template", launch_template = template),
            Self::Profile(step) => info_span!("instance profile", profile = step.profile()),
            Self::Note(event) => event.object().span(),
            Self::Record(_) => Span::none(),
        }
    }

    /// Returns the name of the operation in metrics and logs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::CreateClaim(_) => "create_nodeclaim",
            Self::Patch(..) => "patch",
            Self::PatchStatus(..) => "patch_status",
            Self::Delete(..) => "delete",
            Self::PatchPod(..) => "patch_pod",
            Self::ResizePod(..) => "resize_pod",
            Self::Expect(..) => "expect_pods",
            Self::Evict(..) => "evict",
            Self::DeletePod(..) => "delete_pod",
            Self::Terminate(_) => "terminate_instance",
            Self::Tag(..) => "tag_instance",
            Self::DeleteLaunchTemplate(_) => "delete_launch_template",
            Self::Profile(_) => "instance_profile",
            Self::Note(_) => "event",
            Self::Record(_) => "decision",
        }
    }
}

#[cfg(test)]
mod tests;

//! Reads of the cluster for the demo.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use api::objects::{Node, Pod};
use api::status::Conditioned;
use api::{EC2NodeClass, NodeClaim, NodePool, label};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use testbed::observer::is_ready;

/// Name of the demo's Deployment.
pub const APP: &str = "inflate";

/// Client for reads through the API server.
#[derive(Clone)]
pub struct Cluster(pub Client);

impl Cluster {
    /// Scales `inflate`.
    pub async fn scale(&self, replicas: usize) -> Result<()> {
        let api: Api<Deployment> = Api::namespaced(self.0.clone(), "default");
        let patch = json!({"spec": {"replicas": replicas}});
        api.patch_scale(APP, &PatchParams::default(), &Patch::Merge(patch)).await.context("cannot scale inflate")?;
        Ok(())
    }

    /// Returns the pods of `inflate` that are not terminating.
    pub async fn pods(&self) -> Result<Vec<Pod>> {
        self.pods_of(APP).await
    }

    /// Returns the pods of an app that are not terminating.
    pub async fn pods_of(&self, app: &str) -> Result<Vec<Pod>> {
        let api: Api<Pod> = Api::namespaced(self.0.clone(), "default");
        let pods = api.list(&ListParams::default().labels(&format!("app={app}"))).await?.items;
        Ok(pods.into_iter().filter(|pod| !pod.is_terminating() && !pod.is_terminal()).collect())
    }

    /// Returns the running pods of `inflate`, with their nodes.
    pub async fn running(&self) -> Result<Vec<Pod>> {
        self.running_of(APP).await
    }

    /// Returns the running pods of an app, with their nodes.
    pub async fn running_of(&self, app: &str) -> Result<Vec<Pod>> {
        Ok(self.pods_of(app).await?.into_iter().filter(|pod| pod.is_bound() && is_ready(pod)).collect())
    }

    /// Returns the pods that have a `Nominated` event.
    pub async fn nominated(&self) -> Result<BTreeSet<String>> {
        let api: Api<Event> = Api::namespaced(self.0.clone(), "default");
        let events = api.list(&ListParams::default().fields("reason=Nominated")).await?.items;
        Ok(events.into_iter().filter_map(|event| event.involved_object.name).collect())
    }

    /// Returns all NodeClaims.
    pub async fn claims(&self) -> Result<Vec<NodeClaim>> {
        Ok(Api::<NodeClaim>::all(self.0.clone()).list(&ListParams::default()).await?.items)
    }

    /// Returns the NodeClaims of one NodePool.
    pub async fn claims_of(&self, pool: &str) -> Result<Vec<NodeClaim>> {
        let claims = self.claims().await?;
        Ok(claims
            .into_iter()
            .filter(|claim| claim.labels().get(label::NODEPOOL).is_some_and(|of| of == pool))
            .collect())
    }

    /// Returns all nodes.
    pub async fn nodes(&self) -> Result<Vec<Node>> {
        Ok(Api::<Node>::all(self.0.clone()).list(&ListParams::default()).await?.items)
    }

    /// Returns one node, if it exists.
    pub async fn node(&self, name: &str) -> Result<Option<Node>> {
        Ok(Api::<Node>::all(self.0.clone()).get_opt(name).await?)
    }

    /// Returns how many more pods of 1 CPU each managed node can take, by kube-scheduler's arithmetic.
    pub async fn free_cpus(&self) -> Result<Vec<(String, usize)>> {
        let pods: Vec<Pod> = Api::<Pod>::all(self.0.clone()).list(&ListParams::default()).await?.items;
        let mut free = Vec::new();
        for node in self.nodes().await?.iter().filter(|node| node.labels().contains_key(label::NODEPOOL)) {
            let on_node = |pod: &&Pod| pod.spec.node_name == node.name() && !pod.is_terminal();
            let mut used = 0;
            for pod in pods.iter().filter(on_node) {
                used += api::objects::pod_requests(&pod.spec)?.get("cpu").copied().unwrap_or(0);
            }
            let allocatable = node.status.allocatable.get("cpu").context("a node without CPU")?.amount("cpu")?;
            free.push((node.name().to_owned(), usize::try_from((allocatable - used) / 1000).unwrap_or(0)));
        }
        Ok(free)
    }

    /// Sets `consolidateAfter` of the NodePool.
    pub async fn consolidate_after(&self, text: &str) -> Result<()> {
        let api: Api<NodePool> = Api::all(self.0.clone());
        let patch = json!({"spec": {"disruption": {"consolidateAfter": text}}});
        api.patch("default", &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Reports whether NodePool and EC2NodeClass are Ready; the error lists the conditions.
    pub async fn ready(&self) -> Result<bool> {
        let pool = Api::<NodePool>::all(self.0.clone()).get("default").await?;
        let class = Api::<EC2NodeClass>::all(self.0.clone()).get("default").await?;
        for (kind, conditions) in [("NodePool", pool.conditions()), ("EC2NodeClass", class.conditions())] {
            let ready = api::status::find(conditions, api::condition::READY);
            if !ready.is_some_and(api::Condition::is_true) {
                let listed: Vec<String> =
                    conditions.iter().map(|c| format!("{}={} {}", c.type_, c.status, c.message)).collect();
                anyhow::bail!("{kind} is not ready: {}", listed.join("; "));
            }
        }
        Ok(true)
    }
}

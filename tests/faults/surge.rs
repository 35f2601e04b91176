//! Removal of a node with the only pod of a Deployment, by the controller and by a notice of EC2. A copy of the pod starts
//! elsewhere first, and a pod is ready at every moment.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::objects::{Node, Pod};
use api::{NodeClaim, annotation, label, reason};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::{Value, json};
use testbed::eventually;

use super::fixture::{Fixture, LIMIT, run};

/// A Deployment of one pod.
pub struct Single<'a> {
    pub app: &'a str,
    /// Annotations of the pod.
    pub annotations: Value,
    /// True if a budget permits no eviction.
    pub blocked: bool,
}

/// How the node of the pod is removed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// Its NodeClaim is deleted.
    Deletion,
    /// EC2 announces the end of the spot instance in two minutes.
    Notice,
}

impl Single<'_> {
    async fn deploy(&self, fixture: &Fixture, removal: Removal) -> Result<()> {
        let labels = json!({"app": self.app});
        let spot = json!({label::CAPACITY_TYPE: label::CAPACITY_SPOT});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": self.app, "namespace": "default"},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels, "annotations": self.annotations},
                    "spec": {
                        "nodeSelector": if removal == Removal::Notice { spot } else { json!({}) },
                        "terminationGracePeriodSeconds": 1,
                        "containers": [{"name": "app", "image": "app", "resources": {"requests": {"cpu": "1"}}}],
                    },
                },
            },
        });
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": self.app, "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
        });
        fixture.environment.apply_value(deployment).await?;
        if self.blocked { fixture.environment.apply_value(budget).await } else { Ok(()) }
    }

    async fn pods(&self, fixture: &Fixture) -> Result<Vec<Pod>> {
        Ok(fixture.pods().list(&ListParams::default().labels(&format!("app={}", self.app))).await?.items)
    }

    /// Asserts that a pod is ready at every moment until its first node is gone, and that one pod is left.
    pub async fn moves_without_a_gap(&self, fixture: &Fixture, removal: Removal) -> Result<()> {
        self.deploy(fixture, removal).await?;
        let node = fixture.runs(self.app).await?;
        let (claim, instance) = fixture.settled_claim().await?;
        let old = self.pods(fixture).await?.pop().context("no pod")?;
        match removal {
            Removal::Deletion => {
                fixture.api::<NodeClaim>().delete(&claim.name_any(), &DeleteParams::default()).await?;
            }
            Removal::Notice => {
                let end = Timestamp::now() + Duration::from_secs(120);
                ensure!(fixture.environment.ec2.interrupt(&instance, end), "EC2 does not know {instance}");
            }
        }
        let unanswered = AtomicBool::new(false);
        eventually("the node to go", LIMIT, async || {
            let answers = self.pods(fixture).await?.iter().any(|pod| pod.is_ready() && !pod.is_terminating());
            unanswered.fetch_or(!answers, Ordering::Relaxed);
            Ok(fixture.api::<Node>().get_opt(&node).await?.is_none().then_some(()))
        })
        .await?;
        ensure!(!unanswered.into_inner(), "for a moment no pod of {} was ready", self.app);
        let left = self.pods(fixture).await?;
        ensure!(left.len() == 1 && left[0].uid() != old.uid(), "{} pods are left", left.len());
        ensure!(left[0].spec.node_name != node, "the copy is on the removed node");
        ensure!(left[0].replica_set().is_some(), "the copy is not the Deployment's");
        fixture.wait_for_event(old.name(), reason::SURGING, "after a copy is ready").await?;
        ensure!(fixture.launched().len() == 2, "{} machines for one pod that moved", fixture.launched().len());
        fixture.one_instance_each().await?;
        self.remove(fixture).await
    }

    async fn remove(&self, fixture: &Fixture) -> Result<()> {
        let params = DeleteParams::default();
        Api::<Deployment>::namespaced(fixture.client.clone(), "default").delete(self.app, &params).await?;
        if self.blocked {
            let budgets = Api::<PodDisruptionBudget>::namespaced(fixture.client.clone(), "default");
            budgets.delete(self.app, &params).await?;
        }
        fixture.api::<NodeClaim>().delete_collection(&params, &ListParams::default()).await?;
        Ok(())
    }
}

fn asks() -> Value {
    json!({annotation::SURGE: "true"})
}

#[test]
fn surge_evicts_single_pod_when_its_copy_is_ready() {
    let single = Single { app: "single", annotations: asks(), blocked: true };
    run(async |fixture| single.moves_without_a_gap(fixture, Removal::Deletion).await);
}

/// Without an annotation the pod gets a copy, because its budget would block the drain for ever.
#[test]
fn surge_is_the_default_where_a_budget_blocks_the_only_pod() {
    let blocked = Single { app: "blocked", annotations: json!({}), blocked: true };
    run(async |fixture| blocked.moves_without_a_gap(fixture, Removal::Deletion).await);
}

/// The agent drains its node from the moment of the notice. No budget keeps the pod: only its annotation does.
#[test]
fn surge_after_a_notice_starts_the_copy_before_the_agent_evicts() {
    let warned = Single { app: "warned", annotations: asks(), blocked: false };
    run(async |fixture| warned.moves_without_a_gap(fixture, Removal::Notice).await);
}

#[test]
fn surge_after_a_notice_is_the_default_where_a_budget_blocks_the_only_pod() {
    let kept = Single { app: "kept", annotations: json!({}), blocked: true };
    run(async |fixture| kept.moves_without_a_gap(fixture, Removal::Notice).await);
}

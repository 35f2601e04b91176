//! Provider kwok: the manifests of `examples/kwok` in a cluster without AWS and without agents. EC2 is emulated in the controller,
//! with notices and shortages on request, and the real KWOK runs the nodes and their pods.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::objects::{Node, Pod};
use api::status::Conditioned as _;
use api::{EC2NodeClass, NodeClaim, annotation, condition, label, taint};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use testbed::controller::{self, Ports};
use testbed::controlplane::{Account, ControlPlane, Options};
use testbed::process::Process;
use testbed::{apply_example, eventually, kwok};

const LIMIT: Duration = Duration::from_secs(120);
/// Deployment of the example.
const SHOP: &str = "shop";

struct Fixture {
    control_plane: ControlPlane,
    client: Client,
    ports: Ports,
    controller: Process,
    _kwok: Process,
}

impl Fixture {
    async fn start() -> Result<Self> {
        let control_plane = ControlPlane::start(Options::full("kwok")).await?;
        control_plane.apply_crds().await?;
        control_plane.apply_rights(Account::Kwok).await?;
        let client = control_plane.admin().await?;
        let folder = control_plane.folder().to_owned();
        let kwok = kwok::start(&control_plane, &folder).await?;
        let ports = Ports::choose()?;
        let controller = run_controller(&control_plane, ports)?;
        Ok(Self { control_plane, client, ports, controller, _kwok: kwok })
    }

    async fn scale(&self, replicas: u32) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        let deployments = Api::<Deployment>::namespaced(self.client.clone(), "default");
        deployments.patch(SHOP, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    async fn claims(&self) -> Result<Vec<NodeClaim>> {
        Ok(Api::<NodeClaim>::all(self.client.clone()).list(&ListParams::default()).await?.items)
    }

    /// Returns a NodeClaim of a spot instance other than these.
    async fn spot_claim(&self, others: &BTreeSet<String>) -> Result<NodeClaim> {
        let is_spot =
            |claim: &&NodeClaim| claim.labels().get(label::CAPACITY_TYPE) == Some(&label::CAPACITY_SPOT.into());
        let mut claims = self.claims().await?.into_iter().filter(|claim| !others.contains(&claim.name_any()));
        claims.find(|claim| is_spot(&claim)).context("no spot instance is left")
    }

    /// Requests an event of EC2 for the node of a NodeClaim.
    async fn annotate_node(&self, claim: &NodeClaim, event: &str) -> Result<()> {
        let node =
            claim.status.as_ref().map(|status| status.node_name.as_str()).context("the NodeClaim has no node")?;
        let patch = Patch::Merge(json!({"metadata": {"annotations": {annotation::EMULATED_EVENT: event}}}));
        Api::<Node>::all(self.client.clone()).patch(node, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Waits until a NodeClaim is gone and all pods run again.
    async fn is_replaced(&self, claim: &NodeClaim) -> Result<()> {
        let name = claim.name_any();
        eventually(&format!("{name} to be replaced"), LIMIT, async || {
            let running = self.runs(60).await?;
            ensure!(!running.contains(&name), "{name} still exists");
            Ok(Some(()))
        })
        .await
    }

    /// Waits for an event of this reason.
    async fn has_event(&self, reason: &str) -> Result<()> {
        eventually(&format!("an event {reason}"), LIMIT, async || {
            let events = Api::<Event>::all(self.client.clone());
            let found = events.list(&ListParams::default().fields(&format!("reason={reason}"))).await?.items;
            Ok((!found.is_empty()).then_some(()))
        })
        .await
    }

    /// Waits until this number of pods run, and returns the names of their NodeClaims.
    async fn runs(&self, replicas: usize) -> Result<BTreeSet<String>> {
        eventually(&format!("{replicas} pods to run"), LIMIT, async || {
            let pods = Api::<Pod>::namespaced(self.client.clone(), "default");
            let pods = pods.list(&ListParams::default().labels("app=shop")).await?.items;
            let running = pods.iter().filter(|pod| pod.status.phase == "Running" && !pod.is_terminating()).count();
            ensure!(running == replicas, "{running} of {} run", pods.len());
            let claims = self.claims().await?;
            let waiting = claims.iter().find(|claim| !claim.is_true(condition::INITIALIZED));
            ensure!(waiting.is_none(), "{:?} is not initialized", waiting.map(ResourceExt::name_any));
            Ok(Some(claims.iter().map(ResourceExt::name_any).collect()))
        })
        .await
    }
}

fn run_controller(control_plane: &ControlPlane, ports: Ports) -> Result<Process> {
    let command = controller::kwok_command(control_plane, ports)?;
    Process::spawn("controller", command, &control_plane.folder().join("controller.log"))
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_kwok_run_pods_survive_a_restart_and_go() -> Result<()> {
    let mut fixture = Fixture::start().await?;
    let outcome = run_steps(&mut fixture).await;
    if outcome.is_err() {
        fixture.control_plane.keep_logs();
    }
    outcome.with_context(|| format!("logs are in {}", fixture.control_plane.folder().display()))
}

async fn run_steps(fixture: &mut Fixture) -> Result<()> {
    for file in ["kwok/pool.yaml", "kwok/shop.yaml"] {
        apply_example(&fixture.client, file).await?;
    }
    let first = fixture.runs(6).await?;
    ensure!(!first.is_empty(), "the pods run without a NodeClaim");
    nodes_are_simulated(fixture, first.len()).await?;

    // After a restart the controller knows its instances: it launches only for the new pods.
    fixture.controller.kill()?;
    fixture.controller = run_controller(&fixture.control_plane, fixture.ports)?;
    fixture.scale(60).await?;
    let second = fixture.runs(60).await?;
    ensure!(second.is_superset(&first), "of {first:?} only some are left: {second:?}");
    ensure!(second.len() > first.len(), "60 pods run on the nodes of 6");

    events_are_emulated(fixture).await?;

    fixture.scale(0).await?;
    eventually("all nodes to go", LIMIT, async || {
        let left = Api::<Node>::all(fixture.client.clone()).list(&ListParams::default()).await?.items.len();
        let claims = fixture.claims().await?.len();
        ensure!((left, claims) == (0, 0), "{left} nodes and {claims} NodeClaims are left");
        Ok(Some(()))
    })
    .await
}

/// Interrupts a spot node, then ends another without a notice while EC2 has no spot capacity: pods move to a new node each time.
async fn events_are_emulated(fixture: &Fixture) -> Result<()> {
    let interrupted = fixture.spot_claim(&BTreeSet::new()).await?;
    fixture.annotate_node(&interrupted, "spot-interruption").await?;
    let before = BTreeSet::from([interrupted.name_any()]);
    fixture.is_replaced(&interrupted).await?;
    fixture.has_event("SpotInterrupted").await?;

    let classes = Api::<EC2NodeClass>::all(fixture.client.clone());
    let annotations = json!({annotation::EMULATED_SHORTAGE: label::CAPACITY_SPOT});
    let shortage = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    classes.patch("trial", &PatchParams::default(), &shortage).await?;
    let known = fixture.runs(60).await?;
    let ended = fixture.spot_claim(&before).await?;
    fixture.annotate_node(&ended, "instance-termination").await?;
    fixture.is_replaced(&ended).await?;
    let claims = fixture.claims().await?;
    let bought: Vec<_> = claims.iter().filter(|claim| !known.contains(&claim.name_any())).collect();
    let spot =
        bought.iter().find(|claim| claim.labels().get(label::CAPACITY_TYPE) != Some(&label::CAPACITY_ON_DEMAND.into()));
    ensure!(!bought.is_empty() && spot.is_none(), "without spot capacity it launched {:?}", spot.map(|it| it.labels()));

    let kept = claims.first().context("no NodeClaim is left")?;
    fixture.annotate_node(kept, "earthquake").await?;
    fixture.has_event("InvalidAnnotation").await
}

/// Asserts that each Node belongs to KWOK, has the labels of EC2, and is open for pods.
async fn nodes_are_simulated(fixture: &Fixture, expected: usize) -> Result<()> {
    let nodes = Api::<Node>::all(fixture.client.clone()).list(&ListParams::default()).await?.items;
    ensure!(nodes.len() == expected, "{} nodes for {expected} NodeClaims", nodes.len());
    for node in &nodes {
        ensure!(node.annotation(annotation::KWOK_NODE) == Some(annotation::FAKE), "{} is not KWOK's", node.name());
        ensure!(
            node.label(label::ZONE).is_some_and(|zone| zone.starts_with("us-east-1")),
            "{:?}",
            node.metadata.labels
        );
        ensure!(node.label("karpenter.k8s.aws/instance-family").is_some(), "{:?}", node.metadata.labels);
        let closed = node.spec.taints.iter().any(|found| found.key == taint::AGENT_NOT_READY);
        ensure!(!closed, "{} waits for an agent", node.name());
    }
    Ok(())
}

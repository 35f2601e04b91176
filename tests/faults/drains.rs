//! Removal of a node while a budget blocks its pod. Agent and controller share the drain, and each may die in the middle. The
//! pod must not leave before its budget permits the eviction. The API server's audit log must never show requests of both drain
//! owners at the same time.

use anyhow::{Context, Result, ensure};
use api::objects::Node;
use api::{DrainProgress, NodeClaim, annotation, condition, reason};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use testbed::controlplane::{CONTROLLER, PodRemoval};
use testbed::eventually;

use super::fixture::{Fixture, LIMIT, run};

const BUDGET: &str = "stays";
/// Highest number of DescribeInstances calls for one drained node: one at the end of the drain, then at most one per second.
/// The instance of the fake terminates within a few seconds.
const MAX_DESCRIBE_CALLS: usize = 20;
/// User agent prefix of agents. Their user names are the same as those of kubelets.
const AGENT: &str = "kerf-agent/";
/// Longest time until a sent request arrives. A new drain owner must wait longer than that.
const ARRIVES: SignedDuration = SignedDuration::from_secs(5);

/// A node with one pod that a budget blocks.
struct Held {
    app: &'static str,
    node: String,
    claim: String,
    pod: String,
    pod_uid: String,
    instance: String,
}

impl Held {
    async fn deleting(fixture: &Fixture, app: &'static str) -> Result<Self> {
        let held = Self::settled(fixture, app).await?;
        held.is_to_go(fixture).await?;
        Ok(held)
    }

    async fn settled(fixture: &Fixture, app: &'static str) -> Result<Self> {
        fixture.pod(app, "1", json!({})).await?;
        let budget = json!({
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": BUDGET, "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
        });
        fixture.environment.apply_value(budget).await?;
        let node = fixture.runs(app).await?;
        let (claim, instance) = fixture.settled_claim().await?;
        let pods = fixture.pods().list(&ListParams::default().labels(&format!("app={app}"))).await?.items;
        let pod = pods.first().context("no pod")?;
        Ok(Self {
            app,
            node,
            claim: claim.metadata.name.unwrap_or_default(),
            pod: pod.metadata.name.clone().unwrap_or_default(),
            pod_uid: pod.metadata.uid.clone().unwrap_or_default(),
            instance,
        })
    }

    async fn is_to_go(&self, fixture: &Fixture) -> Result<()> {
        fixture.api::<NodeClaim>().delete(&self.claim, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Waits until the agent's condition for the requested drain contains the expected message.
    async fn agent_reports(
        &self,
        fixture: &Fixture,
        what: &str,
        matches_message: impl Fn(&str) -> bool,
    ) -> Result<String> {
        eventually(&format!("the agent to say {what}"), LIMIT, async || {
            let node = fixture.api::<Node>().get(&self.node).await?;
            let reported = node.condition(condition::NODE_DRAINED).context("it says nothing of a drain")?;
            let asked = DrainProgress::parse(&reported.message).ids.iter().any(|id| id.starts_with("termination-"));
            ensure!(asked && matches_message(&reported.message), "{}", reported.message);
            Ok(Some(reported.message.clone()))
        })
        .await
    }

    /// Waits until the agent reports the refusal of the budget.
    async fn agent_is_refused(&self, fixture: &Fixture) -> Result<()> {
        let message = self.agent_reports(fixture, "which budget refuses", |reported| reported.contains(BUDGET)).await?;
        ensure!(message.contains(self.app), "it does not name the pod: {message}");
        self.pod_is_untouched(fixture).await
    }

    /// Waits until the agent reports that the controller drains its node, and checks that the pod is untouched.
    async fn agent_is_relieved(&self, fixture: &Fixture) -> Result<()> {
        self.agent_reports(fixture, "that it is relieved", |reported| reported.contains("the controller drains it"))
            .await?;
        self.pod_is_untouched(fixture).await
    }

    /// Returns the requests to evict or delete the pod and their senders, in the order of the API server's audit log.
    fn asked(&self, fixture: &Fixture) -> Result<Vec<(Timestamp, &'static str)>> {
        let who = |removal: &PodRemoval| {
            let agent = removal.program.starts_with(AGENT).then_some("agent");
            agent.or_else(|| (removal.user == CONTROLLER).then_some("controller"))
        };
        let removals = fixture.environment.control_plane.removals()?;
        let of_pod = removals.iter().filter(|removal| removal.pod == self.pod);
        let mut asked: Vec<_> = of_pod.filter_map(|removal| Some((removal.at, who(removal)?))).collect();
        asked.sort();
        Ok(asked)
    }

    /// Asserts that these drain owners sent requests one after another, with a gap longer than `ARRIVES`.
    fn requested_in_order(&self, fixture: &Fixture, expected: &[&str]) -> Result<()> {
        let asked = self.asked(fixture)?;
        let mut owners: Vec<&str> = asked.iter().map(|(_, who)| *who).collect();
        owners.dedup();
        ensure!(owners == expected, "of {expected:?} in turn, {} was asked for by {asked:?}", self.pod);
        for pair in asked.windows(2).filter(|pair| pair[0].1 != pair[1].1) {
            let gap = pair[1].0.duration_since(pair[0].0);
            println!("{} asked for {} {gap:#} after {}", pair[1].1, self.pod, pair[0].1);
            ensure!(gap > ARRIVES, "{} asked {gap:#} after {}", pair[1].1, pair[0].1);
        }
        Ok(())
    }

    /// Returns the number of DescribeInstances calls of the controller for the instance.
    fn describe_calls(&self, fixture: &Fixture) -> usize {
        let asked = fixture.environment.wire.exchanges("DescribeInstances");
        let of_controller = |exchange: &&testbed::ec2wire::Exchange| exchange.user_agent.contains("app/kerf");
        asked.iter().filter(of_controller).filter(|exchange| exchange.asked.contains(&self.instance)).count()
    }

    async fn pod_is_untouched(&self, fixture: &Fixture) -> Result<()> {
        let pods = fixture.pods().list(&ListParams::default().labels(&format!("app={}", self.app))).await?.items;
        let found = pods.iter().find(|pod| pod.metadata.uid.as_deref() == Some(&self.pod_uid));
        let pod = found.context("the pod left although its budget held it")?;
        ensure!(!pod.is_terminating(), "the pod was deleted although its budget held it");
        let describe_calls = self.describe_calls(fixture);
        ensure!(describe_calls == 0, "EC2 was asked {describe_calls} times about a node that still drains");
        Ok(())
    }

    /// Deletes the budget while the pod still runs, and waits until pod, node, NodeClaim and instance are gone.
    async fn let_go(&self, fixture: &Fixture) -> Result<()> {
        self.pod_is_untouched(fixture).await?;
        budgets(fixture).delete(BUDGET, &DeleteParams::default()).await?;
        self.is_gone(fixture).await
    }

    async fn is_gone(&self, fixture: &Fixture) -> Result<()> {
        eventually("the node, its claim and its instance to go", LIMIT, async || {
            let node = fixture.api::<Node>().get_opt(&self.node).await?;
            let claim = fixture.api::<NodeClaim>().get_opt(&self.claim).await?;
            let is_running = fixture.running_instances().iter().any(|machine| machine.instance.id == self.instance);
            ensure!(
                node.is_none() && claim.is_none() && !is_running,
                "node {node:?}, claim {claim:?}, instance lives: {is_running}"
            );
            Ok(Some(()))
        })
        .await?;
        let describe_calls = self.describe_calls(fixture);
        println!("EC2 was asked {describe_calls} times about {}", self.instance);
        ensure!(
            (1..=MAX_DESCRIBE_CALLS).contains(&describe_calls),
            "EC2 was asked {describe_calls} times about one drained node"
        );
        Ok(())
    }

    /// Returns the process ids of the machine's agent.
    fn agent(&self, fixture: &Fixture) -> Result<Vec<Pid>> {
        let machine = fixture.environment.simulator.machine(&self.instance).context("no such machine")?;
        machine.pids().into_iter().map(|pid| Ok(Pid::from_raw(i32::try_from(pid)?))).collect()
    }

    fn signal_agent(&self, fixture: &Fixture, signal: Signal) -> Result<()> {
        let agent = self.agent(fixture)?;
        ensure!(!agent.is_empty(), "no agent runs");
        agent
            .into_iter()
            .try_for_each(|pid| kill(pid, signal).with_context(|| format!("cannot send {signal} to {pid}")))
    }
}

fn budgets(fixture: &Fixture) -> Api<PodDisruptionBudget> {
    Api::namespaced(fixture.client.clone(), "default")
}

#[test]
fn drain_waits_when_budget_blocks_the_pod() {
    run(async |fixture| {
        let held = Held::deleting(fixture, "held").await?;
        held.agent_is_refused(fixture).await?;
        held.let_go(fixture).await
    });
}

#[test]
fn drain_continues_when_agent_is_killed() {
    run(async |fixture| {
        let held = Held::deleting(fixture, "killed").await?;
        held.agent_is_refused(fixture).await?;
        let before = held.agent(fixture)?;
        held.signal_agent(fixture, Signal::SIGKILL)?;
        eventually("another agent", LIMIT, async || {
            let now = held.agent(fixture)?;
            ensure!(!now.is_empty() && now != before, "{now:?}");
            Ok(Some(()))
        })
        .await?;
        held.agent_is_refused(fixture).await?;
        held.let_go(fixture).await
    });
}

#[test]
fn controller_takes_over_drain_when_agent_hangs_midway() {
    run(async |fixture| {
        let held = Held::deleting(fixture, "hung").await?;
        held.agent_is_refused(fixture).await?;
        held.signal_agent(fixture, Signal::SIGSTOP)?;
        fixture.wait_for_event(&held.node, reason::DRAIN_TAKEN_OVER, "no report of the agent for 30 s").await?;
        fixture.wait_for_event(&held.node, reason::FAILED_DRAINING, BUDGET).await?;
        // After SIGCONT the agent is in the middle of an eviction, but first it must read the Node.
        held.signal_agent(fixture, Signal::SIGCONT)?;
        held.agent_is_relieved(fixture).await?;
        held.let_go(fixture).await?;
        held.requested_in_order(fixture, &["agent", "controller"])
    });
}

#[test]
fn controller_takes_over_drain_when_agent_never_responds() {
    run(async |fixture| {
        let held = Held::settled(fixture, "deaf").await?;
        held.signal_agent(fixture, Signal::SIGSTOP)?;
        held.is_to_go(fixture).await?;
        fixture.wait_for_event(&held.node, reason::DRAIN_TAKEN_OVER, "did not acknowledge").await?;
        fixture.wait_for_event(&held.node, reason::FAILED_DRAINING, BUDGET).await?;
        held.pod_is_untouched(fixture).await?;
        // After SIGCONT the agent finds the controller's mark and sends no request.
        held.signal_agent(fixture, Signal::SIGCONT)?;
        held.agent_is_relieved(fixture).await?;
        held.let_go(fixture).await?;
        held.requested_in_order(fixture, &["controller"])
    });
}

#[test]
fn agent_finishes_drain_when_controller_is_down() {
    run(async |fixture| {
        let held = Held::deleting(fixture, "alone").await?;
        held.agent_is_refused(fixture).await?;
        fixture.environment.kill_controller()?;
        held.pod_is_untouched(fixture).await?;
        budgets(fixture).delete(BUDGET, &DeleteParams::default()).await?;
        eventually("the pod to leave without a controller", LIMIT, async || {
            let pods = fixture.pods().list(&ListParams::default().labels("app=alone")).await?.items;
            let stays = pods.iter().any(|pod| pod.metadata.uid.as_deref() == Some(&held.pod_uid));
            Ok((!stays).then_some(()))
        })
        .await?;
        held.agent_reports(fixture, "that it is done", |reported| reported.contains(" left=0 ")).await?;
        fixture.environment.start_controller()?;
        held.is_gone(fixture).await?;
        held.requested_in_order(fixture, &["agent"])
    });
}

#[test]
fn rebalance_drains_node_when_replacement_is_initialized() {
    run(async |fixture| {
        let held = Held::settled(fixture, "risky").await?;
        budgets(fixture).delete(BUDGET, &DeleteParams::default()).await?;
        let nodes = fixture.api::<Node>();
        let policy = json!({"metadata": {"annotations": {annotation::REBALANCE: "replace"}}});
        nodes.patch(&held.node, &PatchParams::default(), &Patch::Merge(&policy)).await?;
        let claims = fixture.api::<NodeClaim>();
        claims.patch(&held.claim, &PatchParams::default(), &Patch::Merge(&policy)).await?;
        ensure!(fixture.environment.ec2.recommend_rebalance(&held.instance), "EC2 does not know {}", held.instance);
        let replacement = eventually("a second claim", LIMIT, async || {
            let claims = fixture.claims().await?;
            let names = claims.into_iter().filter_map(|claim| claim.metadata.name);
            Ok(names.into_iter().find(|name| *name != held.claim))
        })
        .await?;
        held.pod_is_untouched(fixture).await?;
        let approved = eventually("its approval", LIMIT, async || {
            let node = nodes.get(&held.node).await?;
            Ok(node.annotation(annotation::REPLACEMENT_APPROVED).map(str::to_owned))
        })
        .await?;
        ensure!(approved.starts_with("rebalance-"), "{approved} is no recommendation's id");
        // The label of the Node permits the approval; the condition of the NodeClaim follows with a write of its own.
        let node = fixture
            .api::<NodeClaim>()
            .get(&replacement)
            .await?
            .status
            .map(|status| status.node_name)
            .unwrap_or_default();
        ensure!(
            nodes.get(&node).await?.is_initialized(),
            "{held} was approved before {replacement} was initialized",
            held = held.node
        );
        held.is_gone(fixture).await?;
        let refuge = fixture.runs("risky").await?;
        let on = fixture.only_claim().await?.status.map(|status| status.node_name).unwrap_or_default();
        ensure!(refuge == on, "the pod runs on {refuge}, the replacement is {on}");
        Ok(())
    });
}

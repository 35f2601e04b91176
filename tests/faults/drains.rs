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
use world::controlplane::{CONTROLLER, Ending};
use world::eventually;

use super::scene::{LIMIT, Scene, play};

const BUDGET: &str = "stays";
/// Highest number of DescribeInstances calls for one drained node: one at the end of the drain, then at most one per second.
/// The instance of the fake terminates within a few seconds.
const MOST_LOOKS: usize = 20;
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
    async fn on_its_way_out(scene: &Scene, app: &'static str) -> Result<Self> {
        let held = Self::settled(scene, app).await?;
        held.is_to_go(scene).await?;
        Ok(held)
    }

    async fn settled(scene: &Scene, app: &'static str) -> Result<Self> {
        scene.pod(app, "1", json!({})).await?;
        let budget = json!({
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": BUDGET, "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
        });
        scene.stage.apply_value(budget).await?;
        let node = scene.runs(app).await?;
        let (claim, instance) = scene.settled_claim().await?;
        let pods = scene.pods().list(&ListParams::default().labels(&format!("app={app}"))).await?.items;
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

    async fn is_to_go(&self, scene: &Scene) -> Result<()> {
        scene.api::<NodeClaim>().delete(&self.claim, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Waits until the agent's condition for the requested drain contains the expected message.
    async fn agent_says(&self, scene: &Scene, what: &str, says: impl Fn(&str) -> bool) -> Result<String> {
        eventually(&format!("the agent to say {what}"), LIMIT, async || {
            let node = scene.api::<Node>().get(&self.node).await?;
            let said = node.condition(condition::NODE_DRAINED).context("it says nothing of a drain")?;
            let asked = DrainProgress::parse(&said.message).ids.iter().any(|id| id.starts_with("termination-"));
            ensure!(asked && says(&said.message), "{}", said.message);
            Ok(Some(said.message.clone()))
        })
        .await
    }

    /// Waits until the agent reports the refusal of the budget.
    async fn agent_is_refused(&self, scene: &Scene) -> Result<()> {
        let words = self.agent_says(scene, "which budget refuses", |said| said.contains(BUDGET)).await?;
        ensure!(words.contains(self.app), "it does not name the pod: {words}");
        self.pod_is_untouched(scene).await
    }

    /// Waits until the agent reports that the controller drains its node, and checks that the pod is untouched.
    async fn agent_is_relieved(&self, scene: &Scene) -> Result<()> {
        self.agent_says(scene, "that it is relieved", |said| said.contains("the controller drains it")).await?;
        self.pod_is_untouched(scene).await
    }

    /// Returns the requests to evict or delete the pod and their senders, in the order of the API server's audit log.
    fn asked(&self, scene: &Scene) -> Result<Vec<(Timestamp, &'static str)>> {
        let who = |ending: &Ending| {
            let agent = ending.program.starts_with(AGENT).then_some("agent");
            agent.or_else(|| (ending.user == CONTROLLER).then_some("controller"))
        };
        let endings = scene.stage.control_plane.endings()?;
        let of_pod = endings.iter().filter(|ending| ending.pod == self.pod);
        let mut asked: Vec<_> = of_pod.filter_map(|ending| Some((ending.at, who(ending)?))).collect();
        asked.sort();
        Ok(asked)
    }

    /// Asserts that these drain owners sent requests one after another, with a gap longer than `ARRIVES`.
    fn asked_in_turn(&self, scene: &Scene, expected: &[&str]) -> Result<()> {
        let asked = self.asked(scene)?;
        let mut turns: Vec<&str> = asked.iter().map(|(_, who)| *who).collect();
        turns.dedup();
        ensure!(turns == expected, "of {expected:?} in turn, {} was asked for by {asked:?}", self.pod);
        for pair in asked.windows(2).filter(|pair| pair[0].1 != pair[1].1) {
            let gap = pair[1].0.duration_since(pair[0].0);
            println!("{} asked for {} {gap:#} after {}", pair[1].1, self.pod, pair[0].1);
            ensure!(gap > ARRIVES, "{} asked {gap:#} after {}", pair[1].1, pair[0].1);
        }
        Ok(())
    }

    /// Returns the number of DescribeInstances calls of the controller for the instance.
    fn looks(&self, scene: &Scene) -> usize {
        let asked = scene.stage.wire.exchanges("DescribeInstances");
        let of_controller = |exchange: &&world::ec2wire::Exchange| exchange.user_agent.contains("app/kerf");
        asked.iter().filter(of_controller).filter(|exchange| exchange.asked.contains(&self.instance)).count()
    }

    async fn pod_is_untouched(&self, scene: &Scene) -> Result<()> {
        let pods = scene.pods().list(&ListParams::default().labels(&format!("app={}", self.app))).await?.items;
        let found = pods.iter().find(|pod| pod.metadata.uid.as_deref() == Some(&self.pod_uid));
        let pod = found.context("the pod left although its budget held it")?;
        ensure!(!pod.is_terminating(), "the pod was deleted although its budget held it");
        let looks = self.looks(scene);
        ensure!(looks == 0, "EC2 was asked {looks} times about a node that still drains");
        Ok(())
    }

    /// Deletes the budget while the pod still runs, and waits until pod, node, NodeClaim and instance are gone.
    async fn let_go(&self, scene: &Scene) -> Result<()> {
        self.pod_is_untouched(scene).await?;
        budgets(scene).delete(BUDGET, &DeleteParams::default()).await?;
        self.is_gone(scene).await
    }

    async fn is_gone(&self, scene: &Scene) -> Result<()> {
        eventually("the node, its claim and its instance to go", LIMIT, async || {
            let node = scene.api::<Node>().get_opt(&self.node).await?;
            let claim = scene.api::<NodeClaim>().get_opt(&self.claim).await?;
            let lives = scene.living().iter().any(|machine| machine.instance.id == self.instance);
            ensure!(
                node.is_none() && claim.is_none() && !lives,
                "node {node:?}, claim {claim:?}, instance lives: {lives}"
            );
            Ok(Some(()))
        })
        .await?;
        let looks = self.looks(scene);
        println!("EC2 was asked {looks} times about {}", self.instance);
        ensure!((1..=MOST_LOOKS).contains(&looks), "EC2 was asked {looks} times about one drained node");
        Ok(())
    }

    /// Returns the process ids of the machine's agent.
    fn agent(&self, scene: &Scene) -> Result<Vec<Pid>> {
        let machine = scene.stage.room.machine(&self.instance).context("no such machine")?;
        machine.pids().into_iter().map(|pid| Ok(Pid::from_raw(i32::try_from(pid)?))).collect()
    }

    fn signal_agent(&self, scene: &Scene, signal: Signal) -> Result<()> {
        let agent = self.agent(scene)?;
        ensure!(!agent.is_empty(), "no agent runs");
        agent
            .into_iter()
            .try_for_each(|pid| kill(pid, signal).with_context(|| format!("cannot send {signal} to {pid}")))
    }
}

fn budgets(scene: &Scene) -> Api<PodDisruptionBudget> {
    Api::namespaced(scene.client.clone(), "default")
}

#[test]
fn drain_waits_when_budget_blocks_the_pod() {
    play(async |scene| {
        let held = Held::on_its_way_out(scene, "held").await?;
        held.agent_is_refused(scene).await?;
        held.let_go(scene).await
    });
}

#[test]
fn drain_continues_when_agent_is_killed() {
    play(async |scene| {
        let held = Held::on_its_way_out(scene, "killed").await?;
        held.agent_is_refused(scene).await?;
        let before = held.agent(scene)?;
        held.signal_agent(scene, Signal::SIGKILL)?;
        eventually("another agent", LIMIT, async || {
            let now = held.agent(scene)?;
            ensure!(!now.is_empty() && now != before, "{now:?}");
            Ok(Some(()))
        })
        .await?;
        held.agent_is_refused(scene).await?;
        held.let_go(scene).await
    });
}

#[test]
fn controller_takes_over_drain_when_agent_hangs_midway() {
    play(async |scene| {
        let held = Held::on_its_way_out(scene, "hung").await?;
        held.agent_is_refused(scene).await?;
        held.signal_agent(scene, Signal::SIGSTOP)?;
        scene.told(&held.node, reason::DRAIN_TAKEN_OVER, "no report of the agent for 30 s").await?;
        scene.told(&held.node, reason::FAILED_DRAINING, BUDGET).await?;
        // After SIGCONT the agent is in the middle of an eviction, but first it must read the Node.
        held.signal_agent(scene, Signal::SIGCONT)?;
        held.agent_is_relieved(scene).await?;
        held.let_go(scene).await?;
        held.asked_in_turn(scene, &["agent", "controller"])
    });
}

#[test]
fn controller_takes_over_drain_when_agent_never_responds() {
    play(async |scene| {
        let held = Held::settled(scene, "deaf").await?;
        held.signal_agent(scene, Signal::SIGSTOP)?;
        held.is_to_go(scene).await?;
        scene.told(&held.node, reason::DRAIN_TAKEN_OVER, "did not acknowledge").await?;
        scene.told(&held.node, reason::FAILED_DRAINING, BUDGET).await?;
        held.pod_is_untouched(scene).await?;
        // After SIGCONT the agent finds the controller's mark and sends no request.
        held.signal_agent(scene, Signal::SIGCONT)?;
        held.agent_is_relieved(scene).await?;
        held.let_go(scene).await?;
        held.asked_in_turn(scene, &["controller"])
    });
}

#[test]
fn agent_finishes_drain_when_controller_is_down() {
    play(async |scene| {
        let held = Held::on_its_way_out(scene, "alone").await?;
        held.agent_is_refused(scene).await?;
        scene.stage.kill_controller()?;
        held.pod_is_untouched(scene).await?;
        budgets(scene).delete(BUDGET, &DeleteParams::default()).await?;
        eventually("the pod to leave without a controller", LIMIT, async || {
            let pods = scene.pods().list(&ListParams::default().labels("app=alone")).await?.items;
            let stays = pods.iter().any(|pod| pod.metadata.uid.as_deref() == Some(&held.pod_uid));
            Ok((!stays).then_some(()))
        })
        .await?;
        held.agent_says(scene, "that it is done", |said| said.contains(" left=0 ")).await?;
        scene.stage.start_controller()?;
        held.is_gone(scene).await?;
        held.asked_in_turn(scene, &["agent"])
    });
}

#[test]
fn rebalance_drains_node_when_replacement_is_initialized() {
    play(async |scene| {
        let held = Held::settled(scene, "risky").await?;
        budgets(scene).delete(BUDGET, &DeleteParams::default()).await?;
        let nodes = scene.api::<Node>();
        let policy = json!({"metadata": {"annotations": {annotation::REBALANCE: "replace"}}});
        nodes.patch(&held.node, &PatchParams::default(), &Patch::Merge(policy)).await?;
        ensure!(scene.stage.ec2.recommend_rebalance(&held.instance), "EC2 does not know {}", held.instance);
        let replacement = eventually("a second claim", LIMIT, async || {
            let claims = scene.claims().await?;
            let names = claims.into_iter().filter_map(|claim| claim.metadata.name);
            Ok(names.into_iter().find(|name| *name != held.claim))
        })
        .await?;
        held.pod_is_untouched(scene).await?;
        let approved = eventually("its approval", LIMIT, async || {
            let node = nodes.get(&held.node).await?;
            Ok(node.annotation(annotation::REPLACEMENT_APPROVED).map(str::to_owned))
        })
        .await?;
        ensure!(approved.starts_with("rebalance-"), "{approved} is no recommendation's id");
        // The label of the Node permits the approval; the condition of the NodeClaim follows with a write of its own.
        let node =
            scene.api::<NodeClaim>().get(&replacement).await?.status.map(|status| status.node_name).unwrap_or_default();
        ensure!(
            nodes.get(&node).await?.is_initialized(),
            "{held} was approved before {replacement} was initialized",
            held = held.node
        );
        held.is_gone(scene).await?;
        let refuge = scene.runs("risky").await?;
        let on = scene.only_claim().await?.status.map(|status| status.node_name).unwrap_or_default();
        ensure!(refuge == on, "the pod runs on {refuge}, the replacement is {on}");
        Ok(())
    });
}

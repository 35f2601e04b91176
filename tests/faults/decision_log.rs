//! The decision log of a real controller, as a user reads it who has only the Role of `docs/decision-log.md`. A killed controller loses at
//! most the last seconds, a stopped one nothing.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use api::decisions::{Decision, DecisionKind, Summary};
use api::timeline;
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};
use serde_json::{Value, json};
use testbed::eventually;
use testbed::machines::find_program;
use tokio::process::Command;

use super::fixture::{Fixture, LIMIT, run};

const POOL: &str = "logged";
const USER: &str = "log-reader";

/// User of `kerf` with a kubeconfig.
struct LogReader {
    kubeconfig: PathBuf,
}

impl LogReader {
    /// Grants the documented Role to a new user.
    async fn new(fixture: &Fixture, folder: &Path) -> Result<Self> {
        let page = include_str!("../../docs/decision-log.md");
        let role = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next());
        let role: Value = serde_saphyr::from_str(role.context("docs/decision-log.md has no Role")?)?;
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": role["metadata"]["name"], "namespace": role["metadata"]["namespace"]},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role["metadata"]["name"]},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
        });
        let kubeconfig = folder.join("kubeconfig");
        std::fs::write(&kubeconfig, fixture.environment.control_plane.kubeconfig(USER, "readers")?)?;
        let reader = Self { kubeconfig };
        let refused = reader.kerf(&["log"]).await.err().map(|error| error.to_string()).unwrap_or_default();
        let right = "you need verb get on resource configmaps in namespace kube-system";
        ensure!(refused.contains(right), "{refused}");
        fixture.environment.apply_value(role).await?;
        fixture.environment.apply_value(binding).await?;
        Ok(reader)
    }

    async fn kerf(&self, words: &[&str]) -> Result<String> {
        let program = find_program("kerf", "KERF_CLI", "cargo build --workspace")?;
        let output = Command::new(program).args(words).env("KUBECONFIG", &self.kubeconfig).output().await?;
        match output.status.success() {
            true => Ok(String::from_utf8(output.stdout)?),
            false => bail!("{}", String::from_utf8_lossy(&output.stderr)),
        }
    }

    /// Waits for these decisions about a NodeClaim, in this order.
    async fn waits_for(&self, claim: &str, kinds: &[DecisionKind]) -> Result<Vec<Decision>> {
        eventually(&format!("decisions about {claim}"), LIMIT, async || {
            let text = self.kerf(&["log", "--nodeclaim", claim, "-o", "json"]).await?;
            let decisions: Vec<Decision> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
            let found: Vec<DecisionKind> = decisions.iter().map(|decision| decision.kind).collect();
            ensure!(found == kinds, "{found:?}");
            Ok(Some(decisions))
        })
        .await
    }
}

fn pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": POOL},
        "spec": {
            "disruption": {"consolidateAfter": "0s", "consolidationPolicy": "WhenEmpty", "budgets": [{"nodes": "100%"}]},
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
            }},
        },
    })
}

#[test]
fn decision_log_survives_the_controller() {
    run(async |fixture| {
        let folder = tempfile::tempdir()?;
        let reader = LogReader::new(fixture, folder.path()).await?;
        fixture.environment.apply_value(pool()).await?;
        let up = [DecisionKind::Created, DecisionKind::Launched, DecisionKind::Initialized];
        let first = starts(fixture, "logged-first").await?;
        let decisions = reader.waits_for(&first, &up).await?;
        let [created, launched, initialized] = decisions.as_slice() else { bail!("{decisions:?}") };
        ensure!(created.reason == "pending pods" && created.pods.count == 1, "{created:?}");
        ensure!(created.instance_types.count > 1, "{created:?}");
        let priced = |decision: &Decision| decision.price_per_hour.is_some_and(|price| price > 0);
        ensure!(launched.instance.is_some() && priced(created) && priced(launched), "{launched:?}");
        let stages: Vec<&str> = initialized.stages.iter().map(|stage| stage.stage.as_str()).collect();
        let expected =
            [timeline::CREATED, timeline::LAUNCHED, timeline::AGENT, timeline::REGISTERED, timeline::INITIALIZED];
        ensure!(expected.iter().all(|stage| stages.contains(stage)), "{stages:?}");

        fixture.environment.kill_controller()?;
        fixture.environment.start_controller()?;
        let sets: Api<ReplicaSet> = Api::namespaced(fixture.client.clone(), "default");
        sets.delete("logged-first", &DeleteParams::background()).await?;
        let removed = [up[0], up[1], up[2], DecisionKind::Disrupting, DecisionKind::Disrupted];
        let decisions = reader.waits_for(&first, &removed).await?;
        let [.., disrupting, disrupted] = decisions.as_slice() else { bail!("{decisions:?}") };
        ensure!(
            disrupting.reason == "Empty" && disrupting.saving_per_hour == disrupting.price_per_hour,
            "{disrupting:?}"
        );
        ensure!(disrupting.price_per_hour > launched.price_per_hour, "a node costs more than its instance");
        ensure!(disrupted.nodes.names == disrupting.nodes.names, "{disrupted:?}");

        // A controller that stops writes what it has.
        let second = starts(fixture, "logged-second").await?;
        ensure!(fixture.environment.stop_controller().await?, "the controller did not stop");
        reader.waits_for(&second, &up).await?;
        let summary: Summary = serde_json::from_str(&reader.kerf(&["report", "-o", "json"]).await?)?;
        ensure!(summary.launched > 0 && summary.waits.count() > 0 && summary.starts.count() > 0, "{summary:?}");
        let nodes = summary.nodes.iter().find(|nodes| nodes.nodepool == POOL).context("no nodes")?;
        ensure!(nodes.seconds > 0 && nodes.cost > 0 && nodes.unpriced_seconds == 0, "{nodes:?}");
        let text = reader.kerf(&["log", "--since", "1h", "--nodepool", POOL]).await?;
        ensure!(text.contains(&format!("NodeClaim {second} of NodePool {POOL}; for pod")), "{text}");
        Ok(())
    });
}

/// Creates a workload of one pod, and returns the NodeClaim of its new node.
async fn starts(fixture: &Fixture, name: &str) -> Result<String> {
    fixture.pod(name, "1", json!({api::label::NODEPOOL: POOL})).await?;
    fixture.runs(name).await?;
    Ok(fixture.settled_claim().await?.0.name_any())
}

//! The chart's RBAC is exactly the set of rights that the controller uses. Every test of this folder ends with a check of the
//! API server's audit log for forbidden requests. The test in this file uses each right once, and searches for unused rights.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use api::decisions::storage::{DECISIONS, SUMMARIES};
use api::objects::{Node, NodeReport};
use api::status::Conditioned;
use api::{
    CapacityBuffer, Commitment, NodeClaim, NodeOverlay, NodePool, ProvisioningRequest, SpendPolicy, annotation,
    condition, label, reason,
};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use testbed::controlplane::{Account, AuditedRequest};
use testbed::eventually;

use super::fixture::{Fixture, LIMIT, run};
use super::packing;
use super::surge::{Removal, Single};

const POOL: &str = "rightful";
/// Name of a report of a node that never existed.
const REPORT: &str = "nobody";

/// One right that a rule grants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    group: String,
    resource: String,
    verb: String,
    /// Object name to which the right is limited, if any.
    name: Option<String>,
}

impl Right {
    fn is_used_by(&self, asked: &AuditedRequest) -> bool {
        // A server-side apply of an object that does not exist creates it without a create request.
        let verb = asked.verb == self.verb || (self.verb == "create" && asked.verb == "patch" && asked.code == 201);
        // Only a large log uses every ConfigMap of its rings, and the same code writes all of them.
        let both_of_the_log = |name: &String| is_of_the_log(name) && is_of_the_log(&asked.name);
        let name = self.name.as_ref().is_none_or(|name| *name == asked.name || both_of_the_log(name));
        verb && name && asked.group == self.group && asked.resource == self.resource && !asked.forbidden
    }
}

/// Reports whether a ConfigMap belongs to the decision log.
fn is_of_the_log(name: &str) -> bool {
    DECISIONS.names().chain(SUMMARIES.names()).any(|known| known == name)
}

fn rights(rules: &[PolicyRule]) -> BTreeSet<Right> {
    let mut all = BTreeSet::new();
    for rule in rules {
        let names: Vec<Option<String>> = match rule.resource_names.as_deref() {
            None | Some([]) => vec![None],
            Some(names) => names.iter().cloned().map(Some).collect(),
        };
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                for (verb, name) in rule.verbs.iter().flat_map(|verb| names.iter().map(move |name| (verb, name))) {
                    let (group, resource) = (group.clone(), resource.clone());
                    all.insert(Right { group, resource, verb: verb.clone(), name: name.clone() });
                }
            }
        }
    }
    all
}

async fn granted(fixture: &Fixture) -> Result<BTreeSet<Right>> {
    let mut all = BTreeSet::new();
    for name in ["karpenter", "karpenter-core"] {
        let role: ClusterRole = fixture.api().get(name).await?;
        all.extend(rights(&role.rules.unwrap_or_default()));
    }
    for name in ["karpenter", "karpenter-dns"] {
        let role: Role = Api::namespaced(fixture.client.clone(), "kube-system").get(name).await?;
        all.extend(rights(&role.rules.unwrap_or_default()));
    }
    ensure!(all.len() > 40, "only {} rights: something is read wrongly", all.len());
    let named = |name: &String| all.iter().any(|right| right.name.as_ref() == Some(name));
    let missing: Vec<String> = DECISIONS.names().chain(SUMMARIES.names()).filter(|name| !named(name)).collect();
    ensure!(missing.is_empty(), "the chart grants no right on {missing:?} of the decision log");
    Ok(all)
}

#[test]
fn controller_uses_every_right_of_the_chart() {
    run(async |fixture| {
        let copied = Single { app: "copied", annotations: json!({annotation::SURGE: "true"}), blocked: true };
        copied.moves_without_a_gap(fixture, Removal::Deletion).await?;
        packing::lowers_requests(fixture).await?;
        stale_report(fixture).await?;
        wait_for_status_conditions(fixture).await?;
        open_pool(fixture).await?;
        forced_out(fixture).await?;
        emptied(fixture).await?;
        fixture.api::<NodePool>().delete(POOL, &DeleteParams::default()).await?;
        let granted = granted(fixture).await?;
        eventually("every right to be used", LIMIT, async || {
            let asked = fixture.environment.control_plane.requests_of(Account::Controller)?;
            let used = |right: &&Right| asked.iter().any(|asked| right.is_used_by(asked));
            let idle: Vec<&Right> = granted.iter().filter(|right| !used(right)).collect();
            ensure!(idle.is_empty(), "unused rights: {idle:?}");
            Ok(Some(()))
        })
        .await
    });
}

/// Writes a report of a missing node, and waits until the controller deletes it.
async fn stale_report(fixture: &Fixture) -> Result<()> {
    let figures = json!({"p50": "1", "p95": "2", "p99": "2", "peak5m": "1", "peak1h": "1", "peak24h": "2"});
    let report = json!({
        "apiVersion": "kerf.sh/v1alpha1", "kind": "NodeUsage", "metadata": {"name": REPORT},
        "spec": {
            "instance": "i-0123456789abcdef0", "measuredAt": "2026-01-01T00:00:00Z", "since": "2026-01-01T00:00:00Z",
            "cpu": figures, "memory": figures, "throttled": 0, "oomKills": 0, "pods": "AQ",
            "histograms": {"cpu": "", "memory": "", "joint": ""},
        },
    });
    fixture.environment.apply_value(report).await?;
    eventually("the stale report to go", LIMIT, async || {
        Ok(fixture.api::<NodeReport>().get_opt(REPORT).await?.is_none().then_some(()))
    })
    .await
}

/// Waits until the controller has written conditions to an overlay, a buffer, a request, a SpendPolicy and a Commitment.
async fn wait_for_status_conditions(fixture: &Fixture) -> Result<()> {
    let overlay = json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": POOL},
        "spec": {
            "requirements": [{"key": label::INSTANCE_TYPE, "operator": "In", "values": ["c5.xlarge"]}],
            "priceAdjustment": "+1%",
        },
    });
    let buffer = json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
        "metadata": {"name": POOL, "namespace": "default"},
        "spec": {"podTemplateRef": {"name": "nobody"}, "replicas": 1},
    });
    let policy = json!({
        "apiVersion": "kerf.sh/v1alpha1", "kind": "SpendPolicy", "metadata": {"name": POOL},
        "spec": {"maxCostPerHour": "1000"},
    });
    let request = json!({
        "apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest",
        "metadata": {"name": POOL, "namespace": "default"},
        "spec": {
            "provisioningClassName": "check-capacity.autoscaling.x-k8s.io",
            "podSets": [{"podTemplateRef": {"name": "missing"}, "count": 1}],
        },
    });
    let commitment = json!({
        "apiVersion": "kerf.sh/v1alpha1", "kind": "Commitment", "metadata": {"name": POOL},
        "spec": {"reservedInstances": {"instanceType": "c5.9xlarge", "count": 1, "zone": "nowhere"}},
    });
    for object in [overlay, buffer, policy, request, commitment] {
        fixture.environment.apply_value(object).await?;
    }
    let buffers: Api<CapacityBuffer> = Api::namespaced(fixture.client.clone(), "default");
    let requests: Api<ProvisioningRequest> = Api::namespaced(fixture.client.clone(), "default");
    eventually("verdicts on overlay, buffer, request, SpendPolicy and Commitment", LIMIT, async || {
        let overlay = fixture.api::<NodeOverlay>().get(POOL).await?;
        let reported = api::status::find(overlay.conditions(), condition::VALIDATION_SUCCEEDED).is_some();
        let buffer = buffers.get(POOL).await?.status.unwrap_or_default();
        ensure!(reported && !buffer.conditions.is_empty(), "overlay: {reported}, buffer: {:?}", buffer.conditions);
        let policy = fixture.api::<SpendPolicy>().get(POOL).await?.status.unwrap_or_default();
        ensure!(!policy.conditions.is_empty(), "the SpendPolicy has no condition");
        let commitment = fixture.api::<Commitment>().get(POOL).await?.status.unwrap_or_default();
        ensure!(!commitment.conditions.is_empty(), "the Commitment has no condition");
        let request = requests.get(POOL).await?.status.unwrap_or_default();
        ensure!(!request.conditions.is_empty(), "the ProvisioningRequest has no condition");
        Ok(Some(()))
    })
    .await?;
    fixture.api::<Commitment>().delete(POOL, &DeleteParams::default()).await?;
    fixture.api::<SpendPolicy>().delete(POOL, &DeleteParams::default()).await?;
    fixture.api::<NodeOverlay>().delete(POOL, &DeleteParams::default()).await?;
    buffers.delete(POOL, &DeleteParams::default()).await?;
    requests.delete(POOL, &DeleteParams::default()).await?;
    Ok(())
}

/// Creates a NodePool with a termination grace period, whose empty nodes are removed at once.
async fn open_pool(fixture: &Fixture) -> Result<()> {
    let types: Value = json!([
        {"key": label::ARCH, "operator": "In", "values": ["amd64"]},
        {"key": label::INSTANCE_TYPE, "operator": "In", "values": ["m5.xlarge"]},
        {"key": label::CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
    ]);
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": POOL},
        "spec": {
            "disruption": {"consolidateAfter": "0s", "consolidationPolicy": "WhenEmpty", "budgets": [{"nodes": "100%"}]},
            "template": {"spec": {
                "terminationGracePeriod": "40s",
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": types,
            }},
        },
    });
    fixture.environment.apply_value(pool).await
}

/// A budget blocks a pod, its agent does not respond, and the termination grace period ends: the controller evicts, and then
/// deletes the pod. The termination grace period is longer than the 25 s after which the controller may evict instead of a
/// silent agent.
async fn forced_out(fixture: &Fixture) -> Result<()> {
    let app = "rightful";
    fixture.pod(app, "1", json!({label::NODEPOOL: POOL})).await?;
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app, "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
    });
    fixture.environment.apply_value(budget).await?;
    let node = fixture.runs(app).await?;
    let (claim, instance) = fixture.settled_claim().await?;
    let machine = fixture.environment.simulator.machine(&instance).context("no machine")?;
    for pid in machine.pids() {
        kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGSTOP)?;
    }
    fixture.api::<NodeClaim>().delete(&claim.name_any(), &DeleteParams::default()).await?;
    fixture.wait_for_event(&node, reason::DRAIN_TAKEN_OVER, "did not acknowledge").await?;
    eventually("the node to go against the budget", LIMIT, async || {
        Ok(fixture.api::<Node>().get_opt(&node).await?.is_none().then_some(()))
    })
    .await
}

/// Deletes the workload of a node: the controller deletes the NodeClaim itself.
async fn emptied(fixture: &Fixture) -> Result<()> {
    let sets: Api<k8s_openapi::api::apps::v1::ReplicaSet> = Api::namespaced(fixture.client.clone(), "default");
    fixture.runs("rightful").await?;
    sets.delete("rightful", &DeleteParams::background()).await?;
    eventually("the empty node to go", LIMIT, async || {
        let claims = fixture.api::<NodeClaim>().list(&ListParams::default()).await?.items.len();
        ensure!(claims == 0, "{claims} claims are left");
        Ok(Some(()))
    })
    .await
}

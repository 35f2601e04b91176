//! Writes of the controller's own account on a real API server, with the chart's roles and admission policies: the account
//! may change its fields of pods, NodePools, EC2NodeClasses and Nodes, and no field that would execute code or move workloads.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::label;
use http::Method;
use kube::Client;
use serde_json::{Value, json};
use testbed::controlplane::{Account, CONTROLLER, ControlPlane, Options};
use testbed::eventually;

use super::node_usage::{JSON, MERGE, message, send};

const SOON: Duration = Duration::from_secs(120);
const PODS: &str = "/api/v1/namespaces/default/pods";
const NODES: &str = "/api/v1/nodes";
const POOLS: &str = "/apis/karpenter.sh/v1/nodepools";
const CLASSES: &str = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
/// Part of the message of every admission policy.
const REFUSED: &str = "denied request";
/// Annotation that keeps a Node from voluntary disruption.
const PROTECTION: &str = "karpenter.sh/do-not-disrupt";
/// Value of `kerf.sh/requested`.
const MUCH: &str = r#"{"main":{"cpu":"90"}}"#;

fn pod(name: &str, annotations: &Value) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": "a", "pod-template-hash": "x"}, "annotations": annotations},
        "spec": {
            "automountServiceAccountToken": false,
            "containers": [{"name": "main", "image": "a", "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}}}],
        },
    })
}

/// Returns a Node with a foreign label, annotation, finalizer and taint, and with the taint of a new node.
fn node(name: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "labels": {"team": "a"}, "annotations": {"team": "a"}, "finalizers": ["example.com/keep"],
        },
        "spec": {"taints": [unregistered(), foreign()]},
    })
}

fn unregistered() -> Value {
    json!({"key": "karpenter.sh/unregistered", "effect": "NoExecute"})
}

fn foreign() -> Value {
    json!({"key": "dedicated", "value": "payments", "effect": "NoSchedule"})
}

fn objects() -> [(&'static str, Value); 6] {
    let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "a"});
    let requirements = json!([{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]);
    let template = json!({"spec": {"nodeClassRef": class, "requirements": requirements}});
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "a", "annotations": {"team": "a"}},
        "spec": {"template": template},
    });
    let selected = json!([{"tags": {"a": "b"}}]);
    let class = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
        "metadata": {"name": "a", "annotations": {"team": "a"}},
        "spec": {
            "role": "nodes", "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": selected, "securityGroupSelectorTerms": selected,
        },
    });
    let account = json!({"metadata": {"name": "default"}});
    [
        ("/api/v1/namespaces/default/serviceaccounts", account),
        (PODS, pod("a", &json!({"team": "a"}))),
        (POOLS, pool),
        (CLASSES, class),
        (NODES, node("a")),
        (NODES, node("b")),
    ]
}

/// API server with the chart's permissions and these objects, and its clients.
struct Server {
    _control_plane: ControlPlane,
    admin: Client,
    controller: Client,
    /// Kubelet of node `a`.
    kubelet: Client,
}

impl Server {
    async fn start(name: &'static str) -> Result<Self> {
        let control_plane = ControlPlane::start(Options::api_server(name)).await?;
        control_plane.apply_crds().await?;
        control_plane.apply_rights(Account::Controller).await?;
        let admin = control_plane.admin().await?;
        let controller = control_plane.client_for(CONTROLLER, "system:serviceaccounts").await?;
        let kubelet = control_plane.client_for("system:node:a", "system:nodes").await?;
        let server = Self { _control_plane: control_plane, admin, controller, kubelet };
        for (path, object) in objects() {
            let (code, answer) = send(&server.admin, Method::POST, path, Some((JSON, object))).await?;
            ensure!(matches!(code, 201 | 409), "{path}: {code}: {}", message(&answer));
        }
        server.wait_for_policies().await?;
        Ok(server)
    }

    /// Waits until each policy rejects a request: the caches of the API server update with a delay.
    async fn wait_for_policies(&self) -> Result<()> {
        let annotated = |key: &str| json!({"metadata": {"annotations": {key: "b"}}});
        let rows = [
            (&self.controller, PODS, "team"),
            (&self.controller, POOLS, "team"),
            (&self.controller, CLASSES, "team"),
            (&self.controller, NODES, "team"),
            (&self.admin, PODS, "kerf.sh/requested"),
            (&self.kubelet, NODES, PROTECTION),
        ];
        for (client, path, key) in rows {
            eventually(&format!("the policy of {path} to apply to {key}"), SOON, async || {
                let path = format!("{path}/a?dryRun=All");
                let (code, answer) = send(client, Method::PATCH, &path, Some((MERGE, annotated(key)))).await?;
                Ok((code == 403 && message(&answer).contains(REFUSED)).then_some(()))
            })
            .await?;
        }
        Ok(())
    }

    /// Asserts that a policy rejects the controller's patch.
    async fn refuses(&self, path: &str, body: Value) -> Result<()> {
        refuses(&self.controller, path, MERGE, body).await
    }

    /// Asserts that the controller may send the patch.
    async fn accepts(&self, path: &str, body: Value) -> Result<()> {
        accepts(&self.controller, path, MERGE, body).await
    }

    async fn taints(&self, path: &str) -> Result<Vec<Value>> {
        let (code, node) = send(&self.admin, Method::GET, path, None).await?;
        ensure!(code == 200, "{path}: {code}: {}", message(&node));
        node["spec"]["taints"].as_array().cloned().context("a Node without taints")
    }
}

async fn refuses(client: &Client, path: &str, kind: &str, body: Value) -> Result<()> {
    let text = body.to_string();
    let (code, answer) = send(client, Method::PATCH, path, Some((kind, body))).await.context(text.clone())?;
    ensure!(code == 403 && message(&answer).contains(REFUSED), "{path} {text}: {code}: {}", message(&answer));
    Ok(())
}

async fn accepts(client: &Client, path: &str, kind: &str, body: Value) -> Result<()> {
    let text = body.to_string();
    let (code, answer) = send(client, Method::PATCH, path, Some((kind, body))).await.context(text.clone())?;
    ensure!(code == 200, "{path} {text}: {code}: {}", message(&answer));
    Ok(())
}

fn metadata(field: &str, value: Value) -> Value {
    json!({"metadata": {field: value}})
}

fn container(field: &str, value: Value) -> Value {
    json!({"spec": {"containers": [{"name": "main", field: value}]}})
}

#[tokio::test]
async fn pod_policy_permits_only_fields_of_the_controller() -> Result<()> {
    let server = Server::start("controller-pods").await?;
    let pod_a = format!("{PODS}/a");
    let (resize, status) = (format!("{pod_a}/resize"), format!("{pod_a}/status"));
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x"}]);
    let strategic =
        [(&pod_a, container("image", json!("b"))), (&resize, container("resources", json!({"limits": {"cpu": "2"}})))];
    for (path, body) in strategic {
        refuses(&server.controller, path, STRATEGIC, body).await?;
    }
    for path in [&pod_a, &status] {
        server.refuses(path, metadata("annotations", json!({"team": null}))).await?;
        server.refuses(path, metadata("labels", json!({"app": "b"}))).await?;
        server.refuses(path, metadata("labels", json!({"pod-template-hash": "b"}))).await?;
        server.refuses(path, metadata("finalizers", json!(["example.com/keep"]))).await?;
    }
    server.refuses(&pod_a, metadata("ownerReferences", owner)).await?;
    server.refuses(&status, json!({"status": {"phase": "Failed"}})).await?;
    server.refuses(&status, json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})).await?;
    server.refuses(&status, json!({"status": {"podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}]}})).await?;

    let surged = json!({"labels": {"pod-template-hash": null}, "annotations": {"kerf.sh/surged": "x"}});
    let lowered = container("resources", json!({"requests": {"cpu": "50m"}}));
    server.accepts(&pod_a, json!({"metadata": surged})).await?;
    server.accepts(&pod_a, metadata("annotations", json!({"kerf.sh/requested": MUCH}))).await?;
    accepts(&server.controller, &resize, STRATEGIC, lowered).await?;
    server.accepts(&status, json!({"status": {"nominatedNodeName": "n"}})).await?;
    written_annotations_are_kerfs(&server.admin, &pod_a).await
}

/// Asserts that other clients can keep and remove annotations that Kerf writes, and not set them.
async fn written_annotations_are_kerfs(other: &Client, path: &str) -> Result<()> {
    let annotated = |text: Value| metadata("annotations", json!({"kerf.sh/requested": text}));
    let more = r#"{"main":{"cpu":"91"}}"#;
    refuses(other, path, MERGE, annotated(json!(more))).await?;
    refuses(other, &format!("{path}/status"), MERGE, annotated(json!(more))).await?;
    accepts(other, path, MERGE, metadata("annotations", json!({"team": "c"}))).await?;
    accepts(other, path, MERGE, annotated(Value::Null)).await?;
    refuses(other, path, MERGE, annotated(json!(MUCH))).await?;
    for key in ["kerf.sh/requested", "kerf.sh/requests-given-back", "kerf.sh/surged"] {
        let created = pod("b", &json!({key: MUCH}));
        let (code, answer) = send(other, Method::POST, PODS, Some((JSON, created))).await?;
        ensure!(code == 403 && message(&answer).contains(REFUSED), "{key}: {code}: {}", message(&answer));
    }
    // Annotations of the pod's owner stay possible.
    let created = pod("b", &json!({"kerf.sh/resize": "never", "kerf.sh/surge": "true"}));
    let (code, answer) = send(other, Method::POST, PODS, Some((JSON, created))).await?;
    ensure!(code == 201, "{code}: {}", message(&answer));
    Ok(())
}

#[tokio::test]
async fn owner_policy_permits_only_hashes_status_and_finalizer() -> Result<()> {
    let server = Server::start("controller-owners").await?;
    let (pool, class) = (format!("{POOLS}/a"), format!("{CLASSES}/a"));
    server.refuses(&pool, json!({"spec": {"weight": 9}})).await?;
    server.refuses(&class, json!({"spec": {"userData": "#!/bin/sh"}})).await?;
    for path in [&pool, &class] {
        server.refuses(path, metadata("labels", json!({"team": "b"}))).await?;
        server.refuses(path, metadata("annotations", json!({"kerf.sh/utilization": "pack"}))).await?;
        server.refuses(path, metadata("finalizers", json!(["example.com/keep"]))).await?;
    }
    let finalizers = metadata("finalizers", json!(["karpenter.k8s.aws/termination"]));
    server.accepts(&class, finalizers).await?;
    server.accepts(&class, metadata("finalizers", json!([]))).await?;
    server.accepts(&class, metadata("annotations", json!({"karpenter.k8s.aws/ec2nodeclass-hash": "1"}))).await?;
    server.accepts(&pool, metadata("annotations", json!({"karpenter.sh/nodepool-hash": "1"}))).await?;
    server.accepts(&pool, metadata("annotations", json!({"karpenter.sh/nodepool-hash": "2"}))).await?;
    for key in ["kerf.sh/failed-attempts", "kerf.sh/notice-removals"] {
        server.accepts(&pool, metadata("annotations", json!({key: "{}"}))).await?;
        server.accepts(&pool, metadata("annotations", json!({key: null}))).await?;
    }
    server.accepts(&format!("{pool}/status"), json!({"status": {"nodes": 1}})).await
}

#[tokio::test]
async fn node_policy_permits_foreign_fields_only_at_registration() -> Result<()> {
    let server = Server::start("controller-nodes").await?;
    let (node_a, node_b) = (format!("{NODES}/a"), format!("{NODES}/b"));
    refuses_foreign_fields(&server, &node_a).await?;

    let others: Vec<Value> =
        server.taints(&node_a).await?.into_iter().filter(|taint| *taint != unregistered()).collect();
    let startup = json!([{"key": "example.com/startup", "effect": "NoExecute"}, {"key": "kerf.sh/agent-not-ready", "effect": "NoExecute"}]);
    let registered: Vec<Value> = others.iter().chain(startup.as_array().into_iter().flatten()).cloned().collect();
    let owner = json!([{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": "a", "uid": "a", "blockOwnerDeletion": true}]);
    let registration = |taints: &[Value]| {
        json!({
            "metadata": {
                "labels": {"karpenter.sh/registered": "true", "team": "b", "karpenter.sh/nodepool": "a"},
                "annotations": {"example.com/of-the-claim": "x"},
                "finalizers": ["example.com/keep", "karpenter.sh/termination"], "ownerReferences": owner,
            },
            "spec": {"taints": taints},
        })
    };
    let without_foreign: Vec<Value> = registered.iter().filter(|taint| **taint != foreign()).cloned().collect();
    server.refuses(&node_b, registration(&without_foreign)).await?;
    server.accepts(&node_a, registration(&registered)).await?;
    refuses_foreign_fields(&server, &node_a).await?;
    server.refuses(&node_a, metadata("ownerReferences", json!([]))).await?;

    let disrupted = json!({"key": "karpenter.sh/disrupted", "effect": "NoSchedule"});
    let no_agent: Vec<Value> = registered.iter().filter(|it| it["key"] != "kerf.sh/agent-not-ready").cloned().collect();
    let closed: Vec<Value> = no_agent.iter().cloned().chain([disrupted]).collect();
    for taints in [&closed, &no_agent] {
        server.accepts(&node_a, json!({"spec": {"taints": taints}})).await?;
    }
    let labels = json!({
        "karpenter.sh/initialized": "true", "karpenter.sh/capacity-type": "on-demand",
        "karpenter.k8s.aws/capacity-reservation-id": null,
        "node.kubernetes.io/exclude-from-external-load-balancers": "karpenter",
    });
    server.accepts(&node_a, metadata("labels", labels)).await?;
    // The labels that the controller restores when the node changes them.
    for key in label::CORE_WELL_KNOWN.iter().chain(&label::AWS_WELL_KNOWN) {
        server.accepts(&node_a, metadata("labels", json!({*key: "restored"}))).await?;
    }
    server.refuses(&node_b, metadata("labels", json!({label::ZONE: "restored"}))).await?;
    server.accepts(&node_a, metadata("annotations", json!({"kerf.sh/drain": "x"}))).await?;
    server.accepts(&node_a, metadata("finalizers", json!(["example.com/keep"]))).await
}

/// Asserts that the controller cannot change fields of the Node that others own.
async fn refuses_foreign_fields(server: &Server, path: &str) -> Result<()> {
    let taints = server.taints(path).await?;
    let fewer: Vec<Value> = taints.iter().filter(|taint| **taint != foreign()).cloned().collect();
    ensure!(fewer.len() + 1 == taints.len(), "{taints:?}");
    let more: Vec<Value> = taints.iter().cloned().chain([json!({"key": "b", "effect": "NoExecute"})]).collect();
    let other = json!({"key": "dedicated", "value": "b", "effect": "NoSchedule"});
    let changed: Vec<Value> = fewer.iter().cloned().chain([other]).collect();
    for taints in [fewer, more, changed] {
        server.refuses(path, json!({"spec": {"taints": taints}})).await?;
    }
    server.refuses(path, json!({"spec": {"unschedulable": true}})).await?;
    server.refuses(path, metadata("labels", json!({"team": "c"}))).await?;
    server.refuses(path, metadata("labels", json!({"team": null}))).await?;
    server.refuses(path, metadata("labels", json!({"node-role.kubernetes.io/control-plane": ""}))).await?;
    server.refuses(path, metadata("annotations", json!({"team": null}))).await?;
    server.refuses(path, metadata("finalizers", json!([]))).await
}

/// A node cannot protect itself from disruption, nor end the protection. Operators can, and so can the controller for a NodeClaim.
#[tokio::test]
async fn node_policy_refuses_protection_that_a_node_gives_itself() -> Result<()> {
    let server = Server::start("node-annotations").await?;
    let node_a = format!("{NODES}/a");
    let protection = |value: Value| metadata("annotations", json!({PROTECTION: value}));
    for path in [&node_a, &format!("{node_a}/status")] {
        refuses(&server.kubelet, path, MERGE, protection(json!("true"))).await?;
        accepts(&server.kubelet, path, MERGE, metadata("annotations", json!({"example.com/own": "x"}))).await?;
    }
    for client in [&server.admin, &server.controller] {
        accepts(client, &node_a, MERGE, protection(json!("true"))).await?;
        accepts(&server.kubelet, &node_a, MERGE, metadata("annotations", json!({"example.com/own": null}))).await?;
        refuses(&server.kubelet, &node_a, MERGE, protection(Value::Null)).await?;
        refuses(&server.kubelet, &node_a, MERGE, protection(json!("false"))).await?;
        accepts(client, &node_a, MERGE, protection(Value::Null)).await?;
    }
    accepts(&server.admin, &node_a, MERGE, metadata("finalizers", json!([]))).await?;
    let (code, answer) = send(&server.admin, Method::DELETE, &node_a, None).await?;
    ensure!(code == 200, "{code}: {}", message(&answer));
    for (annotations, expected) in [(json!({PROTECTION: "true"}), 403), (json!({"example.com/own": "x"}), 201)] {
        let own = json!({"metadata": {"name": "a", "annotations": annotations}});
        let (code, answer) = send(&server.kubelet, Method::POST, NODES, Some((JSON, own))).await?;
        ensure!(code == expected, "{annotations}: {code}: {}", message(&answer));
    }
    Ok(())
}

//! Rights of a node's own identity on a real API server. The agent's protocol depends on these responses, so a Kubernetes
//! version that changes one of them is found here and not on a node.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::{annotation, condition, taint};
use http::{Method, Request, header};
use kube::Client;
use serde_json::{Value, json};
use testbed::controlplane::{ControlPlane, Options};
use testbed::eventually;

const NODE: &str = "ip-10-0-0-1";
const OTHER: &str = "ip-10-0-0-2";
const SOON: Duration = Duration::from_secs(120);

const JSON: &str = "application/json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// One request of the node and the expected status code.
struct Row {
    what: &'static str,
    method: Method,
    path: String,
    body: Option<(&'static str, Value)>,
    code: u16,
}

fn get(what: &'static str, path: &str, code: u16) -> Row {
    Row { what, method: Method::GET, path: path.to_owned(), body: None, code }
}

fn post(what: &'static str, path: &str, body: Value, code: u16) -> Row {
    Row { what, method: Method::POST, path: path.to_owned(), body: Some((JSON, body)), code }
}

fn patch(what: &'static str, path: &str, body: Value, code: u16) -> Row {
    Row { what, method: Method::PATCH, path: path.to_owned(), body: Some((STRATEGIC, body)), code }
}

fn delete(what: &'static str, path: &str, code: u16) -> Row {
    Row { what, method: Method::DELETE, path: path.to_owned(), body: None, code }
}

/// Sends a request unchanged; returns the status code and the message of the response.
async fn send(client: &Client, row: &Row) -> Result<(u16, String)> {
    let mut request = Request::builder().method(&row.method).uri(&row.path);
    let mut body = Vec::new();
    if let Some((kind, value)) = &row.body {
        request = request.header(header::CONTENT_TYPE, *kind);
        body = serde_json::to_vec(value)?;
    }
    let response = client.send(request.body(body.into())?).await?;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect_bytes().await?;
    let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    Ok((code, answer["message"].as_str().unwrap_or_default().to_owned()))
}

async fn check(client: &Client, rows: Vec<Row>) -> Result<()> {
    let mut failures = Vec::new();
    for row in &rows {
        let (code, message) = send(client, row).await?;
        if code != row.code {
            failures.push(format!("{}: {code} instead of {}: {message}", row.what, row.code));
        }
    }
    ensure!(failures.is_empty(), "{} of {} requests:\n{}", failures.len(), rows.len(), failures.join("\n"));
    Ok(())
}

fn node(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"kerf.sh/first": "yes", "topology.kubernetes.io/zone": "us-west-2a"}},
        "spec": {"taints": [{"key": taint::AGENT_NOT_READY, "effect": taint::NO_EXECUTE}]},
    })
}

fn pod(name: &str, node: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"nodeName": node, "containers": [{"name": "web", "image": "pause"}]},
    })
}

fn eviction(pod: &str) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}})
}

fn about_itself() -> Vec<Row> {
    let own = format!("/api/v1/nodes/{NODE}");
    let status = format!("{own}/status");
    let ready =
        json!({"status": {"conditions": [{"type": condition::AGENT_READY, "status": "True", "reason": "Ready"}]}});
    vec![
        post("register with the startup taint", "/api/v1/nodes", node(NODE), 201),
        post("register another node", "/api/v1/nodes", node(OTHER), 403),
        get("read itself", &own, 200),
        get("read another node", &format!("/api/v1/nodes/{OTHER}"), 403),
        get("list all nodes", "/api/v1/nodes", 403),
        patch("cordon itself", &own, json!({"spec": {"unschedulable": true}}), 200),
        patch("publish a condition", &status, ready.clone(), 200),
        patch("publish another's condition", &format!("/api/v1/nodes/{OTHER}/status"), ready, 403),
        patch("annotate itself", &own, json!({"metadata": {"annotations": {annotation::AGENT_HEARTBEAT: "now"}}}), 200),
        patch("label itself in its own domain", &own, json!({"metadata": {"labels": {"kerf.sh/x": "y"}}}), 200),
        patch("lift its own taint", &own, json!({"spec": {"taints": null}}), 403),
        patch(
            "give itself a reserved label",
            &own,
            json!({"metadata": {"labels": {"node-restriction.kubernetes.io/x": "y"}}}),
            403,
        ),
        delete("delete itself", &own, 403),
    ]
}

fn about_pods() -> Vec<Row> {
    let pods = "/api/v1/namespaces/default/pods";
    vec![
        get("list its own pods", &format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{NODE}"), 200),
        get("list another's pods", &format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{OTHER}"), 403),
        get("list all pods", "/api/v1/pods", 403),
        get("list disruption budgets", "/apis/policy/v1/poddisruptionbudgets", 403),
        post("evict another's pod", &format!("{pods}/theirs/eviction"), eviction("theirs"), 403),
        delete("delete another's pod", &format!("{pods}/theirs"), 403),
        post("evict its own pod", &format!("{pods}/mine/eviction"), eviction("mine"), 201),
        delete("delete its own pod", &format!("{pods}/mine-too"), 200),
        post(
            "report an event",
            "/api/v1/namespaces/default/events",
            json!({
                "metadata": {"generateName": "kerf-"},
                "involvedObject": {"kind": "Node", "name": NODE},
                "reason": "Draining",
                "type": "Normal",
            }),
            201,
        ),
    ]
}

/// Creates the objects that only an administrator may create: the other node, the ServiceAccount that admission requires, and
/// the pods.
async fn prepare(admin: &Client) -> Result<()> {
    let pods = "/api/v1/namespaces/default/pods";
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    check(
        admin,
        vec![
            post("the other node", "/api/v1/nodes", node(OTHER), 201),
            post("the default account", accounts, json!({"metadata": {"name": "default"}}), 201),
        ],
    )
    .await?;
    for (name, node) in [("mine", NODE), ("mine-too", NODE), ("theirs", OTHER)] {
        // The ServiceAccount reaches admission through a watch.
        eventually(&format!("the pod {name} to be admitted"), SOON, async || {
            check(admin, vec![post("a pod", pods, pod(name, node), 201)]).await.map(Some)
        })
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn node_identity_permits_only_requests_of_its_own_node() -> Result<()> {
    let control_plane = ControlPlane::start(Options::api_server("identity")).await?;
    let admin = control_plane.admin().await?;
    let itself = control_plane.client_for(&format!("system:node:{NODE}"), "system:nodes").await?;

    prepare(&admin).await.context("by the administrator")?;
    check(&itself, about_itself()).await.context("about itself")?;
    // The authorizer receives the pods of each node through a watch.
    eventually("the node to see its pods", SOON, async || {
        let rows = vec![
            get("read its own pod", "/api/v1/namespaces/default/pods/mine", 200),
            get("read its other pod", "/api/v1/namespaces/default/pods/mine-too", 200),
        ];
        check(&itself, rows).await.map(Some)
    })
    .await?;
    check(&itself, about_pods()).await.context("about pods")
}

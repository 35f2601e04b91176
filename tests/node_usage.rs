//! Write access to NodeUsages on a real API server, with the chart's own role and admission policy. Each node may write its own
//! with server-side apply, as the agent does. Administrators may write every NodeUsage, and other users none.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::{Method, Request, header};
use kube::Client;
use serde_json::{Value, json};
use testbed::controlplane::{Account, ControlPlane, Options};
use testbed::eventually;

const NODE: &str = "ip-10-0-0-1";
const OTHER: &str = "ip-10-0-0-2";
const SOON: Duration = Duration::from_secs(120);
const USAGES: &str = "/apis/kerf.sh/v1alpha1/nodeusages";

pub(super) const JSON: &str = "application/json";
pub(super) const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// Sends a request unchanged; returns the status code and the response.
pub(super) async fn send(
    client: &Client,
    method: Method,
    path: &str,
    body: Option<(&str, Value)>,
) -> Result<(u16, Value)> {
    let mut request = Request::builder().method(method).uri(path);
    let mut bytes = Vec::new();
    if let Some((kind, value)) = body {
        request = request.header(header::CONTENT_TYPE, kind);
        bytes = serde_json::to_vec(&value)?;
    }
    let response = client.send(request.body(bytes.into())?).await?;
    let code = response.status().as_u16();
    let answer = response.into_body().collect_bytes().await?;
    Ok((code, serde_json::from_slice(&answer).unwrap_or_default()))
}

fn report(name: &str, oom_kills: u32) -> Value {
    let figures = json!({"p50": "1", "p95": "2", "p99": "2", "peak5m": "1", "peak1h": "1", "peak24h": "2"});
    json!({
        "apiVersion": "kerf.sh/v1alpha1",
        "kind": "NodeUsage",
        "metadata": {"name": name},
        "spec": {
            "instance": "i-0123456789abcdef0",
            "measuredAt": "2026-11-21T12:00:00Z",
            "since": "2026-11-21T11:00:00Z",
            "cpu": figures,
            "memory": figures,
            "throttled": 0,
            "oomKills": oom_kills,
            "histograms": {"cpu": "", "memory": "", "joint": ""},
            "pods": "AQ",
        },
    })
}

/// Writes a NodeUsage as the agent does.
async fn apply(client: &Client, name: &str, body: Value) -> Result<(u16, Value)> {
    let path = format!("{USAGES}/{name}?fieldManager=kerf-agent&force=true");
    send(client, Method::PATCH, &path, Some((APPLY, body))).await
}

pub(super) fn message(answer: &Value) -> &str {
    answer["message"].as_str().unwrap_or_default()
}

async fn cluster() -> Result<(ControlPlane, Client, Client)> {
    let control_plane = ControlPlane::start(Options::api_server("node-usage")).await?;
    control_plane.apply_crds().await?;
    control_plane.apply_rights(Account::Controller).await?;
    let admin = control_plane.admin().await?;
    let node = control_plane.client_for(&format!("system:node:{NODE}"), "system:nodes").await?;
    // The server's caches update with a delay: the role is active once the node can write, the policy once it rejects a
    // request.
    eventually("the role and the policy to hold", SOON, async || {
        let (own, _) = apply(&node, NODE, report(NODE, 0)).await?;
        let (foreign, answer) = apply(&node, OTHER, report(OTHER, 0)).await?;
        let was_refused = message(&answer).contains("only the NodeUsage of its own name");
        Ok(((200..=201).contains(&own) && foreign == 403 && was_refused).then_some(()))
    })
    .await?;
    Ok((control_plane, admin, node))
}

#[tokio::test]
async fn node_usage_policy_permits_only_the_own_report() -> Result<()> {
    let (control_plane, admin, node) = cluster().await?;
    let (code, stored) = apply(&node, NODE, report(NODE, 3)).await?;
    ensure!(code == 200 && stored["spec"]["oomKills"] == 3, "{code}: {stored}");
    let size = stored.to_string().len() - report(NODE, 3).to_string().len();
    ensure!(size < 450, "the server adds {size} bytes of its own to a report: {stored}");

    // The other NodeUsage exists, so that no refusal is due to a missing object. Early writes may have created it before the
    // policy was active.
    let (code, answer) = apply(&admin, OTHER, report(OTHER, 1)).await?;
    ensure!((200..=201).contains(&code), "the administrator may write any: {code}: {}", message(&answer));
    let other = format!("{USAGES}/{OTHER}");
    let renamed = json!({"spec": {"oomKills": 9}});
    let rows = [
        (
            "apply another's",
            Method::PATCH,
            format!("{other}?fieldManager=kerf-agent&force=true"),
            Some((APPLY, report(OTHER, 2))),
        ),
        ("patch another's", Method::PATCH, other.clone(), Some((MERGE, renamed))),
        ("create a third's", Method::POST, USAGES.to_owned(), Some((JSON, report("ip-10-0-0-3", 0)))),
        ("create one of any name", Method::POST, USAGES.to_owned(), Some((JSON, unnamed()))),
        ("delete another's", Method::DELETE, other.clone(), None),
        ("delete its own", Method::DELETE, format!("{USAGES}/{NODE}"), None),
        ("read another's", Method::GET, other.clone(), None),
        ("list all", Method::GET, USAGES.to_owned(), None),
    ];
    for (what, method, path, body) in rows {
        let (code, answer) = send(&node, method, &path, body).await.context(what)?;
        ensure!(code == 403, "{what}: {code}: {}", message(&answer));
    }
    let (_, kept) = send(&admin, Method::GET, &other, None).await?;
    ensure!(kept["spec"]["oomKills"] == 1, "the other's report is as it was: {kept}");

    let mut burdened = report(NODE, 3);
    burdened["metadata"]["finalizers"] = json!(["example.com/keep"]);
    let (code, answer) = apply(&node, NODE, burdened).await?;
    ensure!(code == 422 && message(&answer).contains("contains only a report"), "{code}: {}", message(&answer));

    others(&control_plane).await
}

fn unnamed() -> Value {
    let mut report = report("", 0);
    report["metadata"] = json!({"generateName": format!("{NODE}-")});
    report
}

/// Asserts that the policy does not apply to users that are no node, and that they have no role.
async fn others(control_plane: &ControlPlane) -> Result<()> {
    let user = control_plane.client_for("mallory", "system:authenticated").await?;
    let (code, _) = apply(&user, NODE, report(NODE, 0)).await?;
    ensure!(code == 403, "a user without a role: {code}");
    let named_like_a_node = control_plane.client_for(&format!("system:node:{NODE}"), "guests").await?;
    let (code, _) = apply(&named_like_a_node, NODE, report(NODE, 0)).await?;
    ensure!(code == 403, "a node's name without its group: {code}");
    let node_in_name_only = control_plane.client_for("node-of-nobody", "system:nodes").await?;
    let (code, _) = apply(&node_in_name_only, "node-of-nobody", report("node-of-nobody", 0)).await?;
    ensure!(code == 403, "a node's group without its name: {code}");
    let admin = control_plane.admin().await?;
    for name in [NODE, OTHER] {
        let (code, answer) = send(&admin, Method::DELETE, &format!("{USAGES}/{name}"), None).await?;
        ensure!(code == 200, "the administrator may delete {name}: {code}: {}", message(&answer));
    }
    Ok(())
}

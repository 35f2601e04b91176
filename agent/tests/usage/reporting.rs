//! The running task against a scripted API server: its writes, the cases without a write, and its saved history.

use std::sync::Arc;
use std::time::Duration;

use agent::cluster::{Access, Cluster, ConnectionState, Credentials};
use agent::usage::Usage;
use api::nodeusage::NodeUsageSpec;
use hyper::Method;
use machine::agent::span::Span;
use machine::agent::usage::UsageSettings;

use super::tree::{Counters, Kind, PodTree, Tree, uid};
use crate::api::{Api, Seen, status, until};

const INSTANCE: &str = "i-0123456789abcdef0";
const PATH: &str = "/apis/kerf.sh/v1alpha1/nodeusages/n";

fn machine() -> Tree {
    let mut tree = Tree::new(Kind::Systemd);
    tree.node = Counters { memory: 3 << 30, ..Counters::default() };
    tree.pods.insert(uid(1), PodTree::new("burstable", 1));
    tree.write();
    tree
}

fn settings() -> UsageSettings {
    UsageSettings { period: Span::seconds(1), ..UsageSettings::default() }
}

fn destination(api: &Api) -> ConnectionState {
    let port = api.url.rsplit(':').next().unwrap().parse().unwrap();
    let access = Access { tls: false, host: "127.0.0.1".into(), port, authority: None, credentials: Credentials::None };
    ConnectionState { cluster: Arc::new(Cluster::new(access, Duration::from_secs(5))), node: "n".to_owned() }
}

async fn report(api: &Api) -> Seen {
    until("a report", || api.requests(&Method::PATCH, PATH).pop()).await
}

#[tokio::test]
async fn usage_applies_report_when_node_is_confirmed() {
    let (api, tree) = (Api::start().await, machine());
    let usage = Usage::start(tree.path(), INSTANCE, &settings());
    let last = until("the first figures", || usage.last()).await;
    assert_eq!((last.pods, last.reported_at, last.trouble), (1, None, None));
    assert!(api.state().seen.is_empty(), "nothing is written to a Node that is not proven ours");
    usage.report_to(Some(destination(&api)));
    let seen = report(&api).await;
    assert_eq!(seen.content_type, "application/apply-patch+yaml");
    assert_eq!((seen.body["kind"].as_str(), seen.body["metadata"]["name"].as_str()), (Some("NodeUsage"), Some("n")));
    let spec: NodeUsageSpec = serde_json::from_value(seen.body["spec"].clone()).unwrap();
    assert_eq!(spec.instance, INSTANCE);
    let read = api::usage::Usage::read(&spec).unwrap();
    assert!(read.pod(&uid(1)).is_some() && read.is_current(jiff::Timestamp::now()));
    until("word of it", || usage.last().filter(|last| last.reported_at.is_some())).await;
    let reported = agent::run::status::AgentStatus::from_files(tree.path(), None).usage;
    assert_eq!(
        (reported["pods"].as_u64(), reported["memoryP95"].is_string()),
        (Some(1), true),
        "`status` shows it: {reported}"
    );
    usage.finish().await;
    assert_eq!(api.requests(&Method::PATCH, PATH).len(), 1, "one in 30 s");
    assert!(tree.path().join("var/lib/kerf/usage.json").exists(), "history is kept at the end");
}

#[tokio::test]
async fn usage_reports_error_and_keeps_history_when_write_fails() {
    let (api, tree) = (Api::start().await, machine());
    api.state().replies.insert("n".to_owned(), [status(404)].into());
    let usage = Usage::start(tree.path(), INSTANCE, &settings());
    usage.report_to(Some(destination(&api)));
    let last = until("trouble", || usage.last().filter(|last| last.trouble.is_some())).await;
    assert!(last.trouble.unwrap().contains("install the CRD"));
    let since = last.since;
    usage.finish().await;
    let usage = Usage::start(tree.path(), INSTANCE, &settings());
    let last = until("figures again", || usage.last()).await;
    assert_eq!(last.since, since, "a restart carries on");
    usage.finish().await;
}

#[tokio::test]
async fn usage_writes_nothing_when_disabled() {
    let (api, tree) = (Api::start().await, machine());
    let usage = Usage::start(tree.path(), INSTANCE, &UsageSettings { enabled: false, ..settings() });
    usage.report_to(Some(destination(&api)));
    assert_eq!(usage.last(), None);
    usage.finish().await;
    assert!(api.state().seen.is_empty() && !tree.path().join("var/lib/kerf").exists());
}

#[test]
fn usage_settings_clamp_period_to_bounds() {
    let every = |seconds| UsageSettings { period: Span::seconds(seconds), ..settings() }.every().as_secs();
    assert_eq!([every(10), every(0), every(3600)], [10, 1, 120]);
    let text = "usage: {period: 30s, cgroupRoot: /kubelet}";
    let reported = machine::agent::parse(text).unwrap().usage;
    assert_eq!((reported.every().as_secs(), reported.cgroup_root.as_str(), reported.enabled), (30, "/kubelet", true));
    assert!(machine::agent::parse("usage: {period: often}").is_err());
}

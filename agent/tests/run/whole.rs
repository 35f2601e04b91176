//! The whole loop: files, metadata and API server around a running agent.

use hyper::Method;
use serde_json::Value;

use crate::api::{Api, Scripted, status, until};
use crate::machine::{INSTANCE, Machine, NAME, node};

pub fn condition(api: &Api, kind: &str) -> Option<Value> {
    let state = api.state();
    let conditions = state.node.as_ref()?["status"]["conditions"].as_array()?.clone();
    conditions.into_iter().find(|it| it["type"] == kind)
}

fn reasons(api: &Api) -> Vec<String> {
    let state = api.state();
    state.events.values().map(|event| event["reason"].as_str().unwrap().to_owned()).collect()
}

fn writes(api: &Api) -> usize {
    api.state().seen.iter().filter(|it| it.method != Method::GET).count()
}

#[tokio::test]
async fn gates_open_when_kubeconfig_node_and_cni_exist() {
    let api = Api::start().await;
    let mut machine = Machine::boot().await;
    machine.start();
    machine.until_phase("").await;
    machine.join(&api);
    until("the list of our Node", || api.requests(&Method::GET, "/api/v1/nodes").pop()).await;
    assert_eq!(writes(&api), 0, "there is no Node yet, and it is not ours to create");
    api.put_node(node(INSTANCE));
    let closed = until("a closed gate", || condition(&api, "kerf.sh/Ready")).await;
    assert_eq!((closed["status"].as_str(), closed["reason"].as_str()), (Some("False"), Some("CNI")));
    machine.cni();
    until("open gates", || condition(&api, "kerf.sh/Ready").filter(|it| it["status"] == "True")).await;
    let state = api.state();
    let node = state.node.as_ref().unwrap();
    assert!(node["metadata"]["annotations"]["kerf.sh/agent-heartbeat"].is_string());
    assert!(node["spec"]["unschedulable"].is_null());
}

#[tokio::test]
async fn agent_drains_node_on_notice_despite_api_errors() {
    let api = Api::start().await;
    let mut machine = Machine::boot().await;
    machine.join(&api);
    machine.cni();
    api.put_node(node(INSTANCE));
    for uid in ["fine", "gone", "recreated", "blocked", "patient", "broken"] {
        api.put_pod(uid, 1);
    }
    api.script("gone", [status(404)]);
    api.script("recreated", [status(409)]);
    api.script("blocked", [status(429), status(429), status(429)]);
    api.script("patient", [Scripted { retry_after: Some(1), ..status(429) }]);
    api.script("broken", [status(500), status(503)]);
    machine.start();
    until("open gates", || condition(&api, "kerf.sh/Ready").filter(|it| it["status"] == "True")).await;
    let deadline = machine.interrupt(120);
    until("the end of the drain", || reasons(&api).contains(&"Drained".to_owned()).then_some(())).await;
    assert_eq!(api.state().pods.keys().collect::<Vec<_>>(), Vec::<&String>::new());
    assert!(api.requests(&Method::DELETE, "/api/v1/namespaces/default/pods/pod-blocked").is_empty());
    let condition = condition(&api, "kerf.sh/Interrupted").unwrap();
    assert_eq!(condition["reason"], "SpotInterruption");
    let message = condition["message"].as_str().unwrap();
    assert!(message.starts_with(&format!("deadline={deadline} ")), "{message}");
    let state = api.state();
    let node = state.node.as_ref().unwrap();
    assert_eq!(node["spec"]["unschedulable"], true);
    assert_eq!(node["metadata"]["labels"]["node.kubernetes.io/exclude-from-external-load-balancers"], "karpenter");
    assert_eq!(node["metadata"]["annotations"]["kerf.sh/interruption-deadline"], deadline.as_str());
    let order: Vec<_> = state.seen.iter().map(|it| (it.method.as_str(), it.path.as_str(), &it.body)).collect();
    let cordon = order.iter().position(|(_, _, body)| body["spec"]["unschedulable"] == true);
    let eviction = order.iter().position(|(_, path, _)| path.ends_with("/eviction"));
    assert!(cordon < eviction, "cordoned before the first eviction");
}

#[tokio::test]
async fn agent_drains_110_pods_over_at_most_24_connections() {
    let api = Api::start().await;
    let mut machine = Machine::boot().await;
    machine.join(&api);
    api.put_node(node(INSTANCE));
    for index in 0..110 {
        api.put_pod(&format!("{index:03}"), 30);
    }
    machine.interrupt(120);
    machine.start();
    until("an empty node", || api.state().pods.is_empty().then_some(())).await;
    let connections = api.state().connections;
    assert!(connections <= 24, "{connections}");
}

#[tokio::test]
async fn agent_deletes_blocked_pod_before_the_deadline() {
    let api = Api::start().await;
    let mut machine = Machine::boot().await;
    machine.join(&api);
    api.put_node(node(INSTANCE));
    api.put_pod("held", 1);
    api.state().budget_holds = true;
    machine.start();
    until("the Node's condition", || condition(&api, "kerf.sh/Ready")).await;
    // 10 s of reserve and 1 s of grace period: forced deletion begins in about 3 s.
    machine.interrupt(15);
    let path = "/api/v1/namespaces/default/pods/pod-held";
    until("an eviction", || api.requests(&Method::POST, &format!("{path}/eviction")).pop()).await;
    assert!(api.requests(&Method::DELETE, path).is_empty());
    let forced = until("the deletion", || api.requests(&Method::DELETE, path).pop()).await;
    assert_eq!(forced.body["preconditions"]["uid"], "held");
    assert_eq!(forced.body["gracePeriodSeconds"], 1);
    until("an empty node", || api.state().pods.is_empty().then_some(())).await;
}

#[tokio::test]
async fn agent_resumes_drain_without_repeated_events_when_killed() {
    let api = Api::start().await;
    let mut machine = Machine::boot().await;
    machine.join(&api);
    api.put_node(node(INSTANCE));
    api.put_pod("a", 1);
    api.put_pod("b", 1);
    api.script("b", std::iter::repeat_n(status(429), 500));
    machine.start();
    until("the Node's condition", || condition(&api, "kerf.sh/Ready")).await;
    let deadline = machine.interrupt(120);
    until("the first pod's end", || (!api.state().pods.contains_key("pod-a")).then_some(())).await;
    until("the event in the journal", || {
        machine.journal().filter(|it| !it["published_events"].as_array().unwrap().is_empty())
    })
    .await;
    machine.kill();
    // The metadata service now fails, but a notice that was received is final.
    machine.metadata_fails();
    let reported = api.requests(&Method::POST, "/api/v1/namespaces/default/events").len();
    let evicted_a = api.requests(&Method::POST, "/api/v1/namespaces/default/pods/pod-a/eviction").len();
    machine.start();
    api.script("b", []);
    until("the end of the drain", || reasons(&api).contains(&"Drained".to_owned()).then_some(())).await;
    let events = api.requests(&Method::POST, "/api/v1/namespaces/default/events");
    assert_eq!(events.len(), reported + 1, "only the outcome was new");
    let again = api.requests(&Method::POST, "/api/v1/namespaces/default/pods/pod-a/eviction").len();
    assert_eq!(again, evicted_a);
    let condition = condition(&api, "kerf.sh/Interrupted").unwrap();
    assert!(condition["message"].as_str().unwrap().contains(&deadline));
}

#[tokio::test]
async fn agent_acts_on_saved_notice_when_api_server_appears() {
    let api = Api::start().await;
    let mut machine = Machine::boot().await;
    machine.interrupt(120);
    machine.start();
    until("the journal", || machine.journal().filter(|it| it["notices"]["spot"].is_object())).await;
    machine.kill();
    machine.metadata_fails();
    api.put_node(node(INSTANCE));
    api.put_pod("a", 1);
    machine.join(&api);
    machine.start();
    until("an empty node", || api.state().pods.is_empty().then_some(())).await;
}

#[tokio::test]
async fn agent_writes_nothing_when_node_is_another_instance() {
    let api = Api::start().await;
    let mut machine = Machine::boot().await;
    machine.join(&api);
    machine.interrupt(120);
    api.put_node(node("i-0fedcba9876543210"));
    api.put_pod("a", 1);
    machine.start();
    until("the journal", || machine.journal().filter(|it| it["notices"]["spot"].is_object())).await;
    machine.until_phase("belongs to another instance (aws:///us-west-2a/i-0fedcba9876543210), ignoring it").await;
    assert_eq!(writes(&api), 0);
}

#[tokio::test]
async fn agent_ignores_journal_of_another_instance() {
    let api = Api::start().await;
    let mut machine = Machine::boot().await;
    machine.interrupt(120);
    machine.start();
    until("the journal", || machine.journal().filter(|it| it["notices"]["spot"].is_object())).await;
    machine.kill();
    let journal = machine.journal().unwrap().to_string().replace(INSTANCE, "i-0fedcba9876543210");
    machine.write("var/lib/kerf/journal.json", &journal);
    machine.metadata_fails();
    machine.join(&api);
    api.put_node(node(INSTANCE));
    machine.start();
    until("the Node's condition", || condition(&api, "kerf.sh/Ready")).await;
    assert!(condition(&api, "kerf.sh/Interrupted").is_none());
}

#[tokio::test]
async fn agent_replaces_journal_when_it_is_truncated() {
    let api = Api::start().await;
    let mut machine = Machine::boot().await;
    machine.write("var/lib/kerf/journal.json", "{\"version\":1,");
    machine.join(&api);
    api.put_node(node(INSTANCE));
    machine.start();
    until("the Node's condition", || condition(&api, "kerf.sh/Ready")).await;
    machine.interrupt(120);
    until("the journal", || machine.journal().filter(|it| it["notices"]["spot"].is_object())).await;
}

#[tokio::test]
async fn agent_emits_event_when_bootstrap_failed_without_node() {
    let api = Api::start().await;
    let mut machine = Machine::boot().await;
    let state = r#"{"state":"failed","reason":"the user data holds no NodeConfig","since":"2026-01-01T00:00:00Z"}"#;
    machine.write("run/kerf/bootstrap.json", state);
    machine.join(&api);
    machine.start();
    until("the event", || reasons(&api).pop()).await;
    let state = api.state();
    let event = state.events.values().next().unwrap();
    assert_eq!(event["reason"], "BootstrapFailed");
    assert_eq!(event["involvedObject"]["name"], NAME);
    assert!(state.node.is_none());
}

#[tokio::test]
async fn agent_follows_new_kubeconfig_when_bootstrap_is_done() {
    let (old, new) = (Api::start().await, Api::start().await);
    let mut machine = Machine::boot().await;
    let state = r#"{"state":"waiting","reason":"no metadata","since":"2026-01-01T00:00:00Z"}"#;
    machine.write("run/kerf/bootstrap.json", state);
    machine.join(&old);
    machine.cni();
    old.put_node(node(INSTANCE));
    new.put_node(node(INSTANCE));
    machine.start();
    let ready =
        until("a closed gate", || condition(&old, "kerf.sh/Ready").filter(|it| it["reason"] == "Bootstrap")).await;
    let message = ready["message"].as_str().unwrap();
    assert!(message.ends_with(": bootstrap is waiting: no metadata"), "{message}");
    until("the event", || reasons(&old).contains(&"BootstrapWaiting".to_owned()).then_some(())).await;
    // The old cluster still responds: only the state of bootstrap shows that it is the wrong cluster.
    machine.join(&new);
    machine.write(
        "run/kerf/bootstrap.json",
        &format!(r#"{{"state":"done","nodeName":"{NAME}","since":"2026-01-01T00:01:00Z"}}"#),
    );
    until("open gates", || condition(&new, "kerf.sh/Ready").filter(|it| it["status"] == "True")).await;
}

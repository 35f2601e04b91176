//! The Kubernetes client against the scripted server: requests on the wire, and the result of each response.

use std::sync::Arc;
use std::time::Duration;

use agent::cluster::{
    Access, Cluster, ClusterError, Command, Credentials, Node, Pod, Variable, WatchEvent, Watched, follow,
};
use agent::host::clock::{Clock, ClockOffset};
use drain::{Millis, Reply};
use hyper::Method;
use serde_json::json;
use tokio::sync::mpsc::{self, Receiver};

use crate::api::{Api, Scripted, status};

fn access(api: &Api) -> Access {
    let port = api.url.rsplit(':').next().unwrap().parse().unwrap();
    Access { tls: false, host: "127.0.0.1".into(), port, authority: None, credentials: Credentials::None }
}

fn client(api: &Api) -> Arc<Cluster> {
    Arc::new(Cluster::new(access(api), Duration::from_secs(5)))
}

#[tokio::test]
async fn evict_sends_grace_period_and_uid() {
    let api = Api::start().await;
    api.put_pod("a", 30);
    client(&api).evict("default", "pod-a", "a", Some(7), ClockOffset::EVER).await.unwrap();
    let sent = api.requests(&Method::POST, "/api/v1/namespaces/default/pods/pod-a/eviction");
    let expected = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "pod-a", "namespace": "default"},
        "deleteOptions": {"gracePeriodSeconds": 7, "preconditions": {"uid": "a"}},
    });
    assert_eq!(sent[0].body, expected);
    assert_eq!(sent[0].content_type, "application/json");
}

#[tokio::test]
async fn delete_pod_sends_grace_period_and_uid() {
    let api = Api::start().await;
    api.put_pod("a", 30);
    let cluster = client(&api);
    let other = cluster.delete_pod("default", "pod-a", "another-uid", 1, ClockOffset::EVER).await;
    assert_eq!(other.unwrap_err().reply(), Reply::Recreated);
    cluster.delete_pod("default", "pod-a", "a", 1, ClockOffset::EVER).await.unwrap();
    let sent = api.requests(&Method::DELETE, "/api/v1/namespaces/default/pods/pod-a");
    assert_eq!(sent[1].body["gracePeriodSeconds"], 1);
    assert_eq!(sent[1].body["preconditions"]["uid"], "a");
    assert!(api.state().pods.is_empty());
}

#[tokio::test]
async fn evict_and_delete_pod_send_nothing_when_deadline_passed() {
    let api = Api::start().await;
    api.put_pod("a", 30);
    let (cluster, late) = (client(&api), Clock::anchored(None).by(Millis(0)));
    for _ in 0..2 {
        let error = cluster.evict("default", "pod-a", "a", None, late).await.unwrap_err();
        assert_eq!(error.reply(), Reply::Unreachable, "{error}");
        assert!(cluster.delete_pod("default", "pod-a", "a", 1, late).await.is_err());
        cluster.node("n").await.unwrap();
    }
    assert!(api.state().seen.iter().all(|it| it.method == Method::GET), "{:?}", api.state().seen);
}

#[tokio::test]
async fn unannotate_removes_annotation_only_when_value_matches() {
    let api = Api::start().await;
    let annotations = json!({"kerf.sh/drain-taken-over": "new", "kerf.sh/drain": "d"});
    api.put_node(json!({"metadata": {"name": "n", "annotations": annotations}}));
    let cluster = client(&api);
    let refused = cluster.unannotate("n", "kerf.sh/drain-taken-over", "old").await;
    assert_eq!(refused.unwrap_err().status(), Some(422));
    assert_eq!(cluster.node("n").await.unwrap().unwrap().metadata.annotations.len(), 2);
    cluster.unannotate("n", "kerf.sh/drain-taken-over", "new").await.unwrap();
    let left = cluster.node("n").await.unwrap().unwrap().metadata.annotations;
    assert_eq!(left.into_keys().collect::<Vec<_>>(), ["kerf.sh/drain"]);
    let sent = api.requests(&Method::PATCH, "/api/v1/nodes/n");
    assert!(sent.iter().all(|it| it.content_type == "application/json-patch+json"));
}

#[tokio::test]
async fn pods_lists_a_full_node_in_pages() {
    let api = Api::start().await;
    for index in 0..110 {
        api.put_pod(&format!("{index:03}"), 30);
    }
    let pods = client(&api).pods("n").await.unwrap();
    let expected: Vec<String> = (0..110).map(|index| format!("{index:03}")).collect();
    assert_eq!(pods.iter().map(|pod| pod.metadata.uid.clone()).collect::<Vec<_>>(), expected);
    let asked = api.requests(&Method::GET, "/api/v1/pods");
    assert_eq!(asked.len(), 3);
    assert!(asked.iter().all(|it| it.query.starts_with("fieldSelector=spec.nodeName%3Dn&limit=50")));
    assert!(asked[2].query.ends_with("&continue=100%3D%3D"), "{}", asked[2].query);
}

#[tokio::test]
async fn evict_maps_status_to_reply_without_retries() {
    let several = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    let after = |seconds| Scripted { retry_after: Some(seconds), ..status(429) };
    let rows = [
        (status(200), None),
        (status(201), None),
        (status(404), Some(Reply::Gone)),
        (status(409), Some(Reply::Recreated)),
        (status(403), Some(Reply::Forbidden)),
        (status(422), Some(Reply::Invalid)),
        (status(401), Some(Reply::Unreachable)),
        (status(429), Some(Reply::Blocked { retry_after: None, budget: None })),
        (after(10), Some(Reply::Blocked { retry_after: Some(Duration::from_secs(10)), budget: None })),
        (status(500), Some(Reply::ServerError)),
        (Scripted { message: several, ..status(500) }, Some(Reply::SeveralBudgets)),
        (status(503), Some(Reply::ServerError)),
    ];
    let api = Api::start().await;
    let cluster = client(&api);
    for (index, (scripted, expected)) in rows.into_iter().enumerate() {
        api.put_pod("a", 30);
        let code = scripted.status;
        api.script("a", [scripted]);
        let sent = cluster.evict("default", "pod-a", "a", None, ClockOffset::EVER).await;
        assert_eq!(sent.as_ref().err().map(ClusterError::reply), expected, "{code}");
        let asked = api.requests(&Method::POST, "/api/v1/namespaces/default/pods/pod-a/eviction");
        assert_eq!(asked.len(), index + 1, "{code}");
    }
}

#[tokio::test]
async fn patch_node_sends_the_content_type_of_each_patch() {
    let api = Api::start().await;
    api.put_node(json!({"metadata": {"name": "n"}, "spec": {"providerID": "aws:///z/i-1"}}));
    let cluster = client(&api);
    cluster.patch_node("n", &json!({"spec": {"unschedulable": true}})).await.unwrap();
    let condition = json!({"status": {"conditions": [{"type": "kerf.sh/Ready", "status": "True"}]}});
    cluster.patch_node_status("n", &condition).await.unwrap();
    let kind = |path| api.requests(&Method::PATCH, path)[0].content_type.clone();
    assert_eq!(kind("/api/v1/nodes/n"), "application/merge-patch+json");
    assert_eq!(kind("/api/v1/nodes/n/status"), "application/strategic-merge-patch+json");
    let node = cluster.node("n").await.unwrap().unwrap();
    assert!(node.spec.unschedulable);
    assert_eq!(node.spec.provider_id, "aws:///z/i-1");
    assert_eq!(node.condition("kerf.sh/Ready").unwrap().status, "True");
    api.state().node = None;
    assert!(cluster.node("n").await.unwrap().is_none());
}

#[tokio::test]
async fn exec_credentials_reuse_token_until_401() {
    let api = Api::start().await;
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("count");
    let script = "echo >>$COUNT; echo \"{\\\"status\\\":{\\\"token\\\":\\\"t$(wc -l <$COUNT | tr -d ' ')\\\"}}\"";
    let variable = Variable { name: "COUNT".into(), value: count.display().to_string().into() };
    let command = Command { command: "sh".into(), args: vec!["-c".into(), script.into()], env: Some(vec![variable]) };
    let access = Access { credentials: Credentials::Exec(command), ..access(&api) };
    let cluster = Cluster::new(access, Duration::from_secs(5));
    api.put_pod("a", 30);
    api.script("a", [status(429), status(401), status(429)]);
    for _ in 0..3 {
        assert!(cluster.evict("default", "pod-a", "a", None, ClockOffset::EVER).await.is_err());
    }
    let sent = api.requests(&Method::POST, "/api/v1/namespaces/default/pods/pod-a/eviction");
    let tokens: Vec<_> = sent.iter().map(|it| it.authorization.as_str()).collect();
    assert_eq!(tokens, ["Bearer t1", "Bearer t1", "Bearer t2"]);
}

#[tokio::test]
async fn exec_credentials_report_command_output_when_it_fails() {
    let api = Api::start().await;
    let args = |script: &str| vec!["-c".to_owned(), script.to_owned()];
    for (script, part) in [("echo no role >&2; exit 3", "no role"), ("echo hello", "expected")] {
        let command = Command { command: "sh".into(), args: args(script), env: None };
        let access = Access { credentials: Credentials::Exec(command), ..access(&api) };
        let error = Cluster::new(access, Duration::from_secs(5)).node("n").await.unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        assert_eq!(error.reply(), Reply::Unreachable);
    }
}

#[tokio::test]
async fn evict_returns_unreachable_when_connection_is_refused() {
    let api = Api::start().await;
    let cluster = client(&api);
    let address = api.url.trim_start_matches("http://").to_owned();
    drop(api);
    crate::api::until("a closed port", || std::net::TcpStream::connect(&address).err()).await;
    let error = cluster.evict("default", "pod-a", "a", None, ClockOffset::EVER).await.unwrap_err();
    assert_eq!((error.status(), error.reply()), (None, Reply::Unreachable));
}

/// Returns the UIDs of the next list, or the status of the next error.
async fn next(events: &mut Receiver<WatchEvent<Pod>>) -> Result<Vec<String>, Option<u16>> {
    let waited = tokio::time::timeout(crate::api::PATIENCE, events.recv()).await;
    match waited.expect("news in time").expect("followed on") {
        WatchEvent::All(pods) => Ok(pods.into_iter().map(|pod| pod.metadata.uid).collect()),
        WatchEvent::Trouble(error) => Err(error.status()),
    }
}

fn uids<const N: usize>(uids: [&str; N]) -> Result<Vec<String>, Option<u16>> {
    Ok(uids.map(str::to_owned).to_vec())
}

/// Waits until the agent has listed its pods and watches them.
async fn watch_of_pods(api: &Api) {
    let watching = || (api.requests(&Method::GET, "/api/v1/pods").len() >= 2).then_some(());
    crate::api::until("the watch", watching).await;
}

#[tokio::test]
async fn follow_lists_then_watches_and_skips_malformed_objects() {
    let api = Api::start().await;
    api.put_pod("a", 30);
    let (sender, mut events) = mpsc::channel(8);
    tokio::spawn(follow(client(&api), Watched::pods_of("n"), sender));
    assert_eq!(next(&mut events).await, uids(["a"]));
    watch_of_pods(&api).await;
    api.send_event("/api/v1/pods", &json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "77"}}}));
    let broken = json!({"metadata": {"name": "bad", "uid": "x"}, "spec": {"terminationGracePeriodSeconds": "soon"}});
    api.send_event("/api/v1/pods", &json!({"type": "ADDED", "object": broken}));
    assert_eq!(next(&mut events).await, uids(["a"]), "the broken one is left out");
    api.put_pod("b", 30);
    assert_eq!(next(&mut events).await, uids(["a", "b"]));
}

#[tokio::test]
async fn follow_lists_again_when_version_is_too_old() {
    let api = Api::start().await;
    api.put_pod("a", 30);
    let (sender, mut events) = mpsc::channel(8);
    tokio::spawn(follow(client(&api), Watched::pods_of("n"), sender));
    assert_eq!(next(&mut events).await, uids(["a"]));
    watch_of_pods(&api).await;
    api.state().pods.clear();
    let gone = json!({"kind": "Status", "code": 410, "message": "too old resource version"});
    api.send_event("/api/v1/pods", &json!({"type": "ERROR", "object": gone}));
    assert_eq!(next(&mut events).await, uids([]));
    api.state().watch_answer = Some(410);
    api.hang_up();
    assert_eq!(next(&mut events).await, uids([]), "410 to the watch itself");
    api.state().watch_answer = Some(500);
    api.hang_up();
    assert_eq!(next(&mut events).await, Err(Some(500)));
    assert_eq!(next(&mut events).await, uids([]), "and on it goes");
}

#[tokio::test]
async fn follow_lists_one_node_by_name() {
    let api = Api::start().await;
    let (sender, mut events) = mpsc::channel::<WatchEvent<Node>>(8);
    tokio::spawn(follow(client(&api), Watched::node("n"), sender));
    let first = events.recv().await.expect("news");
    assert!(matches!(first, WatchEvent::All(nodes) if nodes.is_empty()));
}

/// A response of another size than a node's pods have would take all memory of the unit.
#[tokio::test(flavor = "multi_thread")]
async fn node_and_follow_report_responses_that_are_too_long() {
    let api = Api::start().await;
    let of_size = |mebibytes: usize| json!({"metadata": {"name": "n", "uid": "u", "annotations": {"a": "x".repeat(mebibytes * 1024 * 1024)}}});
    api.put_node(of_size(33));
    // A busy machine may need longer than the requests of other tests.
    let patient = Cluster::new(access(&api), crate::api::PATIENCE);
    let error = patient.node("n").await.unwrap_err();
    assert!(matches!(error, ClusterError::TooLong { limit: 33_554_432, .. }), "{error}");
    assert_eq!(error.reply(), Reply::Unreachable);
    api.put_pod("a", 30);
    let (sender, mut events) = mpsc::channel(8);
    tokio::spawn(follow(client(&api), Watched::pods_of("n"), sender));
    assert_eq!(next(&mut events).await, uids(["a"]));
    watch_of_pods(&api).await;
    api.send_event("/api/v1/pods", &json!({"type": "ADDED", "object": of_size(9)}));
    let waited = tokio::time::timeout(crate::api::PATIENCE, events.recv()).await.expect("news in time");
    assert!(
        matches!(waited, Some(WatchEvent::Trouble(ClusterError::TooLong { limit: 8_388_608, .. }))),
        "the watch ends with an error"
    );
    assert_eq!(next(&mut events).await, uids(["a"]), "the list is read again");
}

//! Tests of invalid objects among valid ones, over HTTP as from an API server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use api::objects::Pod;
use api::{NodePool, SpendPolicy};
use jiff::Timestamp;
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::unbounded_channel;

use super::watch;
use crate::state::cluster::Cluster;
use crate::write::events::EventRecorder;

/// Time limit; generous, because the test takes milliseconds.
const LIMIT: Duration = Duration::from_secs(30);

fn pod(name: &str, version: u32, containers: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": version.to_string()},
        "spec": {"containers": containers},
    })
}

fn good() -> Value {
    json!([{"name": "app"}])
}

/// Returns a value that no API server sends. A bug in a mutating webhook or in our own types would produce it.
fn broken() -> Value {
    json!("none")
}

/// Serves one connection after the other: a list, then a watch that stays open.
async fn serve(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(connection(stream));
    }
}

async fn connection(mut stream: TcpStream) {
    let mut asked = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = stream.read(&mut asked).await {
        let text = String::from_utf8_lossy(&asked[..read]).into_owned();
        let answer = if text.contains("watch=true") { watched() } else { listed() };
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
        let end = if text.contains("watch=true") { "" } else { "0\r\n\r\n" };
        let whole = format!("{head}{:x}\r\n{answer}\r\n{end}", answer.len());
        stream.write_all(whole.as_bytes()).await.unwrap();
    }
}

fn listed() -> String {
    let items = [pod("a", 1, &good()), pod("b", 2, &broken()), pod("c", 3, &good())];
    json!({"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "3"}, "items": items}).to_string()
}

fn watched() -> String {
    let changes = [
        json!({"type": "MODIFIED", "object": pod("a", 4, &broken())}),
        json!({"type": "ADDED", "object": pod("d", 5, &broken())}),
        json!({"type": "ADDED", "object": pod("e", 6, &good())}),
    ];
    changes.map(|change| format!("{change}\n")).concat()
}

#[tokio::test]
async fn watch_reports_an_invalid_object_and_continues() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(serve(listener));
    // kube requires a provider although the fake speaks plain HTTP. A second installation has no effect.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::try_from(Config::new(format!("http://{address}").parse().unwrap())).unwrap();
    let (notes, mut published) = EventRecorder::new();
    let (plan, _triggers) = unbounded_channel();
    let cluster = Cluster::new(plan, notes);
    let watching = tokio::spawn(watch::<Pod>(client, Arc::clone(&cluster)));

    until(|| cluster.read(|index| index.pods.get("default/e").is_some())).await;
    cluster.read(|index| {
        assert!(index.pods.is_synced(), "a broken object does not keep the list from being complete");
        assert_eq!(index.pods.keys().collect::<Vec<_>>(), ["default/a", "default/c", "default/e"]);
        let a = index.pods.get("default/a").unwrap();
        assert_eq!(a.metadata.resource_version.as_deref(), Some("1"), "the last good version stays");
    });
    for name in ["b", "a", "d"] {
        let note = published.recv().await.unwrap();
        assert_eq!(note.reason(), api::reason::MALFORMED_OBJECT);
        assert!(note.message().contains("this Pod is invalid"), "{}", note.message());
        assert!(format!("{note:?}").contains(&format!("name: {name:?}")), "{note:?} is not about {name}");
    }
    watching.abort();
    server.abort();
}

static CLOCK: AtomicI64 = AtomicI64::new(0);

fn clock() -> Timestamp {
    Timestamp::from_second(CLOCK.load(Ordering::SeqCst)).unwrap()
}

/// Serves a list, and then refuses each watch with 403, until `granted`. A granted watch only has a bookmark.
async fn refuse_watches(mut stream: TcpStream, refused: Arc<AtomicUsize>, granted: Arc<AtomicBool>) {
    let mut asked = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = stream.read(&mut asked).await {
        let is_watch = String::from_utf8_lossy(&asked[..read]).contains("watch=true");
        let (status, body, end) = match (is_watch, granted.load(Ordering::SeqCst)) {
            (false, _) => ("200 OK", listed(), "0\r\n\r\n"),
            (true, false) => {
                refused.fetch_add(1, Ordering::SeqCst);
                ("403 Forbidden", r#"{"kind": "Status", "status": "Failure", "code": 403}"#.to_owned(), "0\r\n\r\n")
            }
            (true, true) => {
                let metadata = json!({"resourceVersion": "9"});
                let bookmark =
                    json!({"type": "BOOKMARK", "object": {"kind": "Pod", "apiVersion": "v1", "metadata": metadata}});
                ("200 OK", format!("{bookmark}\n"), "")
            }
        };
        let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
        let whole = format!("{head}{:x}\r\n{body}\r\n{end}", body.len());
        stream.write_all(whole.as_bytes()).await.unwrap();
    }
}

/// The index is complete, but no watch confirms it: RBAC allows `list` and not `watch`.
#[tokio::test]
async fn watch_ages_while_the_api_server_refuses_it() {
    let (refused, granted) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (counted, grants) = (Arc::clone(&refused), Arc::clone(&granted));
    let server = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(refuse_watches(stream, Arc::clone(&counted), Arc::clone(&grants)));
        }
    });
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::try_from(Config::new(format!("http://{address}").parse().unwrap())).unwrap();
    let cluster = Cluster::with_clock(unbounded_channel().0, EventRecorder::new().0, clock);
    let watching = tokio::spawn(watch::<Pod>(client, Arc::clone(&cluster)));
    until(|| refused.load(Ordering::SeqCst) > 1).await;
    CLOCK.store(200, Ordering::SeqCst);
    assert!(cluster.read(|index| index.pods.is_synced()));
    assert_eq!(cluster.view_ages.stale(clock()).len(), 1, "the list alone confirms nothing");
    granted.store(true, Ordering::SeqCst);
    until(|| cluster.view_ages.are_current(clock())).await;
    watching.abort();
    server.abort();
}

async fn until(is: impl Fn() -> bool) {
    let holds = async {
        while !is() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, holds).await.expect("the condition never held");
}

/// Answers as an API server that does not know the resource.
async fn not_found(mut stream: TcpStream, asked_for: Arc<AtomicUsize>) {
    let mut asked = vec![0; 64 * 1024];
    while let Ok(1..) = stream.read(&mut asked).await {
        asked_for.fetch_add(1, Ordering::SeqCst);
        let body = "404 page not found\n";
        let head =
            format!("HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    }
}

/// Our own kinds are optional. Without one of Kubernetes' or Karpenter's, no plan is possible.
#[tokio::test]
async fn watch_of_an_own_kind_that_is_not_installed_has_no_objects() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    let server = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(not_found(stream, Arc::clone(&counted)));
        }
    });
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::try_from(Config::new(format!("http://{address}").parse().unwrap())).unwrap();
    let (notes, _published) = EventRecorder::new();
    let (plan, _triggers) = unbounded_channel();
    let cluster = Cluster::new(plan, notes);
    let pools = tokio::spawn(watch::<NodePool>(client.clone(), Arc::clone(&cluster)));
    until(|| requests.load(Ordering::SeqCst) > 0).await;
    let policies = tokio::spawn(watch::<SpendPolicy>(client, Arc::clone(&cluster)));
    until(|| cluster.read(|index| index.spend_policies.is_synced())).await;
    assert!(!cluster.read(|index| index.pools.is_synced()));
    [pools, policies, server].iter().for_each(tokio::task::JoinHandle::abort);
}

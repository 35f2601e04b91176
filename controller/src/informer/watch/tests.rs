//! Tests of invalid objects among valid ones, over HTTP as from an API server.

use std::sync::Arc;
use std::time::Duration;

use api::objects::Pod;
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

    let last = async {
        while cluster.read(|index| index.pods.get("default/e").is_none()) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, last).await.expect("the pod after the broken ones never came");
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

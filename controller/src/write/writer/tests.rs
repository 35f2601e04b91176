//! Tests of the number of requests to an API server that does not respond, and of labels of failures.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cloud::fake::FakeCloud;
use http::{Request, Response};
use kube::client::Body;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::Instant;

use super::{
    Arc, Client, Clients, Cluster, Leading, Metrics, Operation, PodRef, REQUESTS_ABREAST, Target, WriteError, Writer,
    json, label, metrics, zone_labels,
};
use crate::fixture::claim;
use crate::write::events::EventRecorder;

/// Returns a client of an API server that accepts requests and never responds, and the number of its requests.
fn silent() -> (Client, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&asked);
    let service = tower::service_fn(move |_: Request<Body>| {
        counts.fetch_add(1, Ordering::Relaxed);
        std::future::pending::<Result<Response<Body>, http::Error>>()
    });
    (Client::new(service, "default"), asked)
}

/// Returns a client of an API server that accepts everything.
fn willing() -> Client {
    let service = tower::service_fn(|_: Request<Body>| {
        let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}).to_string();
        std::future::ready(Response::builder().status(201).body(Body::from(body.into_bytes())))
    });
    Client::new(service, "default")
}

#[test]
fn zone_labels_are_those_of_the_claim() {
    let labels = json!({label::ZONE: "us-west-2a", label::ZONE_ID: "usw2-az1"});
    let known = claim(&json!({"metadata": {"labels": labels}}));
    assert_eq!(zone_labels(Some(&known)), metrics::ByZoneZoneId { zone: "us-west-2a", zone_id: "usw2-az1" });
    assert_eq!(zone_labels(None), metrics::ByZoneZoneId { zone: "", zone_id: "" });
}

/// Returns a writer whose evictions always succeed.
fn writer(general: Client, leading: Leading) -> Writer {
    let cloud = FakeCloud::builder("us-west-2").only_types(&["m5.large"]).build().unwrap();
    let cluster = Cluster::new(unbounded_channel().0, EventRecorder::new().0);
    let clients = Clients { general, eviction: willing() };
    Writer::new(clients, Arc::new(cloud), cluster, Arc::new(Metrics::new(&metrics::table())), leading)
}

fn patch() -> Operation {
    Operation::Patch(Target::Node("node-1".to_owned()), json!({}))
}

#[tokio::test(start_paused = true)]
async fn run_abandons_a_write_when_leadership_ends() {
    let leading = Leading::not_yet();
    let writer = writer(silent().0, leading.clone());
    assert!(matches!(writer.run(patch()).await, Err(WriteError::NotLeader)), "it does not lead yet");
    leading.extend(Instant::now() + Duration::from_secs(2));
    let began = Instant::now();
    assert!(matches!(writer.run(patch()).await, Err(WriteError::NotLeader)));
    assert_eq!(began.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn run_gives_up_when_the_api_server_does_not_respond() {
    let writer = writer(silent().0, Leading::without_election());
    let began = Instant::now();
    assert!(matches!(writer.run(patch()).await, Err(WriteError::NoResponse)));
    assert_eq!(began.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn run_limits_concurrent_writes_but_not_evictions() {
    let (client, asked) = silent();
    let writer = writer(client, Leading::without_election());
    let steps = [
        Operation::Patch(Target::Node("node-1".to_owned()), json!({})),
        Operation::PatchStatus(Target::Claim("default-1".to_owned()), json!({})),
        Operation::Delete(Target::Claim("default-1".to_owned()), "claim-uid".to_owned()),
    ];
    let writes: Vec<_> = steps.iter().cycle().take(2 * REQUESTS_ABREAST).cloned().collect();
    for step in writes {
        let writer = writer.clone();
        tokio::spawn(async move { writer.run(step).await });
    }
    // The paused clock advances once all tasks are idle: by then every task with a permit has sent its request.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(asked.load(Ordering::Relaxed), REQUESTS_ABREAST);

    let pod = PodRef { namespace: "default".to_owned(), name: "web".to_owned(), uid: "pod-uid".to_owned() };
    let evicted = tokio::time::timeout(Duration::from_secs(1), writer.run(Operation::Evict(pod, None))).await;
    evicted.expect("the eviction stands in line").unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), REQUESTS_ABREAST);
}

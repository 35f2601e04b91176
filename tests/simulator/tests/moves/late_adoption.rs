//! An instance that EC2 launched is not lost because the API server stores it late, or because the controller restarts before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cloud::fake::FakeCloud;
use controller::settings::Gates;
use http::{Method, Request, Response, StatusCode};
use kube::client::Body;
use serde_json::json;
use simulator::api_server::{ApiServer, CLAIMS, refused};
use simulator::cluster::{ModelCluster, pool};
use simulator::controller_run::ControllerRun;
use simulator::crash::Crash;
use simulator::middleware::Middleware;
use simulator::surroundings::Workload;

/// Longer than the limit for a launch.
const LATE: Duration = Duration::from_secs(400);

/// API server that stores no change of a NodeClaim once EC2 has an instance.
struct Overloaded {
    on: AtomicBool,
    ec2: FakeCloud,
}

impl Middleware for Overloaded {
    async fn pass(&self, server: Arc<ApiServer>, request: Request<Body>) -> Response<Body> {
        let changes = *request.method() == Method::PATCH && request.uri().path().contains(CLAIMS);
        if changes && self.on.load(Ordering::Relaxed) && !self.ec2.machines().is_empty() {
            return refused(StatusCode::SERVICE_UNAVAILABLE);
        }
        server.answer(request).await
    }
}

/// Returns a cluster with a pod, and an instance for it that no NodeClaim names yet.
async fn launched() -> (ModelCluster, ControllerRun, Arc<Overloaded>) {
    let cluster = ModelCluster::new(pool(&["m5.large"], json!({"consolidateAfter": "Never"})), Gates::default());
    let overloaded = Arc::new(Overloaded { on: AtomicBool::new(true), ec2: cluster.ec2.clone() });
    let crash = Arc::new(Crash::never());
    let mut controller_run = cluster.awake(crash.alive(), crash, Arc::clone(&overloaded));
    controller_run.plans(cluster.rules());
    cluster.want("web", Workload::of(1, 1500));
    let instance = |cluster: &ModelCluster| match cluster.ec2.machines().len() {
        1 => Ok(()),
        found => Err(format!("{found} instances")),
    };
    cluster.until("an instance", instance).await;
    (cluster, controller_run, overloaded)
}

/// Waits until the pod runs, and checks that EC2 launched nothing else.
async fn settles_with_the_first_instance(cluster: &ModelCluster) {
    cluster.until("a node", |cluster| cluster.is_settled(1, 1)).await;
    assert_eq!(cluster.ec2.machines().len(), 1, "instances ever");
}

#[tokio::test(start_paused = true)]
async fn instance_is_adopted_when_the_api_server_is_late() {
    let (cluster, _controller_run, overloaded) = launched().await;
    tokio::time::sleep(LATE).await;
    overloaded.on.store(false, Ordering::Relaxed);
    settles_with_the_first_instance(&cluster).await;
}

#[tokio::test(start_paused = true)]
async fn instance_is_adopted_by_a_late_successor() {
    let (cluster, controller_run, _) = launched().await;
    drop(controller_run);
    tokio::time::sleep(LATE).await;
    let _successor = cluster.controller_run();
    settles_with_the_first_instance(&cluster).await;
}

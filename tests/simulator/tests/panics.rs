//! Panics in parts of the controller: the work is retried and reported, and the rest of the controller continues. A panic of a
//! loop ends the process.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cloud::CloudError;
use cloud::guard::Guard;
use controller::provision::plan_source::{KerfPlanner, PlanSource};
use http::{Request, Response};
use kube::client::Body;
use planner::ValidatedPlan;
use serde_json::json;
use simulator::api_server::ApiServer;
use simulator::cluster::{ModelCluster, pool};
use simulator::crash::Crash;
use simulator::middleware::Middleware;
use simulator::surroundings::Workload;
use snapshot::SnapshotResult;

const PANICS: usize = 3;

fn cluster() -> ModelCluster {
    ModelCluster::new(pool(&["m5.large"], json!({"consolidateAfter": "Never"})), Default::default())
}

/// Takes one of the remaining panics.
fn is_due(remaining: &AtomicUsize) -> bool {
    remaining.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

struct PanickingPlanner(AtomicUsize);

impl PlanSource for PanickingPlanner {
    fn plan(&self, built: &SnapshotResult) -> ValidatedPlan {
        assert!(built.snapshot.pods.is_empty() || !is_due(&self.0), "a bug in the planner");
        KerfPlanner.plan(built)
    }
}

#[tokio::test(start_paused = true)]
async fn pods_get_nodes_after_plans_that_panic() {
    let cluster = cluster();
    let crash = Arc::new(Crash::never());
    let mut run = cluster.awake(crash.alive(), Arc::clone(&crash), crash);
    run.plans_by(cluster.rules(), Arc::new(PanickingPlanner(AtomicUsize::new(PANICS))));
    cluster.want("web", Workload::of(2, 1500));
    cluster.until("two nodes", |cluster| cluster.is_settled(2, 2)).await;
    let metrics = run.metrics();
    assert!(metrics.contains("kerf_panics_total{task=\"plan\"} 3.0"), "{metrics}");
}

/// Panics in the writes of NodeClaims' status, as a bug of a reconcile would.
struct PanickingWrites(AtomicUsize);

impl Middleware for PanickingWrites {
    async fn pass(&self, server: Arc<ApiServer>, request: Request<Body>) -> Response<Body> {
        let path = request.uri().path();
        let is_claim = path.contains("/nodeclaims/") && path.ends_with("/status");
        assert!(!is_claim || !is_due(&self.0), "a bug in a reconcile");
        server.answer(request).await
    }
}

#[tokio::test(start_paused = true)]
async fn nodeclaims_become_nodes_after_reconciles_that_panic() {
    let cluster = cluster();
    let crash = Arc::new(Crash::never());
    let mut run = cluster.awake(crash.alive(), crash, Arc::new(PanickingWrites(AtomicUsize::new(PANICS))));
    run.plans(cluster.rules());
    cluster.want("web", Workload::of(2, 1500));
    cluster.until("two nodes", |cluster| cluster.is_settled(2, 2)).await;
    let (metrics, events) = (run.metrics(), run.events());
    assert!(metrics.contains("kerf_panics_total{task=\"reconcile\"} 3.0"), "{metrics}");
    assert!(
        events.iter().any(|event| event.starts_with("InternalError: ") && event.contains("a bug in a reconcile")),
        "{events:?}"
    );
}

/// Panics in each call that receives messages, as a bug in the handling of a notice would.
struct PanickingQueue;

impl Guard for PanickingQueue {
    fn before<'a>(&'a self, call: &'static str) -> Pin<Box<dyn Future<Output = Result<(), CloudError>> + Send + 'a>> {
        assert!(call != "ReceiveMessage", "a bug in the queue");
        Box::pin(std::future::ready(Ok(())))
    }

    fn after(&self, _: &'static str, _: Duration, _: Option<&CloudError>) -> Option<CloudError> {
        None
    }
}

#[tokio::test(start_paused = true)]
async fn process_ends_after_a_panic_in_the_queue() {
    let cluster = cluster();
    cluster.ec2.create_queue("notices");
    let crash = Arc::new(Crash::never());
    let mut run = cluster.awake(crash.alive(), Arc::new(PanickingQueue), crash);
    run.plans(cluster.rules());
    run.listens("notices");
    let message = tokio::time::timeout(Duration::from_secs(10), run.panicked()).await;
    assert_eq!(message.as_deref(), Ok("a bug in the queue"));
}

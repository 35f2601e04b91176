//! Delay of consolidation on the simulated clock.

use serde_json::json;
use simulator::clock;
use simulator::cluster::{ModelCluster, pool};
use simulator::surroundings::Workload;

/// Highest number of seconds: batch window, Karpenter's consolidation validation, and termination of an instance, without a
/// periodic check.
const SECONDS: i64 = 1 + 15 + 6;

/// A nomination must end when its pod is bound. Otherwise the node counts as a destination for the whole 20 s of a nomination,
/// and the pod of the needed node is evicted to it.
#[tokio::test(start_paused = true)]
async fn nomination_ends_when_its_pod_is_bound() {
    let cluster = ModelCluster::new(pool(&["m5.large"], json!({"consolidateAfter": "0s"})), Default::default());
    let _controller_run = cluster.controller_run();
    cluster.want("web", Workload::of(2, 1500));
    cluster.until("two nodes", |cluster| cluster.is_settled(2, 2)).await;
    cluster.want("web", Workload::of(1, 1500));
    let begin = clock::of_tokio();
    cluster.until("one node", |cluster| cluster.is_settled(1, 1)).await;
    let took = clock::of_tokio().duration_since(begin).as_secs();
    assert!(took <= SECONDS, "the unneeded node took {took} s to go");
}

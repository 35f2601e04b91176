//! How long what only saves money waits, by the clock of the town.

use lives::clock;
use lives::surroundings::Workload;
use lives::town::{Town, pool};
use serde_json::json;

/// What comes together, Karpenter's validation and the end of a machine; no regular look.
const SECONDS: i64 = 1 + 15 + 6;

/// A node is kept for the pods that were promised a place there until they have it, and no longer: for the whole 20 s of a promise it
/// was taken for a destination, and the pod of the node that was needed was about to go there.
#[tokio::test(start_paused = true)]
async fn a_node_that_has_its_pods_may_be_judged_at_once() {
    let town = Town::new(pool(&["m5.large"], json!({"consolidateAfter": "0s"})), Default::default());
    let _life = town.life();
    town.want("web", Workload::of(2, 1500));
    town.until("two nodes", |town| town.is_settled(2, 2)).await;
    town.want("web", Workload::of(1, 1500));
    let begin = clock::of_tokio();
    town.until("one node", |town| town.is_settled(1, 1)).await;
    let took = clock::of_tokio().duration_since(begin).as_secs();
    assert!(took <= SECONDS, "the node that nobody needs took {took} s to go");
}

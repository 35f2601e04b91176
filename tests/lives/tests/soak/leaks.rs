//! The leaks that the soak found, each by itself and without bad luck.

use std::collections::BTreeSet;
use std::time::Duration;

use cloud::fake::Fault;
use jiff::SignedDuration;

use super::stage::Stage;

/// A CreateFleet bought and its reply was lost; the next one, under the same token, is not allowed. What was bought is the claim's.
#[tokio::test(start_paused = true)]
async fn a_refusal_does_not_speak_of_the_call_before_it() {
    let stage = Stage::set(SignedDuration::from_secs(10));
    stage.ec2.fail("CreateFleet", 1, Fault::Lost);
    stage.ec2.fail("CreateFleet", 2, Fault::unauthorized());
    let _life = stage.begin().await;
    stage.bought_once().await;
    assert_eq!(stage.ec2.count("CreateFleet"), 2, "the refusal came");
}

/// A launch is tried for longer than a minute; the call that buys at last is the last deed of its controller. The next one finds a
/// token that is old and an instance that does not show yet: it is not to launch anew.
#[tokio::test(start_paused = true)]
async fn a_token_may_be_old_for_its_launch_and_young_for_its_controller() {
    let stage = Stage::set(SignedDuration::from_secs(30));
    for call in 1..=5 {
        stage.ec2.fail("CreateFleet", call, Fault::throttled());
    }
    stage.ec2.fail("CreateFleet", 6, Fault::Lost);
    let life = stage.begin().await;
    while stage.ec2.machines().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    life.kill();
    let _next = stage.begin().await;
    stage.bought_once().await;
    // Its reply was lost, so the first controller may ask again before it ends: under the same token, which buys nothing more.
    let tokens: BTreeSet<String> = stage.ec2.fleets().into_iter().map(|call| call.client_token).collect();
    assert_eq!(tokens.len(), 1, "somebody launched anew: {tokens:?}");
}

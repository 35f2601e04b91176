//! Leaks that the soak test found, each alone and without other faults.

use std::collections::BTreeSet;
use std::time::Duration;

use cloud::fake::Fault;
use jiff::SignedDuration;

use super::fixture::Fixture;

/// One CreateFleet call launches and its reply is lost; the next call with the same token is unauthorized. The launched
/// instance belongs to the NodeClaim.
#[tokio::test(start_paused = true)]
async fn launch_finds_instance_when_refused_after_a_lost_reply() {
    let fixture = Fixture::set(SignedDuration::from_secs(10));
    fixture.ec2.fail("CreateFleet", 1, Fault::Lost);
    fixture.ec2.fail("CreateFleet", 2, Fault::unauthorized());
    let _controller_run = fixture.begin().await;
    fixture.bought_once().await;
    assert_eq!(fixture.ec2.count("CreateFleet"), 2, "the refusal came");
}

/// A launch is retried for more than a minute, and the controller dies at the call that launches. The next controller finds an
/// old token and an instance that EC2 does not list yet, and must not launch again.
#[tokio::test(start_paused = true)]
async fn launch_reuses_old_token_when_controller_restarts() {
    let fixture = Fixture::set(SignedDuration::from_secs(30));
    for call in 1..=5 {
        fixture.ec2.fail("CreateFleet", call, Fault::throttled());
    }
    fixture.ec2.fail("CreateFleet", 6, Fault::Lost);
    let controller_run = fixture.begin().await;
    while fixture.ec2.machines().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    controller_run.kill();
    let _next = fixture.begin().await;
    fixture.bought_once().await;
    // The reply was lost, so the first controller may call again before it dies: with the same token, which launches nothing
    // more.
    let tokens: BTreeSet<String> = fixture.ec2.fleets().into_iter().map(|call| call.client_token).collect();
    assert_eq!(tokens.len(), 1, "a launch was repeated: {tokens:?}");
}

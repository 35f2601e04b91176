//! State after a launch that EC2 refuses: its reserved IP addresses are free again, and an event names the fix.

use std::time::Duration;

use cloud::fake::Fault;
use jiff::{SignedDuration, Timestamp};

use super::fixture::Fixture;
use super::trouble::addresses_under_way;

/// Time limit on the paused clock; the test needs milliseconds.
const LIMIT: Duration = Duration::from_secs(60);

fn noon() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

/// The clock of the controller does not advance, so no timeout can free the addresses.
#[tokio::test(start_paused = true)]
async fn refused_launch_frees_its_ip_addresses() {
    let fixture = Fixture::set(SignedDuration::ZERO);
    for call in 1..=100 {
        fixture.ec2.fail("CreateFleet", call, Fault::unauthorized());
    }
    let controller_run = fixture.begin_at(noon).await;
    let scenario = async {
        while fixture.ec2.count("CreateFleet") == 0
            || addresses_under_way(&controller_run, &fixture.ec2, noon()).await > 0
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(LIMIT, scenario).await.expect("a refused launch keeps its addresses");
}

/// The account has never launched spot, and the controller may not create the service-linked role. The NodeClaim is launched as
/// on-demand at once, an event names the command to run, and the next NodeClaim does not request spot.
#[tokio::test(start_paused = true)]
async fn launch_avoids_spot_when_service_linked_role_is_missing() {
    let fixture = Fixture::set(SignedDuration::ZERO);
    fixture.ec2.take_spot_role_away();
    let controller_run = fixture.begin().await;
    fixture.bought_once().await;
    let bought = || fixture.ec2.fleets().into_iter().map(|fleet| fleet.capacity_type).collect::<Vec<_>>();
    assert_eq!(bought(), ["spot", "on-demand"]);
    let events = controller_run.events();
    let cure = "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com";
    assert!(events.iter().any(|event| event.starts_with("InsufficientCapacity") && event.contains(cure)), "{events:?}");
    fixture.wants(1);
    controller_run.gather();
    fixture.bought_in_all(2).await;
    assert_eq!(bought(), ["spot", "on-demand", "on-demand"]);
}

//! What a launch leaves behind that EC2 refuses: what it had set aside is free again, and whoever has to act hears how.

use std::time::Duration;

use cloud::fake::Fault;
use jiff::{SignedDuration, Timestamp};

use super::stage::Stage;
use super::trouble::addresses_under_way;

/// Generous: it takes milliseconds of the paused clock.
const LIMIT: Duration = Duration::from_secs(60);

fn noon() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

/// On a clock that stands, so that time gives nothing back.
#[tokio::test(start_paused = true)]
async fn the_addresses_of_a_refused_launch_are_free_again() {
    let stage = Stage::set(SignedDuration::ZERO);
    for call in 1..=100 {
        stage.ec2.fail("CreateFleet", call, Fault::unauthorized());
    }
    let life = stage.begin_at(noon).await;
    let story = async {
        while stage.ec2.count("CreateFleet") == 0 || addresses_under_way(&life, &stage.ec2, noon()).await > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(LIMIT, story).await.expect("a refused launch keeps its addresses");
}

/// The account never bought spot, and the controller may not make the role for it: the claim is on-demand a moment later, somebody reads
/// what to do, and the next claim does not ask for spot at all.
#[tokio::test(start_paused = true)]
async fn without_its_role_all_of_spot_is_left_alone_and_the_cure_is_said() {
    let stage = Stage::set(SignedDuration::ZERO);
    stage.ec2.take_spot_role_away();
    let life = stage.begin().await;
    stage.bought_once().await;
    let bought = || stage.ec2.fleets().into_iter().map(|fleet| fleet.capacity_type).collect::<Vec<_>>();
    assert_eq!(bought(), ["spot", "on-demand"]);
    let told = life.told();
    let cure = "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com";
    assert!(told.iter().any(|said| said.starts_with("InsufficientCapacity") && said.contains(cure)), "{told:?}");
    stage.wants(1);
    life.gather();
    stage.bought_in_all(2).await;
    assert_eq!(bought(), ["spot", "on-demand", "on-demand"]);
}

//! Launches while a zonal shift excludes a zone.

use cloud::ZonalShift;

use super::{BTreeSet, LaunchChoice, LaunchRefusal, Operator, ask, fixture, label, requirement};

/// A catalogue of a moment before the shift is no excuse: the launch leaves the zone out too.
#[tokio::test]
async fn choose_avoids_zones_of_zonal_shifts() {
    let mut fixture = fixture("").await;
    let zones = |choice: &LaunchChoice| {
        let overrides = choice.configs.iter().flat_map(|config| &config.overrides);
        overrides.map(|one| one.zone.clone()).collect::<BTreeSet<_>>()
    };
    assert!(zones(&fixture.choose(&ask(&[])).unwrap()).contains("us-west-2a"));
    let shift = |zone: &str| ZonalShift { zone_id: zone.to_owned(), expires: None, applied: true };
    fixture.shortages.set_shifts(&[shift("usw2-az1")], fixture.cloud.now());
    let left = zones(&fixture.choose(&ask(&[])).unwrap());
    assert!(!left.contains("us-west-2a") && left.contains("us-west-2b"), "{left:?}");
    let pinned = requirement(label::ZONE, Operator::In, &["us-west-2a"]);
    let Err(LaunchRefusal::InsufficientCapacity(message)) = fixture.choose(&ask(&[pinned])) else {
        panic!("nothing is launched in the zone")
    };
    assert!(message.ends_with("a zonal shift excludes us-west-2a"), "{message}");
}

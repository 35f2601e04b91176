//! Tests of catalogues with unavailable offerings, without reservations, and with measured amounts.

use std::collections::BTreeMap;

use cloud::fake::FakeCloud;
use jiff::Timestamp;
use planner::{CapacityType, Catalogue, InstanceType, MicroDollars, Offering, Reservation, Resources};

use super::{FleetAnswer, MeasurementUpdate, NodeReading, Scope, Token, drop_reserved};
use crate::fixture;

/// A shortage marks one offering as unavailable, without a call.
#[tokio::test]
async fn end_launch_marks_one_offering_unavailable_without_a_call() {
    let fake = FakeCloud::builder("us-west-2").only_types(&["c5.large", "m5.large"]).build().unwrap();
    let offerings = fixture::offerings(&fake).await.with_risk(false);
    let class = fixture::class(&fixture::discovered());
    offerings.learn(&class, fixture::resolution(&class, &offerings).await.class).unwrap();
    let (before, calls) = (offerings.catalogue("default", Timestamp::UNIX_EPOCH).unwrap(), fake.log().len());
    let short = Scope::offering(CapacityType::Spot, "m5.large", "us-west-2a");
    offerings.end_launch(&Token::read("kerf-1-2"), &FleetAnswer::default(), &[], vec![short], Timestamp::UNIX_EPOCH);
    let mut expected = Catalogue::clone(&before);
    let of_type = expected.types.iter_mut().filter(|kind| kind.name == "m5.large").flat_map(|kind| &mut kind.offerings);
    let mut struck = of_type.filter(|one| one.zone == "us-west-2a" && one.capacity_type == CapacityType::Spot);
    let one = struck.next().unwrap();
    assert!(std::mem::replace(&mut one.available, false), "it was for sale");
    assert!(struck.next().is_none());
    assert_eq!(*offerings.catalogue("default", Timestamp::UNIX_EPOCH).unwrap(), expected);
    assert_eq!(fake.log().len(), calls);
}

/// The class promises more disk space and volumes than its nodes have: the next plan promises what nodes have, and no pod
/// buys nodes for ever.
#[tokio::test]
async fn learn_node_lowers_the_promises_of_its_class() {
    let fake = FakeCloud::builder("us-west-2").only_types(&["m5.large"]).build().unwrap();
    let offerings = fixture::offerings(&fake).await;
    let class = fixture::class(&fixture::discovered());
    let resolved = fixture::resolution(&class, &offerings).await.class;
    let image = resolved.images[0].image.id.clone();
    offerings.learn(&class, resolved).unwrap();
    let promised = || offerings.catalogue("default", Timestamp::UNIX_EPOCH).unwrap().types[0].clone();
    let before = promised();
    let amounts = [(Resources::EPHEMERAL_STORAGE, 8 << 30), (Resources::CPU, 1000), (Resources::PODS, 110)];
    let reading = NodeReading {
        class: "default".to_owned(),
        class_hash: Some("of an older class".to_owned()),
        instance_type: "m5.large".to_owned(),
        image,
        allocatable: amounts.into_iter().collect(),
        volumes: Some(20),
        ..NodeReading::default()
    };
    let learn = |reading: &NodeReading| offerings.learn_node(reading, Timestamp::UNIX_EPOCH);
    assert_eq!(learn(&reading), Some(MeasurementUpdate::Nothing));
    assert_eq!(promised(), before);
    let reading = NodeReading { class_hash: Some(offerings.class_hash(&class)), ..reading };
    assert_eq!(learn(&reading), Some(MeasurementUpdate::Renewed));
    assert_eq!(promised(), before, "one node alone is not believed");
    assert_eq!(learn(&NodeReading { node: 1, ..reading }), Some(MeasurementUpdate::Changed));
    let after = promised();
    let amount = |kind: &InstanceType, name| kind.allocatable.get(name);
    assert_eq!((amount(&after, Resources::EPHEMERAL_STORAGE), amount(&after, Resources::CPU)), (8 << 30, 1000));
    assert_eq!(amount(&after, Resources::PODS), amount(&before, Resources::PODS));
    assert_eq!(after.attach_limits, BTreeMap::from([("ebs.csi.aws.com".to_owned(), 20)]));
}

#[test]
fn drop_reserved_removes_offerings_of_reservations() {
    let offering = |capacity_type, reservation| Offering {
        zone: "a".to_owned(),
        capacity_type,
        price: MicroDollars(1),
        premium: MicroDollars(0),
        available: true,
        labels: BTreeMap::new(),
        reservation,
    };
    let reservation = Some(Reservation { id: "cr-1".to_owned(), remaining: 1 });
    let offerings = vec![
        offering(CapacityType::Reserved, reservation),
        offering(CapacityType::Spot, None),
        offering(CapacityType::OnDemand, None),
    ];
    let kind = InstanceType { offerings, ..InstanceType::default() };
    let mut catalogue = Catalogue { name: "default".to_owned(), types: vec![kind], ..Catalogue::default() };
    drop_reserved(&mut catalogue);
    let left: Vec<CapacityType> = catalogue.types[0].offerings.iter().map(|one| one.capacity_type).collect();
    assert_eq!(left, [CapacityType::Spot, CapacityType::OnDemand]);
}

//! Tests of capacity reservations and placement groups of an EC2NodeClass.

use api::condition;
use cloud::nodeclass::{Answers, Resolution, is_expiring, queries, resolve};
use cloud::types::{ClassSettings, OfferingSource, Source, add_reservations};
use cloud::unavailable_offerings::{Scope, UnavailableOfferings};
use cloud::{
    CapacityReservation, CloudError, ErrorKind, PlacementGroup, PlacementGroupQuery, ReservationFilter, Settings,
};
use jiff::Timestamp;
use planner::Offering;
use serde_json::json;

use super::{class, conditions, settings};

const NOW: &str = "2026-11-01T12:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn answered(
    change: &str,
    reservations: Vec<CapacityReservation>,
    placement_group: Result<Option<PlacementGroup>, CloudError>,
) -> Resolution {
    let answers = Answers {
        subnets: Ok(Vec::new()),
        security_groups: Ok(Vec::new()),
        images: Ok(Vec::new()),
        reservations: Ok(reservations),
        placement_group,
        profiles: Ok(Vec::new()),
    };
    resolve(&class(change), answers, &settings(), now())
}

fn reservation(id: &str, block: bool, ends: Option<&str>) -> CapacityReservation {
    CapacityReservation {
        id: id.to_owned(),
        owner: "123456789012".to_owned(),
        instance_type: "m5.large".to_owned(),
        zone: "us-west-2a".to_owned(),
        match_criteria: "targeted".to_owned(),
        capacity_block: block,
        state: "active".to_owned(),
        total: 4,
        available: 2,
        ends: ends.map(str::to_owned),
        ..CapacityReservation::default()
    }
}

#[test]
fn queries_convert_reservation_and_placement_group_terms() {
    let change = r#""capacityReservationSelectorTerms": [
        {"id": "cr-1"}, {"id": "cr-2"}, {"tags": {"team": "*"}, "ownerID": "123456789012"}, {"instanceMatchCriteria": "open"}
    ]"#;
    let by_id = |id: &str| ReservationFilter { ids: vec![id.to_owned()], ..ReservationFilter::default() };
    let by_tag = ReservationFilter {
        owner: Some("123456789012".to_owned()),
        tags: [("team".to_owned(), "*".to_owned())].into(),
        ..ReservationFilter::default()
    };
    let open = ReservationFilter { match_criteria: Some("open".to_owned()), ..ReservationFilter::default() };
    assert_eq!(queries(&class(change), &settings()).reservations, [by_id("cr-1"), by_id("cr-2"), by_tag, open]);
    let closed = Settings { reserved_capacity: false, ..settings() };
    assert!(queries(&class(change), &closed).reservations.is_empty(), "the gate ReservedCapacity is closed");
    let by_name = queries(&class(r#""placementGroupSelector": {"name": "a"}"#), &settings()).placement_group;
    assert_eq!(by_name, Some(PlacementGroupQuery::Name("a".to_owned())));
    let by_id = queries(&class(r#""placementGroupSelector": {"id": "pg-1"}"#), &settings()).placement_group;
    assert_eq!(by_id, Some(PlacementGroupQuery::Id("pg-1".to_owned())));
}

#[test]
fn status_reservations_list_only_usable_reservations() {
    let found = vec![
        reservation("cr-3", true, Some("2026-11-01T12:40:00Z")),
        reservation("cr-2", false, Some("2026-11-01T12:40:00Z")),
        reservation("cr-1", true, Some("2026-11-01T12:41:00Z")),
        reservation("cr-1", true, Some("2026-11-01T12:41:00Z")),
        reservation("cr-0", false, Some("2026-11-01T11:59:00Z")),
        CapacityReservation { state: "expired".to_owned(), ..reservation("cr-4", false, None) },
    ];
    let resolution = answered("", found, Ok(None));
    let shown = resolution.status_reservations(now());
    let ids: Vec<(&str, &str, &str)> =
        shown.iter().map(|one| (one.id.as_str(), one.reservation_type.as_str(), one.state.as_str())).collect();
    let expected =
        [("cr-1", "capacity-block", "active"), ("cr-2", "default", "active"), ("cr-3", "capacity-block", "expiring")];
    assert_eq!(ids, expected, "ended ones are gone, others by id and once");
    assert!(is_expiring(&resolution.class.reservations[2], now()));
    let first = json!({
        "id": "cr-1", "availabilityZone": "us-west-2a", "endTime": "2026-11-01T12:41:00Z", "instanceMatchCriteria": "targeted",
        "instanceType": "m5.large", "ownerID": "123456789012", "reservationType": "capacity-block", "interruptible": false,
        "state": "active",
    });
    assert_eq!(serde_json::to_value(&shown[0]).unwrap(), first);
    assert_eq!(conditions(&resolution)[condition::CAPACITY_RESERVATIONS_READY].0, "True");
    assert_eq!(conditions(&answered("", Vec::new(), Ok(None)))[condition::CAPACITY_RESERVATIONS_READY].0, "True");
}

/// Rows: EC2's answer for the placement group, then status, reason and a part of the message.
#[test]
fn placement_group_ready_requires_an_available_group() {
    let group = |state: &str| PlacementGroup {
        id: "pg-1".to_owned(),
        name: "a".to_owned(),
        strategy: "cluster".to_owned(),
        state: state.to_owned(),
        partitions: 0,
    };
    let failed =
        |kind| CloudError { call: "DescribePlacementGroups", kind, code: "Code".to_owned(), message: "no".to_owned() };
    let rows = [
        (Ok(Some(group("available"))), Some(("True", "PlacementGroupReady")), ""),
        (
            Ok(Some(group("deleting"))),
            Some(("False", "PlacementGroupNotFound")),
            "placement group pg-1 (name a) is deleting",
        ),
        (
            Ok(None),
            Some(("False", "PlacementGroupNotFound")),
            "no placement group matches placementGroupSelector (name a)",
        ),
        (
            Err(failed(ErrorKind::Unauthorized)),
            Some(("False", "PlacementGroupResolutionFailed")),
            "Code: no; allow the controller",
        ),
        (Err(failed(ErrorKind::Throttled)), None, ""),
    ];
    for (answer, expected, part) in rows {
        let unanswered = expected.is_none();
        let resolution = answered(r#""placementGroupSelector": {"name": "a"}"#, Vec::new(), answer);
        assert_eq!(conditions(&resolution).get(condition::PLACEMENT_GROUP_READY).copied(), expected);
        assert_eq!(!resolution.errors.is_empty(), unanswered);
        assert!(
            unanswered || resolution.findings.iter().any(|one| one.message.contains(part)),
            "{:?}",
            resolution.findings
        );
    }
    assert_eq!(conditions(&answered("", Vec::new(), Ok(None)))[condition::PLACEMENT_GROUP_READY].0, "True");
}

/// Checks id, remaining count and availability of each reservation's offering.
#[tokio::test]
async fn add_reservations_adds_offerings_to_the_catalogue() {
    let cloud = super::cloud();
    let used_up = CapacityReservation { available: 0, ..reservation("cr-2", false, None) };
    let elsewhere = CapacityReservation { zone: "us-west-2d".to_owned(), ..reservation("cr-4", false, None) };
    let unknown = CapacityReservation { instance_type: "m99.large".to_owned(), ..reservation("cr-5", false, None) };
    let found = vec![
        CapacityReservation { interruptible: true, ..reservation("cr-1", false, None) },
        used_up,
        reservation("cr-3", true, Some("2026-11-01T12:30:00Z")),
        elsewhere,
        unknown,
        reservation("cr-6", false, None),
    ];
    let class = class("");
    let answers =
        super::fetch(&cloud, &queries(&class, &settings()), &cloud::nodeclass::ResolutionCache::default(), now()).await;
    let resolved = resolve(&class, Answers { reservations: Ok(found), ..answers }, &settings(), now()).class;
    let facts = cloud::data::facts().unwrap();
    let info = cloud::data::instance_types().unwrap()["m5.large"].clone();
    let kind = planner::InstanceType {
        name: info.name.clone(),
        labels: cloud::types::labels(&info, facts, &settings()),
        ..planner::InstanceType::default()
    };
    let (market, mut shortages) = (OfferingSource::default(), UnavailableOfferings::default());
    shortages.mark(Scope::Reservation("cr-6".to_owned()), now());
    let source = Source { infos: &[info], facts, offerings: &market, shortages: &shortages, images: &resolved.images };
    let offers = |sizes: &ClassSettings| {
        let mut catalogue = planner::Catalogue {
            name: "default".to_owned(),
            types: vec![kind.clone()],
            ..planner::Catalogue::default()
        };
        add_reservations(&mut catalogue, &resolved, sizes, &source, now());
        catalogue.types.remove(0).offerings
    };
    let summary = |offering: &Offering| {
        let reservation = offering.reservation.as_ref().unwrap();
        (reservation.id.clone(), reservation.remaining, offering.available)
    };
    let sizes = ClassSettings::from_resolved(&class, &resolved).unwrap();
    let offerings = offers(&sizes);
    let expected = [("cr-1", 2, true), ("cr-2", 0, false), ("cr-3", 2, false), ("cr-6", 2, false)];
    let offered: Vec<(String, u32, bool)> = offerings.iter().map(summary).collect();
    assert_eq!(offered, expected.map(|(id, left, available)| (id.to_owned(), left, available)));
    let unknown = ClassSettings { placement_strategy: Some("circle".to_owned()), ..sizes };
    assert!(
        offers(&unknown).iter().all(|offering| !offering.available),
        "a type that cannot stand in the class's group"
    );
    let mut shifted = UnavailableOfferings::default();
    let shift = cloud::ZonalShift { zone_id: "usw2-az1".to_owned(), expires: None, applied: true };
    shifted.set_shifts(&[shift], now());
    let mut catalogue = planner::Catalogue { types: vec![kind.clone()], ..planner::Catalogue::default() };
    let sizes = ClassSettings::from_resolved(&class, &resolved).unwrap();
    add_reservations(&mut catalogue, &resolved, &sizes, &Source { shortages: &shifted, ..source }, now());
    let offerings_of_shift = &catalogue.types[0].offerings;
    assert!(!offerings_of_shift.is_empty() && offerings_of_shift.iter().all(|offering| !offering.available));
    let labels = json!(offerings[0].labels);
    let expected = json!({
        "topology.k8s.aws/zone-id": "usw2-az1",
        "karpenter.k8s.aws/capacity-reservation-id": "cr-1",
        "karpenter.k8s.aws/capacity-reservation-type": "default",
        "karpenter.k8s.aws/capacity-reservation-interruptible": "true",
    });
    assert_eq!(labels, expected);
}

//! Tests of the cache of unavailable offerings, second by second.

use super::*;

const SPOT: CapacityType = CapacityType::Spot;

fn at(seconds: i64) -> Timestamp {
    let start = Timestamp::constant(1_790_000_000, 0);
    start.checked_add(SignedDuration::from_secs(seconds)).unwrap()
}

fn pool() -> Scope {
    Scope::offering(SPOT, "m5.large", "a")
}

fn holds(unavailable: &UnavailableOfferings, seconds: i64) -> bool {
    unavailable.holds(SPOT, "m5.large", "a", at(seconds))
}

#[test]
fn mark_lasts_three_minutes_and_longer_when_repeated() {
    let mut unavailable = UnavailableOfferings::default();
    unavailable.mark(pool(), at(0));
    assert!(holds(&unavailable, 179) && !holds(&unavailable, 180));
    assert!(!unavailable.holds(CapacityType::OnDemand, "m5.large", "a", at(0)));
    assert!(!unavailable.holds(SPOT, "m5.large", "b", at(0)));
    unavailable.mark(pool(), at(100));
    assert!(holds(&unavailable, 279));
    let before = unavailable.sequence();
    assert!(!unavailable.expire(at(279)) && unavailable.sequence() == before);
    assert_eq!(unavailable.next_expiry(), Some(at(280)));
    assert!(unavailable.expire(at(280)) && unavailable.sequence() > before);
    assert_eq!(unavailable.next_expiry(), None);
}

#[test]
fn mark_of_spot_holds_three_minutes_and_spares_on_demand() {
    let mut unavailable = UnavailableOfferings::default();
    unavailable.mark(Scope::CapacityType(SPOT), at(0));
    for (kind, zone) in [("m5.large", "a"), ("c7g.large", "b")] {
        assert!(
            unavailable.holds(SPOT, kind, zone, at(179)) && !unavailable.holds(SPOT, kind, zone, at(180)),
            "{kind} in {zone}"
        );
        assert!(!unavailable.holds(CapacityType::OnDemand, kind, zone, at(0)), "{kind} in {zone}");
    }
}

/// Each round marks the pool again after its time; the values are the expected times in minutes.
#[test]
fn mark_doubles_the_time_up_to_a_limit_when_repeated() {
    let mut unavailable = UnavailableOfferings::default();
    let mut start = 0;
    for minutes in [3, 6, 12, 24, 24] {
        unavailable.mark(pool(), at(start));
        let length = minutes * 60;
        assert!(holds(&unavailable, start + length - 1) && !holds(&unavailable, start + length), "{minutes}");
        start += length;
    }
    let quiet = FADES.as_secs();
    // Four of five failures have faded, so the next failure counts as the second.
    unavailable.mark(pool(), at(start + 4 * quiet));
    assert!(holds(&unavailable, start + 4 * quiet + 359) && !holds(&unavailable, start + 4 * quiet + 360));
    unavailable.expire(at(start + 100 * quiet));
    unavailable.mark(pool(), at(start + 100 * quiet));
    assert!(!holds(&unavailable, start + 100 * quiet + 180), "all is forgotten");
}

#[test]
fn try_out_reserves_a_pool_for_one_launch() {
    let mut unavailable = UnavailableOfferings::default();
    unavailable.mark(pool(), at(0));
    unavailable.try_out([&pool()], at(10));
    assert!(!unavailable.is_on_trial(SPOT, "m5.large", "a", at(10)), "it is not to be tried yet");
    assert!(!unavailable.is_on_trial(SPOT, "m5.large", "a", at(180)), "the first may try it");
    unavailable.try_out([&pool()], at(180));
    assert!(unavailable.is_on_trial(SPOT, "m5.large", "a", at(181)), "the others wait for it");
    assert!(!unavailable.is_on_trial(SPOT, "m5.large", "a", at(240)), "it never reported");
    unavailable.mark(pool(), at(182));
    assert!(holds(&unavailable, 182 + 359), "it failed");
    unavailable.served(&pool());
    assert!(!holds(&unavailable, 183) && !unavailable.is_on_trial(SPOT, "m5.large", "a", at(183)));
    unavailable.mark(pool(), at(190));
    assert!(!holds(&unavailable, 190 + 180), "what has served starts anew");
}

#[test]
fn scope_holds_only_what_its_cause_covers() {
    let now = at(0);
    let mut unavailable = UnavailableOfferings::default();
    unavailable.mark(Scope::Quota { capacity_type: SPOT, class: FamilyClass::GAndVt }, now);
    assert!(unavailable.holds(SPOT, "g5.xlarge", "a", now) && unavailable.holds(SPOT, "vt1.3xlarge", "b", now));
    assert!(!unavailable.holds(SPOT, "p4d.24xlarge", "a", now));
    assert!(!unavailable.holds(CapacityType::OnDemand, "g5.xlarge", "a", now));
    unavailable.mark(Scope::Reservation("cr-1".to_owned()), now);
    assert!(unavailable.holds_reservation("cr-1", now) && !unavailable.holds_reservation("cr-2", now));
    unavailable.mark(Scope::Group { group: "pg-1".to_owned(), zone: "a".to_owned() }, now);
    let placed = |zone: &str, group: &str| {
        unavailable.holds_placed(SPOT, "m5.large", zone, GroupPlace { group, partition: None }, now)
    };
    assert!(placed("a", "pg-1") && !placed("b", "pg-1") && !placed("a", "pg-2"));
    assert!(!unavailable.holds(SPOT, "m5.large", "a", now), "outside of the group there may be some");
    unavailable.mark(pool(), now);
    assert!(
        unavailable.holds_placed(SPOT, "m5.large", "a", GroupPlace { group: "pg-2", partition: None }, now),
        "what is out is out in a group too"
    );
    let partition = Scope::Placed {
        capacity_type: SPOT,
        instance_type: "c5.large".to_owned(),
        zone: "a".to_owned(),
        group: "pg-3".to_owned(),
        partition: Some(2),
    };
    unavailable.mark(partition, now);
    let free = |number| {
        let place = GroupPlace { group: "pg-3", partition: Some(number) };
        !unavailable.holds_placed(SPOT, "c5.large", "a", place, now)
    };
    assert!(free(1) && !free(2));
    unavailable.mark(Scope::CapacityType(SPOT), now);
    unavailable.mark(Scope::Subnet("subnet-1".to_owned()), now);
    assert!(unavailable.holds(SPOT, "any", "where", now));
    assert!(unavailable.holds_subnet("subnet-1", now) && !unavailable.holds_subnet("subnet-2", now));
}

#[test]
fn family_class_maps_families_to_quotas() {
    let rows = [
        ("m7g.large", FamilyClass::Standard),
        ("im4gn.large", FamilyClass::Standard),
        ("t3.micro", FamilyClass::Standard),
        ("g6e.xlarge", FamilyClass::GAndVt),
        ("gr6.4xlarge", FamilyClass::GAndVt),
        ("p5.48xlarge", FamilyClass::P),
        ("u-6tb1.112xlarge", FamilyClass::HighMemory),
        ("u7i-12tb.224xlarge", FamilyClass::HighMemory),
        ("x2gd.large", FamilyClass::X),
        ("inf2.xlarge", FamilyClass::Inf),
        ("trn1.2xlarge", FamilyClass::Trn),
        ("hpc7g.4xlarge", FamilyClass::Hpc),
        ("dl1.24xlarge", FamilyClass::Dl),
        ("f1.2xlarge", FamilyClass::F),
        ("mac2.metal", FamilyClass::Mac),
    ];
    for (name, class) in rows {
        assert_eq!(family_class(name), class, "{name}");
    }
}

#[test]
fn priced_adds_a_premium_that_fades() {
    let price = |unavailable: &UnavailableOfferings| unavailable.priced(SPOT, "m5.large", "a", MicroDollars(100_000)).0;
    let mut unavailable = UnavailableOfferings::default();
    assert_eq!(price(&unavailable), 100_000);
    unavailable.interrupted(pool(), at(0));
    assert_eq!(price(&unavailable), 118_000, "an interruption is a shortage too");
    unavailable.mark(pool(), at(60));
    assert_eq!(price(&unavailable), 118_000, "the same shortage reported again");
    assert_eq!(unavailable.priced(SPOT, "m5.large", "b", MicroDollars(100_000)).0, 100_000);
    let half = HALF_LIFE.as_secs();
    unavailable.expire(at(half));
    let later = price(&unavailable);
    assert!((108_900..=109_300).contains(&later), "half of it: {later}");
    let before = unavailable.sequence();
    assert!(unavailable.expire(at(half + 600)) && unavailable.sequence() > before, "prices move in steps");
    assert!(!unavailable.expire(at(half + 601)), "and not in between");
    unavailable.expire(at(20 * half));
    assert_eq!(price(&unavailable), 100_000);
    for number in 0..100 {
        unavailable.interrupted(pool(), at(20 * half + number));
    }
    assert_eq!(price(&unavailable), 160_000, "there is a bound");
    assert_eq!(unavailable.priced(SPOT, "m5.large", "a", MicroDollars(1)).0, 2, "rounded up");
    let mut off = UnavailableOfferings::without_risk();
    off.interrupted(pool(), at(0));
    assert_eq!((price(&off), holds(&off, 1)), (100_000, true));
}

fn shift(zone_id: &str, expires: Option<i64>, applied: bool) -> ZonalShift {
    ZonalShift { zone_id: zone_id.to_owned(), expires: expires.map(at), applied }
}

#[test]
fn is_shifted_until_the_end_of_the_last_applied_shift() {
    let mut unavailable = UnavailableOfferings::default();
    let shifts = [
        shift("az1", Some(100), true),
        shift("az1", Some(200), true),
        shift("az2", Some(200), false),
        shift("az3", Some(0), true),
        shift("az4", None, true),
        shift("az4", Some(50), true),
    ];
    unavailable.set_shifts(&shifts, at(0));
    let zones = |unavailable: &UnavailableOfferings, seconds| Vec::from_iter(unavailable.shifted_zones(at(seconds)));
    assert_eq!(zones(&unavailable, 199), ["az1", "az4"]);
    assert_eq!(zones(&unavailable, 200), ["az4"]);
    assert!(unavailable.is_shifted("az1", at(199)) && !unavailable.is_shifted("az1", at(200)));
    assert!(!unavailable.is_shifted("az2", at(0)) && unavailable.is_shifted("az4", at(1_000_000)));
    assert_eq!(unavailable.next_expiry(), Some(at(200)));
}

/// Catalogues are made anew exactly when zones change.
#[test]
fn sequence_changes_when_shifted_zones_change() {
    let mut unavailable = UnavailableOfferings::default();
    let mut sequence = unavailable.sequence();
    let mut changes = |unavailable: &UnavailableOfferings| {
        let before = std::mem::replace(&mut sequence, unavailable.sequence());
        before != sequence
    };
    let rows: [(&[ZonalShift], bool); 5] = [
        (&[], false),
        (&[shift("az1", Some(100), true)], true),
        (&[shift("az1", Some(200), true)], false),
        (&[shift("az2", Some(200), true)], true),
        (&[shift("az2", Some(200), false)], true),
    ];
    for (shifts, changed) in rows {
        unavailable.set_shifts(shifts, at(0));
        assert_eq!(changes(&unavailable), changed, "{shifts:?}");
    }
    unavailable.set_shifts(&[shift("az1", Some(100), true)], at(0));
    assert!(changes(&unavailable) && !unavailable.expire(at(99)) && unavailable.expire(at(100)));
    assert!(changes(&unavailable));
}

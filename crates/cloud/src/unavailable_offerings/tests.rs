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

fn holds(memory: &UnavailableOfferings, seconds: i64) -> bool {
    memory.holds(SPOT, "m5.large", "a", at(seconds))
}

#[test]
fn mark_lasts_three_minutes_and_longer_when_repeated() {
    let mut memory = UnavailableOfferings::default();
    memory.mark(pool(), at(0));
    assert!(holds(&memory, 179) && !holds(&memory, 180));
    assert!(!memory.holds(CapacityType::OnDemand, "m5.large", "a", at(0)));
    assert!(!memory.holds(SPOT, "m5.large", "b", at(0)));
    memory.mark(pool(), at(100));
    assert!(holds(&memory, 279));
    let before = memory.sequence();
    assert!(!memory.expire(at(279)) && memory.sequence() == before);
    assert_eq!(memory.next_expiry(), Some(at(280)));
    assert!(memory.expire(at(280)) && memory.sequence() > before);
    assert_eq!(memory.next_expiry(), None);
}

#[test]
fn mark_of_spot_holds_three_minutes_and_spares_on_demand() {
    let mut memory = UnavailableOfferings::default();
    memory.mark(Scope::CapacityType(SPOT), at(0));
    for (kind, zone) in [("m5.large", "a"), ("c7g.large", "b")] {
        assert!(
            memory.holds(SPOT, kind, zone, at(179)) && !memory.holds(SPOT, kind, zone, at(180)),
            "{kind} in {zone}"
        );
        assert!(!memory.holds(CapacityType::OnDemand, kind, zone, at(0)), "{kind} in {zone}");
    }
}

/// Each round marks the pool again after its time; the values are the expected times in minutes.
#[test]
fn mark_doubles_the_time_up_to_a_limit_when_repeated() {
    let mut memory = UnavailableOfferings::default();
    let mut start = 0;
    for minutes in [3, 6, 12, 24, 24] {
        memory.mark(pool(), at(start));
        let length = minutes * 60;
        assert!(holds(&memory, start + length - 1) && !holds(&memory, start + length), "{minutes}");
        start += length;
    }
    let quiet = FADES.as_secs();
    // Four of five failures have faded, so the next failure counts as the second.
    memory.mark(pool(), at(start + 4 * quiet));
    assert!(holds(&memory, start + 4 * quiet + 359) && !holds(&memory, start + 4 * quiet + 360));
    memory.expire(at(start + 100 * quiet));
    memory.mark(pool(), at(start + 100 * quiet));
    assert!(!holds(&memory, start + 100 * quiet + 180), "all is forgotten");
}

#[test]
fn try_out_reserves_a_pool_for_one_launch() {
    let mut memory = UnavailableOfferings::default();
    memory.mark(pool(), at(0));
    memory.try_out([&pool()], at(10));
    assert!(!memory.is_on_trial(SPOT, "m5.large", "a", at(10)), "it is not to be tried yet");
    assert!(!memory.is_on_trial(SPOT, "m5.large", "a", at(180)), "the first may try it");
    memory.try_out([&pool()], at(180));
    assert!(memory.is_on_trial(SPOT, "m5.large", "a", at(181)), "the others wait for it");
    assert!(!memory.is_on_trial(SPOT, "m5.large", "a", at(240)), "it never reported");
    memory.mark(pool(), at(182));
    assert!(holds(&memory, 182 + 359), "it failed");
    memory.served(&pool());
    assert!(!holds(&memory, 183) && !memory.is_on_trial(SPOT, "m5.large", "a", at(183)));
    memory.mark(pool(), at(190));
    assert!(!holds(&memory, 190 + 180), "what has served starts anew");
}

#[test]
fn scope_holds_only_what_its_cause_covers() {
    let now = at(0);
    let mut memory = UnavailableOfferings::default();
    memory.mark(Scope::Quota { capacity_type: SPOT, class: FamilyClass::GAndVt }, now);
    assert!(memory.holds(SPOT, "g5.xlarge", "a", now) && memory.holds(SPOT, "vt1.3xlarge", "b", now));
    assert!(!memory.holds(SPOT, "p4d.24xlarge", "a", now));
    assert!(!memory.holds(CapacityType::OnDemand, "g5.xlarge", "a", now));
    memory.mark(Scope::Reservation("cr-1".to_owned()), now);
    assert!(memory.holds_reservation("cr-1", now) && !memory.holds_reservation("cr-2", now));
    memory.mark(Scope::Group { group: "pg-1".to_owned(), zone: "a".to_owned() }, now);
    let placed = |zone: &str, group: &str| memory.holds_placed((SPOT, "m5.large", zone), (group, None), now);
    assert!(placed("a", "pg-1") && !placed("b", "pg-1") && !placed("a", "pg-2"));
    assert!(!memory.holds(SPOT, "m5.large", "a", now), "outside of the group there may be some");
    memory.mark(pool(), now);
    assert!(memory.holds_placed((SPOT, "m5.large", "a"), ("pg-2", None), now), "what is out is out in a group too");
    let partition = Scope::Placed {
        capacity_type: SPOT,
        instance_type: "c5.large".to_owned(),
        zone: "a".to_owned(),
        group: "pg-3".to_owned(),
        partition: Some(2),
    };
    memory.mark(partition, now);
    let room = |number| !memory.holds_placed((SPOT, "c5.large", "a"), ("pg-3", Some(number)), now);
    assert!(room(1) && !room(2));
    memory.mark(Scope::CapacityType(SPOT), now);
    memory.mark(Scope::Subnet("subnet-1".to_owned()), now);
    assert!(memory.holds(SPOT, "any", "where", now));
    assert!(memory.holds_subnet("subnet-1", now) && !memory.holds_subnet("subnet-2", now));
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
    let price = |memory: &UnavailableOfferings| memory.priced(SPOT, "m5.large", "a", MicroDollars(100_000)).0;
    let mut memory = UnavailableOfferings::default();
    assert_eq!(price(&memory), 100_000);
    memory.interrupted(pool(), at(0));
    assert_eq!(price(&memory), 118_000, "an interruption is a shortage too");
    memory.mark(pool(), at(60));
    assert_eq!(price(&memory), 118_000, "the same shortage said again");
    assert_eq!(memory.priced(SPOT, "m5.large", "b", MicroDollars(100_000)).0, 100_000);
    let half = HALF_LIFE.as_secs();
    memory.expire(at(half));
    let later = price(&memory);
    assert!((108_900..=109_300).contains(&later), "half of it: {later}");
    let before = memory.sequence();
    assert!(memory.expire(at(half + 600)) && memory.sequence() > before, "prices move in steps");
    assert!(!memory.expire(at(half + 601)), "and not in between");
    memory.expire(at(20 * half));
    assert_eq!(price(&memory), 100_000);
    for number in 0..100 {
        memory.interrupted(pool(), at(20 * half + number));
    }
    assert_eq!(price(&memory), 160_000, "there is a bound");
    assert_eq!(memory.priced(SPOT, "m5.large", "a", MicroDollars(1)).0, 2, "rounded up");
    let mut off = UnavailableOfferings::without_risk();
    off.interrupted(pool(), at(0));
    assert_eq!((price(&off), holds(&off, 1)), (100_000, true));
}

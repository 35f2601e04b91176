//! Tests of utilization histograms: exact merge, decay, encoding, and robustness against invalid text.

#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use api::usage::{FIRST, Histogram, Joint, Level, PodId, PodUsage, Share, decode_pods, encode_pods};
use jiff::{SignedDuration, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;

const DAY: u32 = 86_400;

/// Returns the time that many seconds after the beginning of 2026.
fn at(seconds: u32) -> Timestamp {
    Timestamp::from_second(1_767_225_600).unwrap() + SignedDuration::from_secs(seconds.into())
}

/// Generates samples: a value anywhere on the scale, and a time within `days`.
fn samples(days: u32) -> impl Strategy<Value = Vec<(u64, u32)>> {
    vec((magnitudes(), 0..days * DAY), 0..60)
}

fn magnitudes() -> impl Strategy<Value = u64> {
    (0..40_u32).prop_flat_map(|bits| 0..=(1_u64 << bits))
}

fn counted(samples: &[(u64, u32)]) -> Histogram {
    let mut sorted = samples.to_vec();
    sorted.sort_by_key(|(_, moment)| *moment);
    let mut histogram = Histogram::default();
    for (value, moment) in sorted {
        histogram.add(value, at(moment));
    }
    histogram
}

fn merged(one: &Histogram, other: &Histogram) -> Histogram {
    let mut sum = one.clone();
    sum.merge(other);
    sum
}

/// Returns the percentile of the same samples in exact arithmetic.
fn exact(samples: &[(u64, u32)], share: f64) -> u64 {
    let weight = |moment: u32| 2_f64.powf(f64::from(moment) / f64::from(DAY));
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let total: f64 = sorted.iter().map(|(_, moment)| weight(*moment)).sum();
    let mut sum = 0.0;
    for (value, moment) in &sorted {
        sum += weight(*moment);
        if sum >= share * total {
            return *value;
        }
    }
    sorted.last().unwrap().0
}

proptest! {
    #[test]
    fn merge_is_commutative_and_associative(a in samples(20), b in samples(20), c in samples(20)) {
        let (a, b, c) = (counted(&a), counted(&b), counted(&c));
        prop_assert_eq!(merged(&a, &b), merged(&b, &a));
        let (left, right) = (merged(&merged(&a, &b), &c), merged(&a, &merged(&b, &c)));
        prop_assert_eq!(left.abridged(), right.abridged());
        prop_assert_eq!(left, right);
        prop_assert_eq!(merged(&a, &Histogram::default()), a);
    }

    #[test]
    fn merge_equals_counting_all_samples_in_one(a in samples(8), b in samples(8)) {
        let both = counted(&[a.as_slice(), b.as_slice()].concat());
        prop_assert_eq!(merged(&counted(&a), &counted(&b)), both);
    }

    /// Hits of one hour have the same weight, which changes a rank by at most 1.5 % of the time. A bucket is 5 % wide.
    #[test]
    fn percentile_is_exact_to_one_bucket(samples in samples(8), percent in 2..99_u16) {
        let found = counted(&samples).percentile(percent * 10);
        prop_assert_eq!(found.is_none(), samples.is_empty());
        if let Some(found) = found {
            let share = f64::from(percent) / 100.0;
            let (low, high) = (exact(&samples, share - 0.015), exact(&samples, share + 0.015));
            prop_assert!(found.end() >= low, "{} under {low}", found.end());
            prop_assert!(found.end() <= high + high / 20 + FIRST, "{} over {high}", found.end());
        }
    }

    #[test]
    fn histogram_reads_its_own_text(samples in samples(30)) {
        let histogram = counted(&samples);
        prop_assert_eq!(&Histogram::read(&histogram.whole()).unwrap(), &histogram);
        let abridged = histogram.abridged();
        prop_assert!(abridged.len() <= 300, "{} characters", abridged.len());
        let read = Histogram::read(&abridged).unwrap();
        prop_assert_eq!(read.abridged(), abridged, "one text for what was read from it");
        for per_mille in [500, 900, 950, 990] {
            let found = read.percentile(per_mille);
            prop_assert!(found >= histogram.percentile(per_mille - 1), "{per_mille}");
            prop_assert!(found <= histogram.percentile(per_mille + 1), "{per_mille}");
        }
    }

    #[test]
    fn read_accepts_or_refuses_any_text_without_panic(text in "[A-Za-z0-9_-]{0,80}", any in ".{0,20}", bytes in vec(any::<u8>(), 0..60)) {
        for text in [text, any, base64::Engine::encode(&base64::prelude::BASE64_URL_SAFE_NO_PAD, bytes)] {
            if let Ok(mut read) = Histogram::read(&text) {
                read.add(5, at(0));
                read.merge(&counted(&[(1, 0), (u64::MAX, 9 * DAY)]));
                prop_assert!(read.percentile(950).is_some() && !read.abridged().is_empty());
            }
            drop((Joint::read(&text), decode_pods(&text)));
        }
    }

    #[test]
    fn joint_time_within_counts_both_shares(samples in vec((0..120_u64, 0..120_u64), 1..80), cpu in 0..=16_u16, memory in 0..=16_u16) {
        let mut joint = Joint::default();
        for (cpu, memory) in &samples {
            joint.add(Share { used: *cpu, of: 100 }, Share { used: *memory, of: 100 }, at(0));
        }
        let below = |cpu_limit: u16, memory_limit: u16| {
            let step = |used: u64| u16::try_from(used * 16 / 100).unwrap().min(15);
            let within = samples.iter().filter(|(cpu, memory)| step(*cpu) < cpu_limit && step(*memory) < memory_limit);
            u16::try_from(within.count() * 1000 / samples.len()).unwrap()
        };
        let limit = |steps: u16| (steps * 1000).div_ceil(16);
        prop_assert_eq!(joint.time_within(limit(cpu), limit(memory)), Some(below(cpu, memory)));
        let smallest = (1..=16).find(|step| below(*step, *step) >= 950).map(limit);
        prop_assert_eq!(joint.percentile(950), smallest);
        prop_assert_eq!(&Joint::read(&joint.whole()).unwrap(), &joint);
        prop_assert!(joint.abridged().len() <= 400);
    }

    #[test]
    fn decode_pods_returns_sorted_pods_without_duplicates(ids in vec(0..40_u8, 0..110)) {
        let pods: Vec<PodUsage> = ids.iter().map(|id| pod(*id)).collect();
        let read = decode_pods(&encode_pods(&pods)).unwrap();
        let mut alone: Vec<u8> = ids.iter().copied().filter(|id| ids.iter().filter(|other| *other == id).count() == 1).collect();
        alone.sort_unstable();
        prop_assert_eq!(read, alone.into_iter().map(pod).collect::<Vec<_>>());
    }
}

fn pod(id: u8) -> PodUsage {
    let level = |number: u8| Level::at(number).unwrap();
    PodUsage {
        id: PodId::from_uid(&format!("{id:08x}-0000-4000-8000-000000000000")).unwrap(),
        cpu_p50: level(id),
        cpu_p95: level(id + 1),
        cpu_peak: level(id + 2),
        memory_p95: level(id + 3),
        memory_peak: level(175),
        throttled: 100,
        pressure: 255,
        oom_kills: 1,
        hours: id,
    }
}

#[test]
fn abridged_stays_in_bounds_when_all_cells_are_hit() {
    let (mut histogram, mut joint) = (Histogram::default(), Joint::default());
    for cell in 0..256_u64 {
        for _ in 0..=cell % 7 {
            histogram.add(Level::at(u8::try_from(cell).unwrap()).map_or(0, Level::start), at(0));
            let share = |used| Share { used, of: 16 };
            joint.add(share(cell / 16), share(cell % 16), at(0));
        }
    }
    assert!((240..=300).contains(&histogram.abridged().len()), "{}", histogram.abridged().len());
    assert!((340..=400).contains(&joint.abridged().len()), "{}", joint.abridged().len());
}

#[test]
fn percentile_halves_the_weight_of_samples_each_day() {
    let mut histogram = Histogram::default();
    for minute in 0..1000 {
        histogram.add(100 * FIRST, at(minute * 60));
    }
    assert_eq!(histogram.percentile(500), Some(Level::containing(100 * FIRST)));
    for minute in 0..400 {
        histogram.add(FIRST, at(5 * DAY + minute * 60));
    }
    assert_eq!(
        histogram.percentile(900),
        Some(Level::containing(FIRST)),
        "a thousand samples of five days ago weigh as 31 new ones"
    );
    assert_eq!(histogram.percentile(1000), Some(Level::containing(100 * FIRST)));
    for minute in 0..10 {
        histogram.add(FIRST, at(60 * DAY + minute * 60));
    }
    assert_eq!(histogram.percentile(1000), Some(Level::containing(FIRST)), "after two months nothing is left");
}

#[test]
fn histogram_keeps_samples_when_the_clock_jumps() {
    let mut histogram = counted(&[(FIRST, 100 * DAY), (FIRST, 100 * DAY + 60)]);
    histogram.add(50 * FIRST, at(0));
    assert_eq!(histogram.percentile(600), Some(Level::containing(FIRST)), "what is known counts on");
    histogram.add(50 * FIRST, Timestamp::MIN);
    histogram.add(50 * FIRST, Timestamp::MAX);
    assert_eq!(histogram.percentile(100), Some(Level::containing(50 * FIRST)));
    assert!(!histogram.is_empty() && Histogram::default().is_empty());
}

#[test]
fn pod_id_from_uid_accepts_every_spelling() {
    let id = PodId::from_uid("8f14e45f-ceea-467a-9575-7dbd5c6d4b6a");
    assert!(id.is_some());
    assert_eq!(id, PodId::from_uid("8f14e45f_ceea_467a_9575_7dbd5c6d4b6a"));
    assert_eq!(id, PodId::from_uid("8F14E45FCEEA467A95757DBD5C6D4B6A"));
    assert_eq!([PodId::from_uid(""), PodId::from_uid("8f14e45f"), PodId::from_uid("not-a-uid-at-all")], [None; 3]);
}

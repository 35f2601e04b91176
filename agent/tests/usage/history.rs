//! From samples to the report: correct numbers, a bounded size, and a history that survives a restart.

use std::fs;

use agent::usage::checkpoint::{self, CheckpointError};
use agent::usage::{History, NodeSample, Part, PodSample, UsageSample, report};
use api::nodeusage::NodeUsageSpec;
use api::usage::Usage;
use jiff::{SignedDuration, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use super::tree::uid;

const INSTANCE: &str = "i-0123456789abcdef0";
const PODS: usize = 110;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn start() -> Timestamp {
    "2026-11-21T12:00:00Z".parse().unwrap()
}

/// Returns the time of the sample `index`; samples are 10 s apart.
fn at(index: u64) -> Timestamp {
    start() + SignedDuration::from_secs((index * 10).cast_signed())
}

/// Pseudo-random numbers, the same on every machine.
struct Rng(u64);

impl Rng {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below.max(1)
    }

    /// Returns a number of a random order of magnitude below `2^bits`.
    fn magnitude(&mut self, bits: u64) -> u64 {
        let below = 1 << self.roll(bits);
        self.roll(below)
    }
}

fn wild_sample(rng: &mut Rng) -> UsageSample {
    let part = |rng: &mut Rng| Part { part: rng.roll(10_000_000), whole: 10_000_000 };
    let node = NodeSample {
        cpu: Some(rng.magnitude(38)),
        memory: Some(rng.magnitude(37)),
        memory_total: 128 * GIB,
        pressure: Some(std::array::from_fn(|_| part(rng))),
        throttled: part(rng),
        oom_kills: rng.roll(3),
    };
    let pods = (0..PODS).map(|number| {
        let pod = PodSample {
            cpu: Some(rng.magnitude(37)),
            memory: Some(rng.magnitude(37)),
            pressure: Some(part(rng)),
            throttled: part(rng),
            oom_kills: rng.roll(2),
        };
        (uid(number), pod)
    });
    UsageSample { pods: pods.collect(), node }
}

/// Returns the object as the API server stores it, with the fields that the server adds.
fn stored(spec: &NodeUsageSpec) -> String {
    let name = "ip-10-100-200-201.ap-southeast-2.compute.internal";
    json!({
        "apiVersion": "kerf.sh/v1alpha1",
        "kind": "NodeUsage",
        "metadata": {
            "name": name,
            "uid": uid(1),
            "resourceVersion": "1234567890",
            "generation": 123_456,
            "creationTimestamp": "2026-11-21T12:00:00Z",
            "managedFields": [{
                "apiVersion": "kerf.sh/v1alpha1", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}},
                "manager": "kerf-agent", "operation": "Apply", "time": "2026-11-21T12:00:00Z",
            }],
        },
        "spec": spec,
    })
    .to_string()
}

#[test]
fn report_stays_below_4_kib_with_110_pods() {
    let mut largest = 0;
    for seed in 0..6 {
        let mut rng = Rng(seed);
        let mut history = History::new(start());
        for index in 0..400 {
            history.take(&wild_sample(&mut rng), 96, 10, at(index));
        }
        let spec = report(&mut history, INSTANCE, at(400)).unwrap();
        let size = stored(&spec).len();
        largest = largest.max(size);
        assert!(size < 4096, "{size} bytes: {}", stored(&spec));
        assert_eq!(Usage::read(&spec).unwrap().pods().len(), PODS);
    }
    println!("largest report of {PODS} pods with the wildest histories: {largest} bytes");
}

fn node_sample(cpu: u64, memory: u64) -> NodeSample {
    NodeSample { cpu: Some(cpu), memory: Some(memory), memory_total: 16 * GIB, ..NodeSample::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// Within one hour no sample decays, so the exact percentile is that of the sorted samples.
    #[test]
    fn report_returns_percentiles_and_peaks_of_samples(samples in vec((1..8_000_u64, 64..16_000_u64), 20..200)) {
        let mut history = History::new(start());
        for (index, (millicores, mib)) in (0..).zip(&samples) {
            let pod = PodSample { cpu: Some(millicores * 1_000_000), memory: Some(mib * MIB), ..PodSample::default() };
            let node = node_sample(millicores * 1_000_000, mib * MIB);
            history.take(&UsageSample { node, pods: vec![(uid(5), pod)] }, 8, 10, at(index));
        }
        let now = at(samples.len() as u64 - 1);
        let usage = Usage::read(&report(&mut history, INSTANCE, now).unwrap()).unwrap();
        let exact = |mut values: Vec<u64>, percent: usize| {
            values.sort_unstable();
            values[(values.len() * percent).div_ceil(100) - 1]
        };
        let cpu: Vec<u64> = samples.iter().map(|(cpu, _)| *cpu).collect();
        let memory: Vec<u64> = samples.iter().map(|(_, memory)| memory * MIB).collect();
        for (percent, found) in [(50, usage.cpu.p50), (95, usage.cpu.p95), (99, usage.cpu.p99)] {
            let wanted = exact(cpu.clone(), percent).cast_signed();
            prop_assert!(found >= wanted && found <= wanted + wanted / 20 + 11, "cpu p{percent}: {found} for {wanted}");
        }
        let (wanted, found) = (exact(memory.clone(), 95).cast_signed(), usage.memory.p95);
        prop_assert!(found >= wanted && found <= wanted + wanted / 20 + 12 * MIB.cast_signed(), "{found} for {wanted}");
        prop_assert_eq!(usage.cpu.peak_24h, cpu.iter().max().unwrap().cast_signed());
        prop_assert_eq!(usage.memory.peak_1h, memory.iter().max().unwrap().cast_signed());
        let pod = usage.pod(&uid(5)).unwrap();
        let wanted = exact(cpu, 95);
        prop_assert!(pod.cpu_p95.millicores() >= wanted && pod.cpu_p95.millicores() <= wanted + wanted / 20 + 11);
        prop_assert!(pod.memory_peak.bytes() >= *memory.iter().max().unwrap());
        prop_assert_eq!(usage.pod(&uid(6)), None);
    }
}

#[test]
fn report_limits_pressure_throttling_and_kills_to_windows() {
    let mut history = History::new(start());
    let calm = PodSample {
        cpu: Some(1),
        memory: Some(1),
        pressure: Some(Part { part: 0, whole: 10_000_000 }),
        ..PodSample::default()
    };
    let mut take = |indices: std::ops::Range<u64>, part: u64, kills: u64| {
        for index in indices {
            let waits = Part { part, whole: 10_000_000 };
            let throttled = Part { part: part / 100_000, whole: 100 };
            let node = NodeSample { pressure: Some([waits; 5]), throttled, oom_kills: kills, ..node_sample(1, 1) };
            let pod = PodSample { pressure: Some(waits), throttled, oom_kills: kills, ..calm.clone() };
            history.take(&UsageSample { node, pods: vec![(uid(1), pod)] }, 8, 10, at(index));
        }
        let now = history_end(&history);
        Usage::read(&report(&mut history, INSTANCE, now).unwrap()).unwrap()
    };
    let quiet = take(0..30, 0, 0);
    assert_eq!(quiet.pressure.map(|it| it.memory), Some(0));
    let hard = take(30..60, 3_000_000, 1);
    let pod = *hard.pod(&uid(1)).unwrap();
    assert_eq!((hard.pressure.unwrap().memory_full, hard.throttled, hard.oom_kills), (300, 300, 30));
    assert_eq!((pod.pressure, pod.throttled, pod.oom_kills, pod.hours), (30, 30, 30, 0));
    let later = take(60..60 + 360 + 60, 0, 0);
    assert_eq!(
        (later.pressure.unwrap().io, later.throttled, later.oom_kills),
        (0, 0, 30),
        "an hour later only the kills count"
    );
    let pod = later.pod(&uid(1)).unwrap();
    assert_eq!((pod.pressure, pod.oom_kills, pod.hours), (0, 30, 1));
    let next_day = take(9_400..9_410, 0, 0);
    assert_eq!(next_day.oom_kills, 0);
}

/// Returns the time of the last sample, as the history stores it.
fn history_end(history: &History) -> Timestamp {
    let kept = serde_json::to_value(history).unwrap();
    let pods = kept["pods"].as_object().unwrap();
    pods.values().map(|pod| pod["seen"].as_str().unwrap().parse().unwrap()).max().unwrap()
}

#[test]
fn report_omits_pressure_when_it_is_not_measured() {
    let mut history = History::new(start());
    assert_eq!(report(&mut history, INSTANCE, start()), None, "nothing was measured yet");
    let pod = PodSample { cpu: Some(1), memory: Some(1), ..PodSample::default() };
    history.take(&UsageSample { node: node_sample(1, 1), pods: vec![(uid(1), pod)] }, 2, 10, start());
    let spec = report(&mut history, INSTANCE, start()).unwrap();
    let usage = Usage::read(&spec).unwrap();
    assert_eq!((usage.pressure, usage.pod(&uid(1)).unwrap().pressure), (None, api::usage::UNKNOWN));
    assert!(!serde_json::to_string(&spec).unwrap().contains("pressure"));
}

#[test]
fn history_drops_pods_after_a_long_absence_only() {
    let mut history = History::new(start());
    let sample = |uids: &[usize]| {
        let pod = PodSample { cpu: Some(1), memory: Some(1), ..PodSample::default() };
        UsageSample { node: node_sample(1, 1), pods: uids.iter().map(|number| (uid(*number), pod.clone())).collect() }
    };
    history.take(&sample(&[1, 2]), 2, 10, at(0));
    history.take(&sample(&[1]), 2, 10, at(30));
    let pods = |history: &mut History, index| {
        Usage::read(&report(history, INSTANCE, at(index)).unwrap()).unwrap().pods().len()
    };
    assert_eq!(pods(&mut history, 30), 2);
    history.take(&sample(&[1]), 2, 10, at(61));
    assert_eq!(pods(&mut history, 61), 1);
}

fn learned() -> History {
    let mut rng = Rng(1);
    let mut history = History::new(start());
    for index in 0..50 {
        history.take(&wild_sample(&mut rng), 8, 10, at(index));
    }
    history
}

#[test]
fn checkpoint_restores_history_after_a_restart() {
    let root = tempfile::tempdir().unwrap();
    let mut history = learned();
    assert!(checkpoint::read(root.path(), INSTANCE, start()).unwrap().is_none(), "there is none yet");
    checkpoint::write(root.path(), INSTANCE, &history).unwrap();
    let now = at(100);
    let mut read = checkpoint::read(root.path(), INSTANCE, now).unwrap().unwrap();
    assert_eq!(read, history);
    let reported = report(&mut read, INSTANCE, now).unwrap();
    assert_eq!(reported, report(&mut history, INSTANCE, now).unwrap());
    assert_eq!(reported.since.0, start());
    assert_eq!(fs::read_dir(root.path().join("var/lib/kerf")).unwrap().count(), 1, "nothing is left beside it");
    let size = fs::metadata(root.path().join("var/lib/kerf/usage.json")).unwrap().len();
    assert!(size < 512 * 1024, "{size} bytes");
    assert!(checkpoint::read(root.path(), "i-2", now).unwrap().is_none(), "images are made from machines that ran");
    let early = start() - SignedDuration::from_hours(1);
    let mut early_read = checkpoint::read(root.path(), INSTANCE, early).unwrap().unwrap();
    let reported = report(&mut early_read, INSTANCE, early).unwrap();
    assert!(reported.since.0 <= reported.measured_at.0, "a clock that went back");
}

#[test]
fn checkpoint_read_names_file_when_it_is_invalid() {
    let root = tempfile::tempdir().unwrap();
    checkpoint::write(root.path(), INSTANCE, &learned()).unwrap();
    let path = root.path().join("var/lib/kerf/usage.json");
    let good = fs::read_to_string(&path).unwrap();
    let node_only = |text: &str| text.find("\"pods\"").map(|end| text[..end].to_owned()).unwrap();
    let bad_ring = good.replacen("\"width\":60,", "\"width\":61,", 1);
    let rows: [(&str, String, bool); 7] = [
        ("empty, as after a crash", String::new(), false),
        ("cut off", node_only(&good), false),
        ("no text", "\u{0}\u{1}".to_owned(), false),
        ("a histogram of nonsense", good.replacen("\"spread\":\"", "\"spread\":\"!!", 1), false),
        ("nothing in it", "{}".to_owned(), false),
        ("another version", good.replacen("\"version\":1", "\"version\":2", 1), true),
        ("rings of other measures", bad_ring, true),
    ];
    for (what, text, version) in rows {
        assert_ne!(text, good, "{what}");
        fs::write(&path, &text).unwrap();
        let error = checkpoint::read(root.path(), INSTANCE, start()).unwrap_err();
        assert_eq!(matches!(error, CheckpointError::Version { .. }), version, "{what}: {error}");
        assert!(error.to_string().contains("usage.json"), "{what}: {error}");
    }
    fs::write(&path, &good).unwrap();
    fs::create_dir(path.with_file_name(format!(".usage.json.kerf-{}", std::process::id()))).unwrap();
    let error = checkpoint::write(root.path(), INSTANCE, &History::new(start())).unwrap_err();
    assert!(matches!(error, CheckpointError::File { action: "write", .. }), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), good, "the old file is intact");
}

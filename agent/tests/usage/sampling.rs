//! Consecutive samples: the same numbers from every layout, and robustness against the kernel, vanishing pods and garbage.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use agent::usage::{History, Part, Sampler, report};
use jiff::Timestamp;
use proptest::collection::vec;
use proptest::prelude::*;

use super::tree::{Counters, KINDS, Kind, PodTree, Tree, uid, write};

const MIB: u64 = 1 << 20;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Returns a machine with three pods, one of each QoS class.
fn machine(kind: Kind) -> Tree {
    let mut tree = Tree::new(kind);
    tree.node =
        Counters { cpu_usec: 900, memory: 3000 * MIB, inactive: 1000 * MIB, oom_kills: 7, ..Counters::default() };
    for (number, class) in ["", "burstable", "besteffort"].into_iter().enumerate() {
        tree.pods.insert(uid(number), PodTree::new(class, 2));
        tree.pod(&uid(number)).own =
            Counters { cpu_usec: 5, memory: 300 * MIB, inactive: 100 * MIB, oom_kills: 3, ..Counters::default() };
    }
    tree.write();
    tree
}

#[test]
fn sampler_returns_the_same_for_every_cgroup_layout() {
    for kind in KINDS {
        let mut tree = machine(kind);
        let mut sampler = Sampler::new(tree.path(), "/");
        let first = sampler.sample(seconds(100));
        assert_eq!(first.pods.len(), 3, "{kind:?}");
        assert!(
            first.pods.iter().all(|(_, pod)| pod.cpu.is_none() && pod.memory == Some(200 * MIB)),
            "{kind:?}: {first:?}"
        );
        assert_eq!((first.node.cpu, first.node.memory, first.node.oom_kills), (None, Some(2000 * MIB), 0), "{kind:?}");

        // In ten seconds the machine uses 1.5 CPUs, and a pod uses a quarter of a CPU while its second container is throttled.
        tree.node.cpu_usec += 15_000_000;
        tree.node.oom_kills += 1;
        tree.node.memory_wait += 4_000_000;
        let pod = tree.pod(&uid(1));
        pod.own.cpu_usec += 2_500_000;
        pod.own.io_wait += 1_000_000;
        pod.own.memory = 40 * MIB;
        pod.containers[0] = Counters { periods: 100, throttled: 1, ..Counters::default() };
        pod.containers[1] = Counters { periods: 100, throttled: 60, ..Counters::default() };
        match kind {
            Kind::Systemd | Kind::Cgroupfs => pod.own.oom_kills += 2,
            // v1 counts OOM kills per container.
            _ => pod.containers[1].oom_kills += 2,
        }
        tree.write();
        let second = sampler.sample(seconds(110));
        let node = &second.node;
        assert_eq!((node.cpu, node.oom_kills), (Some(1_500_000_000), 1), "{kind:?}");
        assert_eq!(node.throttled, Part { part: 60, whole: 100 }, "{kind:?}");
        let (found, pod) = &second.pods[second.pods.iter().position(|(it, _)| *it == uid(1)).unwrap()];
        assert_eq!((found, pod.cpu, pod.memory, pod.oom_kills), (&uid(1), Some(250_000_000), Some(0), 2), "{kind:?}");
        assert_eq!(pod.throttled, Part { part: 60, whole: 100 }, "{kind:?}");
        if tree.pressure {
            assert_eq!(pod.pressure, Some(Part { part: 1_000_000, whole: 10_000_000 }), "{kind:?}");
            let waited = node.pressure.unwrap().map(|part| part.part);
            assert_eq!(waited, [0, 4_000_000, 2_000_000, 0, 0], "{kind:?}");
        } else {
            assert_eq!((pod.pressure, node.pressure), (None, None), "{kind:?}");
        }
    }
}

#[test]
fn sampler_finds_pods_below_cgroup_root_of_kubelet() {
    let tree = machine(Kind::Systemd);
    let top = tree.path().join("sys/fs/cgroup");
    fs::create_dir(top.join("mine.slice")).unwrap();
    fs::rename(top.join("kubepods.slice"), top.join("mine.slice/mine-kubepods.slice")).unwrap();
    assert_eq!(Sampler::new(tree.path(), "/mine").sample(seconds(1)).pods.len(), 3);
    assert_eq!(Sampler::new(tree.path(), "/").sample(seconds(1)).pods.len(), 0);
    let tree = machine(Kind::V1Apart);
    let top = tree.path().join("sys/fs/cgroup/memory");
    fs::create_dir(top.join("mine")).unwrap();
    fs::rename(top.join("kubepods"), top.join("mine/kubepods")).unwrap();
    assert_eq!(Sampler::new(tree.path(), "mine/").sample(seconds(1)).pods.len(), 3);
}

#[test]
fn sampler_follows_pods_that_start_end_and_change_class() {
    let mut tree = machine(Kind::Systemd);
    let mut sampler = Sampler::new(tree.path(), "/");
    sampler.sample(seconds(0));
    tree.remove(&uid(0));
    let mut new = PodTree::new("burstable", 1);
    new.own = Counters { cpu_usec: 9, memory: MIB, oom_kills: 1, ..Counters::default() };
    tree.pods.insert(uid(9), new);
    tree.write();
    let sample = sampler.sample(seconds(10));
    let uids: Vec<&String> = sample.pods.iter().map(|(uid, _)| uid).collect();
    assert!(sample.pods.len() == 3 && uids.contains(&&uid(9)) && !uids.contains(&&uid(0)), "{uids:?}");
    let (_, pod) = sample.pods.iter().find(|(it, _)| *it == uid(9)).unwrap();
    assert_eq!((pod.cpu, pod.oom_kills), (None, 1), "killed since the last look, for it was not there before");

    tree.remove(&uid(1));
    tree.pods.insert(uid(1), PodTree::new("besteffort", 0));
    tree.write();
    let sample = sampler.sample(seconds(20));
    let (_, moved) = sample.pods.iter().find(|(it, _)| *it == uid(1)).unwrap();
    assert_eq!(moved.cpu, None, "another cgroup counts from its own beginning");
}

#[test]
fn sampler_skips_pod_when_its_files_vanish() {
    let tree = machine(Kind::Systemd);
    let mut sampler = Sampler::new(tree.path(), "/");
    let here = tree.memory().join(tree.folder(&uid(2)));
    for file in ["cpu.stat", "memory.current"] {
        fs::remove_file(here.join(file)).unwrap();
    }
    assert_eq!(sampler.sample(seconds(0)).pods.len(), 2);
    tree.write();
    assert_eq!(sampler.sample(seconds(10)).pods.len(), 3, "and found again when it is there");
}

#[test]
fn sampler_omits_cpu_when_counter_or_clock_goes_back() {
    let mut tree = machine(Kind::Cgroupfs);
    let mut sampler = Sampler::new(tree.path(), "/");
    tree.node.cpu_usec = 50_000_000;
    tree.pod(&uid(0)).own.cpu_usec = 50_000_000;
    tree.write();
    sampler.sample(seconds(100));
    tree.node.cpu_usec = 1_000_000;
    tree.pod(&uid(0)).own.cpu_usec = 1_000_000;
    tree.node.oom_kills = 0;
    tree.write();
    let back = sampler.sample(seconds(110));
    assert_eq!((back.node.cpu, back.node.oom_kills), (None, 0));
    assert!(back.pods.iter().any(|(it, pod)| *it == uid(0) && pod.cpu.is_none()));
    tree.node.cpu_usec = 11_000_000;
    tree.write();
    assert_eq!(sampler.sample(seconds(120)).node.cpu, Some(1_000_000_000), "and the next look counts from there");
    tree.node.cpu_usec = 12_000_000;
    tree.write();
    assert_eq!(sampler.sample(seconds(120)).node.cpu, None, "no time has passed");
    assert_eq!(sampler.sample(seconds(60)).node.cpu, None, "nor now");
}

#[test]
fn sampler_reads_proc_alone_when_cgroups_are_absent() {
    let mut tree = machine(Kind::Systemd);
    fs::remove_dir_all(tree.path().join("sys")).unwrap();
    let mut sampler = Sampler::new(tree.path(), "/");
    sampler.sample(seconds(0));
    tree.node.cpu_usec += 20_000_000;
    tree.write();
    fs::remove_dir_all(tree.path().join("sys")).unwrap();
    let sample = sampler.sample(seconds(10));
    assert_eq!((sample.node.cpu, sample.node.memory), (Some(2_000_000_000), Some(2000 * MIB)));
    assert_eq!(Sampler::new(&PathBuf::from("/nonexistent"), "/").sample(seconds(0)).pods, []);
}

fn garbage() -> impl Strategy<Value = String> {
    let number = prop_oneof![Just("18446744073709551615".to_owned()), "[0-9]{1,22}", "-?[0-9a-f]{0,4}"];
    let line = (
        prop_oneof![
            Just("usage_usec"),
            Just("nr_periods"),
            Just("nr_throttled"),
            Just("inactive_file"),
            Just("oom_kill"),
            Just("MemTotal:"),
            Just("MemFree:"),
            Just("some avg10=0 total="),
            Just("")
        ],
        number,
    )
        .prop_map(|(key, number)| format!("{key} {number}\n").replace("= ", "="));
    prop_oneof![
        vec(line, 0..6).prop_map(|lines| lines.concat()),
        any::<Vec<u8>>().prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any content of the files and any clock values: a sample ends, and its result can be reported and read.
    #[test]
    fn sampler_and_report_survive_garbage_in_files(
        kind in 0..KINDS.len(),
        rounds in vec((vec((0..400_usize, garbage()), 0..12), any::<u32>(), any::<i32>()), 1..8),
    ) {
        let tree = machine(KINDS[kind]);
        let files = files(tree.path().to_owned());
        let mut sampler = Sampler::new(tree.path(), "/");
        let mut history = History::new(Timestamp::UNIX_EPOCH);
        for (texts, mono, wall) in rounds {
            for (file, text) in texts {
                write(&files[file % files.len()], &text);
            }
            let now = Timestamp::from_second(i64::from(wall) * 100).unwrap();
            let sample = sampler.sample(Duration::from_millis(mono.into()));
            history.take(&sample, 2, 10, now);
            if let Some(spec) = report(&mut history, "i-1", now) {
                let read = api::usage::Usage::read(&spec).unwrap();
                prop_assert!(read.pods().len() <= 3 && read.since <= read.measured_at);
                prop_assert!(read.throttled <= 1000 && read.pressure.is_none_or(|it| it.memory <= 1000 && it.io_full <= 1000));
            }
        }
    }
}

fn files(folder: PathBuf) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(path)) } else { found.push(path) }
    }
    found.sort();
    found
}

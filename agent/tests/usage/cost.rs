//! Work of one sample, counted in system calls: numbers that do not depend on the machine. `make peers` measures the CPU time.

use std::fs;
use std::time::Duration;

use agent::usage::{History, Sampler, report};
use jiff::{SignedDuration, Timestamp};

use super::tree::{Kind, PodTree, Tree, uid};

const SAMPLES: u64 = 20;

/// Unit file of the agent. Its limit of open files must leave `OTHERS` files for the rest of the agent.
const UNIT: &str = include_str!("../../../systemd/kerf-agent.service");
const OTHERS: usize = 256;

/// Returns the number of `read` calls of this thread so far; `None` where the kernel does not count them.
fn reads() -> Option<u64> {
    let text = fs::read_to_string("/proc/thread-self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("syscr: "))?.parse().ok()
}

/// Returns a machine with `pods` pods of `containers` containers each.
fn tree(pods: usize, containers: usize) -> Tree {
    let mut tree = Tree::new(Kind::Systemd);
    for number in 0..pods {
        let class = ["", "burstable", "besteffort"][number % 3];
        tree.pods.insert(uid(number), PodTree::new(class, containers));
    }
    tree.write();
    tree
}

/// Returns the number of files that stay open between samples.
fn kept_open(pods: usize, containers: usize) -> usize {
    let tree = tree(pods, containers);
    let mut sampler = Sampler::new(tree.path(), "/");
    (0..3).for_each(|sample| drop(sampler.sample(Duration::from_secs(sample * 10))));
    let open = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    open.filter(|path| path.starts_with(tree.path())).count()
}

/// Returns the number of `read` calls of one sample and its report; `None` where the kernel does not count them.
fn reads_per_sample(pods: usize) -> Option<u64> {
    let tree = tree(pods, 2);
    let mut sampler = Sampler::new(tree.path(), "/");
    let start: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
    let mut history = History::new(start);
    // The first sample opens all files.
    sampler.sample(Duration::ZERO);
    let before = reads()?;
    for sample in 1..=SAMPLES {
        let seconds = sample * 10;
        let sample = sampler.sample(Duration::from_secs(seconds));
        let now = start + SignedDuration::from_secs(seconds.cast_signed());
        history.take(&sample, 8, 10, now);
        let _ = std::hint::black_box(report(&mut history, "i-1", now));
    }
    Some((reads()? - before) / SAMPLES)
}

#[test]
fn sampler_reads_each_open_file_once() {
    let (Some(none), Some(full)) = (reads_per_sample(0), reads_per_sample(110)) else {
        return skip::report("the kernel does not count reads (/proc/thread-self/io)");
    };
    let files = u64::try_from(kept_open(110, 2) - kept_open(0, 0)).unwrap();
    println!(
        "reads of a sample: {none} without pods, {full} with 110 pods of two containers, which have {files} open files"
    );
    assert!((none..=none + files).contains(&full), "{full} reads for {files} files");
}

#[test]
fn sampler_keeps_all_files_of_a_full_machine_open() {
    let machine = kept_open(0, 0);
    let (pod, container) = (kept_open(1, 0) - machine, kept_open(1, 1) - kept_open(1, 0));
    assert_eq!((pod, container), (6, 1), "what the unit says of a pod and of a container");
    assert_eq!(kept_open(10, 3), machine + 10 * (pod + 3 * container));
    let limit = UNIT.lines().find_map(|line| line.strip_prefix("LimitNOFILE=")).unwrap();
    let limit: usize = limit.parse().unwrap();
    assert!(machine + 250 * (pod + 5 * container) + OTHERS <= limit, "250 pods of five containers");
}

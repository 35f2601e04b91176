//! What looking costs, in CPU time of this thread: figures that do not depend on what else the machine does.

use std::fs;
use std::time::Duration;

use agent::usage::{History, Sampler, report};
use jiff::{SignedDuration, Timestamp};

use crate::tree::{Kind, PodTree, Tree, uid};

/// Percent of a core that ten-second looks may take with 110 pods of two containers; the agent's build is to do with a fraction.
const MOST: f64 = 0.3;
const LOOKS: u32 = 200;

/// The unit, and what it leaves of its open files for the rest of the agent.
const UNIT: &str = include_str!("../../../systemd/kerf-agent.service");
const OTHERS: usize = 256;

/// CPU time of this thread in seconds.
fn spent() -> f64 {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1e9
}

/// A machine with so many pods of so many containers.
fn tree(pods: usize, containers: usize) -> Tree {
    let mut tree = Tree::new(Kind::Systemd);
    for number in 0..pods {
        let class = ["", "burstable", "besteffort"][number % 3];
        tree.pods.insert(uid(number), PodTree::new(class, containers));
    }
    tree.write();
    tree
}

/// Files that stay open between looks.
fn kept_open(pods: usize, containers: usize) -> usize {
    let tree = tree(pods, containers);
    let mut sampler = Sampler::new(tree.path(), "/");
    (0..3).for_each(|look| drop(sampler.look(Duration::from_secs(look * 10))));
    let open = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    open.filter(|path| path.starts_with(tree.path())).count()
}

/// Percent of a core for looks every ten seconds, each with its report.
fn percent(pods: usize) -> f64 {
    let tree = tree(pods, 2);
    let mut sampler = Sampler::new(tree.path(), "/");
    let start: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
    let mut history = History::new(start);
    let before = spent();
    for look in 0..LOOKS {
        let seconds = u64::from(look) * 10;
        let sample = sampler.look(Duration::from_secs(seconds));
        let now = start + SignedDuration::from_secs(seconds.cast_signed());
        history.take(&sample, 8, 10, now);
        let _ = std::hint::black_box(report(&mut history, "i-1", now));
    }
    (spent() - before) / f64::from(LOOKS * 10) * 100.0
}

#[test]
fn looking_costs_next_to_nothing() {
    let (none, full) = (percent(0), percent(110));
    println!("looks every 10 s: {none:.4} % of a core without pods, {full:.4} % with 110");
    assert!(full < MOST, "{full} %");
    assert!(none < full);
}

#[test]
fn all_files_of_a_full_machine_stay_open() {
    let machine = kept_open(0, 0);
    let (pod, container) = (kept_open(1, 0) - machine, kept_open(1, 1) - kept_open(1, 0));
    assert_eq!((pod, container), (6, 1), "what the unit says of a pod and of a container");
    assert_eq!(kept_open(10, 3), machine + 10 * (pod + 3 * container));
    let limit = UNIT.lines().find_map(|line| line.strip_prefix("LimitNOFILE=")).unwrap();
    let limit: usize = limit.parse().unwrap();
    assert!(machine + 250 * (pod + 5 * container) + OTHERS <= limit, "250 pods of five containers");
}

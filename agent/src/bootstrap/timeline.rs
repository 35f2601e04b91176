//! Times at which this machine reached each stage of its start. Bootstrap and the running agent write them into one file. The
//! times are published on the Node and as metrics, so that a slow stage is visible.
//!
//! The stages before the agent are computed from `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use api::timeline::{KERNEL, SYSTEMD};
use jiff::{SignedDuration, Timestamp};
use nix::unistd::{SysconfVar, sysconf};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::host::files::replace;

/// Path of the file, on tmpfs.
pub const PATH: &str = "/run/kerf/timeline.json";

/// Longest time between the start of the kernel and that of the agent. Later, the agent was installed on a running machine.
const LONGEST_BOOT: SignedDuration = SignedDuration::from_hours(1);

/// Stage in which IMDS has returned the identity of the machine.
pub const IMDS: &str = "imds";
/// Stage in which IMDS has returned the role's credentials.
pub const CREDENTIALS: &str = "credentials";
/// Stage in which all files of the node are written.
pub const CONFIG: &str = "config-written";
/// Stage in which the container runtime's unit is active.
pub const CONTAINERD: &str = "containerd-up";
/// Stage in which kubelet's unit is active.
pub const KUBELET: &str = "kubelet-up";
/// Stage in which the API server has the Node.
pub const NODE: &str = "node-seen";
/// Prefix of the stage in which a gate has opened; the name of the gate is appended.
pub const GATE: &str = "gate-";
/// Stage in which all gates are open.
pub const READY: &str = "ready";
/// Stage in which the first pod runs, including pods of DaemonSets.
pub const POD: &str = "first-pod-running";

/// Stages with the times at which they were first reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timeline {
    /// Start of the agent.
    pub start: Option<Timestamp>,
    /// Times by stage.
    pub stages: BTreeMap<String, Timestamp>,
}

impl Timeline {
    /// Sets the start to `now`, unless it is set.
    pub fn begin(&mut self, now: Timestamp) {
        self.start.get_or_insert(now);
    }

    /// Records the stages of the boot before the agent, from `/proc` below `root`.
    pub fn boot(&mut self, root: &Path, now: Timestamp) {
        let Some(kernel) = kernel_start(root, now) else { return };
        if self.start.is_some_and(|start| start.duration_since(kernel) > LONGEST_BOOT) {
            return;
        }
        self.reach(KERNEL, kernel);
        if let Some(systemd) = systemd_start(root, kernel) {
            self.reach(SYSTEMD, systemd);
        }
    }

    /// Records that `stage` was reached at `now`; reports whether it is new.
    pub fn reach(&mut self, stage: &str, now: Timestamp) -> bool {
        if self.stages.contains_key(stage) {
            return false;
        }
        self.begin(now);
        self.stages.insert(stage.to_owned(), now);
        true
    }

    /// Merges the timeline of another program; of two times the earlier one counts. Reports whether anything changed.
    pub fn merge(&mut self, other: &Self) -> bool {
        let before = self.clone();
        self.start = [self.start, other.start].into_iter().flatten().min();
        for (stage, at) in &other.stages {
            let known = self.stages.entry(stage.clone()).or_insert(*at);
            *known = (*at).min(*known);
        }
        *self != before
    }

    /// Returns the milliseconds from the start to each stage, in the order in which they were reached. The stages of the boot
    /// before the agent are negative.
    #[must_use]
    pub fn steps(&self) -> Vec<(&str, i64)> {
        let Some(start) = self.start else {
            return Vec::new();
        };
        let since = |at: Timestamp| i64::try_from(at.duration_since(start).as_millis()).unwrap_or(0);
        let mut steps: Vec<(&str, i64)> = self.stages.iter().map(|(stage, at)| (stage.as_str(), since(*at))).collect();
        steps.sort_by_key(|(_, at)| *at);
        steps
    }

    /// Returns the value of the Node's annotation: the start, and milliseconds from there, in one line of JSON.
    #[must_use]
    pub fn annotation(&self) -> Option<String> {
        let start = format!("{:.3}", self.start?);
        let mut line = json!({"start": start});
        for (stage, at) in self.steps() {
            line[stage] = json!(at);
        }
        Some(line.to_string())
    }

    /// Reads the file below `root`; empty where there is none, or where it is no timeline.
    #[must_use]
    pub fn read(root: &Path) -> Self {
        fs::read(file(root)).ok().and_then(|text| machine::document::read_json(&text).ok()).unwrap_or_default()
    }

    /// Merges the file below `root`, and replaces it.
    ///
    /// # Errors
    /// The file system returned an error; the old file is then intact.
    pub fn keep(&mut self, root: &Path) -> io::Result<()> {
        self.merge(&Self::read(root));
        replace(&file(root), &serde_json::to_vec(self)?)
    }
}

/// Returns the start of the kernel.
fn kernel_start(root: &Path, now: Timestamp) -> Option<Timestamp> {
    let text = fs::read_to_string(root.join("proc/uptime")).ok()?;
    let uptime: f64 = text.split_whitespace().next()?.parse().ok()?;
    now.checked_sub(SignedDuration::try_from_secs_f64(uptime).ok()?).ok()
}

/// Returns the start of the first process, which is systemd; in images with an initrd that of its systemd.
fn systemd_start(root: &Path, kernel: Timestamp) -> Option<Timestamp> {
    /// Position of the start time among the fields after the name of the program, which may contain spaces.
    const START_TIME: usize = 19;
    let text = fs::read_to_string(root.join("proc/1/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    let ticks: i64 = fields.split_whitespace().nth(START_TIME)?.parse().ok()?;
    let per_second = sysconf(SysconfVar::CLK_TCK).ok()??;
    kernel.checked_add(SignedDuration::from_millis(ticks.checked_mul(1000)? / per_second)).ok()
}

fn file(root: &Path) -> PathBuf {
    root.join(PATH.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_millis(milliseconds)
    }

    #[test]
    fn steps_are_in_the_order_in_which_they_were_reached() {
        let mut line = Timeline::default();
        assert_eq!(line.annotation(), None);
        line.begin(at(1000));
        assert!(line.reach(IMDS, at(1012)) && !line.reach(IMDS, at(5000)));
        assert!(line.reach("gate-CNI", at(9000)) && line.reach(CONFIG, at(1040)));
        assert_eq!(line.steps(), [(IMDS, 12), (CONFIG, 40), ("gate-CNI", 8000)]);
        let expected = r#"{"config-written":40,"gate-CNI":8000,"imds":12,"start":"1970-01-01T00:00:01.000Z"}"#;
        assert_eq!(line.annotation().as_deref(), Some(expected));
    }

    #[test]
    fn boot_records_kernel_and_systemd_of_a_machine_that_just_started() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let mut unknown = Timeline::default();
        unknown.begin(at(20_000));
        unknown.boot(root.path(), at(20_000));
        assert_eq!(unknown.steps(), [], "without /proc");

        let ticks = sysconf(SysconfVar::CLK_TCK).unwrap().unwrap() * 2;
        write("proc/uptime", "12.50 40.00\n");
        write("proc/1/stat", &format!("1 (system (d) S {} {ticks} 1 2\n", vec!["0"; 18].join(" ")));
        let mut started = Timeline::default();
        started.begin(at(20_000));
        started.boot(root.path(), at(20_000));
        assert_eq!(started.steps(), [(KERNEL, -12_500), (SYSTEMD, -10_500)]);
        let expected = r#"{"kernel-started":-12500,"start":"1970-01-01T00:00:20.000Z","systemd-started":-10500}"#;
        assert_eq!(started.annotation().as_deref(), Some(expected));
        started.boot(root.path(), at(90_000));
        assert_eq!(started.steps(), [(KERNEL, -12_500), (SYSTEMD, -10_500)], "the first times count");

        let mut installed = Timeline::default();
        write("proc/uptime", "4000.00 40.00\n");
        installed.begin(at(5_000_000));
        installed.boot(root.path(), at(5_000_000));
        assert_eq!(installed.steps(), [], "the machine has run for more than an hour");
    }

    #[test]
    fn keep_merges_the_earlier_time_when_two_programs_write() {
        let folder = std::env::temp_dir().join(format!("kerf-timeline-{}", std::process::id()));
        let (mut first, mut second) = (Timeline::default(), Timeline::default());
        first.begin(at(10));
        first.reach(KUBELET, at(90));
        second.reach(NODE, at(100));
        second.reach(KUBELET, at(200));
        assert!(first.keep(&folder).is_ok() && second.keep(&folder).is_ok());
        assert_eq!(second.steps(), [(KUBELET, 80), (NODE, 90)]);
        assert_eq!(Timeline::read(&folder), second);
        assert!(!second.merge(&first), "it knows all of that");
        assert!(fs::write(file(&folder), "half a").is_ok());
        assert_eq!(Timeline::read(&folder), Timeline::default());
        assert!(fs::remove_dir_all(&folder).is_ok());
    }
}

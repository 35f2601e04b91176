//! Checks of disks: free space, writability and latency. Files below `/proc` stay open.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use machine::agent::health::Percent;
use nix::sys::statvfs::statvfs;

use super::text::Text;
use super::{CheckRun, check};
use crate::bootstrap::observe;

/// Folders to which a node must write, below the machine's root.
const FOLDERS: [&str; 3] = ["/", "/var/lib/kubelet", "/var/lib/containerd"];
/// Latency of a slow disk, in milliseconds per request.
const SLOW: u64 = 1000;
/// Latency of a hung disk, in milliseconds per request.
const USELESS: u64 = 10_000;

/// Returns the use in percent, of bytes or inodes, the greater of both.
fn fill(path: &Path) -> Option<u64> {
    let found = statvfs(path).ok()?;
    let percent = |total: u64, free: u64, available: u64| {
        let used = total.saturating_sub(free);
        (used * 100).checked_div(used + available).unwrap_or(0)
    };
    let bytes = percent(found.blocks(), found.blocks_free(), found.blocks_available());
    let inodes = percent(found.files(), found.files_free(), found.files_available());
    Some(bytes.max(inodes))
}

/// Checks for free space.
pub(super) fn full(root: &Path, limit: Percent) -> CheckRun {
    let full = FOLDERS.iter().find_map(|folder| {
        let fill = fill(&root.join(folder.trim_start_matches('/')))?;
        (fill >= u64::from(limit.0)).then(|| format!("{folder} is {fill} % full, in bytes or inodes"))
    });
    CheckRun { check: check::DISK_FULL, trouble: full }
}

/// Checks for a file system that the kernel has shut down, whose folders can no longer be opened.
pub(super) fn shut_down(root: &Path) -> CheckRun {
    let fails = |folder: &&&str| {
        let opened = File::open(root.join(folder.trim_start_matches('/')));
        opened.is_err_and(|error| error.raw_os_error() == Some(nix::errno::Errno::EIO as i32))
    };
    let lost = FOLDERS.iter().find(fails).map(|folder| format!("{folder} cannot be opened: input/output error"));
    CheckRun { check: check::SHUT_DOWN, trouble: lost }
}

/// Parses mount points, and whether the file system of each is read-only. The flag of the file system counts, not that of the
/// mount: the agent's unit sees all mounts read-only.
fn read_only(mounts: &str) -> BTreeMap<&str, bool> {
    let mount = |line| {
        let (mount, system): (&str, &str) = str::split_once(line, " - ")?;
        let point = mount.split(' ').nth(4)?;
        let options = system.split(' ').nth(2)?;
        Some((point, options.split(',').any(|option| option == "ro")))
    };
    let mut points = BTreeMap::new();
    points.extend(mounts.lines().filter_map(mount));
    points
}

/// Check of writability, by the kernel's list of mounts.
#[derive(Debug)]
pub(super) struct Mounts {
    mounts: Text,
    /// Set on Bottlerocket, whose root is always read-only.
    sealed: bool,
}

impl Mounts {
    pub(super) fn new(root: &Path) -> Self {
        Self { mounts: Text::new(root.join("proc/self/mountinfo")), sealed: observe::is_bottlerocket(root) }
    }

    pub(super) fn check(&mut self) -> Vec<CheckRun> {
        let Some(text) = self.mounts.read() else { return Vec::new() };
        let mounts = read_only(text);
        let below = |folder: &str| {
            let holds = |point: &&&str| {
                **point == "/"
                    || folder == **point
                    || folder.strip_prefix(**point).is_some_and(|rest| rest.starts_with('/'))
            };
            mounts.keys().filter(holds).max_by_key(|point| point.len()).copied()
        };
        let is_read_only = |folder: &str| below(folder).is_some_and(|point| mounts.get(point) == Some(&true));
        let root = is_read_only("/") && !self.sealed;
        let [_, folders @ ..] = FOLDERS;
        // A folder on the root file system is covered by the check of the root.
        let folder = folders.into_iter().find(|folder| below(folder) != Some("/") && is_read_only(folder));
        vec![
            CheckRun {
                check: check::READ_ONLY_ROOT,
                trouble: root.then(|| "the root file system is read-only".to_owned()),
            },
            CheckRun { check: check::READ_ONLY, trouble: folder.map(|folder| format!("{folder} is not writable")) },
        ]
    }
}

/// Totals of one disk since boot: completed requests, their milliseconds, milliseconds in which the disk was busy, and requests
/// in progress.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    done: u64,
    waited: u64,
    busy: u64,
    under_way: u64,
}

/// Check of disk latency.
#[derive(Debug)]
pub(super) struct Speed {
    stats: Text,
    before: BTreeMap<String, Totals>,
}

impl Speed {
    pub(super) fn new(root: &Path) -> Self {
        Self { stats: Text::new(root.join("proc/diskstats")), before: BTreeMap::new() }
    }

    pub(super) fn check(&mut self) -> Vec<CheckRun> {
        let (mut slow, mut hung) = (None, None);
        let Some(text) = self.stats.read() else { return Vec::new() };
        for (name, now) in text.lines().filter_map(totals) {
            if let Some(before) = self.before.get(name) {
                slow = slow.or_else(|| complaint(name, *before, now, SLOW));
                hung = hung.or_else(|| complaint(name, *before, now, USELESS));
            }
            match self.before.get_mut(name) {
                Some(before) => *before = now,
                None => drop(self.before.insert(name.to_owned(), now)),
            }
        }
        vec![CheckRun { check: check::DISK_SLOW, trouble: slow }, CheckRun { check: check::DISK_HUNG, trouble: hung }]
    }
}

fn complaint(name: &str, before: Totals, now: Totals, limit: u64) -> Option<String> {
    let done = now.done.saturating_sub(before.done);
    let busy = now.busy.saturating_sub(before.busy);
    if done == 0 {
        let stuck = now.under_way > 0 && busy >= limit;
        return stuck.then(|| format!("disk {name} completed no request for {busy} ms"));
    }
    let mean = now.waited.saturating_sub(before.waited) / done;
    (mean >= limit).then(|| format!("disk {name} takes {mean} ms per request"))
}

/// Parses the line of a whole disk in `/proc/diskstats`.
fn totals(line: &str) -> Option<(&str, Totals)> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let name = *fields.get(2)?;
    let number = |index: usize| fields.get(index).and_then(|text| text.parse::<u64>().ok());
    let totals = Totals {
        done: number(3)? + number(7)?,
        waited: number(6)? + number(10)?,
        under_way: number(11)?,
        busy: number(12)?,
    };
    is_disk(name).then_some((name, totals))
}

fn is_disk(name: &str) -> bool {
    if let Some(rest) = name.strip_prefix("nvme") {
        return !rest.contains('p');
    }
    let drive = ["sd", "xvd", "vd"].iter().any(|kind| name.starts_with(kind));
    drive && !name.ends_with(|last: char| last.is_ascii_digit())
}

//! Checks of kubelet and the container runtime: whether they run, and whether they restart repeatedly. No program runs while no
//! problem exists: a unit's control group lists its processes. Only when the group is empty is systemd queried for the state.

use std::path::{Path, PathBuf};
use std::time::Duration;

use drain::Millis;
use tokio::net::UnixStream;

use super::check::{self, Check};
use super::text::Text;
use super::{CheckRun, Incident, Quota};
use crate::host::Host;

/// Socket of the runtime, below the machine's root.
const SOCKET: &str = "run/containerd/containerd.sock";
/// Slices to which images assign the units.
const SLICES: [&str; 3] = ["runtime.slice", "system.slice", "kubelet.slice"];
/// Number of checks that skip systemd after it had no such unit: each query would run a program for nothing.
const UNASKED: u8 = 20;
/// Number of restarts within a time that is a problem.
const RESTARTS: Quota = Quota { times: 3, within: Duration::from_secs(600) };

/// A systemd unit.
#[derive(Debug)]
pub(super) struct Unit {
    name: String,
    groups: Vec<Text>,
    /// First process of the unit at the last check.
    process: Option<u32>,
    restarts: Check,
    /// Remaining checks that skip systemd.
    unasked: u8,
}

impl Unit {
    pub(super) fn new(root: &Path, name: &str, restarts: Check) -> Self {
        let hierarchies = ["sys/fs/cgroup", "sys/fs/cgroup/systemd"];
        let folders = hierarchies.iter().flat_map(|folder| SLICES.map(|slice| root.join(folder).join(slice)));
        let groups = folders.map(|folder| Text::new(folder.join(name).join("cgroup.procs"))).collect();
        Self { name: name.to_owned(), groups, process: None, restarts, unasked: 0 }
    }

    /// Returns the unit's first process, if any.
    fn process(&mut self) -> Option<u32> {
        let texts = self.groups.iter_mut().filter_map(Text::read);
        texts.flat_map(str::lines).find_map(|line| line.trim().parse().ok())
    }

    /// Detects a restart by another process than at the last check. Reports also whether the unit has a process.
    fn restarted(&mut self, now: Millis) -> (bool, Option<Incident>) {
        let process = self.process();
        let before = self.process;
        self.process = process.or(before);
        let another = before.is_some() && process.is_some() && process != before;
        let incident = another.then(|| Incident {
            check: self.restarts.clone(),
            quota: RESTARTS,
            at: now,
            text: format!("{} restarted", self.name),
        });
        (process.is_some(), incident)
    }

    /// Queries systemd for the state of a unit without processes. Without systemd or such a unit, the next queries are skipped
    /// for a while.
    async fn state(&mut self, host: &Host) -> State {
        self.unasked = self.unasked.saturating_sub(1);
        if self.unasked > 0 {
            return State::Unknown;
        }
        let properties = "--property=LoadState,ActiveState,SubState,Result,NRestarts";
        let said = host.output("systemctl", &["show", &self.name, properties]).await.unwrap_or_default();
        let property = |name: &str| said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        let state = match (property("LoadState"), property("ActiveState")) {
            (Some("loaded"), Some("active" | "reloading")) => State::Runs,
            (Some("loaded"), Some(active)) => {
                let part = |name: &str| property(name).unwrap_or("unknown");
                let (sub, result, restarts) = (part("SubState"), part("Result"), part("NRestarts"));
                State::Down(format!("{} is {active} ({sub}), result {result}, {restarts} restarts", self.name))
            }
            _ => State::Unknown,
        };
        if state == State::Unknown {
            self.unasked = UNASKED;
        }
        state
    }
}

/// State of a unit in systemd.
#[derive(Debug, PartialEq, Eq)]
enum State {
    Unknown,
    Runs,
    Down(String),
}

/// Checks kubelet's unit; no result where its state is unknown.
pub(super) async fn kubelet(unit: &mut Unit, host: &Host, now: Millis) -> (Option<CheckRun>, Option<Incident>) {
    let (runs, incident) = unit.restarted(now);
    let state = if runs { State::Runs } else { unit.state(host).await };
    let trouble = match state {
        State::Unknown => return (None, incident),
        State::Runs => None,
        State::Down(why) => Some(why),
    };
    (Some(CheckRun { check: check::KUBELET_FAILED, trouble }), incident)
}

/// Checks the runtime's unit. Its shims outlive it in its control group, so its socket shows whether it runs.
pub(super) async fn runtime(
    unit: &mut Unit,
    root: &Path,
    host: &Host,
    now: Millis,
) -> (Option<CheckRun>, Option<Incident>) {
    let (_, incident) = unit.restarted(now);
    let socket: PathBuf = root.join(SOCKET);
    let trouble = match UnixStream::connect(&socket).await {
        Ok(_) => None,
        Err(error) => {
            let why = match unit.state(host).await {
                State::Unknown if !socket.exists() => return (None, incident),
                State::Down(why) => why,
                State::Unknown | State::Runs => unit.name.clone(),
            };
            Some(format!("{why}: /{SOCKET} refuses connections: {error}"))
        }
    };
    (Some(CheckRun { check: check::RUNTIME_FAILED, trouble }), incident)
}

//! Tasks that the kernel reported as blocked, and whether they still are. The kernel logs a blocked task only a few times, and
//! never logs the end.

use std::path::{Path, PathBuf};

use super::{CheckRun, check, patterns};

/// Greatest number of tasks that are kept; the kernel itself reports ten by default.
const MOST: usize = 16;

/// Tasks that are blocked.
#[derive(Debug)]
pub(super) struct Hung {
    proc: PathBuf,
    named: Vec<Task>,
}

#[derive(Debug)]
struct Task {
    id: u32,
    /// Name in the kernel's message.
    name: String,
    /// Number of context switches at the last check.
    switches: Option<u64>,
}

impl Hung {
    pub(super) fn new(root: &Path) -> Self {
        Self { proc: root.join("proc"), named: Vec::new() }
    }

    /// Records a kernel message about a task: `INFO: task NAME:ID blocked for more than 122 seconds.`
    pub(super) fn observe(&mut self, text: &str) {
        let Some((name, id)) = patterns::hung_task(text) else {
            return;
        };
        if self.named.len() < MOST && self.named.iter().all(|task| task.id != id) {
            self.named.push(Task { id, name: name.to_owned(), switches: None });
        }
    }

    /// Checks whether one of the tasks is still blocked. Tasks that continued or ended are dropped.
    pub(super) fn check(&mut self) -> CheckRun {
        let proc = &self.proc;
        self.named.retain_mut(|task| hangs(proc, task));
        let trouble = self.named.first().map(|task| {
            let others = self.named.len() - 1;
            let more = if others == 0 { String::new() } else { format!(" and {others} more") };
            format!("task {} ({}) is blocked in the kernel{more}", task.name, task.id)
        });
        CheckRun { check: check::TASK_HUNG, trouble }
    }
}

/// Reports whether a task waits in the kernel and has not run since the last check.
fn hangs(proc: &Path, task: &mut Task) -> bool {
    let Ok(status) = std::fs::read_to_string(proc.join(task.id.to_string()).join("status")) else {
        return false;
    };
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    let switches =
        ["voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"].map(|name| field(name)?.parse::<u64>().ok());
    let switches = switches.into_iter().sum::<Option<u64>>();
    let before = std::mem::replace(&mut task.switches, switches);
    field("State").is_some_and(|state| state.starts_with('D')) && before.is_none_or(|before| Some(before) == switches)
}

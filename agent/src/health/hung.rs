//! Tasks that the kernel has called hung, and whether they still are: its log says it a few times and then no more, and never that it is
//! over.

use std::path::{Path, PathBuf};

use super::{CheckRun, check};

/// Tasks that are remembered; the kernel itself names ten by default.
const MOST: usize = 16;

/// The tasks that hang, as far as anyone knows.
#[derive(Debug)]
pub(super) struct Hung {
    proc: PathBuf,
    named: Vec<Task>,
}

#[derive(Debug)]
struct Task {
    id: u32,
    /// As the kernel named it.
    name: String,
    /// How often it had been given a CPU at the last look.
    switches: Option<u64>,
}

impl Hung {
    pub(super) fn new(root: &Path) -> Self {
        Self { proc: root.join("proc"), named: Vec::new() }
    }

    /// Takes in what the kernel said of a task: `INFO: task NAME:ID blocked for more than 122 seconds.`
    pub(super) fn hear(&mut self, text: &str) {
        let Some((name, id)) = named(text) else {
            return;
        };
        if self.named.len() < MOST && self.named.iter().all(|task| task.id != id) {
            self.named.push(Task { id, name: name.to_owned(), switches: None });
        }
    }

    /// Whether one of them hangs still; those that went on, or ended, are forgotten.
    pub(super) fn look(&mut self) -> CheckRun {
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

fn named(text: &str) -> Option<(&str, u32)> {
    let (task, _) = text.split_once("task ")?.1.split_once(" blocked for more than ")?;
    let (name, id) = task.rsplit_once(':')?;
    Some((name, id.parse().ok()?))
}

/// A task hangs that waits in the kernel and has not run since the last look.
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

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn tasks_are_named_as_the_kernel_does() {
        let rows = [
            ("INFO: task kworker/u8:2:1234 blocked for more than 122 seconds.", Some(("kworker/u8:2", 1234))),
            ("INFO: task java:7 blocked for more than 245 seconds.", Some(("java", 7))),
            ("INFO: task khungtaskd blocked for more than 245 seconds.", None),
            ("a task was blocked", None),
        ];
        for (text, expected) in rows {
            assert_eq!(named(text), expected, "{text}");
        }
    }
}

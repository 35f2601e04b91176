//! Messages of the kernel that are problems. The kernel repeats texts that a workload chooses: a record may begin with the name
//! of a process, which has at most 15 bytes, and may contain the name of a file. So each pattern is compared with the whole shape
//! of a record. A message alone never proves a lasting problem: that is the task of the checks.

use std::time::Duration;

use super::Quota;
use super::check::{self, Check};

/// Time after which a problem that does not recur is over.
const WINDOW: Duration = Duration::from_secs(10 * 60);
/// Time after which an error of hardware or a file system that does not recur is over.
const LONG: Duration = Duration::from_secs(60 * 60);
/// Number of words of which one begins an error of a Neuron device: the driver and the runtime may write a name or a time first.
const NEURON_WORDS: usize = 2;

/// A pattern, with the check to which its messages belong.
type Row = (fn(&str) -> bool, Check, Quota);

/// Returns the check to which a message belongs, and the number of such messages that is a problem.
pub(super) fn classify(text: &str) -> Option<(Check, Quota)> {
    const ONCE: Quota = Quota { times: 1, within: WINDOW };
    const ROWS: [Row; 7] = [
        (is_out_of_memory, check::OOM_LOOP, Quota { times: 3, within: WINDOW }),
        (is_hung_task, check::HUNG_TASK, ONCE),
        (is_soft_lockup, check::SOFT_LOCKUP, ONCE),
        (is_kernel_bug, check::KERNEL_BUG, ONCE),
        (is_full_conntrack, check::CONNTRACK, ONCE),
        (is_disk_error, check::DISK_ERROR, ONCE),
        (is_shut_down, check::SHUT_DOWN, Quota { times: 1, within: LONG }),
    ];
    if let Some(number) = xid(text) {
        let check = Check::xid(number);
        let within = if check.fatal { LONG } else { WINDOW };
        return Some((check, Quota { times: 1, within }));
    }
    if let Some(check) = neuron(text) {
        return Some((check, Quota { times: 1, within: LONG }));
    }
    ROWS.into_iter().find(|(is_match, ..)| is_match(text)).map(|(_, check, quota)| (check, quota))
}

/// `Out of memory: Killed process 4242 (java) total-vm:...`
fn is_out_of_memory(text: &str) -> bool {
    text.starts_with("Out of memory: Killed process ")
}

/// `INFO: task NAME:ID blocked for more than 122 seconds.`
fn is_hung_task(text: &str) -> bool {
    hung_task(text).is_some()
}

/// Returns name and id of the task that a message reports as blocked.
pub(super) fn hung_task(text: &str) -> Option<(&str, u32)> {
    let (task, time) = text.strip_prefix("INFO: task ")?.rsplit_once(" blocked for more than ")?;
    let (name, id) = task.rsplit_once(':')?;
    let seconds = time.strip_suffix(" seconds.").unwrap_or_default();
    is_number(seconds).then_some((name, id.parse().ok()?))
}

/// `watchdog: BUG: soft lockup - CPU#3 stuck for 26s! [NAME:ID]`
fn is_soft_lockup(text: &str) -> bool {
    text.strip_prefix("watchdog: ").unwrap_or(text).starts_with("BUG: soft lockup - CPU#")
}

/// `kernel BUG at mm/slub.c:1!`
fn is_kernel_bug(text: &str) -> bool {
    let place = text.strip_prefix("kernel BUG at ").and_then(|place| place.strip_suffix('!'));
    place.and_then(|place| place.rsplit_once(':')).is_some_and(|(file, line)| is_name(file) && is_number(line))
}

/// `nf_conntrack: nf_conntrack: table full, dropping packet`
fn is_full_conntrack(text: &str) -> bool {
    const NAME: &str = "nf_conntrack: ";
    text.strip_prefix(NAME).is_some_and(|rest| rest.strip_prefix(NAME).unwrap_or(rest).starts_with("table full"))
}

/// `I/O error, dev nvme1n1, sector 8 op 0x0:(READ)`; earlier kernels write the function first.
fn is_disk_error(text: &str) -> bool {
    let earlier = ["blk_update_request: ", "print_req_error: "];
    let text = earlier.iter().find_map(|function| text.strip_prefix(function)).unwrap_or(text);
    let device = text.strip_prefix("I/O error, dev ").and_then(|rest| rest.split_once(", sector "));
    device.is_some_and(|(device, _)| is_name(device))
}

/// `XFS (nvme0n1p1): Log I/O Error Detected.  Shutting down filesystem`
fn is_shut_down(text: &str) -> bool {
    let message = text.strip_prefix("XFS (").and_then(|rest| rest.split_once("): "));
    message.is_some_and(|(device, message)| {
        is_name(device) && message.trim_end_matches('.').ends_with("Shutting down filesystem")
    })
}

/// Returns the error number of `NVRM: Xid (PCI:0000:00:1e): 79, ...`.
fn xid(text: &str) -> Option<u32> {
    let (device, rest) = text.strip_prefix("NVRM: Xid (PCI:")?.split_once("): ")?;
    let is_address = device.bytes().all(|byte| byte.is_ascii_hexdigit() || b":.".contains(&byte));
    let (number, _) = rest.split_once(',')?;
    if is_address && is_number(number) { number.parse().ok() } else { None }
}

/// Returns the check for an error of a Neuron device, such as `neuron: NEURON_HW_ERR=DMA_ERROR ...`. The runtime writes the
/// message by the driver.
fn neuron(text: &str) -> Option<Check> {
    let mut words = text.split(' ').take(NEURON_WORDS);
    let error = words.find_map(|word| word.strip_prefix("NEURON_HW_ERR="))?;
    let found = check::NEURON_ERRORS.into_iter().find(|(name, _)| error.starts_with(name));
    found.map(|(_, check)| check)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Reports whether the text is the name of a device or a source file. In a record that begins with the name of a process, the
/// process id in brackets comes next.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./!:".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts that workloads would have the kernel repeat: a segmentation fault names process and file, a warning a process.
    #[test]
    fn classify_ignores_names_that_a_workload_chooses() {
        let patterns = [
            "Out of memory: Killed process 4242 (java) total-vm:1kB",
            "INFO: task jbd2:77 blocked for more than 122 seconds.",
            " blocked for more than 122 seconds.",
            "BUG: soft lockup - CPU#3 stuck for 26s!",
            "kernel BUG at mm/slub.c:1!",
            "nf_conntrack: table full",
            "I/O error, dev nvme1n1, sector 8",
            "XFS (nvme0n1p1): Log I/O Error Detected.  Shutting down filesystem",
            "Shutting down filesystem",
            "NVRM: Xid (PCI:0000:00:1e): 79, x",
            " NEURON_HW_ERR=DMA_ERROR ",
        ];
        for name in patterns {
            let process: String = name.chars().take(15).collect();
            for process in ["app", &process] {
                let records = [
                    format!("{process}[77]: segfault at 0 ip 00 sp 00 error 4 in {name}[400000+1000]"),
                    format!(
                        "{process}[77]: segfault at 0 ip 00 sp 00 error 4 in {name}[400+10] likely on CPU 1 (core 0, socket 0)"
                    ),
                    format!("{process}[77]: unhandled exception: DABT (lower EL), ESR 0x1, in {name}[400000+1000]"),
                    format!("{process} invoked oom-killer: gfp_mask=0xcc0, order=0, oom_score_adj=1000"),
                    format!("traps: {process}[77] trap int3 ip:1 sp:2 error:0 in {name}[400000+1000]"),
                    format!("process '{name}' started with executable stack"),
                    format!("Memory cgroup out of memory: Killed process 7 ({process})"),
                ];
                for record in records {
                    assert_eq!(classify(&record), None, "{record}");
                }
            }
        }
    }

    #[test]
    fn hung_task_parses_the_kernel_message_of_a_blocked_task() {
        for (text, expected) in [
            ("INFO: task kworker/u8:2:1234 blocked for more than 122 seconds.", Some(("kworker/u8:2", 1234))),
            ("INFO: task java:7 blocked for more than 245 seconds.", Some(("java", 7))),
            ("INFO: task khungtaskd blocked for more than 245 seconds.", None),
            ("INFO: task a:7 blocked for more than 245 seconds[77]: segfault", None),
            ("a task was blocked", None),
        ] {
            assert_eq!(hung_task(text), expected, "{text}");
        }
    }

    #[test]
    fn classify_takes_messages_of_several_kernels() {
        for (text, check) in [
            ("BUG: soft lockup - CPU#3 stuck for 26s! [kworker/3:1:77]", check::SOFT_LOCKUP),
            ("nf_conntrack: table full, dropping packet", check::CONNTRACK),
            ("blk_update_request: I/O error, dev nvme1n1, sector 8 op 0x0:(READ)", check::DISK_ERROR),
            ("XFS (dm-0): Metadata corruption detected at x.  Shutting down filesystem.", check::SHUT_DOWN),
            ("2026-01-01T12:00:00Z NEURON_HW_ERR=DMA_ERROR instance-id=i-0", check::NEURON_ERRORS[3].1.clone()),
        ] {
            assert_eq!(classify(text).map(|(found, _)| found), Some(check), "{text}");
        }
    }
}

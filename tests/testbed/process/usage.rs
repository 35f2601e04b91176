//! Resource usage of a process, from the kernel's counters in `/proc`.

use std::time::Duration;

use anyhow::{Context, Result};

/// Clock ticks per second, as in user space on every current Linux platform.
const TICKS: f64 = 100.0;

/// Returns user and system time so far: fields 14 and 15 of `/proc/PID/stat`, counted after the name in brackets.
///
/// # Errors
/// Returns an error if there is no such process.
pub fn processor_time(pid: u32) -> Result<Duration> {
    let text = read(pid, "stat")?;
    let (_, fields) = text.rsplit_once(") ").context("a process without a name")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let ticks = |index: usize| fields.get(index).and_then(|text| text.parse::<f64>().ok()).context("no time");
    Ok(Duration::from_secs_f64((ticks(11)? + ticks(12)?) / TICKS))
}

/// Returns the resident memory in bytes.
///
/// # Errors
/// Returns the errors of [`processor_time`].
pub fn resident(pid: u32) -> Result<u64> {
    status(pid, "VmRSS:")
}

/// Returns the peak resident memory since its start, in bytes.
///
/// # Errors
/// Returns the errors of [`processor_time`].
pub fn most_resident(pid: u32) -> Result<u64> {
    status(pid, "VmHWM:")
}

/// Converts bytes into MiB.
#[must_use]
pub fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn status(pid: u32, field: &str) -> Result<u64> {
    let text = read(pid, "status")?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)).context("a process without memory")?;
    let kibibytes: u64 =
        line.trim().trim_end_matches(" kB").parse().with_context(|| format!("{field} is no number"))?;
    Ok(kibibytes * 1024)
}

fn read(pid: u32, file: &str) -> Result<String> {
    let path = format!("/proc/{pid}/{file}");
    std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
}

//! CPU, memory and open files of the controller itself, with the names that Prometheus' client libraries use. An amount that the
//! kernel does not report is left out.

use std::fs;

use daemon::metric::{Metrics, NoLabels};
use jiff::Timestamp;
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use nix::sys::time::TimeValLike;
use nix::unistd::{SysconfVar, sysconf};
use parking_lot::Mutex;

use crate::metrics;

/// Usage of this process.
#[derive(Debug)]
pub struct ProcessUsage {
    started: Timestamp,
    /// Seconds of CPU in the last export.
    exported_cpu: Mutex<f64>,
}

/// Bytes of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Memory {
    reserved: u64,
    resident: u64,
}

impl ProcessUsage {
    /// Creates the usage of a process that started then.
    #[must_use]
    pub fn new(started: Timestamp) -> Self {
        Self { started, exported_cpu: Mutex::new(0.0) }
    }

    /// Exports the present usage.
    pub fn export(&self, metrics: &Metrics) {
        metrics.set(&metrics::PROCESS_START, NoLabels, self.started.as_duration().as_secs_f64());
        if let Some(used) = cpu() {
            let mut exported = self.exported_cpu.lock();
            metrics.add(&metrics::PROCESS_CPU, NoLabels, (used - *exported).max(0.0));
            *exported = used.max(*exported);
        }
        if let Some(memory) = fs::read_to_string("/proc/self/statm").ok().and_then(|text| parse_memory(&text, page()?))
        {
            metrics.set(&metrics::PROCESS_MEMORY, NoLabels, memory.resident as f64);
            metrics.set(&metrics::PROCESS_VIRTUAL_MEMORY, NoLabels, memory.reserved as f64);
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            metrics.set(&metrics::PROCESS_OPEN_FDS, NoLabels, open.count() as f64);
        }
        if let Ok((limit, _)) = getrlimit(Resource::RLIMIT_NOFILE) {
            metrics.set(&metrics::PROCESS_MAX_FDS, NoLabels, limit as f64);
        }
    }
}

/// Returns the seconds of CPU that all threads used, in user and in system mode.
fn cpu() -> Option<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    Some((usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6)
}

/// Returns the bytes of a page.
fn page() -> Option<u64> {
    u64::try_from(sysconf(SysconfVar::PAGE_SIZE).ok()??).ok()
}

/// Parses `/proc/PID/statm`, which counts pages.
fn parse_memory(text: &str, page: u64) -> Option<Memory> {
    let mut amounts = text.split_ascii_whitespace().map(str::parse::<u64>);
    let mut amount = || amounts.next()?.ok()?.checked_mul(page);
    Some(Memory { reserved: amount()?, resident: amount()? })
}

#[cfg(test)]
mod tests {
    use daemon::metric::Metrics;

    use super::{Memory, ProcessUsage, parse_memory};
    use crate::fixture::at;
    use crate::metrics;

    fn value(text: &str, name: &str) -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix("{}")).unwrap();
        line.trim().parse().unwrap()
    }

    #[test]
    fn export_reports_cpu_memory_and_files_of_this_process() {
        let (usage, exported) = (ProcessUsage::new(at(1_000)), Metrics::new(&metrics::table()));
        usage.export(&exported);
        let first = value(&exported.render(), "process_cpu_seconds_total");
        usage.export(&exported);
        let text = exported.render();
        assert!(value(&text, "process_cpu_seconds_total") >= first, "a counter does not fall");
        assert!(value(&text, "process_resident_memory_bytes") > 1_000_000.0, "{text}");
        assert!(
            value(&text, "process_virtual_memory_bytes") >= value(&text, "process_resident_memory_bytes"),
            "{text}"
        );
        assert!(value(&text, "process_open_fds") >= 1.0, "{text}");
        assert!(value(&text, "process_max_fds") >= value(&text, "process_open_fds"), "{text}");
    }

    #[test]
    fn parse_memory_multiplies_pages() {
        assert_eq!(parse_memory("30 20 10 1 0 5 0\n", 4096), Some(Memory { reserved: 122_880, resident: 81_920 }));
        assert_eq!(parse_memory("30", 4096), None);
        assert_eq!(parse_memory("many pages", 4096), None);
    }
}

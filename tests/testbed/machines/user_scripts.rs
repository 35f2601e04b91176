//! Effects of scripts in the user data that end-to-end suites rely on: a kernel panic (`sleep 180`, then a command for
//! `/proc/sysrq-trigger`), and huge pages (`sysctl -w vm.nr_hugepages=2048`).

use std::time::Duration;

/// Returns the time from the boot to the panic; `None` if the user data causes none.
pub(super) fn time_to_panic(user_data: &[u8]) -> Option<Duration> {
    let text = String::from_utf8_lossy(user_data);
    let mut waited = 0;
    for line in text.lines().map(str::trim) {
        if line.contains("/proc/sysrq-trigger") {
            return Some(Duration::from_secs(waited));
        }
        waited += line.strip_prefix("sleep ").and_then(|seconds| seconds.parse::<u64>().ok()).unwrap_or(0);
    }
    None
}

/// Size of a huge page in bytes.
const HUGE_PAGE: u64 = 2 << 20;

/// Returns the bytes of huge pages that a script reserves.
pub(super) fn huge_pages(user_data: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(user_data);
    let count =
        text.lines().find_map(|line| line.split_once("sysctl -w vm.nr_hugepages=")?.1.trim().parse::<u64>().ok());
    count.unwrap_or(0).saturating_mul(HUGE_PAGE)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{huge_pages, time_to_panic};

    #[test]
    fn huge_pages_multiplies_the_number_of_the_script() {
        assert_eq!(huge_pages(b"#!/bin/sh\nsudo sysctl -w vm.nr_hugepages=2048\n"), 4 << 30);
        assert_eq!(huge_pages(b"#!/bin/sh\ncat /proc/sys/vm/nr_hugepages\n"), 0);
    }

    #[test]
    fn time_to_panic_adds_the_pauses_before_it() {
        let script = b"#!/bin/sh\n(\n  sleep 100\n  sleep 80\n  echo c > /proc/sysrq-trigger\n  sleep 5\n) &\n";
        assert_eq!(time_to_panic(script), Some(Duration::from_secs(180)));
        assert_eq!(time_to_panic(b"#!/bin/sh\nsleep 5\n"), None);
    }
}

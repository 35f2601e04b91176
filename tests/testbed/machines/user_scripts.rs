//! Kernel panic that a script of the user data causes, as end-to-end suites cause one: `sleep 180`, then a command for
//! `/proc/sysrq-trigger`.

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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::time_to_panic;

    #[test]
    fn time_to_panic_adds_the_pauses_before_it() {
        let script = b"#!/bin/sh\n(\n  sleep 100\n  sleep 80\n  echo c > /proc/sysrq-trigger\n  sleep 5\n) &\n";
        assert_eq!(time_to_panic(script), Some(Duration::from_secs(180)));
        assert_eq!(time_to_panic(b"#!/bin/sh\nsleep 5\n"), None);
    }
}

//! Progress of long work, on a terminal only.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// Time without a line for work that is soon done.
const SILENCE: Duration = Duration::from_secs(2);
/// Interval between two lines.
const INTERVAL: Duration = Duration::from_millis(500);

/// Line with the share of the work that is done and an estimate of the rest.
pub(crate) struct Progress {
    what: &'static str,
    begin: Instant,
    shown: Option<Instant>,
    is_shown: bool,
}

impl Progress {
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, begin: Instant::now(), shown: None, is_shown: std::io::stderr().is_terminal() }
    }

    /// Shows the line if it is due.
    pub(crate) fn show(&mut self, done: f64) {
        let now = Instant::now();
        let due = self.shown.map_or(self.begin + SILENCE, |shown| shown + INTERVAL);
        if self.is_shown && now >= due {
            self.shown = Some(now);
            eprint!("\r\x1b[K{}", line(self.what, done, now - self.begin));
            // A failure to show progress cannot be reported.
            let _ = std::io::stderr().flush();
        }
    }
}

impl Drop for Progress {
    /// Removes the line.
    fn drop(&mut self) {
        if self.shown.is_some() {
            eprint!("\r\x1b[K");
        }
    }
}

fn line(what: &str, done: f64, took: Duration) -> String {
    let done = done.clamp(0.001, 1.0);
    let rest = took.mul_f64((1.0 - done) / done).as_secs();
    let rest = if rest < 90 { format!("{rest} s") } else { format!("{} min", rest.div_ceil(60)) };
    format!("{what}: {:.0} %, about {rest} left", done * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_estimates_the_rest() {
        let rows = [
            (0.5, 20, "replaying: 50 %, about 20 s left"),
            (0.25, 60, "replaying: 25 %, about 3 min left"),
            (2.0, 60, "replaying: 100 %, about 0 s left"),
        ];
        for (done, took, expected) in rows {
            assert_eq!(line("replaying", done, Duration::from_secs(took)), expected);
        }
    }
}

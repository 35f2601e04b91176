//! Polling: the only loop with which tests wait for a state of the cluster.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// Polls until the result is `Ok(Some(_))`, and returns its value. `Ok(None)` and `Err(_)` both mean "not yet". The text of the
/// last error is reported after a timeout, so end an attempt with `bail!("3 of 5 pods run")` rather than `Ok(None)`.
///
/// # Errors
/// Returns an error when `limit` has passed, with `what` and the last state. An open attempt is abandoned at that moment.
pub async fn eventually<T>(
    what: &str,
    limit: Duration,
    mut attempt: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let begin = Instant::now();
    let mut seen = None;
    loop {
        let left = limit.saturating_sub(begin.elapsed());
        match tokio::time::timeout(left, attempt()).await {
            Ok(Ok(Some(value))) => return Ok(value),
            Ok(Ok(None)) => seen = None,
            Ok(Err(error)) => seen = Some(format!("{error:#}")),
            Err(_) => {}
        }
        if begin.elapsed() + PAUSE > limit {
            let last = seen.as_deref().unwrap_or("nothing yet");
            return Err(anyhow!("gave up after {limit:?} waiting for {what}; last seen: {last}"));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

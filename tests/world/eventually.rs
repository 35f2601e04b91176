//! Waiting by asking: the one loop with which tests wait for a cluster to become what it should be.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

/// How long to wait between two questions.
const PAUSE: Duration = Duration::from_millis(100);

/// Asks until the answer is `Ok(Some(_))`, which it returns. `Ok(None)` and `Err(_)` both mean "not yet"; an error's text
/// is remembered, so end an attempt with `bail!("3 of 5 pods run")` rather than `Ok(None)` to make failures tell.
///
/// # Errors
/// When `limit` has passed: names `what` and the last thing seen. The question that is open at that moment is abandoned.
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

//! Panics are never silent, and never leave half of a controller: the work that panicked is retried and reported, or the process
//! ends, so that another replica leads.

use std::any::Any;
use std::panic::{AssertUnwindSafe, PanicHookInfo};

use daemon::metric::Metrics;
use futures::FutureExt as _;
use tokio::task::JoinSet;

use crate::metrics;

/// Message of a panic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} (bug: please report)")]
pub struct Panicked(pub String);

/// Logs every panic with its place, and with the object of the work that panicked.
pub fn install_hook() {
    std::panic::set_hook(Box::new(|info: &PanicHookInfo<'_>| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let error = message(info.payload());
        tracing::error!(error = error.as_str(), place = place.as_str(), "panicked (bug: please report)");
    }));
}

/// Runs `work`, and returns its panic as an error. Locks are released, and what `work` had written before stays.
///
/// # Errors
/// Returns the message of the panic.
pub async fn caught<T>(work: impl Future<Output = T>) -> Result<T, Panicked> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|payload| Panicked(message(payload.as_ref())))
}

/// Counts a panic of this task.
pub fn count(metrics: &Metrics, task: &str) {
    metrics.add(&metrics::PANICS, metrics::ByTask { task }, 1.0);
}

/// Waits until a task panics. Tasks that end otherwise have nothing left to do.
pub async fn of_any(tasks: &mut JoinSet<()>) -> Panicked {
    loop {
        match tasks.join_next().await {
            Some(Err(error)) if error.is_panic() => return Panicked(message(error.into_panic().as_ref())),
            Some(_) => {}
            None => std::future::pending().await,
        }
    }
}

/// Waits until a task panics, and continues its panic in the caller: tasks of a task must not end silently.
pub async fn resume_first(tasks: &mut JoinSet<()>) {
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended
            && error.is_panic()
        {
            std::panic::resume_unwind(error.into_panic());
        }
    }
}

/// Returns the text of a panic's payload.
#[must_use]
pub fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panic without a message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{JoinSet, Panicked, caught, of_any, resume_first};

    #[tokio::test]
    async fn caught_returns_the_message_of_a_panic() {
        assert_eq!(caught(async { 1 }).await, Ok(1));
        let panicked = caught(async { panic!("index {} of 2", 3) }).await;
        assert_eq!(panicked, Err::<(), _>(Panicked("index 3 of 2".to_owned())));
    }

    #[tokio::test]
    async fn of_any_returns_when_a_task_panics_and_not_when_one_ends() {
        let mut tasks = JoinSet::new();
        tasks.spawn(async {});
        tasks.spawn(std::future::pending());
        tasks.spawn(async { panic!("broken") });
        assert_eq!(of_any(&mut tasks).await, Panicked("broken".to_owned()));
    }

    #[tokio::test]
    async fn resume_first_panics_when_a_task_panics() {
        let mut tasks = JoinSet::new();
        tasks.spawn(async {});
        resume_first(&mut tasks).await;
        tasks.spawn(async { panic!("broken") });
        tasks.spawn(std::future::pending());
        assert_eq!(caught(resume_first(&mut tasks)).await, Err(Panicked("broken".to_owned())));
    }
}

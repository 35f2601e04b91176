//! Driver of the periodic tasks: waits, skips runs until all watches are synced, and logs failed runs.

use std::sync::Arc;
use std::time::Duration;

use cloud::CloudError;
use daemon::metric::Metrics;
use tracing::Instrument as _;

use crate::capacity::offerings::Offerings;
use crate::state::cluster::Cluster;
use crate::state::index::Index;
use crate::state::panics;
use crate::state::span;
use crate::write::writer::Writer;

/// Everything that a periodic task reads and writes. Cheap to clone; clones share the state.
#[derive(Clone)]
pub struct TaskContext {
    /// Index of the cluster, and its clock.
    pub cluster: Arc<Cluster>,
    /// Data of EC2.
    pub offerings: Arc<Offerings>,
    /// Writer of Kubernetes objects and EC2 resources.
    pub writer: Writer,
    /// Metrics of the controller.
    pub metrics: Arc<Metrics>,
}

/// Task that runs forever, with a pause before each run.
pub trait PeriodicTask: Send {
    /// Name in log lines.
    const NAME: &'static str;
    /// Pause before the first run.
    const FIRST_PAUSE: Duration;
    /// True if the task removes something, so that it waits while the view of the cluster is stale.
    const REMOVES: bool;

    /// Runs once, and returns the pause before the next run. After an error the pause stays the same.
    fn run(&mut self, context: &TaskContext) -> impl Future<Output = Result<Duration, CloudError>> + Send;
}

/// Runs the task forever, in a span with its name.
pub async fn run_for_ever<T: PeriodicTask>(task: T, context: TaskContext) {
    repeat(task, context).instrument(span::task(T::NAME)).await;
}

async fn repeat<T: PeriodicTask>(mut task: T, context: TaskContext) {
    let mut pause = T::FIRST_PAUSE;
    loop {
        tokio::time::sleep(pause).await;
        let cluster = &context.cluster;
        if !cluster.read(Index::is_synced) || (T::REMOVES && !cluster.view_ages.are_current(cluster.now())) {
            continue;
        }
        match panics::caught(task.run(&context)).await {
            Err(_) => panics::count(&context.metrics, T::NAME),
            Ok(Ok(next)) => pause = next,
            Ok(Err(error)) => {
                let error = daemon::error::chain(&error);
                tracing::warn!(error = error.as_str(), "periodic task failed, retrying");
            }
        }
    }
}

//! Driver of the periodic tasks: waits, skips runs until all watches are synced, and logs failed runs.

use std::time::Duration;

use cloud::CloudError;

use crate::state::cluster::Cluster;
use crate::state::index::Index;

/// Runs `task` forever, with a pause before each run. The run returns the pause before the next one; after a failure the pause
/// stays the same.
pub(super) async fn run_for_ever(
    name: &'static str,
    first_pause: Duration,
    cluster: &Cluster,
    mut task: impl AsyncFnMut() -> Result<Duration, CloudError>,
) {
    let mut pause = first_pause;
    loop {
        tokio::time::sleep(pause).await;
        if !cluster.read(Index::is_synced) {
            continue;
        }
        match task().await {
            Ok(next) => pause = next,
            Err(error) => {
                let error = daemon::error::chain(&error);
                log::warn!(task = name, error = error.as_str(); "periodic task failed, retrying");
            }
        }
    }
}

//! Repeated notices: the delay from the moment in which the metadata service shows a notice until the API server has the
//! cordon.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Api, WatchEvent, WatchParams};
use testbed::controlplane::ControlPlane;
use testbed::eventually;

use crate::subject::Subject;

const LIMIT: Duration = Duration::from_secs(60);
/// Highest random delay of a notice, so that notices arrive at any moment of a program's polling interval.
const SPREAD: Duration = Duration::from_millis(2500);

/// Time at which each Node was first seen cordoned since its last reset.
type Seen = Arc<Mutex<BTreeMap<String, Instant>>>;

/// Gives each subject its share of the notices; returns every delay.
pub async fn cordons(
    control_plane: &Arc<ControlPlane>,
    subjects: &mut [Subject],
    notices: usize,
) -> Result<Vec<Duration>> {
    let seen = Seen::default();
    let watching = tokio::spawn(watch(Api::all(control_plane.admin().await?), Arc::clone(&seen)));
    let mut delays = Vec::new();
    while delays.len() < notices {
        let round = delays.len() / subjects.len();
        let wait = |number: usize| SPREAD * u32::try_from((round * 7 + number * 3) % 10).unwrap_or(0) / 10;
        let one_round = subjects.iter_mut().enumerate().map(|(number, it)| one(it, &seen, wait(number)));
        delays.extend(futures::future::try_join_all(one_round).await?);
        println!("    {} of {notices} notices", delays.len());
    }
    watching.abort();
    Ok(delays)
}

async fn one(subject: &mut Subject, seen: &Seen, wait: Duration) -> Result<Duration> {
    subject.begin_anew().await?;
    lock(seen).remove(subject.node());
    subject.watches().await?;
    tokio::time::sleep(wait).await;
    let shown = Instant::now();
    subject.interrupt();
    let cordoned = eventually("the cordon", LIMIT, async || Ok(lock(seen).get(subject.node()).copied())).await;
    let cordoned = cordoned.with_context(|| subject.exit_report())?;
    Ok(cordoned.saturating_duration_since(shown))
}

/// Stores the time at which the watch reports a cordon.
async fn watch(nodes: Api<Node>, seen: Seen) -> Result<()> {
    let mut events = nodes.watch(&WatchParams::default(), "0").await?.boxed();
    while let Some(event) = events.try_next().await? {
        if let WatchEvent::Added(node) | WatchEvent::Modified(node) = event
            && node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true))
        {
            lock(&seen).entry(node.name_any()).or_insert_with(Instant::now);
        }
    }
    Ok(())
}

fn lock(seen: &Seen) -> std::sync::MutexGuard<'_, BTreeMap<String, Instant>> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

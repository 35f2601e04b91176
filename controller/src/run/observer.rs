//! Observe mode (`OBSERVE`): plans are made and recorded, and nothing is changed. This module replaces the reconcilers.

use std::sync::Arc;
use std::time::Duration;

use crate::capacity::offerings::Offerings;
use crate::reconcile::nodeclass;
use crate::reconcile::queue::QueueAction;
use crate::reconcile::work::WorkItem;
use crate::state::cluster::Cluster;
use crate::state::index::Index;

/// Delay until the watches are synced.
const UNSYNCED: Duration = Duration::from_millis(100);

/// Resolves EC2NodeClasses for plans, and drops all other work, forever.
pub async fn observe(cluster: Arc<Cluster>, offerings: Arc<Offerings>) {
    loop {
        let work = cluster.queue.next().await;
        let next = match &work {
            _ if !cluster.read(Index::is_synced) => QueueAction::After(UNSYNCED),
            WorkItem::Class(name) => resolve(&cluster, &offerings, name).await,
            _ => QueueAction::Wait,
        };
        cluster.queue.done(work, next);
    }
}

async fn resolve(cluster: &Cluster, offerings: &Offerings, name: &str) -> QueueAction {
    let Some(view) = cluster.read(|index| nodeclass::view(index, name, cluster.now())) else {
        offerings.forget(name);
        return QueueAction::Wait;
    };
    let after = nodeclass::observe(&view, offerings).await;
    offerings.mark_reconciled(name);
    QueueAction::After(after)
}

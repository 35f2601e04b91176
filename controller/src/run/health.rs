//! Liveness of the controller: each of its loops has progressed lately.

use jiff::SignedDuration;

use crate::state::cluster::Cluster;

/// Time without progress after which the process is to be restarted.
const LIMIT: SignedDuration = SignedDuration::from_mins(10);

/// Returns the loop that makes no progress. Only the leader plans and reconciles.
pub fn stalled(cluster: &Cluster, leads: bool) -> Option<String> {
    let now = cluster.now();
    let watches = cluster.view_ages.youngest(now).filter(|age| *age > LIMIT);
    let watches = watches.map(|age| no_progress("watch", age));
    let plan = || cluster.progress.since_pass(now).filter(|age| *age > LIMIT).map(|age| no_progress("plan", age));
    let reconcile = || {
        let overdue = SignedDuration::try_from(cluster.queue.overdue()).unwrap_or(SignedDuration::MAX);
        Some(overdue).filter(|age| *age > LIMIT).map(|age| no_progress("reconcile", age))
    };
    if leads { watches.or_else(plan).or_else(reconcile) } else { watches }
}

fn no_progress(what: &str, age: SignedDuration) -> String {
    format!("no {what} has progressed for {} s", age.as_secs())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use tokio::sync::mpsc::unbounded_channel;

    use super::{Cluster, stalled};
    use crate::fixture::at;
    use crate::write::events::EventRecorder;

    #[test]
    fn stalled_names_the_loop_without_progress_for_ten_minutes() {
        let clock: fn() -> Timestamp = || at(1_000);
        let cluster = Cluster::with_clock(unbounded_channel().0, EventRecorder::new().0, clock);
        assert_eq!(stalled(&cluster, true), None, "nothing began yet");
        cluster.progress.pass_ended(at(401));
        cluster.view_ages.confirm("Node", at(0));
        cluster.view_ages.confirm("Pod", at(400));
        assert_eq!(stalled(&cluster, true), None);
        cluster.progress.pass_ended(at(399));
        assert_eq!(stalled(&cluster, true).as_deref(), Some("no plan has progressed for 601 s"));
        assert_eq!(stalled(&cluster, false), None, "a follower does not plan");
        let silent = Cluster::with_clock(unbounded_channel().0, EventRecorder::new().0, clock);
        silent.view_ages.confirm("Pod", at(399));
        assert_eq!(stalled(&silent, false).as_deref(), Some("no watch has progressed for 601 s"));
    }
}

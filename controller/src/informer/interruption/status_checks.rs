//! EC2's status checks of instances, requested every minute.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cloud::{ErrorKind as Failure, InstanceStatus, StatusEvent};
use daemon::metric::Metrics;
use jiff::{SignedDuration, Timestamp};

use super::{Notice, NoticeKind, Notices, maintenance};
use crate::capacity::offerings::Offerings;
use crate::metrics;
use crate::reconcile::work::WorkItem;
use crate::state::cluster::Cluster;
use crate::state::index::Index;

/// Interval between requests.
const PERIOD: Duration = Duration::from_secs(60);

/// Interval between requests that AWS does not allow. An administrator may allow them at any time.
const UNAUTHORIZED_PAUSE: Duration = Duration::from_secs(15 * 60);

/// Duration after which a failed check alone removes an instance.
const LASTING: SignedDuration = SignedDuration::from_secs(120);

/// Impaired instance of this cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Instance id, such as `i-...`.
    pub instance: String,
    /// Name of its NodeClaim.
    pub claim: String,
    /// Failed checks and events, the worst first.
    pub kinds: Vec<NoticeKind>,
    /// Start of the first scheduled event.
    pub starts: Option<Timestamp>,
}

impl Finding {
    /// Returns the notice for the NodeClaim. Pods on an instance with failed checks do not respond, so the deadline is `now`.
    #[must_use]
    pub fn notice(&self, now: Timestamp) -> Option<Notice> {
        let kind = *self.kinds.first()?;
        let deadline = match kind {
            NoticeKind::EventStatus => maintenance::deadline(self.starts, now),
            _ => Some(now),
        };
        Some(Notice { kind, deadline })
    }
}

/// Returns the impaired instances of this cluster. NodeClaims that are being deleted are skipped.
#[must_use]
pub fn find(statuses: &[InstanceStatus], index: &Index, now: Timestamp) -> Vec<Finding> {
    let mut found = Vec::new();
    for status in statuses {
        let claim = index.claim_of_instance(&status.instance);
        let Some(claim) = claim.filter(|claim| claim.metadata.deletion_timestamp.is_none()) else { continue };
        let nodes = index.nodes_of_claim(claim).into_iter().map(AsRef::as_ref);
        let starts = first_start(&status.events);
        let due = !status.events.is_empty() && maintenance::is_due(starts, nodes, now);
        let kinds = ailments(status, due, now);
        if !kinds.is_empty() {
            let claim = claim.metadata.name.clone().unwrap_or_default();
            found.push(Finding { instance: status.instance.clone(), claim, kinds, starts });
        }
    }
    found
}

/// Returns the start of the failure by instance id. A failed check is further evidence for a repair with another reason.
#[must_use]
pub fn impaired(statuses: &[InstanceStatus]) -> BTreeMap<String, Timestamp> {
    let since = |status: &InstanceStatus| {
        [&status.system_impaired_since, &status.instance_impaired_since].into_iter().filter_map(moment).min()
    };
    statuses.iter().filter_map(|status| Some((status.instance.clone(), since(status)?))).collect()
}

fn moment(since: &Option<String>) -> Option<Timestamp> {
    since.as_ref()?.parse().ok()
}

/// Returns the start of the first event; `None` if an event has no valid start and may begin at any moment.
fn first_start(events: &[StatusEvent]) -> Option<Timestamp> {
    let starts: Option<Vec<Timestamp>> = events.iter().map(|event| moment(&event.not_before)).collect();
    starts?.into_iter().min()
}

/// Returns failed checks, and the scheduled event if it is `due`.
fn ailments(status: &InstanceStatus, due: bool, now: Timestamp) -> Vec<NoticeKind> {
    let lasts = |since: &Option<String>| moment(since).is_some_and(|since| now.duration_since(since) >= LASTING);
    let rows = [
        (NoticeKind::SystemStatus, lasts(&status.system_impaired_since)),
        (NoticeKind::InstanceStatus, lasts(&status.instance_impaired_since)),
        (NoticeKind::EventStatus, due),
    ];
    rows.into_iter().filter(|(_, holds)| *holds).map(|(kind, _)| kind).collect()
}

/// Requests status checks forever, more rarely while AWS does not allow them.
pub async fn watch_for_ever(
    cluster: Arc<Cluster>,
    offerings: Arc<Offerings>,
    notices: Arc<Notices>,
    metrics: Arc<Metrics>,
) {
    let (mut counted, mut pause) = (BTreeSet::new(), PERIOD);
    loop {
        tokio::time::sleep(pause).await;
        if !cluster.read(Index::is_synced) {
            continue;
        }
        let statuses = match offerings.cloud().instance_statuses().await {
            Ok(statuses) => statuses,
            Err(error) if error.kind == Failure::Unauthorized => {
                if notices.enable_status_checks(false) {
                    let error = daemon::error::chain(&error);
                    tracing::error!(
                        error = error.as_str(),
                        cure = "allow ec2:DescribeInstanceStatus",
                        "no instance status checks, retrying every 15 minutes"
                    );
                }
                pause = UNAUTHORIZED_PAUSE;
                continue;
            }
            Err(error) => {
                let error = daemon::error::chain(&error);
                tracing::warn!(error = error.as_str(), "failed to describe instance statuses, retrying");
                continue;
            }
        };
        if notices.enable_status_checks(true) {
            tracing::info!("instance status checks are allowed again");
        }
        pause = PERIOD;
        let now = cluster.now();
        notices.record_status_checks(impaired(&statuses), now);
        let found = cluster.read(|index| find(&statuses, index, now));
        count(&found, &mut counted, &metrics);
        notices.withdraw_status_checks(&found.iter().map(|finding| finding.claim.as_str()).collect());
        for finding in found {
            let Some(notice) = finding.notice(now) else { continue };
            tracing::info!(
                nodeclaim = finding.claim.as_str(),
                instance_id = finding.instance.as_str(),
                notice = notice.kind.as_str(),
                "instance failed its EC2 status check"
            );
            // Nothing waits for the receiver: the next request finds the NodeClaim deleting, or posts the notice again.
            drop(notices.post(&finding.claim, notice));
            cluster.queue.add(WorkItem::Claim(finding.claim));
        }
    }
}

/// Counts each failed check or event of an instance once until it ends.
fn count(found: &[Finding], counted: &mut BTreeSet<(String, NoticeKind)>, metrics: &Metrics) {
    let now: BTreeSet<(String, NoticeKind)> =
        found.iter().flat_map(|finding| finding.kinds.iter().map(|kind| (finding.instance.clone(), *kind))).collect();
    for (_, kind) in now.difference(counted) {
        metrics.add(&metrics::STATUS_UNHEALTHY, metrics::ByCategory { category: kind.as_str() }, 1.0);
    }
    *counted = now;
}

#[cfg(test)]
mod tests {
    use api::condition;
    use cloud::{InstanceStatus, StatusEvent};

    use serde_json::json;

    use super::{Index, NoticeKind, find, impaired};
    use crate::fixture::{at, claim, condition as cond, node, status};

    /// Returns an index with a launched NodeClaim, and the id of its instance.
    fn launched() -> (Index, String) {
        let mut index = Index::default();
        drop(index.apply(claim(&status(&[cond(condition::LAUNCHED, "True", 0)])).as_ref().clone(), at(0), true));
        let id = index.claims.values().next().unwrap().instance_id().unwrap().to_owned();
        (index, id)
    }

    /// Returns a scheduled event that starts at this second.
    fn starting(seconds: i64) -> StatusEvent {
        let not_before = Some(at(seconds).to_string());
        StatusEvent { code: "system-reboot".to_owned(), not_before, ..StatusEvent::default() }
    }

    /// Tests that the setting `maintenance` of a live agent holds, and a failed check counts beside it.
    #[test]
    fn find_leaves_events_to_a_live_agent() {
        let (mut index, id) = launched();
        let heartbeat = json!({"metadata": {"annotations": {"kerf.sh/agent-heartbeat": at(250).to_string()}}});
        drop(index.apply(node(&heartbeat).as_ref().clone(), at(0), true));
        let announced = InstanceStatus { instance: id, events: vec![starting(310)], ..InstanceStatus::default() };
        assert_eq!(find(std::slice::from_ref(&announced), &index, at(300)), []);
        let failed = InstanceStatus { system_impaired_since: Some(at(0).to_string()), ..announced.clone() };
        assert_eq!(find(&[failed], &index, at(300))[0].kinds, [NoticeKind::SystemStatus]);
        let silent = find(&[announced], &index, at(430));
        assert_eq!(silent[0].kinds, [NoticeKind::EventStatus], "the agent has not reported for three minutes");
    }

    #[test]
    fn impaired_returns_the_first_failure_when_its_time_is_valid() {
        let since = |seconds: i64| Some(at(seconds).to_string());
        let rows = [
            (None, None, None),
            (since(5), None, Some(at(5))),
            (None, since(6), Some(at(6))),
            (since(7), since(6), Some(at(6))),
            (Some("a while ago".to_owned()), None, None),
            (Some("a while ago".to_owned()), since(6), Some(at(6))),
        ];
        for (system, own, expected) in rows {
            let status = InstanceStatus {
                instance: "i-1".to_owned(),
                system_impaired_since: system,
                instance_impaired_since: own,
                ..InstanceStatus::default()
            };
            assert_eq!(impaired(std::slice::from_ref(&status)).get("i-1").copied(), expected, "{status:?}");
        }
    }

    #[test]
    fn find_reports_checks_when_they_last_and_events_when_due() {
        let (index, id) = launched();
        let since = |seconds: i64| Some(at(seconds).to_string());
        let event = StatusEvent { code: "instance-stop".to_owned(), ..StatusEvent::default() };
        let well = InstanceStatus { instance: id, ..InstanceStatus::default() };
        let rows = [
            (well.clone(), vec![], None),
            (InstanceStatus { system_impaired_since: since(181), ..well.clone() }, vec![], None),
            (
                InstanceStatus { system_impaired_since: since(180), ..well.clone() },
                vec![NoticeKind::SystemStatus],
                Some(at(300)),
            ),
            (
                InstanceStatus { instance_impaired_since: since(0), ..well.clone() },
                vec![NoticeKind::InstanceStatus],
                Some(at(300)),
            ),
            (InstanceStatus { events: vec![event.clone()], ..well.clone() }, vec![NoticeKind::EventStatus], None),
            (InstanceStatus { events: vec![starting(2101)], ..well.clone() }, vec![], None),
            (
                InstanceStatus { events: vec![starting(90_000), starting(2100)], ..well.clone() },
                vec![NoticeKind::EventStatus],
                Some(at(2100)),
            ),
            (
                InstanceStatus { events: vec![starting(310)], ..well.clone() },
                vec![NoticeKind::EventStatus],
                Some(at(420)),
            ),
            (
                InstanceStatus { events: vec![starting(2101)], system_impaired_since: since(0), ..well.clone() },
                vec![NoticeKind::SystemStatus],
                Some(at(300)),
            ),
            (
                InstanceStatus { events: vec![event.clone()], system_impaired_since: since(0), ..well.clone() },
                vec![NoticeKind::SystemStatus, NoticeKind::EventStatus],
                Some(at(300)),
            ),
            (InstanceStatus { instance: "i-other".to_owned(), events: vec![event], ..well }, vec![], None),
        ];
        for (status, kinds, deadline) in rows {
            let found = find(std::slice::from_ref(&status), &index, at(300));
            assert_eq!(found.iter().flat_map(|one| one.kinds.clone()).collect::<Vec<_>>(), kinds, "{status:?}");
            let notice_deadline = found.first().and_then(|one| one.notice(at(300))).and_then(|notice| notice.deadline);
            assert_eq!(notice_deadline, deadline, "{status:?}");
        }
    }
}

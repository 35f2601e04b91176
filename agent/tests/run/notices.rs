//! The watch of the metadata service: responses that are notices, responses that are not, and faults, none of which ends the
//! watch.

use agent::notices::{NoticeReading, NoticeValue, WatchUpdate, Watcher, watch};
use drain::Millis;
use tokio::sync::mpsc::{self, Receiver};
use tokio::time::timeout;

use crate::machine::Machine;

fn watched(machine: &Machine) -> Receiver<WatchUpdate> {
    let (update, updates) = mpsc::channel(4);
    tokio::spawn(watch(machine.imds(), update, 1));
    updates
}

/// Returns the next notice that is not an empty list of maintenance.
async fn next_notice(updates: &mut Receiver<WatchUpdate>) -> NoticeValue {
    let next = async {
        loop {
            match updates.recv().await.expect("the watch goes on") {
                WatchUpdate::Reading(NoticeReading { value, .. }) if value != NoticeValue::Maintenance(Vec::new()) => {
                    return value;
                }
                _ => {}
            }
        }
    };
    timeout(crate::api::PATIENCE, next).await.expect("news in time")
}

fn terminate(notice: &NoticeValue) -> bool {
    matches!(notice, NoticeValue::Spot { action, .. } if action == "terminate")
}

#[tokio::test]
async fn watch_skips_spot_notices_when_life_cycle_is_on_demand() {
    let machine = Machine::boot().await;
    machine.answer("meta-data/instance-life-cycle", 200, "on-demand");
    let mut updates = watched(&machine);
    loop {
        let update = timeout(crate::api::PATIENCE, updates.recv()).await.expect("news in time");
        if matches!(update, Some(WatchUpdate::Reach(reach)) if reach.watcher == Watcher::Spot && reach.failed == 0) {
            break;
        }
    }
    // Requests from before `instance-life-cycle` was read are finished. From now on the agent requests only the other notices.
    machine.interrupt(120);
    machine.answer("meta-data/autoscaling/target-lifecycle-state", 200, "Terminated");
    for _ in 0..2 {
        assert_eq!(next_notice(&mut updates).await, NoticeValue::Scaling("Terminated".into()));
    }
}

#[tokio::test]
async fn watch_reads_spot_notices_when_life_cycle_is_unknown() {
    for status in [404, 503] {
        let machine = Machine::boot().await;
        machine.answer("meta-data/instance-life-cycle", status, "");
        machine.interrupt(120);
        assert!(terminate(&next_notice(&mut watched(&machine)).await), "{status}");
    }
}

#[tokio::test]
async fn watch_reads_all_notice_sources() {
    let machine = Machine::boot().await;
    let rebalance = r#"{"noticeTime":"2026-01-01T12:00:00Z"}"#;
    machine.answer("meta-data/events/recommendations/rebalance", 200, rebalance);
    let maintenance =
        r#"[{"Code":"instance-stop","EventId":"e","State":"active","NotBefore":"1 Jan 2026 12:00:00 GMT"}]"#;
    machine.answer("meta-data/events/maintenance/scheduled", 200, maintenance);
    machine.answer("meta-data/autoscaling/target-lifecycle-state", 200, "InService\n");
    let mut updates = watched(&machine);
    assert_eq!(next_notice(&mut updates).await, NoticeValue::Rebalance { time: Millis(1_767_268_800_000) });
    assert!(matches!(next_notice(&mut updates).await, NoticeValue::Maintenance(list) if list[0].event == "e"));
    assert_eq!(next_notice(&mut updates).await, NoticeValue::Scaling("InService".into()));
}

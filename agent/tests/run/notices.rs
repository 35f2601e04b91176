//! Watching the metadata service: what counts as a notice, what does not, and that nothing ends the watch but the machine's kind.

use std::time::Duration;

use agent::interruption::{Kind, Notice, watch};
use tokio::sync::mpsc::{self, Receiver};
use tokio::time::timeout;

use crate::machine::Machine;

fn watched(machine: &Machine) -> Receiver<Notice> {
    let (told, notices) = mpsc::channel(4);
    tokio::spawn(watch(machine.imds(), told));
    notices
}

async fn next(notices: &mut Receiver<Notice>) -> Option<Notice> {
    timeout(Duration::from_secs(20), notices.recv()).await.expect("news in time")
}

#[tokio::test]
async fn an_on_demand_machine_is_not_asked_again() {
    let machine = Machine::boot().await;
    machine.answer("meta-data/instance-life-cycle", 200, "on-demand");
    machine.interrupt(120);
    assert_eq!(next(&mut watched(&machine)).await, None);
}

#[tokio::test]
async fn an_unknown_kind_of_machine_is_watched() {
    for status in [404, 503] {
        let machine = Machine::boot().await;
        machine.answer("meta-data/instance-life-cycle", status, "");
        machine.interrupt(120);
        let notice = next(&mut watched(&machine)).await.expect("a notice");
        assert_eq!(notice.kind, Kind::Spot { action: "terminate".into() });
    }
}

#[tokio::test]
async fn errors_and_nonsense_are_outlived() {
    let machine = Machine::boot().await;
    machine.metadata_fails();
    let mut notices = watched(&machine);
    let none = timeout(Duration::from_millis(500), notices.recv()).await;
    assert!(none.is_err(), "{none:?}");
    machine.answer("meta-data/spot/instance-action", 200, "<html>");
    let none = timeout(Duration::from_millis(2500), notices.recv()).await;
    assert!(none.is_err(), "{none:?}");
    machine.interrupt(120);
    assert!(next(&mut notices).await.is_some());
}

#[tokio::test]
async fn a_recommendation_is_read() {
    let machine = Machine::boot().await;
    let body = r#"{"noticeTime":"2026-01-01T12:00:00Z"}"#;
    machine.answer("meta-data/events/recommendations/rebalance", 200, body);
    let notice = next(&mut watched(&machine)).await.expect("a notice");
    assert_eq!((notice.kind, notice.time), (Kind::Rebalance, drain::Millis(1_767_268_800_000)));
}

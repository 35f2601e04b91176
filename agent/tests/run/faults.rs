//! Every fault of the metadata service. The watch survives each of them, and reports the next valid response.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agent::aws::imds::Imds;
use agent::notices::{NoticeValue, WatchUpdate, watch};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::imds::{FakeImds, Fault};

const SPOT: &str = "meta-data/spot/instance-action";
const NOTICE: &str = r#"{"action":"terminate","time":"2030-09-18T08:22:00Z"}"#;

/// Fault of the first responses.
enum Wrong {
    Faults(&'static [Fault]),
    Body(&'static str),
    Token,
    TokenPath(&'static [Fault]),
}

const ROWS: &[(&str, Wrong)] = &[
    ("not there yet", Wrong::Faults(&[Fault::Status(404), Fault::Status(404)])),
    ("throttled", Wrong::Faults(&[Fault::Status(503), Fault::Status(429)])),
    ("switched off", Wrong::Faults(&[Fault::Status(403)])),
    ("broken", Wrong::Faults(&[Fault::Status(500)])),
    ("a redirect", Wrong::Faults(&[Fault::Status(302)])),
    ("no answer", Wrong::Faults(&[Fault::Hang])),
    ("reset before the answer", Wrong::Faults(&[Fault::CloseUnanswered, Fault::CloseUnanswered])),
    ("reset within the answer", Wrong::Faults(&[Fault::CloseMidBody, Fault::CloseMidBody])),
    ("closed after the answer", Wrong::Faults(&[Fault::CloseAfter])),
    ("a token refused", Wrong::Token),
    ("a token refused twice", Wrong::Faults(&[Fault::Status(401), Fault::Status(401)])),
    ("no tokens", Wrong::TokenPath(&[Fault::Status(503), Fault::Status(403)])),
    ("tokens without an end", Wrong::TokenPath(&[Fault::Hang])),
    ("nothing in it", Wrong::Body("")),
    ("a page", Wrong::Body("<html><body>it works</body></html>")),
    ("half of it", Wrong::Body(r#"{"action":"terminate","time":"2030-09-1"#)),
    ("another shape", Wrong::Body(r#"["terminate"]"#)),
    ("no time", Wrong::Body(r#"{"action":"terminate"}"#)),
    ("an action that is none", Wrong::Body(r#"{"action":"dance","time":"2030-09-18T08:22:00Z"}"#)),
];

#[tokio::test]
async fn watch_reports_notice_after_every_fault() {
    let mut all = tokio::task::JoinSet::new();
    for (what, wrong) in ROWS {
        all.spawn(async move {
            let survived = timeout(Duration::from_secs(60), survives(wrong)).await;
            assert!(survived.is_ok(), "{what}: the notice was not heard");
        });
    }
    while let Some(ended) = all.join_next().await {
        ended.unwrap();
    }
}

async fn survives(wrong: &Wrong) {
    let items = [("meta-data/instance-life-cycle", "spot")];
    let items: BTreeMap<String, Vec<u8>> =
        items.iter().map(|(path, body)| ((*path).to_owned(), body.as_bytes().to_vec())).collect();
    let fake = FakeImds::start(items).await;
    let imds = Arc::new(Imds::new(&fake.endpoint, Duration::from_millis(300)).unwrap());
    match wrong {
        Wrong::Faults(faults) => fake.fail(SPOT, faults),
        Wrong::TokenPath(faults) => fake.fail("api/token", faults),
        Wrong::Body(body) => fake.set(SPOT, *body),
        Wrong::Token => {}
    }
    let (sender, mut updates) = mpsc::channel(4);
    tokio::spawn(watch(imds, sender, 7));
    // One whole round of the watcher has the fault, then the metadata service recovers.
    let mut failed = 0;
    loop {
        match updates.recv().await.expect("the watch goes on") {
            WatchUpdate::Reach(reach) => failed += reach.failed,
            WatchUpdate::Reading(reading) => {
                assert!(!matches!(reading.value, NoticeValue::Spot { .. }), "{:?}", reading.value)
            }
        }
        if failed > 0 || !matches!(wrong, Wrong::Body(_)) {
            break;
        }
    }
    if matches!(wrong, Wrong::Token) {
        fake.revoke_token();
    }
    fake.set(SPOT, NOTICE);
    loop {
        if let WatchUpdate::Reading(reading) = updates.recv().await.expect("the watch goes on")
            && matches!(&reading.value, NoticeValue::Spot { action, .. } if action == "terminate")
        {
            return;
        }
    }
}

#[tokio::test]
async fn imds_reads_metadata_over_ipv6() {
    let Ok(listener) = tokio::net::TcpListener::bind("[::1]:0").await else {
        return skip::report("no IPv6 on loopback");
    };
    let fake = FakeImds::on(listener, BTreeMap::from([(SPOT.to_owned(), NOTICE.as_bytes().to_vec())]));
    assert!(fake.endpoint.starts_with("http://[::1]:"), "{}", fake.endpoint);
    let imds = Imds::new(&fake.endpoint, Duration::from_secs(2)).unwrap();
    assert_eq!(imds.get(SPOT).await.unwrap().unwrap(), NOTICE);
    assert!(Imds::new("http://[fd00:ec2::254]", Duration::from_secs(2)).is_ok());
}

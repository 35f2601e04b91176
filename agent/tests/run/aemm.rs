//! AWS's own emulator of the metadata service as an oracle: the watch of the agent must receive each notice that the emulator
//! serves.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent::aws::imds::Imds;
use agent::notices::{MaintenanceState, NoticeValue, WatchUpdate, watch};
use drain::Millis;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Start of 2030, in milliseconds since 1970.
const Y2030: u64 = 1_893_456_000_000;

/// Returns the path of the emulator, built once.
fn program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| go_programs::go_program("aemm").unwrap())
}

struct Aemm {
    process: Child,
    endpoint: String,
    _home: TempDir,
}

impl Drop for Aemm {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Aemm {
    fn start(arguments: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let config = home.path().join("config.json");
        std::fs::write(&config, r#"{"metadata":{"values":{"instance-life-cycle":"spot"}}}"#).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = Command::new(program())
            .args(arguments)
            .args(["-I", "-n", "127.0.0.1", "-p", &port.to_string(), "-c"])
            .arg(config)
            .env("HOME", home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { process, endpoint: format!("http://127.0.0.1:{port}"), _home: home }
    }

    /// Watches the metadata service until every expected notice has arrived, in any order.
    async fn expect_notices(&self, expected: &[&(dyn Fn(&NoticeValue) -> bool + Sync)]) {
        let imds = Arc::new(Imds::new(&self.endpoint, Duration::from_secs(2)).unwrap());
        let (sender, mut updates) = mpsc::channel(4);
        tokio::spawn(watch(imds, sender, 3));
        let mut missing: Vec<_> = expected.iter().collect();
        let mut received = Vec::new();
        let listening = async {
            while !missing.is_empty() {
                if let WatchUpdate::Reading(reading) = updates.recv().await.expect("the watch goes on") {
                    assert!(reading.date.is_some(), "its clock comes along");
                    missing.retain(|expects| !expects(&reading.value));
                    received.push(reading.value);
                }
            }
        };
        let listened = timeout(Duration::from_secs(60), listening).await;
        assert!(listened.is_ok(), "{} are missing; heard {received:?}", missing.len());
    }
}

#[tokio::test]
async fn watch_reports_spot_interruption_and_rebalance() {
    let mut all = tokio::task::JoinSet::new();
    for action in ["terminate", "stop", "hibernate"] {
        all.spawn(async move {
            let times = ["-t", "2030-01-01T00:02:00Z", "-r", "2030-01-01T00:01:00Z"];
            let aemm = Aemm::start(&[&["spot", "-a", action], &times[..]].concat());
            let spot = NoticeValue::Spot { action: action.to_owned(), time: Millis(Y2030 + 120_000) };
            let rebalance = NoticeValue::Rebalance { time: Millis(Y2030 + 60_000) };
            aemm.expect_notices(&[&|value| *value == spot, &|value| *value == rebalance]).await;
        });
    }
    while let Some(ended) = all.join_next().await {
        ended.unwrap();
    }
}

#[tokio::test]
async fn watch_reports_maintenance_with_its_state() {
    let rows = [
        ("active", MaintenanceState::Active),
        ("canceled", MaintenanceState::Canceled),
        ("completed", MaintenanceState::Completed),
    ];
    let mut all = tokio::task::JoinSet::new();
    for (state, standing) in rows {
        all.spawn(async move {
            let window = ["-b", "2030-01-01T00:02:00Z", "-a", "2030-01-01T01:00:00Z"];
            let aemm = Aemm::start(&[&["events", "-o", "system-reboot", "-t", state], &window[..]].concat());
            aemm.expect_notices(&[&|value| match value {
                NoticeValue::Maintenance(list) => list.first().is_some_and(|it| {
                    let times = (it.not_before, it.not_after);
                    let right = times == (Millis(Y2030 + 120_000), Some(Millis(Y2030 + 3_600_000)));
                    right && it.standing == standing && it.code == "system-reboot" && !it.event.is_empty()
                }),
                _ => false,
            }])
            .await;
        });
    }
    while let Some(ended) = all.join_next().await {
        ended.unwrap();
    }
}

#[tokio::test]
async fn watch_reports_termination_by_auto_scaling_group() {
    let aemm = Aemm::start(&["asglifecycle", "--asg-termination-delay-sec", "6"]);
    let state = |state: &'static str| move |value: &NoticeValue| *value == NoticeValue::Scaling(state.to_owned());
    aemm.expect_notices(&[&state("InService"), &state("Terminated")]).await;
}

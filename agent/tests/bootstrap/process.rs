//! The real program as systemd starts it: arguments and environment in; files, notifications and an exit code out.

use std::io::Read as _;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::imds::FakeImds;
use crate::test_host::{TestHost, USER_DATA, metadata};

fn command(test_host: &TestHost, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kerf-agent"));
    command.args(arguments).env_clear().env("PATH", test_host.search_path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bootstrap_notifies_systemd_and_exits_with_success() {
    let test_host = TestHost::new("v1.36.0");
    let fake = FakeImds::start(metadata(USER_DATA)).await;
    let socket = UnixDatagram::bind(test_host.root().join("notify")).unwrap();
    let output = command(&test_host, &["bootstrap", "--imds", &fake.endpoint])
        .env("KERF_ROOT", test_host.root())
        .env("KERF_LOG_FORMAT", "json")
        .env("NOTIFY_SOCKET", test_host.root().join("notify"))
        .output()
        .unwrap();
    let log = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{log}{}", String::from_utf8_lossy(&output.stderr));
    assert!(log.contains("bootstrap finished"), "{log}");
    assert!(test_host.root().join("var/lib/kubelet/kubeconfig").exists());

    socket.set_nonblocking(true).unwrap();
    let mut received = Vec::new();
    let mut buffer = [0; 1024];
    while let Ok(length) = socket.recv(&mut buffer) {
        received.push(String::from_utf8_lossy(&buffer[..length]).trim().to_owned());
    }
    assert_eq!(received, ["STATUS=started kubelet as ip-172-16-34-43.us-west-2.compute.internal", "READY=1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bootstrap_reports_wait_reason_in_systemd_status() {
    let test_host = TestHost::new("v1.36.0");
    let fake = FakeImds::start(metadata("nonsense: true")).await;
    let socket = UnixDatagram::bind(test_host.root().join("notify")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut child = command(&test_host, &["bootstrap", "--imds", &fake.endpoint, "--log-format", "text"])
        .env("KERF_ROOT", test_host.root())
        .env("NOTIFY_SOCKET", test_host.root().join("notify"))
        .spawn()
        .unwrap();
    let mut buffer = [0; 1024];
    let length = socket.recv(&mut buffer).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let received = String::from_utf8_lossy(&buffer[..length]).into_owned();
    let sentence = "cannot use user data: this is a document without apiVersion and kind";
    assert!(received.starts_with(&format!("STATUS=waiting: {sentence}")), "{received}");
    let mut log = String::new();
    child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert!(log.contains(&format!("waiting reason=\"{sentence}")), "{log}");
}

#[test]
fn program_exits_with_error_when_arguments_are_invalid() {
    let test_host = TestHost::new("v1.36.0");
    for (arguments, expected) in [
        (vec!["bootstrap", "--imds", "169.254.169.254"], "invalid IMDS endpoint `169.254.169.254`"),
        (vec!["bootstrap", "--log-format", "xml"], "unknown log format"),
        (vec!["reboot"], "unknown command `reboot`; write one of bootstrap, volumes, run,"),
        (vec![], "no command given; write one of bootstrap, volumes, run,"),
    ] {
        let output = command(&test_host, &arguments).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && message.contains(expected), "{arguments:?}: {message}");
    }
}

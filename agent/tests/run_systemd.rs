//! The program under a service manager: its messages on the notify socket, and its exit after SIGTERM.

use std::os::unix::net::UnixDatagram;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::api::{Api, until};
use crate::machine::{INSTANCE, Machine, NAME, node};

/// Adds the messages that systemd received since the previous call to `all`.
fn receive_all(socket: &UnixDatagram, all: &mut Vec<String>) {
    let mut buffer = [0; 4096];
    while let Ok(length) = socket.recv(&mut buffer) {
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        all.extend(text.lines().map(str::to_owned));
    }
}

#[tokio::test]
async fn run_notifies_systemd_of_readiness_status_and_stop() {
    let api = Api::start().await;
    let machine = Machine::boot().await;
    let path = machine.root.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_nonblocking(true).unwrap();
    let mut agent = tokio::process::Command::new(env!("CARGO_BIN_EXE_kerf-agent"))
        .arg("run")
        .env("KERF_ROOT", machine.root.path())
        .env("AWS_EC2_METADATA_SERVICE_ENDPOINT", machine.endpoint())
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "30000000")
        .stderr(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut messages = Vec::new();
    let mut waits_for = async |line: &str| {
        until(line, || {
            receive_all(&socket, &mut messages);
            messages.iter().any(|it| it.starts_with(line)).then_some(())
        })
        .await;
    };
    waits_for("READY=1").await;
    waits_for(&format!("STATUS=waiting for Node {NAME} from the API server")).await;
    waits_for("WATCHDOG=1").await;
    machine.cni();
    machine.join(&api);
    waits_for(&format!("STATUS=waiting for kubelet to register Node {NAME}")).await;
    api.put_node(node(INSTANCE));
    waits_for("STATUS=all gates are open").await;
    let pid = Pid::from_raw(i32::try_from(agent.id().unwrap()).unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    let ended = tokio::time::timeout(crate::api::PATIENCE, agent.wait()).await;
    assert!(ended.unwrap().unwrap().success());
    waits_for("STOPPING=1").await;
}

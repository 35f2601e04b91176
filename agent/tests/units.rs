//! The units as an image ships them, under a real systemd: boot, crash, hang, a stop in the middle of a drain, the journal, and
//! their privileges. Metadata service and API server are scripted, on loopback.

#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

#[path = "units/disks.rs"]
mod disks;

use std::path::Path;
use std::time::{Duration, Instant};

use hyper::Method;

use crate::api::{Api, status, until};
use crate::machine::{INSTANCE, Machine, NAME, USER_DATA, node};
use systemd_container::{Layer, System};

const RUN: &str = "kerf-agent.service";
const BOOTSTRAP: &str = "kerf-agent-bootstrap.service";
const DISKS: &str = "kerf-local-disks.service";
/// Longest time for which logind lets a lock delay a shutdown.
const PATIENCE: Duration = Duration::from_secs(40);

/// Returns the files of an image, with stand-ins for the programs that the agent only starts.
fn layer(imds: &str) -> Layer {
    Layer::new(Path::new(env!("CARGO_BIN_EXE_kerf-agent")), imds).with_stand_ins()
}

/// Returns a system whose bootstrap was done before, with a registered Node. Only `kerf-agent.service` is started.
async fn guarded(settings: &str) -> (Api, Machine, System) {
    let api = Api::start().await;
    let machine = Machine::ready_to_join().await;
    machine.join(&api);
    machine.cni();
    api.put_node(node(INSTANCE));
    let image = layer(machine.endpoint());
    image.write("etc/systemd/system/kerf-agent.service.d/more.conf", settings);
    image.write(
        "etc/systemd/logind.conf.d/patience.conf",
        &format!("[Login]\nInhibitDelayMaxSec={}\n", PATIENCE.as_secs()),
    );
    // Another test covers bootstrap: here it would overwrite the kubeconfig of the scripted server.
    image.write("etc/systemd/system/kerf-agent-bootstrap.service.d/not.conf", "[Unit]\nConditionPathExists=/never\n");
    let system = System::boot(image);
    system.take_over(machine.root.path());
    system.systemctl(&["start", RUN]);
    (api, machine, system)
}

fn signal(system: &System, signal: &str) {
    system.systemctl(&["kill", "--kill-whom=main", "--signal", signal, RUN]);
}

#[tokio::test(flavor = "multi_thread")]
async fn units_start_kubelet_and_agent_at_boot() {
    if !System::is_available() {
        return;
    }
    let machine = Machine::ready_to_join().await;
    let system = System::boot(layer(machine.endpoint()));
    system.systemctl(&["preset", BOOTSTRAP, RUN]);
    assert_eq!(system.property(RUN, "UnitFileState"), "enabled");
    system.systemctl(&["start", "--no-block", BOOTSTRAP, RUN]);
    system.until(BOOTSTRAP, "ActiveState", |state| state == "active");
    assert_eq!(system.property(BOOTSTRAP, "StatusText"), format!("started kubelet as {NAME}"));
    for unit in ["containerd.service", "kubelet.service"] {
        assert_eq!(system.property(unit, "ActiveState"), "active", "{unit}");
    }
    let environment = std::fs::read_to_string(system.at("etc/eks/kubelet/environment")).unwrap();
    assert!(environment.contains(NAME), "{environment}");
    system.until(RUN, "ActiveState", |state| state == "active");
    system.until(RUN, "StatusText", |text| text.contains(NAME));
    let limits = system.run(&["cat", &format!("/proc/{}/limits", system.property(RUN, "MainPID"))]);
    let limits = String::from_utf8(limits.stdout).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(files.split_whitespace().nth(3), Some("4096"), "what agent/tests/usage/cost.rs holds is enough");
}

#[tokio::test(flavor = "multi_thread")]
async fn bootstrap_unit_waits_and_continues_when_user_data_is_fixed() {
    if !System::is_available() {
        return;
    }
    let machine = Machine::ready_to_join().await;
    machine.answer("user-data", 200, "kind: NodeConfig\nspec: [");
    let system = System::boot(layer(machine.endpoint()));
    system.systemctl(&["start", "--no-block", BOOTSTRAP]);
    system.until(BOOTSTRAP, "StatusText", |text| text.starts_with("waiting: ") && text.contains("line"));
    assert_eq!(system.property(BOOTSTRAP, "ActiveState"), "activating");
    machine.answer("user-data", 200, USER_DATA);
    system.until(BOOTSTRAP, "ActiveState", |state| state == "active");
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_unit_restarts_after_a_crash_or_a_hang() {
    if !System::is_available() {
        return;
    }
    let (api, _machine, system) = guarded("[Service]\nWatchdogSec=5\n").await;
    let guarding = |text: &str| text.starts_with("all gates are open");
    // Each start asks for its Node. Before that, the status can be that of the process before.
    let starts = || api.requests(&Method::GET, "/api/v1/nodes").len();
    system.until(RUN, "StatusText", guarding);

    let before = starts();
    signal(&system, "KILL");
    system.until(RUN, "NRestarts", |count| count == "1");
    until("a start after the crash", || (starts() > before).then_some(())).await;
    system.until(RUN, "StatusText", guarding);

    let before = starts();
    signal(&system, "STOP");
    system.until(RUN, "NRestarts", |count| count == "2");
    until("a start after the hang", || (starts() > before).then_some(())).await;
    system.until(RUN, "StatusText", guarding);
    let text = system.systemd_messages(RUN);
    assert!(text.iter().any(|line| line.contains("Watchdog timeout")), "{text:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_unit_resumes_drain_when_stopped_midway() {
    if !System::is_available() {
        return;
    }
    let (api, machine, system) = guarded("").await;
    api.put_pod("a", 1);
    api.put_pod("b", 1);
    api.script("b", std::iter::repeat_n(status(429), 500));
    machine.interrupt(120);
    until("the first pod's end", || (!api.state().pods.contains_key("pod-a")).then_some(())).await;
    system.systemctl(&["stop", RUN]);
    assert_eq!(system.property(RUN, "Result"), "success");
    let journal = std::fs::read_to_string(system.at("var/lib/kerf/journal.json")).unwrap();
    assert!(journal.contains("spot"), "{journal}");
    machine.metadata_fails();
    api.script("b", []);
    system.systemctl(&["start", RUN]);
    until("an empty node", || api.state().pods.is_empty().then_some(())).await;
    system.until(RUN, "StatusText", |text| text.starts_with("drained"));
}

/// Reports whether `systemd-inhibit --list` shows the lock of the agent.
fn delays_shutdown(system: &System) -> bool {
    let listed = system.run(&["systemd-inhibit", "--list", "--no-pager"]).stdout;
    let text = String::from_utf8_lossy(&listed).into_owned();
    text.lines().any(|line| ["kerf-agent", "shutdown", "delay"].iter().all(|word| line.contains(word)))
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_unit_delays_shutdown_until_drain_ends() {
    if !System::is_available() {
        return;
    }
    let (api, _machine, system) = guarded("").await;
    api.put_pod("a", 1);
    api.put_pod("b", 1);
    api.script("b", std::iter::repeat_n(status(429), 500));
    until("the lock", || delays_shutdown(&system).then_some(())).await;
    let begin = Instant::now();
    assert!(system.run(&["systemctl", "poweroff"]).status.success());
    until("the first pod's end", || (!api.state().pods.contains_key("pod-a")).then_some(())).await;
    let manager = ["org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager"];
    let reported = system.run(&[&["busctl", "get-property"], &manager[..], &["PreparingForShutdown"]].concat());
    assert_eq!(String::from_utf8_lossy(&reported.stdout).trim(), "b true", "logind goes down, and waits for us");
    assert!(delays_shutdown(&system), "a pod is still here");
    api.script("b", []);
    until("an empty node", || api.state().pods.is_empty().then_some(())).await;
    system.is_off();
    assert!(begin.elapsed() < PATIENCE, "it was let go, and did not lose its patience: {:?}", begin.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_unit_logs_fields_to_the_journal() {
    if !System::is_available() {
        return;
    }
    let (api, machine, system) = guarded("").await;
    api.put_pod("a", 1);
    machine.interrupt(60);
    until("an empty node", || api.state().pods.is_empty().then_some(())).await;
    system.systemctl(&["stop", RUN]);
    let entries = system.journal(RUN);
    let field = |key: &str, value: &str| entries.iter().any(|entry| entry[key] == value);
    assert!(field("INSTANCE_ID", INSTANCE) && field("NODE", NAME), "who it is: {entries:#?}");
    assert!(field("VERB", "evict") && field("NAMESPACE", "default") && field("POD", "pod-a"), "{entries:#?}");
    let sent =
        entries.iter().filter(|entry| entry["_TRANSPORT"] == "journal" && entry["SYSLOG_IDENTIFIER"] == "kerf-agent");
    assert!(sent.count() > 3, "over the journal's own protocol, not as lines of stderr");
}

#[tokio::test(flavor = "multi_thread")]
async fn units_pass_systemd_analyze_verify_and_security() {
    if !System::is_available() {
        return;
    }
    let system = System::boot(layer("http://127.0.0.1:1"));
    disks::install(&system, disks::PROGRAM);
    for (unit, ceiling) in [(RUN, 18), (BOOTSTRAP, 22), (DISKS, 45)] {
        let path = format!("/etc/systemd/system/{unit}");
        let threshold = format!("--threshold={ceiling}");
        for arguments in [vec!["verify", "--man=no"], vec!["security", "--offline=true", "--no-pager", &threshold]] {
            let output = system.run(&[&["systemd-analyze"], arguments.as_slice(), &[&path]].concat());
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            assert!(output.status.success(), "{unit}: {arguments:?}: {text}");
            // systemd reports and ignores a line that it does not understand: the command succeeds.
            let warnings: Vec<&str> = text.lines().filter(|line| line.contains(&format!("{path}:"))).collect();
            assert!(warnings.is_empty(), "{unit}: {arguments:?}: {warnings:?}");
        }
    }
}

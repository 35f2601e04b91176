//! Reports of the agent on its own machine: status, doctor, metrics and timeline, by the real program.

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpSocket;

use crate::api::{Api, until};
use crate::machine::{INSTANCE, Machine, NAME, node};

/// Returns a `kerf-agent` command on the machine.
fn agent(machine: &Machine, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kerf-agent"));
    command.args(arguments).env_remove("NOTIFY_SOCKET").env("KERF_ROOT", machine.root.path());
    command.env("AWS_EC2_METADATA_SERVICE_ENDPOINT", machine.endpoint()).stdin(Stdio::null());
    command
}

async fn output(machine: &Machine, arguments: &[&str]) -> (bool, String) {
    let mut command = agent(machine, arguments);
    let Output { status, stdout, stderr } =
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    (status.success(), format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)))
}

async fn status(machine: &Machine) -> Value {
    serde_json::from_str(&output(machine, &["status", "-o", "json"]).await.1).unwrap()
}

/// Running agent, killed at the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(machine: &Machine, metrics: &str) -> Running {
    let mut command = agent(machine, &["run", "--metrics", metrics]);
    Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

fn annotation(api: &Api) -> Option<Value> {
    let state = api.state();
    let line = state.node.as_ref()?["metadata"]["annotations"]["kerf.sh/timeline"].as_str()?.to_owned();
    serde_json::from_str(&line).ok()
}

async fn scrape(address: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert!(text.contains("\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{text}");
    text
}

#[tokio::test]
async fn agent_reports_stages_on_node_socket_and_metrics() {
    let api = Api::start().await;
    let machine = Machine::boot().await;
    machine.join(&api);
    let past = json!({"start": "2026-01-01T00:00:00Z", "stages": {"imds": "2026-01-01T00:00:00.012Z"}});
    machine.write("run/kerf/timeline.json", &past.to_string());
    let probe = |name| format!("{{name: {name}, file: {{path: /run/{name}}}, period: 1s}}");
    machine.write("etc/kerf/agent.yaml", &format!("gates: {{probes: [{}, {}]}}\n", probe("early"), probe("late")));
    machine.write("run/early", "");
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let running = start(&machine, &address);
    api.put_node(node(INSTANCE));
    until("the Node to be seen", || annotation(&api).filter(|line| line["node-seen"].is_u64())).await;
    let status_now = status(&machine).await;
    assert_eq!((&status_now["running"], &status_now["identity"]["node"]), (&json!(true), &json!(NAME)));
    assert_eq!(status_now["identity"]["instance"], INSTANCE);
    let ready = &status_now["conditions"][0];
    assert_eq!((&ready["type"], &ready["status"]), (&json!("kerf.sh/Ready"), &json!("False")), "{status_now}");
    let socket = machine.root.path().join("run/kerf/admin.sock");
    assert_eq!(std::fs::metadata(socket).unwrap().permissions().mode() & 0o777, 0o600);

    machine.cni();
    api.put_pod("a", 1);
    let one_of_a_kind = |line: &Value| line["gate-Probe early"].is_u64() && line["gate-Probe late"].is_null();
    until("a gate of its own", || annotation(&api).filter(one_of_a_kind)).await;
    machine.write("run/late", "");
    let gates = ["gate-Bootstrap", "gate-Kubelet", "gate-CNI", "gate-Probe early", "gate-Probe late"];
    let stages = [&["node-seen", "ready", "first-pod-running"], &gates[..]].concat();
    let all_reached = |line: &Value| stages.iter().all(|stage| line[stage].is_u64());
    let line = until("every stage", || annotation(&api).filter(all_reached)).await;
    assert!(gates.iter().all(|gate| line[gate].as_u64() <= line["ready"].as_u64()), "{line}");
    assert_eq!((&line["start"], &line["imds"]), (&json!("2026-01-01T00:00:00.000Z"), &json!(12)));
    let file = std::fs::read(machine.root.path().join("run/kerf/timeline.json")).unwrap();
    let file: Value = serde_json::from_slice(&file).unwrap();
    assert!(stages.iter().all(|stage| file["stages"][stage].is_string()), "{file}");

    let text = scrape(&address).await;
    for part in [
        r#"kerf_agent_stage_seconds{stage="imds"} 0.012"#,
        r#"kerf_agent_condition{condition="kerf.sh/Ready",status="True"} 1.0"#,
        "kerf_agent_api_answers{} 1.0",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }

    machine.metadata_fails();
    let counted = async {
        while !scrape(&address).await.contains(r#"events_error_total{event_error_where="imds"}"#) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(crate::api::PATIENCE, counted).await.expect("the failures are counted");

    drop(running);
    let left = status(&machine).await;
    assert_eq!((&left["running"], &left["identity"]["node"]), (&json!(false), &json!(NAME)));
    assert!(left["phase"].as_str().unwrap().contains("no response from the agent"), "{left}");
    let (well, text) = output(&machine, &["status"]).await;
    for part in ["agent        0.1.0 not running", &format!("node         {NAME}"), "first-pod-running"] {
        assert!(well && text.contains(part), "{part} in {text}");
    }
}

#[tokio::test]
async fn status_reports_health_of_the_machine() {
    let api = Api::start().await;
    let machine = Machine::boot().await;
    machine.join(&api);
    api.put_node(node(INSTANCE));
    assert_eq!(status(&machine).await["health"], Value::Null, "no process runs that could know");
    let boot = jiff::Timestamp::now().as_second() - 60;
    machine.write("proc/stat", &format!("btime {boot}\n"));
    let given_up = "XFS (nvme0n1p1): Metadata I/O Error. Shutting down filesystem.";
    machine.write("dev/kmsg", &format!("3,9,5000000,-;{given_up}\n"));
    let running = start(&machine, "off");
    let mut health = Value::Null;
    for _ in 0..200 {
        health = status(&machine).await["health"].clone();
        if health["looked"] == true {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let since = jiff::Timestamp::from_second(boot + 5).unwrap().to_string();
    let trouble = json!({"condition": "StorageReady", "reason": "FilesystemShutdown", "fatal": true, "since": since});
    let all_reached =
        health["troubles"].as_array().unwrap().iter().find(|it| it["reason"] == trouble["reason"]).unwrap();
    for (field, value) in trouble.as_object().unwrap() {
        assert_eq!(&all_reached[field], value, "{health}");
    }
    assert!(all_reached["message"].as_str().unwrap().contains("Shutting down filesystem"), "{all_reached}");
    let (_, text) = output(&machine, &["status"]).await;
    let line = format!("health       FilesystemShutdown since {since}: {}", all_reached["message"].as_str().unwrap());
    assert!(text.contains(&line) && text.contains("(StorageReady is False)"), "{line} in {text}");
    drop(running);
    assert!(output(&machine, &["status"]).await.1.contains("health       not known"));
}

#[tokio::test]
async fn status_reports_error_while_api_server_is_unreachable() {
    let api = Api::start().await;
    let machine = Machine::boot().await;
    let silent = TcpSocket::new_v4().unwrap();
    silent.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    machine.join_at(&format!("http://{}", silent.local_addr().unwrap()));
    let _running = start(&machine, "off");
    let mut phase = String::new();
    for _ in 0..200 {
        phase = status(&machine).await["phase"].as_str().unwrap().to_owned();
        if phase.contains("cannot connect") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let cure = "check its address and the security groups";
    assert!(phase.starts_with("waiting for Node") && phase.contains(cure), "{phase}");
    machine.join(&api);
    api.put_node(node(INSTANCE));
    until("the Node to be seen", || annotation(&api)).await;
    let phase = status(&machine).await["phase"].as_str().unwrap().to_owned();
    assert!(!phase.contains("cannot connect"), "{phase}");
}

#[tokio::test]
async fn doctor_reports_each_problem() {
    let api = Api::start().await;
    let machine = Machine::boot().await;
    machine.join(&api);
    api.put_node(node(INSTANCE));
    machine.write("var/lib/kerf/journal.json", "{}");
    let (well, text) = output(&machine, &["doctor"]).await;
    assert!(well, "{text}");
    for part in [&format!("ok    metadata     {INSTANCE}"), "ok    api server   reachable", "warn  journal"] {
        assert!(text.contains(part), "{part} in {text}");
    }

    let theirs = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(3);
    api.state().date = Some(theirs.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string());
    api.put_node(node("i-another"));
    machine.answer("dynamic/instance-identity/document", 200, "<html>");
    let failed = json!({"state": "failed", "reason": "line 3, spec.cluster: no", "since": "2026-01-01T00:00:00Z"});
    machine.write("run/kerf/bootstrap.json", &failed.to_string());
    let (well, text) = output(&machine, &["doctor"]).await;
    assert!(!well, "{text}");
    for part in ["error metadata", "error bootstrap    failed since", "line 3, spec.cluster", "error clock        3h"] {
        assert!(text.contains(part), "{part} in {text}");
    }

    machine.answer("dynamic/instance-identity/document", 503, "");
    std::fs::remove_file(machine.root.path().join("var/lib/kubelet/kubeconfig")).unwrap();
    let (well, text) = output(&machine, &["doctor", "-o", "json"]).await;
    let (findings, _) = text.rsplit_once(']').unwrap();
    let findings: Value = serde_json::from_str(&format!("{findings}]")).unwrap();
    let broken =
        |check: &str| findings.as_array().unwrap().iter().any(|it| it["check"] == check && it["verdict"] == "broken");
    assert!(!well && broken("metadata") && broken("role") && broken("kubeconfig"), "{text}");
}

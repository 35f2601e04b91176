//! Gates of a running agent. Each kind of probe, against real files, sockets and servers, opens only when its condition holds.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::service::service_fn;
use hyper::{Method, Response, StatusCode};
use hyper_util::rt::TokioIo;
use machine::agent::gates::CniGate;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpSocket, UnixListener};

use crate::api::{Api, until};
use crate::machine::{INSTANCE, Machine, node};

/// Returns reason and message of the condition `kerf.sh/Ready`.
fn ready(api: &Api) -> Option<(String, String)> {
    let state = api.state();
    let conditions = state.node.as_ref()?["status"]["conditions"].as_array()?.clone();
    let condition = conditions.into_iter().find(|it| it["type"] == "kerf.sh/Ready")?;
    let text = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
    Some((text("reason"), text("message")))
}

async fn closed(api: &Api, gate: &str, why: &str) {
    until(&format!("{gate} closed: {why}"), || {
        ready(api).filter(|(reason, message)| reason == gate && message.contains(why))
    })
    .await;
}

async fn opened(api: &Api) {
    until("open gates", || ready(api).filter(|(reason, _)| reason == "GatesOpen")).await;
}

/// Starts a server that responds with the status in `status`; returns its port.
async fn server(status: &Arc<AtomicU16>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let status = Arc::clone(status);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let status = Arc::clone(&status);
            let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                let known = *request.uri() == "/healthz?full=1";
                let mut response = Response::new(Empty::<Bytes>::new());
                let code = if known { status.load(Ordering::Relaxed) } else { 404 };
                *response.status_mut() = StatusCode::from_u16(code).unwrap();
                std::future::ready(Ok::<_, Infallible>(response))
            });
            let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            // A disconnect of the client is expected, so the error is dropped.
            drop(connection.await);
        }
    });
    port
}

async fn booted(settings: &str) -> (Api, Machine) {
    let api = Api::start().await;
    let mut machine = Machine::boot().await;
    machine.write("etc/kerf/agent.yaml", settings);
    machine.join(&api);
    machine.cni();
    api.put_node(node(INSTANCE));
    machine.start();
    (api, machine)
}

#[tokio::test]
async fn probes_open_gate_when_file_socket_port_and_page_exist() {
    let status = Arc::new(AtomicU16::new(503));
    let page = server(&status).await;
    let silent = TcpSocket::new_v4().unwrap();
    silent.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let port = silent.local_addr().unwrap().port();
    let pace = "period: 1s, timeout: 500ms";
    let settings = format!(
        "gates:\n  probes:\n  - {{name: f, file: {{path: /run/licence}}, {pace}}}\n  - {{name: s, socket: {{path: /run/x.sock}}, {pace}}}\n  \
         - {{name: t, tcp: {{port: {port}}}, {pace}}}\n  - {{name: h, http: {{port: {page}, path: /healthz?full=1}}, {pace}, failureThreshold: 2}}\n"
    );
    let (api, machine) = booted(&settings).await;
    for why in ["Probe f since", "/run/licence does not exist", "Probe s since", "Probe t since", "returned 503"] {
        closed(&api, "Probe", why).await;
    }
    machine.write("run/licence", "");
    let _socket = UnixListener::bind(machine.root.path().join("run/x.sock")).unwrap();
    let _port = silent.listen(1024).unwrap();
    until("only the page", || ready(&api).filter(|(_, message)| message.starts_with("Probe h since"))).await;
    status.store(302, Ordering::Relaxed);
    opened(&api).await;
    status.store(500, Ordering::Relaxed);
    closed(&api, "Probe", "returned 500").await;
    status.store(200, Ordering::Relaxed);
    opened(&api).await;
}

#[tokio::test]
async fn gates_wait_for_csi_driver_device_and_daemon_set() {
    let settings = "gates:\n  csiDrivers: [ebs.csi.aws.com]\n  devices: [nvidia.com/gpu]\n  daemonSets:\n  \
                    - {name: proxy, selector: {app.kubernetes.io/name: kube-proxy, tier: node}}\n";
    let (api, _machine) = booted(settings).await;
    closed(&api, "CSIDriver,Device,DaemonSet", "DaemonSet proxy has no pod on this node").await;
    let proxy = |name: &str, ready: &str| {
        json!({
            "metadata": {"name": name, "namespace": "kube-system", "uid": name,
                         "labels": {"app.kubernetes.io/name": "kube-proxy", "tier": "node"}},
            "spec": {"nodeName": "n"},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
        })
    };
    let mut other = proxy("other", "True");
    other["metadata"]["labels"]["tier"] = json!("edge");
    api.state().put(other);
    api.state().put(proxy("proxy", "False"));
    closed(&api, "CSIDriver,Device,DaemonSet", "pod proxy of DaemonSet proxy is not Ready").await;
    api.state().put(proxy("proxy", "True"));
    closed(&api, "CSIDriver,Device", "CSI driver ebs.csi.aws.com is not registered").await;
    api.state().drivers = vec!["efs.csi.aws.com", "ebs.csi.aws.com"];
    closed(&api, "Device", "the Node has no nvidia.com/gpu").await;
    let mut with_gpu = api.state().node.clone().unwrap();
    with_gpu["status"]["allocatable"] = json!({"nvidia.com/gpu": "1"});
    api.put_node(with_gpu);
    opened(&api).await;
    let asked = api.requests(&Method::GET, "/api/v1/namespaces/kube-system/pods");
    assert!(asked.iter().all(|it| it.query.contains("fieldSelector=spec.nodeName%3D")), "a node may list no others");
}

#[tokio::test]
async fn ready_condition_stays_true_when_agent_restarts() {
    let (api, mut machine) = booted("").await;
    opened(&api).await;
    let status_conditions = |api: &Api| {
        let patches = api
            .state()
            .seen
            .iter()
            .filter(|it| it.path.ends_with("/status"))
            .map(|it| it.body.clone())
            .collect::<Vec<_>>();
        patches.iter().flat_map(|body| body["status"]["conditions"].as_array().unwrap().clone()).collect::<Vec<Value>>()
    };
    machine.kill();
    let before = status_conditions(&api).len();
    machine.write("etc/kerf/agent.yaml", "gates: {csiDrivers: [ebs]}");
    api.state().drivers = vec!["ebs"];
    machine.start();
    until("the new gate by name", || ready(&api).filter(|(_, message)| message.contains("CSIDriver ebs"))).await;
    let since = status_conditions(&api).split_off(before);
    let closed = since.iter().find(|it| it["type"] == "kerf.sh/Ready" && it["status"] == "False");
    assert_eq!(closed, None);
}

#[test]
fn cni_trouble_returns_none_when_all_plugins_are_executable() {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str, mode: u32| {
        use std::os::unix::fs::PermissionsExt as _;
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let trouble = || agent::gates::cni_trouble(root.path(), &CniGate::default());
    let complains = |what: &str| {
        let message = trouble().unwrap_or_default();
        assert!(message.contains(what), "{what}: {message}");
    };
    complains("no CNI configuration in /etc/cni/net.d");
    write("etc/cni/net.d/readme", "", 0o644);
    complains("no CNI configuration in /etc/cni/net.d");
    write("etc/cni/net.d/00-half.conflist", "{\"plugins\": [", 0o644);
    complains("names a plugin");
    write("etc/cni/net.d/10-aws.conflist", r#"{"plugins": [{"type": "aws-cni"}, {"type": "portmap"}]}"#, 0o644);
    complains("10-aws.conflist requires plugin aws-cni, portmap");
    write("opt/cni/bin/aws-cni", "", 0o755);
    write("opt/cni/bin/portmap", "", 0o644);
    complains("requires plugin portmap, which");
    write("usr/libexec/cni/portmap", "", 0o755);
    assert_eq!(trouble(), None);
    write("etc/cni/net.d/05-bridge.conf", r#"{"type": "bridge"}"#, 0o644);
    complains("05-bridge.conf requires plugin bridge");
}

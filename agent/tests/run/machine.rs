//! Simulated machine for the whole loop: a root folder as bootstrap leaves it, a scripted metadata service, and the agent.

#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::aws::imds::Imds;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use machine::agent::mode::Listen;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinHandle};

use crate::api::Api;

pub const NAME: &str = "ip-10-0-0-1.us-west-2.compute.internal";
pub const INSTANCE: &str = "i-0123456789abcdef0";
/// NodeConfig with which a machine can join a cluster.
pub const USER_DATA: &str = include_str!("../minimal-nodeconfig.yaml");
const SPOT: &str = "meta-data/spot/instance-action";

type Answers = Arc<Mutex<BTreeMap<String, (u16, String)>>>;

/// Simulated machine; its servers and its agent stop when it is dropped.
pub struct Machine {
    pub root: TempDir,
    answers: Answers,
    endpoint: String,
    server: JoinHandle<()>,
    agent: Option<AbortHandle>,
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.server.abort();
        self.kill();
    }
}

impl Machine {
    pub async fn boot() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let answers = Answers::default();
        let server = tokio::spawn(serve(listener, Arc::clone(&answers)));
        let root = tempfile::tempdir().unwrap();
        let machine = Self { root, answers, endpoint, server, agent: None };
        machine.answer("meta-data/instance-life-cycle", 200, "spot");
        machine.answer("meta-data/local-hostname", 200, NAME);
        let identity = json!({"instanceId": INSTANCE, "instanceType": "m5.large", "region": "us-west-2",
                              "availabilityZone": "us-west-2a"});
        machine.answer("dynamic/instance-identity/document", 200, &identity.to_string());
        machine.write("etc/eks/kubelet/environment", &format!("NODEADM_KUBELET_ARGS=\"--hostname-override={NAME}\"\n"));
        let done = json!({"state": "done", "nodeName": NAME, "since": "2026-01-01T00:00:00Z"});
        machine.write("run/kerf/bootstrap.json", &done.to_string());
        machine
    }

    /// Boots a machine as [`Self::boot`] does, with the metadata that it needs to join a cluster.
    pub async fn ready_to_join() -> Self {
        let machine = Self::boot().await;
        machine.answer("user-data", 200, USER_DATA);
        machine.answer("meta-data/local-ipv4", 200, "10.0.0.1");
        machine.answer("meta-data/mac", 200, "0e:49:61:0f:c3:11");
        machine
    }

    pub fn answer(&self, path: &str, status: u16, body: &str) {
        self.answers.lock().unwrap().insert(path.to_owned(), (status, body.to_owned()));
    }

    /// Serves a spot notice that leaves `seconds`; returns its deadline.
    pub fn interrupt(&self, seconds: i64) -> String {
        let time = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second() + seconds).unwrap();
        self.answer(SPOT, 200, &json!({"action": "terminate", "time": time.to_string()}).to_string());
        time.to_string()
    }

    pub fn metadata_fails(&self) {
        self.answer(SPOT, 503, "");
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn join(&self, api: &Api) {
        self.join_at(&api.url);
    }

    pub fn join_at(&self, url: &str) {
        self.write("var/lib/kubelet/kubeconfig", &kubeconfig(url));
    }

    pub fn cni(&self) {
        self.write("etc/cni/net.d/10-aws.conflist", r#"{"plugins": [{"type": "aws-cni"}, {"type": "portmap"}]}"#);
        for plugin in ["aws-cni", "portmap"] {
            self.program(&format!("opt/cni/bin/{plugin}"));
        }
    }

    /// Writes an executable file.
    pub fn program(&self, path: &str) {
        self.write(path, "");
        fs::set_permissions(self.root.path().join(path), fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub fn journal(&self) -> Option<serde_json::Value> {
        let text = fs::read(self.root.path().join("var/lib/kerf/journal.json")).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Waits until an agent runs here and reports a phase that contains `text`.
    pub async fn until_phase(&self, text: &str) {
        let mut last = String::new();
        let reported = async {
            loop {
                match agent::run::status::socket::ask(self.root.path()).await {
                    Ok(status) if status.phase.contains(text) => return,
                    Ok(status) => last = status.phase,
                    Err(error) => last = error.to_string(),
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(crate::api::PATIENCE, reported).await;
        assert!(waited.is_ok(), "no agent reports a phase with `{text}`, but `{last}`");
    }

    /// Returns the endpoint of the metadata service.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Returns a client of the metadata service.
    pub fn imds(&self) -> Arc<Imds> {
        Arc::new(Imds::new(&self.endpoint, Duration::from_secs(2)).unwrap())
    }

    /// Starts the agent, as systemd does after the agent died; the returned task ends with the agent.
    pub fn start(&mut self) -> JoinHandle<()> {
        let imds = self.imds();
        let root = self.root.path().to_owned();
        let agent = tokio::spawn(async move { run(&root, imds).await });
        self.agent = Some(agent.abort_handle());
        agent
    }

    /// Aborts the agent between two of its steps.
    pub fn kill(&mut self) {
        if let Some(agent) = self.agent.take() {
            agent.abort();
        }
    }
}

async fn run(root: &Path, imds: Arc<Imds>) {
    let role = agent::aws::identity::Role::new(Arc::clone(&imds));
    agent::run::run(root, imds, role, Some(Listen(None))).await.unwrap();
}

fn kubeconfig(server: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: c\n  cluster: {{server: \"{server}\"}}\n\
         contexts:\n- name: x\n  context: {{cluster: c, user: u}}\ncurrent-context: x\n\
         users:\n- name: u\n  user: {{}}\n"
    )
}

/// Returns our Node as kubelet registers it.
pub fn node(instance: &str) -> serde_json::Value {
    json!({
        "metadata": {"name": NAME, "uid": "node-uid"},
        "spec": {"providerID": format!("aws:///us-west-2a/{instance}")},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
}

async fn serve(listener: TcpListener, answers: Answers) {
    while let Ok((stream, _)) = listener.accept().await {
        let answers = Arc::clone(&answers);
        tokio::spawn(async move {
            let service = service_fn(|request| std::future::ready(Ok::<_, Infallible>(reply(&request, &answers))));
            // A disconnect of the client is expected, so the error is dropped.
            drop(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
        });
    }
}

fn reply(request: &Request<Incoming>, answers: &Answers) -> Response<Full<Bytes>> {
    if request.method() == Method::PUT {
        return Response::new(Full::from("a-token"));
    }
    let path = request.uri().path().trim_start_matches("/latest/");
    let known = answers.lock().unwrap().get(path).cloned();
    let (status, body) = known.unwrap_or((404, String::new()));
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap();
    response
}

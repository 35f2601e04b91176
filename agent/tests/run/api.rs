//! Scripted API server: plain HTTP on loopback, one Node, some pods, and replies to evictions that a test sets beforehand.

#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use json_patch::merge;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

type Body = BoxBody<Bytes, Infallible>;

/// Scripted response to the next eviction or deletion of a pod.
#[derive(Clone, Debug)]
pub struct Scripted {
    pub status: u16,
    pub retry_after: Option<u64>,
    pub message: &'static str,
}

pub fn status(status: u16) -> Scripted {
    Scripted { status, retry_after: None, message: "scripted" }
}

/// Request as it arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: Method,
    pub path: String,
    pub query: String,
    pub content_type: String,
    pub authorization: String,
    pub body: Value,
}

impl Seen {
    /// Reports whether the label selector of the request matches the object.
    fn selects(&self, object: &Value) -> bool {
        let Some((_, selector)) = self.query.split_once("labelSelector=") else { return true };
        let (selector, _) = selector.split_once('&').unwrap_or((selector, ""));
        let plain = selector.replace("%3D", "=").replace("%2C", ",").replace("%2F", "/");
        plain.split(',').all(|pair| {
            let (key, value) = pair.split_once('=').unwrap();
            object["metadata"]["labels"][key] == value
        })
    }
}

#[derive(Default)]
pub struct State {
    pub node: Option<Value>,
    pub pods: BTreeMap<String, Value>,
    pub replies: BTreeMap<String, VecDeque<Scripted>>,
    pub seen: Vec<Seen>,
    pub events: BTreeMap<String, Value>,
    /// Existence of the VolumeAttachment of the node's one volume.
    pub attached: bool,
    /// Names of the CSI drivers that are registered on the node.
    pub drivers: Vec<&'static str>,
    /// Status of the response to the next watch, instead of a stream.
    pub watch_answer: Option<u16>,
    /// Refusal of every eviction with 429 unless scripted otherwise; deletions are not affected.
    pub budget_holds: bool,
    /// `Date` header of the responses, instead of the current time.
    pub date: Option<String>,
    /// Interval of a PodDisruptionBudget `all` that permits one eviction at a time.
    pub one_each: Option<Duration>,
    let_go: Option<Instant>,
    /// Number of connections so far.
    pub connections: usize,
    version: u64,
    /// Past events for watches that start at an earlier version.
    history: Vec<(u64, String, Bytes)>,
    watchers: Vec<(String, UnboundedSender<Bytes>)>,
}

/// Running server; stops when dropped.
pub struct Api {
    pub url: String,
    state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
}

impl Drop for Api {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Api {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let task = tokio::spawn(accept(listener, Arc::clone(&state)));
        Self { url, state, task }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub fn put_node(&self, node: Value) {
        self.state().set_node(node);
    }

    pub fn put_pod(&self, uid: &str, grace: u64) {
        let pod = json!({
            "metadata": {"name": format!("pod-{uid}"), "namespace": "default", "uid": uid},
            "spec": {"nodeName": "n", "terminationGracePeriodSeconds": grace},
            "status": {"phase": "Running"},
        });
        self.state().put(pod);
    }

    pub fn script(&self, uid: &str, replies: impl IntoIterator<Item = Scripted>) {
        self.state().replies.insert(format!("pod-{uid}"), replies.into_iter().collect());
    }

    /// Sends a line to every watch of `path`.
    pub fn send_event(&self, path: &str, line: &Value) {
        self.state().send_event(path, line);
    }

    /// Closes all watches.
    pub fn hang_up(&self) {
        self.state().watchers.clear();
    }

    /// Returns the requests with this method and path.
    pub fn requests(&self, method: &Method, path: &str) -> Vec<Seen> {
        let state = self.state();
        let matching = state.seen.iter().filter(|it| it.method == *method && it.path == path);
        matching.cloned().collect()
    }
}

/// Time limit for a step that takes milliseconds: long enough for a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until `there` returns a value; fails the test after [`PATIENCE`].
pub async fn until<T>(what: &str, mut there: impl FnMut() -> Option<T>) -> T {
    let waiting = async {
        loop {
            if let Some(value) = there() {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| unreachable!("waited in vain for {what}"))
}

impl State {
    fn send_event(&mut self, path: &str, line: &Value) {
        let line = Bytes::from(format!("{line}\n"));
        self.history.push((self.version, path.to_owned(), line.clone()));
        self.watchers.retain(|(watched, sender)| watched != path || sender.send(line.clone()).is_ok());
    }

    fn stamp(&mut self, object: &mut Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
    }

    fn set_node(&mut self, mut node: Value) {
        self.stamp(&mut node);
        let kind = if self.node.is_some() { "MODIFIED" } else { "ADDED" };
        self.send_event("/api/v1/nodes", &json!({"type": kind, "object": node}));
        self.node = Some(node);
    }

    pub fn put(&mut self, mut pod: Value) {
        self.stamp(&mut pod);
        self.send_event("/api/v1/pods", &json!({"type": "ADDED", "object": pod}));
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        self.pods.insert(name, pod);
    }

    fn remove(&mut self, name: &str) {
        if let Some(mut pod) = self.pods.remove(name) {
            self.stamp(&mut pod);
            self.send_event("/api/v1/pods", &json!({"type": "DELETED", "object": pod}));
        }
    }

    /// Evicts a pod; if the budget permits no eviction, returns the exact error of the API server.
    fn evict(&mut self, name: &str, uid: &str) -> Response<Body> {
        let full = self.one_each.is_some_and(|heals| self.let_go.is_some_and(|at| at.elapsed() < heals));
        if !full {
            let answer = if self.budget_holds { status(429) } else { self.end_pod(name, uid) };
            self.let_go = Some(Instant::now()).filter(|_| answer.status < 300).or(self.let_go);
            return reply(&answer);
        }
        let cause = json!({"reason": "DisruptionBudget",
                           "message": "The disruption budget all needs 29 healthy pods and has 29 currently"});
        let mut response = ok(&json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "TooManyRequests", "code": 429,
            "message": "Cannot evict pod as it would violate the pod's disruption budget.",
            "details": {"causes": [cause]},
        }));
        *response.status_mut() = hyper::StatusCode::TOO_MANY_REQUESTS;
        response
    }

    /// Handles an eviction or deletion with the scripted response, or else like a server without budgets.
    fn end_pod(&mut self, name: &str, uid: &str) -> Scripted {
        let scripted = self.replies.get_mut(name).and_then(VecDeque::pop_front);
        let reply = scripted.unwrap_or_else(|| match self.pods.get(name) {
            None => status(404),
            Some(pod) if pod["metadata"]["uid"] != uid => status(409),
            Some(_) => status(201),
        });
        if reply.status < 300 || reply.status == 404 {
            self.remove(name);
        }
        reply
    }

    fn watch(&mut self, path: &str, since: u64) -> UnboundedReceiver<Bytes> {
        let (sender, receiver) = unbounded_channel();
        let missed = self.history.iter().filter(|(version, watched, _)| *version > since && watched == path);
        for (_, _, line) in missed {
            sender.send(line.clone()).unwrap();
        }
        self.watchers.push((path.to_owned(), sender));
        receiver
    }

    /// Returns one page of a collection. The `continue` token contains characters that need escaping.
    fn list(&self, path: &str, query: &str) -> Value {
        let items: Vec<&Value> = match path {
            "/api/v1/nodes" => self.node.iter().collect(),
            _ => self.pods.values().collect(),
        };
        let asked = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name));
        let from = asked("continue=").map_or(0, |word| word.trim_end_matches("%3D%3D").parse::<usize>().unwrap());
        let most = asked("limit=").map_or(usize::MAX, |limit| limit.parse().unwrap());
        let next = from.saturating_add(most);
        let next = if next < items.len() { format!("{next}==") } else { String::new() };
        let page: Vec<&Value> = items.into_iter().skip(from).take(most).collect();
        json!({"metadata": {"resourceVersion": self.version.to_string(), "continue": next}, "items": page})
    }

    /// Applies the subset of RFC 6902 that the agent uses: a test, and a removal at the same path.
    fn patch_precisely(&mut self, patch: &Value) -> Response<Body> {
        let mut node = self.node.clone().unwrap_or_default();
        let place = patch[0]["path"].as_str().unwrap();
        let holds = patch[0]["op"] == "test" && node.pointer(place) == Some(&patch[0]["value"]);
        if !holds {
            return reply(&status(422));
        }
        assert_eq!((&patch[1]["op"], &patch[1]["path"]), (&json!("remove"), &patch[0]["path"]));
        let (above, key) = place.rsplit_once('/').unwrap();
        node.pointer_mut(above).unwrap().as_object_mut().unwrap().remove(&key.replace("~1", "/"));
        self.set_node(node);
        ok(&json!({}))
    }

    fn patch_status(&mut self, patch: &Value) {
        let Some(mut node) = self.node.clone() else { return };
        if !node["status"]["conditions"].is_array() {
            node["status"]["conditions"] = json!([]);
        }
        let conditions = node["status"]["conditions"].as_array_mut().unwrap();
        for condition in patch["status"]["conditions"].as_array().unwrap() {
            match conditions.iter_mut().find(|it| it["type"] == condition["type"]) {
                Some(known) => merge(known, condition),
                None => conditions.push(condition.clone()),
            }
        }
        self.set_node(node);
    }
}

async fn accept(listener: TcpListener, state: Arc<Mutex<State>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let state = Arc::clone(&state);
        state.lock().unwrap().connections += 1;
        tokio::spawn(async move {
            let service = service_fn(|request| answer(request, Arc::clone(&state)));
            // A disconnect of the client is expected, so the error is dropped.
            drop(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
        });
    }
}

async fn answer(request: Request<Incoming>, state: Arc<Mutex<State>>) -> Result<Response<Body>, Infallible> {
    let (parts, body) = request.into_parts();
    let bytes = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let header = |name: &str| parts.headers.get(name).map_or("", |it| it.to_str().unwrap()).to_owned();
    let seen = Seen {
        content_type: header("content-type"),
        authorization: header("authorization"),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        method: parts.method,
        body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
    };
    let query = seen.query.clone();
    let mut state = state.lock().unwrap();
    state.seen.push(seen.clone());
    if query.contains("watch=1") {
        let (_, since) = query.split_once("resourceVersion=").unwrap();
        let since = since.split('&').next().unwrap().parse().unwrap();
        return Ok(match state.watch_answer.take() {
            Some(code) => reply(&status(code)),
            None => streamed(state.watch(&seen.path, since)),
        });
    }
    let mut response = respond(&mut state, &seen);
    if let Some(date) = &state.date {
        response.headers_mut().insert("date", date.parse().unwrap());
    }
    Ok(response)
}

fn respond(state: &mut State, seen: &Seen) -> Response<Body> {
    let steps: Vec<&str> = seen.path.trim_start_matches("/api/v1/").split('/').collect();
    match (seen.method.as_str(), steps.as_slice()) {
        ("GET", ["nodes"] | ["pods"]) => ok(&state.list(&seen.path, &seen.query)),
        ("GET", ["", "apis", "storage.k8s.io", "v1", "csinodes", _]) => {
            let drivers: Vec<Value> = state.drivers.iter().map(|name| json!({"name": name})).collect();
            ok(&json!({"spec": {"drivers": drivers}}))
        }
        ("GET", ["", "apis", "storage.k8s.io", "v1", "volumeattachments", _]) => match state.attached {
            true => ok(&json!({})),
            false => reply(&status(403)),
        },
        ("GET", ["namespaces", namespace, "pods"]) => {
            let there = |pod: &&Value| pod["metadata"]["namespace"] == **namespace;
            let items: Vec<&Value> = state.pods.values().filter(there).filter(|pod| seen.selects(pod)).collect();
            ok(&json!({"items": items}))
        }
        ("GET", ["nodes", _]) => state.node.as_ref().map_or_else(|| reply(&status(404)), ok),
        ("PATCH", ["nodes", _]) if seen.body.is_array() => state.patch_precisely(&seen.body),
        ("PATCH", ["nodes", _]) => {
            let mut node = state.node.clone().unwrap_or_default();
            merge(&mut node, &seen.body);
            state.set_node(node);
            ok(&json!({}))
        }
        ("PATCH", ["nodes", _, "status"]) => {
            state.patch_status(&seen.body);
            ok(&json!({}))
        }
        ("POST", ["namespaces", _, "events"]) => {
            let name = seen.body["metadata"]["name"].as_str().unwrap().to_owned();
            let known = state.events.insert(name, seen.body.clone()).is_some();
            reply(&status(if known { 409 } else { 201 }))
        }
        ("POST", ["namespaces", _, "pods", name, "eviction"]) => {
            let uid = seen.body["deleteOptions"]["preconditions"]["uid"].as_str().unwrap_or_default();
            state.evict(name, uid)
        }
        ("DELETE", ["namespaces", _, "pods", name]) => {
            let uid = seen.body["preconditions"]["uid"].as_str().unwrap_or_default();
            reply(&state.end_pod(name, uid))
        }
        ("PATCH", ["", "apis", "kerf.sh", "v1alpha1", "nodeusages", name]) => {
            let scripted = state.replies.get_mut(*name).and_then(VecDeque::pop_front);
            reply(&scripted.unwrap_or_else(|| status(200)))
        }
        _ => reply(&status(405)),
    }
}

fn ok(body: &Value) -> Response<Body> {
    Response::new(Full::new(Bytes::from(body.to_string())).boxed())
}

fn reply(scripted: &Scripted) -> Response<Body> {
    let body = json!({"kind": "Status", "code": scripted.status, "message": scripted.message});
    let mut response = ok(&body);
    *response.status_mut() = hyper::StatusCode::from_u16(scripted.status).unwrap();
    if let Some(seconds) = scripted.retry_after {
        response.headers_mut().insert("retry-after", seconds.into());
    }
    response
}

fn streamed(receiver: UnboundedReceiver<Bytes>) -> Response<Body> {
    Response::new(Lines(receiver).boxed())
}

/// Lines of a watch as a stream, without a further crate.
struct Lines(UnboundedReceiver<Bytes>);

impl hyper::body::Body for Lines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|line| line.map(|line| Ok(Frame::data(line))))
    }
}

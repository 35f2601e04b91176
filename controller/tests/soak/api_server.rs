//! NodeClaims in a map, behind as much of the API server's language as the controller speaks about them: versions,
//! preconditions, finalizers, merge patches, a status of its own. Every change is told to whoever watches, in order.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::NodeClaim;
use http::{Method, Request, Response, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::chance::Chance;

/// What a watch hears: the object, or the name of one that is gone.
pub enum Event {
    Applied(Box<NodeClaim>),
    Gone(String),
}

#[derive(Default)]
pub struct ApiServer(Mutex<State>);

#[derive(Default)]
struct State {
    claims: BTreeMap<String, Value>,
    version: u64,
    watcher: Option<UnboundedSender<Event>>,
}

impl ApiServer {
    pub fn create(&self, claim: Value) {
        self.0.lock().unwrap().store(claim);
    }

    pub fn delete(&self, name: &str) {
        self.0.lock().unwrap().delete(name);
    }

    pub fn claims(&self) -> Vec<NodeClaim> {
        let state = self.0.lock().unwrap();
        state.claims.values().map(|claim| serde_json::from_value(claim.clone()).unwrap()).collect()
    }

    /// Names of claims that say they are launched.
    pub fn launched(&self) -> Vec<String> {
        let claims = self.claims().into_iter().filter(super::settled);
        claims.map(|claim| super::name(&claim)).collect()
    }

    /// Everything there is, and all that happens from now on.
    pub fn watch(&self) -> (Vec<NodeClaim>, UnboundedReceiver<Event>) {
        let (way_in, way_out) = unbounded_channel();
        let mut state = self.0.lock().unwrap();
        state.watcher = Some(way_in);
        let all = state.claims.values().map(|claim| serde_json::from_value(claim.clone()).unwrap()).collect();
        (all, way_out)
    }

    /// One request of a life. A dead one gets no answers, bad luck loses some.
    pub async fn serve(
        self: Arc<Self>,
        request: Request<Body>,
        alive: Arc<AtomicBool>,
        chance: Arc<Chance>,
    ) -> Result<Response<Body>, Infallible> {
        if !alive.load(Ordering::Acquire) {
            std::future::pending::<()>().await;
        }
        if chance.strikes(100) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        if chance.strikes(100) {
            return Ok(refused(StatusCode::INTERNAL_SERVER_ERROR));
        }
        let (parts, body) = request.into_parts();
        let body: Value = serde_json::from_slice(&body.collect_bytes().await.unwrap()).unwrap_or_default();
        let path: Vec<&str> = parts.uri.path().trim_start_matches('/').split('/').collect();
        let answer = match path.as_slice() {
            ["apis", "karpenter.sh", "v1", "nodeclaims", name, rest @ ..] => {
                let mut state = self.0.lock().unwrap();
                match parts.method {
                    Method::PATCH => state.patch(name, &body, rest == ["status"]),
                    Method::DELETE => state.delete_if(name, &body),
                    _ => Err(StatusCode::METHOD_NOT_ALLOWED),
                }
            }
            _ => Err(StatusCode::NOT_FOUND),
        };
        if chance.strikes(100) {
            return Ok(refused(StatusCode::INTERNAL_SERVER_ERROR));
        }
        Ok(match answer {
            Ok(object) => respond(StatusCode::OK, &object),
            Err(status) => refused(status),
        })
    }
}

impl State {
    fn store(&mut self, mut claim: Value) -> Value {
        self.version += 1;
        claim["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let name = claim["metadata"]["name"].as_str().unwrap().to_owned();
        let deleting = !claim["metadata"]["deletionTimestamp"].is_null();
        let held = claim["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty());
        let event = if deleting && !held {
            self.claims.remove(&name);
            Event::Gone(name)
        } else {
            self.claims.insert(name, claim.clone());
            Event::Applied(Box::new(serde_json::from_value(claim.clone()).unwrap()))
        };
        if let Some(watcher) = &self.watcher {
            // A dead life does not listen.
            let _ = watcher.send(event);
        }
        claim
    }

    fn patch(&mut self, name: &str, body: &Value, status: bool) -> Result<Value, StatusCode> {
        let mut claim = self.claims.get(name).cloned().ok_or(StatusCode::NOT_FOUND)?;
        let wanted = &body["metadata"]["resourceVersion"];
        if !wanted.is_null() && *wanted != claim["metadata"]["resourceVersion"] {
            return Err(StatusCode::CONFLICT);
        }
        let part = if status { json!({"status": body["status"]}) } else { json!({"metadata": body["metadata"]}) };
        merge(&mut claim, &part);
        Ok(self.store(claim))
    }

    fn delete_if(&mut self, name: &str, options: &Value) -> Result<Value, StatusCode> {
        let claim = self.claims.get(name).ok_or(StatusCode::NOT_FOUND)?;
        if options["preconditions"]["uid"] != claim["metadata"]["uid"] {
            return Err(StatusCode::CONFLICT);
        }
        self.delete(name).ok_or(StatusCode::NOT_FOUND)
    }

    fn delete(&mut self, name: &str) -> Option<Value> {
        let mut claim = self.claims.get(name)?.clone();
        if claim["metadata"]["deletionTimestamp"].is_null() {
            let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            claim["metadata"]["deletionTimestamp"] = json!(now);
        }
        Some(self.store(claim))
    }
}

/// JSON merge patch (RFC 7386).
fn merge(base: &mut Value, change: &Value) {
    let Value::Object(changes) = change else {
        base.clone_from(change);
        return;
    };
    if !base.is_object() {
        *base = json!({});
    }
    for (key, value) in changes {
        match value {
            Value::Null => drop(base.as_object_mut().unwrap().remove(key)),
            value => merge(&mut base[key], value),
        }
    }
}

fn respond(status: StatusCode, body: &Value) -> Response<Body> {
    let body = Body::from(serde_json::to_vec(body).unwrap());
    Response::builder().status(status).header("content-type", "application/json").body(body).unwrap()
}

fn refused(status: StatusCode) -> Response<Body> {
    let reason = status.canonical_reason().unwrap_or_default();
    let body = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "message": reason,
        "reason": reason, "code": status.as_u16(),
    });
    respond(status, &body)
}

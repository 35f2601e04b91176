//! API server in memory: one map of objects, with the part of the Kubernetes API that the controller uses. The server supports
//! versions, preconditions, finalizers, merge patches, a status subresource, and evictions with budgets. Watchers receive every
//! change in order, and an invariant check can run after every change.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard};

use api::objects::{Pod, PodDisruptionBudget};
use api::{condition, reason};
use daemon::changes::{ChangeCounter, Changes};
use http::{Method, Request, Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
pub use json_patch::merge;
use kube::client::Body;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

pub use crate::objects::{Change, Event, Objects};

use crate::leases::{LEASES, Leases};
use crate::objects::Stored;

/// Plural of NodeClaims in paths.
pub const CLAIMS: &str = "nodeclaims";
/// Plural of Nodes in paths.
pub const NODES: &str = "nodes";
/// Plural of pods in paths.
pub const PODS: &str = "pods";
/// Plural of PodDisruptionBudgets in paths.
pub const BUDGETS: &str = "poddisruptionbudgets";
/// Plural of NodeUsages in paths.
pub const USAGES: &str = "nodeusages";
/// Plural of NodePools in paths.
pub const POOLS: &str = "nodepools";

/// Default termination grace period of a pod, in seconds.
const GRACE: i64 = 30;

/// Invariant check after a change; returns the violation, if there is one.
pub type Check = Box<dyn FnMut(&Objects) -> Option<String> + Send>;

/// The server.
pub struct ApiServer {
    state: Mutex<State>,
    clock: fn() -> Timestamp,
    /// Last version.
    changes: ChangeCounter,
}

#[derive(Default)]
struct State {
    objects: Objects,
    version: u64,
    watchers: Vec<UnboundedSender<Event>>,
    /// Provider ids of the status of all NodeClaims, past and present.
    owned: BTreeSet<String>,
    check: Option<Check>,
    faults: Vec<String>,
    leases: Leases,
}

impl ApiServer {
    /// Creates a server without objects.
    #[must_use]
    pub fn new(clock: fn() -> Timestamp) -> Self {
        Self { state: Mutex::default(), clock, changes: ChangeCounter::default() }
    }

    /// Runs an invariant check after every later change.
    pub fn checked_by(&self, check: Check) {
        self.lock().check = Some(check);
    }

    /// Returns the violations so far.
    pub fn faults(&self) -> Vec<String> {
        self.lock().faults.clone()
    }

    /// Creates an object as a client would, with a UID and a creation time.
    pub fn create(&self, plural: &str, mut object: Value) {
        let mut state = self.lock();
        let number = state.version;
        let meta = &mut object["metadata"];
        if meta["uid"].is_null() {
            meta["uid"] = json!(format!("uid-{number}"));
        }
        if meta["creationTimestamp"].is_null() {
            meta["creationTimestamp"] = json!(text((self.clock)()));
        }
        meta["generation"] = json!(1);
        state.store(plural, object);
    }

    /// Changes an object by a merge patch of the whole object. A missing object is not created.
    pub fn change(&self, plural: &str, key: &str, change: &Value) {
        let mut state = self.lock();
        if let Some(mut object) = state.get(plural, key) {
            merge(&mut object, change);
            state.store(plural, object);
        }
    }

    /// Deletes an object as a user would.
    pub fn delete(&self, plural: &str, key: &str) {
        let now = (self.clock)();
        // A missing object needs no deletion.
        let _ = self.lock().delete(plural, key, &json!({}), now);
    }

    /// Removes a terminated pod, or an object without finalizers.
    pub fn remove(&self, plural: &str, key: &str) {
        self.lock().remove(plural, key);
    }

    /// Returns copies of all objects of a kind.
    #[must_use]
    pub fn all<K: DeserializeOwned + Clone + Send + Sync + 'static>(&self, plural: &str) -> Vec<K> {
        self.lock().objects.all(plural)
    }

    /// Returns all objects of a kind.
    #[must_use]
    pub fn shared<K: DeserializeOwned + Send + Sync + 'static>(&self, plural: &str) -> Vec<Arc<K>> {
        self.lock().objects.shared(plural)
    }

    /// Returns one object of a kind, by `namespace/name`.
    #[must_use]
    pub fn get<K: DeserializeOwned + Send + Sync + 'static>(&self, plural: &str, key: &str) -> Option<Arc<K>> {
        self.lock().objects.get(plural, key).map(|object| object.typed())
    }

    /// Subscribes to the version, which grows with every change.
    #[must_use]
    pub fn changes(&self) -> Changes {
        self.changes.subscribe()
    }

    /// Evicts a pod for a client other than the controller.
    ///
    /// # Errors
    /// Returns the status of a refused eviction.
    pub fn evict(&self, key: &str, grace: Option<i64>) -> Result<(), StatusCode> {
        let options = grace.map_or(json!({}), |grace| json!({"gracePeriodSeconds": grace}));
        self.lock().evict(key, &json!({"deleteOptions": options}), (self.clock)()).map(drop)
    }

    /// Deletes a pod without an eviction, for a client other than the controller.
    ///
    /// # Errors
    /// Returns an error if the pod does not exist.
    pub fn delete_pod(&self, key: &str, grace: i64) -> Result<(), StatusCode> {
        self.lock().delete_pod(key, &json!({"gracePeriodSeconds": grace}), (self.clock)()).map(drop)
    }

    /// Returns the version, which grows with every change.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.lock().version
    }

    /// Returns the NodeClaims.
    #[must_use]
    pub fn claims(&self) -> Vec<api::NodeClaim> {
        self.all(CLAIMS)
    }

    /// Returns the provider ids of the status of all NodeClaims, past and present.
    pub fn owned(&self) -> BTreeSet<String> {
        self.lock().owned.clone()
    }

    /// Returns all objects, and a receiver of all later changes.
    pub fn watch(&self) -> (Vec<Event>, UnboundedReceiver<Event>) {
        let (way_in, way_out) = unbounded_channel();
        let mut state = self.lock();
        state.watchers.push(way_in);
        (state.objects.events(), way_out)
    }

    /// Returns all objects of a kind, as the list of a watch that begins, and their version.
    #[must_use]
    pub fn list(&self, plural: &str) -> (Vec<Event>, u64) {
        let state = self.lock();
        let events = state.objects.events().into_iter().filter(|event| event.plural == plural);
        (events.collect(), state.version)
    }

    /// Answers one request.
    pub async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let body: Value = serde_json::from_slice(&body.collect_bytes().await.unwrap()).unwrap_or_default();
        if parts.uri.path() == "/api/v1" {
            return respond(StatusCode::OK, &resources());
        }
        let Some(route) = Route::of(parts.uri.path()) else { return refused(StatusCode::NOT_FOUND) };
        if parts.method == Method::GET && route.plural == PODS {
            return respond(StatusCode::OK, &self.pods_on(parts.uri.query().unwrap_or_default()));
        }
        if parts.method == Method::GET && route.plural == CLAIMS && route.key.is_empty() {
            let items: Vec<Value> = self.list(CLAIMS).0.iter().map(|event| event.object.value().clone()).collect();
            let list =
                json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaimList", "metadata": {}, "items": items});
            return respond(StatusCode::OK, &list);
        }
        let now = (self.clock)();
        let mut state = self.lock();
        let outcome = match (parts.method, route.part.as_str()) {
            (method, "") if route.plural == LEASES => state.leases.answer(&method, &route.key, body),
            (Method::PATCH, part @ ("" | "status")) => state.patch(&route, &body, part == "status"),
            (Method::PATCH, "resize") => state.resize(&route.key, &body),
            (Method::DELETE, "") if route.plural == PODS => state.delete_pod(&route.key, &body, now),
            (Method::DELETE, "") => state.delete(&route.plural, &route.key, &body, now),
            (Method::POST, "eviction") => state.evict(&route.key, &body, now),
            (Method::POST, "") => state.create(&route.plural, body, now),
            _ => Err(StatusCode::METHOD_NOT_ALLOWED),
        };
        match outcome {
            Ok(object) => respond(StatusCode::OK, &object),
            Err(status) => refused(status),
        }
    }

    /// Returns the list of pods for a query with the field selector `spec.nodeName`.
    fn pods_on(&self, query: &str) -> Value {
        let node = query.split(['&', '?']).find_map(|pair| pair.strip_prefix("fieldSelector=spec.nodeName%3D"));
        let node = node.unwrap_or_else(|| panic!("unknown query {query}"));
        let pods = self.lock().objects.events().into_iter().filter(|event| event.plural == PODS);
        let pods = pods.map(|event| event.object.value().clone());
        let items: Vec<Value> = pods.filter(|pod| pod["spec"]["nodeName"] == node).collect();
        json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": items})
    }

    fn lock(&self) -> Locked<'_> {
        let state = self.state.lock().unwrap();
        Locked { version: state.version, state, changes: &self.changes }
    }
}

/// Locked state. The release of the lock notifies observers of a new version.
struct Locked<'a> {
    state: MutexGuard<'a, State>,
    /// Version before the lock.
    version: u64,
    changes: &'a ChangeCounter,
}

impl Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        if self.state.version != self.version {
            self.changes.add();
        }
    }
}

/// Parts of a request path.
struct Route {
    plural: String,
    key: String,
    part: String,
}

impl Route {
    fn of(path: &str) -> Option<Self> {
        let all: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let named = match all.as_slice() {
            ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
            _ => return None,
        };
        let (namespace, named) = match named {
            ["namespaces", namespace, rest @ ..] => (Some(namespace), rest),
            rest => (None, rest),
        };
        let (plural, rest) = named.split_first()?;
        let name = rest.first().copied().unwrap_or_default();
        let key = namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"));
        let part = rest.get(1).copied().unwrap_or_default().to_owned();
        Some(Self { plural: (*plural).to_owned(), key, part })
    }
}

impl State {
    fn get(&self, plural: &str, key: &str) -> Option<Value> {
        self.objects.get(plural, key).map(|object| object.value().clone())
    }

    /// Stores an object with a new version; removes it if it is being deleted and has no finalizers.
    fn store(&mut self, plural: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.owned.extend(object["status"]["providerID"].as_str().map(str::to_owned));
        let deleting = !object["metadata"]["deletionTimestamp"].is_null();
        let held = object["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty());
        // Only their kubelet removes pods.
        let gone = deleting && !held && plural != PODS;
        let stored = Stored::new(object.clone());
        if gone {
            self.objects.take(plural, &key(&object));
        } else {
            self.objects.put(plural, key(&object), Arc::clone(&stored));
        }
        self.notify(plural, stored, if gone { Change::Removed } else { Change::Stored });
        object
    }

    fn remove(&mut self, plural: &str, key: &str) {
        if let Some(object) = self.objects.take(plural, key) {
            self.version += 1;
            let mut last = object.value().clone();
            last["metadata"]["resourceVersion"] = json!(self.version.to_string());
            self.notify(plural, Stored::new(last), Change::Removed);
        }
    }

    fn notify(&mut self, plural: &str, object: Arc<Stored>, change: Change) {
        let event = Event { plural: plural.to_owned(), object, change };
        // A dead controller does not receive.
        self.watchers.retain(|watcher| watcher.send(event.clone()).is_ok());
        if let Some(check) = self.check.as_mut().filter(|_| !matches!(change, Change::Leaving { .. })) {
            self.faults.extend(check(&self.objects));
        }
    }

    fn create(&mut self, plural: &str, mut object: Value, now: Timestamp) -> Result<Value, StatusCode> {
        if self.get(plural, &key(&object)).is_some() {
            return Err(StatusCode::CONFLICT);
        }
        let meta = &mut object["metadata"];
        meta["uid"] = json!(format!("uid-{}", self.version));
        meta["creationTimestamp"] = json!(text(now));
        meta["generation"] = json!(1);
        Ok(self.store(plural, object))
    }

    fn patch(&mut self, route: &Route, body: &Value, status: bool) -> Result<Value, StatusCode> {
        let mut object = self.get(&route.plural, &route.key).ok_or(StatusCode::NOT_FOUND)?;
        for precondition in ["resourceVersion", "uid"] {
            let wanted = &body["metadata"][precondition];
            if !wanted.is_null() && *wanted != object["metadata"][precondition] {
                return Err(StatusCode::CONFLICT);
            }
        }
        let mut part = body.clone();
        let parts = part.as_object_mut().ok_or(StatusCode::BAD_REQUEST)?;
        parts.retain(|name, _| (name == "status") == status);
        let before = object.clone();
        merge(&mut object, &part);
        // A patch without a change makes no new version and no event.
        if object == before { Ok(object) } else { Ok(self.store(&route.plural, object)) }
    }

    fn delete(&mut self, plural: &str, key: &str, options: &Value, now: Timestamp) -> Result<Value, StatusCode> {
        let mut object = self.get(plural, key).ok_or(StatusCode::NOT_FOUND)?;
        let wanted = &options["preconditions"]["uid"];
        if !wanted.is_null() && *wanted != object["metadata"]["uid"] {
            return Err(StatusCode::CONFLICT);
        }
        let grace = options["gracePeriodSeconds"].as_i64();
        let grace = grace.or(object["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(GRACE);
        let end = if plural == PODS { text(now + SignedDuration::from_secs(grace)) } else { text(now) };
        let meta = &mut object["metadata"];
        if meta["deletionTimestamp"].as_str().is_none_or(|known| known > end.as_str()) {
            meta["deletionTimestamp"] = json!(end);
            meta["deletionGracePeriodSeconds"] = json!(grace);
        }
        if plural == PODS && object["spec"]["nodeName"].as_str().is_none_or(str::is_empty) {
            self.remove(plural, key);
            return Ok(object);
        }
        Ok(self.store(plural, object))
    }

    /// Evicts a pod if every matching budget allows a disruption.
    fn evict(&mut self, key: &str, body: &Value, now: Timestamp) -> Result<Value, StatusCode> {
        let object = Arc::clone(self.objects.get(PODS, key).ok_or(StatusCode::NOT_FOUND)?);
        let pod = object.typed::<Pod>();
        let budgets = self.objects.shared::<PodDisruptionBudget>(BUDGETS);
        for budget in budgets.iter().filter(|budget| !pod.is_terminating() && budget.selects(&pod)) {
            if !budget.allows_eviction(&pod) {
                return Err(StatusCode::TOO_MANY_REQUESTS);
            }
            let mut budget = PodDisruptionBudget::clone(budget);
            budget.status.disruptions_allowed -= i32::from(pod.is_ready());
            self.store(BUDGETS, serde_json::to_value(&budget).unwrap());
        }
        self.announce(&object, false);
        self.mark_evicted(key, now);
        self.delete(PODS, key, &body["deleteOptions"], now)
    }

    /// Sets the condition of evicted pods, if the pod has none.
    fn mark_evicted(&mut self, key: &str, now: Timestamp) {
        let Some(mut pod) = self.get(PODS, key) else { return };
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        if conditions.iter().all(|known| known["type"] != condition::DISRUPTION_TARGET) {
            let target = json!({
                "type": condition::DISRUPTION_TARGET, "status": "True", "reason": reason::EVICTION_BY_EVICTION_API,
                "lastTransitionTime": text(now),
            });
            pod["status"]["conditions"] = conditions.into_iter().chain([target]).collect();
            self.store(PODS, pod);
        }
    }

    fn delete_pod(&mut self, key: &str, options: &Value, now: Timestamp) -> Result<Value, StatusCode> {
        let object = Arc::clone(self.objects.get(PODS, key).ok_or(StatusCode::NOT_FOUND)?);
        self.announce(&object, true);
        self.delete(PODS, key, options, now)
    }

    /// Announces that a pod is about to leave, once.
    fn announce(&mut self, pod: &Arc<Stored>, forced: bool) {
        if !pod.typed::<Pod>().is_terminating() {
            self.notify(PODS, Arc::clone(pod), Change::Leaving { forced });
        }
    }

    /// Changes the requests of a running pod's containers by a strategic merge patch.
    fn resize(&mut self, key: &str, body: &Value) -> Result<Value, StatusCode> {
        let mut object = self.get(PODS, key).ok_or(StatusCode::NOT_FOUND)?;
        if body["metadata"]["uid"] != object["metadata"]["uid"] {
            return Err(StatusCode::CONFLICT);
        }
        for change in body["spec"]["containers"].as_array().ok_or(StatusCode::BAD_REQUEST)? {
            let containers = object["spec"]["containers"].as_array_mut().ok_or(StatusCode::BAD_REQUEST)?;
            let own = containers.iter_mut().find(|own| own["name"] == change["name"]);
            merge(own.ok_or(StatusCode::BAD_REQUEST)?, change);
        }
        Ok(self.store(PODS, object))
    }
}

/// Returns the part of the API's resources that the controller looks for.
fn resources() -> Value {
    let resize = json!({
        "name": "pods/resize", "singularName": "", "namespaced": true, "kind": "Pod", "verbs": ["get", "patch", "update"],
    });
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": [resize]})
}

/// Returns `namespace/name` of an object.
fn key(object: &Value) -> String {
    let name = object["metadata"]["name"].as_str().unwrap();
    object["metadata"]["namespace"].as_str().map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
}

/// Returns a time in the format of the API server.
pub fn text(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn respond(status: StatusCode, body: &Value) -> Response<Body> {
    let body = Body::from(serde_json::to_vec(body).unwrap());
    Response::builder().status(status).header("content-type", "application/json").body(body).unwrap()
}

/// Returns an error response.
pub fn refused(status: StatusCode) -> Response<Body> {
    let message = status.canonical_reason().unwrap_or_default();
    let body = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "message": message,
        "reason": message.replace(' ', ""), "code": status.as_u16(),
    });
    respond(status, &body)
}

//! Watch of a collection: list, watch from its version, list again when the server reports 410. Invalid objects are logged and
//! skipped; errors are reported and retried forever.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use daemon::backoff::RetryDelays;
use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::Incoming;
use machine::document::{Node as Tree, typed};
use serde::de::{DeserializeOwned, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use tokio::sync::mpsc::Sender;
use tokio::time::{sleep, timeout};

use super::error::{ClusterError, parse, refused};
use super::http::Http;
use super::objects::{Node, Pod};
use super::{Cluster, Metadata};

/// Duration after which the server ends a watch.
const WATCH: Duration = Duration::from_secs(290);
/// Longest silence of a connection. Bookmarks arrive about every minute, so a connection that is silent for longer is dead.
const SILENCE: Duration = Duration::from_secs(150);
/// Greatest size of one object in a watch, in bytes; the API server itself accepts about 3 MiB.
const LINE_LIMIT: usize = 8 * 1024 * 1024;
/// Objects on one page of a list.
const PAGE: u32 = 50;
/// First and longest wait after an error; the first is also the least time between two watches.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(15);

/// Watched collection, with the only selector that a node's identity may use on it.
#[derive(Debug)]
pub struct Watched<T> {
    path: String,
    selector: String,
    kind: PhantomData<fn() -> T>,
}

impl Watched<Pod> {
    /// Returns the watch of the pods bound to the node of this name.
    #[must_use]
    pub fn pods_of(node: &str) -> Self {
        Self { path: "/api/v1/pods".to_owned(), selector: format!("spec.nodeName%3D{node}"), kind: PhantomData }
    }

    /// Returns the watch of those pods that are in this namespace and have these labels.
    pub(super) fn labelled(node: &str, namespace: &str, labels: &BTreeMap<String, String>) -> Self {
        let pair = |(key, value): (&String, &String)| format!("{}%3D{value}", key.replace('/', "%2F"));
        let labels: Vec<String> = labels.iter().map(pair).collect();
        let all = Self::pods_of(node);
        let selector = format!("{}&labelSelector={}", all.selector, labels.join("%2C"));
        Self { path: format!("/api/v1/namespaces/{namespace}/pods"), selector, ..all }
    }
}

impl Watched<Node> {
    /// Returns the watch of the Node of this name.
    #[must_use]
    pub fn node(name: &str) -> Self {
        Self { path: "/api/v1/nodes".to_owned(), selector: format!("metadata.name%3D{name}"), kind: PhantomData }
    }
}

/// Event of a watch: the whole collection after each change, or an error.
#[derive(Debug)]
pub enum WatchEvent<T> {
    /// All objects, in the order of their UIDs.
    All(Vec<T>),
    /// A list or watch failed and is retried.
    Trouble(ClusterError),
}

/// Result of a list, with the version from which to watch.
pub(super) struct Listed<T> {
    pub(super) items: Vec<T>,
    objects: BTreeMap<String, T>,
    version: String,
}

#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct List<T> {
    #[serde(default)]
    metadata: ListMetadata,
    #[serde(default = "Items::none")]
    items: Items<T>,
}

/// Valid objects of a list, by UID. Objects are parsed one after another: the pods of a full node as one JSON tree would be the
/// largest allocation of the agent.
struct Items<T>(BTreeMap<String, T>);

impl<T> Items<T> {
    fn none() -> Self {
        Self(BTreeMap::new())
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Items<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(OneByOne(PhantomData))
    }
}

struct OneByOne<T>(PhantomData<T>);

impl<'de, T: DeserializeOwned> Visitor<'de> for OneByOne<T> {
    type Value = Items<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut objects: A) -> Result<Items<T>, A::Error> {
        let mut items = BTreeMap::new();
        while let Some(object) = objects.next_element()? {
            items.extend(understood::<T>("a list", &object));
        }
        Ok(Items(items))
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMetadata {
    resource_version: String,
    /// Token of the next page; empty on the last page.
    #[serde(rename = "continue")]
    next: String,
}

#[derive(Deserialize)]
struct Change {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    object: Tree,
}

/// Watches the collection until the receiver is closed.
pub async fn follow<T>(cluster: Arc<Cluster>, watched: Watched<T>, events: Sender<WatchEvent<T>>)
where
    T: DeserializeOwned + Clone + Send,
{
    let mut delays = RetryDelays::new(RETRY_MIN, RETRY_MAX);
    while !events.is_closed() {
        match session(&cluster.http, &watched, &events).await {
            Ok(()) => delays.reset(),
            Err(error) => {
                if events.send(WatchEvent::Trouble(error)).await.is_err() {
                    return;
                }
            }
        }
        sleep(delays.next_delay()).await;
    }
}

/// Lists once and then watches. Ends when the server no longer has our version.
async fn session<T>(http: &Http, watched: &Watched<T>, events: &Sender<WatchEvent<T>>) -> Result<(), ClusterError>
where
    T: DeserializeOwned + Clone + Send,
{
    let Listed { items, mut objects, mut version } = match list(http, watched).await {
        // The server expired the list between two of its pages.
        Err(error) if error.status() == Some(410) => return Ok(()),
        listed => listed?,
    };
    if events.send(WatchEvent::All(items)).await.is_err() {
        return Ok(());
    }
    loop {
        let mut stream = match Stream::open(http, watched, &version).await {
            Err(error) if error.status() == Some(410) => return Ok(()),
            opened => opened?,
        };
        while let Some(change) = stream.next().await? {
            match apply(&watched.path, change, &mut objects, &mut version)? {
                Applied::Forgotten => return Ok(()),
                Applied::Silent => {}
                Applied::Changed => {
                    let all = objects.values().cloned().collect();
                    if events.send(WatchEvent::All(all)).await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
        sleep(RETRY_MIN).await;
    }
}

/// Reads the whole collection page by page: the pods of a full node in one piece would be the largest allocation of the agent.
pub(super) async fn list<T>(http: &Http, watched: &Watched<T>) -> Result<Listed<T>, ClusterError>
where
    T: DeserializeOwned + Clone,
{
    let all = format!("{}?fieldSelector={}&limit={PAGE}", watched.path, watched.selector);
    let mut path = all.clone();
    let mut objects = BTreeMap::new();
    loop {
        let body = http.call(Method::GET, &path, None).await?;
        let list = serde_json::from_slice::<List<T>>(&body);
        let List { metadata, items } = list.map_err(|error| ClusterError::Body { what: path, source: error.into() })?;
        objects.extend(items.0);
        if metadata.next.is_empty() {
            let version = metadata.resource_version;
            return Ok(Listed { items: objects.values().cloned().collect(), objects, version });
        }
        path = format!("{all}&continue={}", escaped(&metadata.next));
    }
}

/// Escapes a value for a query: the server's continue token is base64, whose alphabet has `=`.
fn escaped(word: &str) -> String {
    word.replace('%', "%25").replace('=', "%3D").replace('+', "%2B").replace('&', "%26")
}

enum Applied {
    Changed,
    Silent,
    Forgotten,
}

fn apply<T>(
    path: &str,
    change: Change,
    objects: &mut BTreeMap<String, T>,
    version: &mut String,
) -> Result<Applied, ClusterError>
where
    T: DeserializeOwned,
{
    if change.kind == "ERROR" {
        let status = change.object.text_at(&["code"]).parse().unwrap_or(500);
        let message = change.object.text_at(&["message"]);
        return match status {
            410 => Ok(Applied::Forgotten),
            _ => Err(refused(&format!("the watch of {path}"), status, None, message.as_bytes())),
        };
    }
    let newer = change.object.text_at(&["metadata", "resourceVersion"]);
    if !newer.is_empty() {
        newer.clone_into(version);
    }
    if change.kind == "BOOKMARK" {
        return Ok(Applied::Silent);
    }
    let uid = change.object.text_at(&["metadata", "uid"]).to_owned();
    if change.kind == "DELETED" {
        objects.remove(&uid);
    } else if let Some((uid, object)) = understood(path, &change.object) {
        objects.insert(uid, object);
    }
    Ok(Applied::Changed)
}

/// Returns the object with its UID, or logs the name of an invalid object.
fn understood<T: DeserializeOwned>(path: &str, object: &Tree) -> Option<(String, T)> {
    let named: Metadata = object.get("metadata").and_then(|metadata| typed(metadata).ok()).unwrap_or_default();
    match typed(object) {
        Ok(parsed) => Some((named.uid, parsed)),
        Err(error) => {
            let (namespace, name) = (named.namespace.as_str(), named.name.as_str());
            log::warn!(collection = path, namespace = namespace, name = name, error:% = error; "ignored an invalid object");
            None
        }
    }
}

/// Lines of one watch.
struct Stream {
    what: String,
    body: Incoming,
    buffer: Vec<u8>,
    /// Sender whose existence keeps the connection open.
    _sender: hyper::client::conn::http1::SendRequest<http_body_util::Full<hyper::body::Bytes>>,
}

impl Stream {
    async fn open<T>(http: &Http, watched: &Watched<T>, version: &str) -> Result<Self, ClusterError> {
        let what = format!(
            "{}?watch=1&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={version}&fieldSelector={}",
            watched.path,
            WATCH.as_secs(),
            watched.selector
        );
        let (sender, body) = http.stream(&what).await?;
        Ok(Self { what, body, buffer: Vec::new(), _sender: sender })
    }

    /// Returns the next change; `None` at the end of the watch.
    async fn next(&mut self) -> Result<Option<Change>, ClusterError> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return parse(&self.what, &line).map(Some);
            }
            let silent = |_| ClusterError::Timeout { what: self.what.clone(), seconds: SILENCE.as_secs() };
            let frame = timeout(SILENCE, self.body.frame()).await.map_err(silent)?;
            let Some(frame) = frame else {
                return Ok(None);
            };
            let frame = frame.map_err(|source| ClusterError::Broken { what: self.what.clone(), source })?;
            if let Some(data) = frame.data_ref() {
                self.buffer.extend_from_slice(data);
            }
            if self.buffer.len() > LINE_LIMIT && !self.buffer.contains(&b'\n') {
                return Err(ClusterError::TooLong { what: self.what.clone(), limit: LINE_LIMIT });
            }
        }
    }
}

//! Follows the objects of a live cluster: lists them once, then watches their changes.

use std::io;
use std::time::Duration;

use daemon::signal;
use futures::StreamExt as _;
use http::Request;
use kube::Client;
use kube::core::WatchEvent;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::kinds::{Resource, followed};
use super::seen::Seen;
use super::{Reader, client, config_map, is_forbidden, runtime};
use crate::args::LiveCluster;
use crate::failure::{Failure, chain};

/// Interval of [`Seen::Nothing`].
const TICK: Duration = Duration::from_secs(1);
/// Time after which the API server ends a watch, so that a dead connection is noticed.
const WATCH_SECONDS: u32 = 290;
/// Pauses before a list is tried again.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];
/// Number of events that wait for the reader.
const WAITING: usize = 4096;

/// Lists and watches in progress.
pub struct Follower {
    runtime: Runtime,
    client: Client,
    seen: Receiver<Result<Seen, Failure>>,
    /// Gets the first SIGINT or SIGTERM. Its task listens also while no task waits for it.
    stopped: oneshot::Receiver<io::Result<&'static str>>,
    _tasks: JoinSet<()>,
}

impl Follower {
    /// Connects to the cluster of the kubeconfig.
    ///
    /// # Errors
    /// Returns an error if there is no such cluster.
    pub fn start(cluster: &LiveCluster) -> Result<Self, Failure> {
        let runtime = runtime()?;
        let client = runtime.block_on(client(cluster))?;
        let (sender, seen) = channel(WAITING);
        let mut tasks = JoinSet::new();
        for resource in followed() {
            let watch = Watch { reader: Reader { client: client.clone() }, resource, sender: sender.clone() };
            tasks.spawn_on(watch.run(), runtime.handle());
        }
        let (stop, stopped) = oneshot::channel();
        // Without a receiver the recording has ended.
        tasks.spawn_on(async { drop(stop.send(signal::stopped().await)) }, runtime.handle());
        Ok(Self { runtime, client, seen, stopped, _tasks: tasks })
    }

    /// Returns the number of kinds, each of which is listed first.
    #[must_use]
    pub fn kinds() -> usize {
        followed().count()
    }

    /// Returns the next observation; `None` after Ctrl-C or SIGTERM.
    ///
    /// # Errors
    /// Returns an error if a first list is refused or fails.
    pub fn next(&mut self) -> Result<Option<Seen>, Failure> {
        let Self { runtime, seen, stopped, .. } = self;
        runtime.block_on(async {
            let tick = sleep_until(Instant::now() + TICK);
            tokio::select! {
                biased;
                signal = stopped => match signal {
                    Ok(Err(error)) => Err(Failure::internal(error)),
                    _ => Ok(None),
                },
                seen = seen.recv() => seen.transpose(),
                () = tick => Ok(Some(Seen::Nothing)),
            }
        })
    }

    /// Returns a ConfigMap, if it exists.
    ///
    /// # Errors
    /// Returns an error if it cannot be read.
    pub fn config_map(&self, namespace: &str, name: &str) -> Result<Option<Value>, Failure> {
        self.runtime.block_on(config_map(&self.client, namespace, name))
    }
}

/// List and watch of one kind.
struct Watch {
    reader: Reader,
    resource: &'static Resource,
    sender: Sender<Result<Seen, Failure>>,
}

/// Begin of a watch.
struct Begin {
    api_version: String,
    path: String,
    resource_version: String,
}

impl Watch {
    async fn run(self) {
        let (mut is_listed, mut pause) = (false, PAUSES[0]);
        while !self.sender.is_closed() {
            match self.list_and_watch(&mut is_listed).await {
                Ok(()) => pause = PAUSES[0],
                Err(error) if !is_listed || is_forbidden(&error) => {
                    let _ = self.sender.send(Err(super::unreadable(self.resource, &error, &["list", "watch"]))).await;
                    return;
                }
                Err(error) => {
                    let trouble = format!("{}: {}; trying again", self.resource.full_name(), chain(&error));
                    let _ = self.sender.send(Ok(Seen::Trouble(trouble))).await;
                    sleep(pause).await;
                    pause = (pause * 2).min(PAUSES[1]);
                }
            }
        }
    }

    /// Lists the kind, and watches it until the API server has forgotten the version of the last event. Sets `is_listed` after the list.
    async fn list_and_watch(&self, is_listed: &mut bool) -> Result<(), kube::Error> {
        let Some((version, objects, resource_version)) = self.reader.newest(self.resource).await? else {
            self.send(Seen::List(self.resource.kind, Vec::new())).await;
            *is_listed = true;
            // The cluster does not serve the kind, until its CRD is installed.
            sleep(Duration::from_mins(10)).await;
            return Ok(());
        };
        self.send(Seen::List(self.resource.kind, objects)).await;
        *is_listed = true;
        let api_version = self.resource.api_version(version);
        let mut begin = Begin { api_version, path: self.resource.watch_path(version), resource_version };
        while self.watch(&mut begin).await? {}
        Ok(())
    }

    /// Watches until the end of the response. Returns false if the kind must be listed again.
    async fn watch(&self, begin: &mut Begin) -> Result<bool, kube::Error> {
        let path = format!("{}&timeoutSeconds={WATCH_SECONDS}&resourceVersion={}", begin.path, begin.resource_version);
        let request = Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
        let events = match self.reader.client.request_events::<Value>(request).await {
            Err(kube::Error::Api(status)) if status.code == 410 => return Ok(false),
            events => events?,
        };
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            let (object, is_gone) = match event? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
                WatchEvent::Deleted(object) => (object, true),
                WatchEvent::Bookmark(mark) => {
                    begin.resource_version = mark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(status) if status.code == 410 => return Ok(false),
                WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
            };
            if let Some(version) = object.pointer("/metadata/resourceVersion").and_then(Value::as_str) {
                begin.resource_version = version.to_owned();
            }
            let mut object = object;
            object["apiVersion"] = json!(begin.api_version);
            object["kind"] = json!(self.resource.kind);
            self.send(if is_gone { Seen::Gone(object) } else { Seen::Set(object) }).await;
        }
        Ok(true)
    }

    async fn send(&self, seen: Seen) {
        // Without a receiver the recording has ended.
        let _ = self.sender.send(Ok(seen)).await;
    }
}

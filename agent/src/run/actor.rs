//! Execution of actions: each action becomes one request in a task of its own, whose result is an input. This module makes no
//! decisions and retries nothing.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use api::annotation;
use drain::{Action, Millis, OwnershipStep};
use machine::agent::notices::LifecycleHook;
use tokio::task::JoinSet;

use super::lifecycle::{AgentAction, Input, Lifecycle};
use crate::aws::ec2::auto_scaling;
use crate::aws::imds::Imds;
use crate::cluster::{Cluster, ClusterError};
use crate::host::Host;
use crate::host::clock::{Clock, WallOffset};
use crate::host::environment::Environment;
use crate::run::eviction::{pods_on_node, request};
use crate::run::journal::Journal;

/// Executor of the agent's actions.
#[derive(Debug)]
pub(super) struct Actor {
    root: PathBuf,
    imds: Arc<Imds>,
    cluster: Option<Arc<Cluster>>,
    wants_pods: bool,
    tasks: JoinSet<Option<Input>>,
}

impl Actor {
    pub(super) fn new(root: &Path, imds: Arc<Imds>) -> Self {
        Self { root: root.to_owned(), imds, cluster: None, wants_pods: false, tasks: JoinSet::new() }
    }

    pub(super) fn has_cluster(&self) -> bool {
        self.cluster.is_some()
    }

    /// Uses this client from now on. Returns whether the pods are to be watched with it.
    pub(super) fn use_cluster(&mut self, cluster: Arc<Cluster>) -> bool {
        self.cluster = Some(cluster);
        self.wants_pods
    }

    pub(super) fn want_pods(&mut self) {
        self.wants_pods = true;
    }

    /// Returns the client.
    pub(super) fn cluster(&self) -> Option<Arc<Cluster>> {
        self.cluster.clone()
    }

    /// Writes the journal. An error of the disk must not stop a drain.
    pub(super) fn save(&self, journal: &Journal) {
        if let Err(error) = journal.write(&self.root) {
            log::error!("{}", daemon::error::chain(&error));
        }
    }

    /// Returns the input of the next finished task; `None` if no task is running.
    pub(super) async fn ended(&mut self) -> Option<Input> {
        loop {
            match self.tasks.join_next().await? {
                Ok(Some(input)) => return Some(input),
                Ok(None) => {}
                Err(error) => log::error!(error:% = error; "request failed"),
            }
        }
    }

    /// Starts a task. All tasks have one type: with a type for each kind, the code that runs them would be in the binary eight
    /// times.
    fn begin(&mut self, task: impl Future<Output = Option<Input>> + Send + 'static) {
        let task: Pin<Box<dyn Future<Output = Option<Input>> + Send>> = Box::pin(task);
        self.tasks.spawn(task);
    }

    /// Completes the lifecycle action of the Auto Scaling group. Needs no API server.
    pub(super) fn complete(&mut self, hook: LifecycleHook) {
        let (imds, host) = (Arc::clone(&self.imds), Host::new(&self.root, ""));
        self.begin(async move {
            let result = auto_scaling::complete(imds, &Environment::of_process(), &host, &hook).await;
            if let Err(error) = &result {
                log::warn!(error = daemon::error::chain(error).as_str(); "failed to complete the lifecycle action");
            }
            Some(Input::Completed(result.is_ok()))
        });
    }

    /// Starts an action.
    pub(super) fn start(&mut self, action: AgentAction, life: &Lifecycle, clock: &Clock) {
        let Some(cluster) = self.cluster.clone() else {
            return;
        };
        let (name, wall, now) = (life.name().to_owned(), life.wall(), clock.now());
        match action {
            AgentAction::Save | AgentAction::FollowPods | AgentAction::Yield | AgentAction::Complete(_) => {}
            AgentAction::PatchNode(patch) => {
                self.begin(async move {
                    let done = is_written("Node", cluster.patch_node(&name, &patch).await);
                    Some(Input::NodeWritten(done))
                });
            }
            AgentAction::PatchStatus(patch) => {
                self.begin(async move {
                    let done = is_written("Node status", cluster.patch_node_status(&name, &patch).await);
                    Some(Input::StatusWritten(done))
                });
            }
            AgentAction::CreateEvent(event) => {
                let object = event.event(&name, life.node(), wall.wall_time(now));
                self.begin(async move {
                    let result = cluster.create_event(&object).await;
                    let exists = result.as_ref().is_err_and(|error| error.status() == Some(409));
                    Some(Input::EventWritten(event.key, exists || is_written("Event", result)))
                });
            }
            AgentAction::ReadNode(first) => {
                self.begin(async move {
                    if let OwnershipStep::RemoveMark(words) = first {
                        is_written("Node", cluster.unannotate(&name, annotation::DRAIN_TAKEN_OVER, &words).await);
                    }
                    Some(read(&cluster, &name, now).await)
                });
            }
            AgentAction::ReadAttachment { volume, attachment } => {
                self.begin(async move { is_gone(&cluster, &attachment).await.then_some(Input::Detached(volume)) });
            }
            AgentAction::Drain(Action::List) => {
                self.begin(async move { list(&cluster, &name, wall).await });
            }
            AgentAction::Drain(action) => {
                let by = clock.by(life.polls_until(now));
                self.begin(async move {
                    let (uid, reply) = request(&cluster, &action, by).await?;
                    Some(Input::Reply(uid, reply))
                });
            }
        }
    }
}

async fn list(cluster: &Cluster, node: &str, wall: WallOffset) -> Option<Input> {
    match cluster.pods(node).await {
        Ok(pods) => Some(Input::Pods(pods_on_node(&pods, wall))),
        Err(error) => {
            log::warn!(error = daemon::error::chain(&error).as_str(); "failed to list the pods of the node");
            None
        }
    }
}

/// Reads the Node from the API server with a consistent read, which includes all writes.
async fn read(cluster: &Cluster, name: &str, began: Millis) -> Input {
    let node = cluster.node(name).await;
    Input::NodeRead(
        began,
        node.unwrap_or_else(|error| {
            log::warn!(error = daemon::error::chain(&error).as_str(); "failed to read the Node");
            None
        }),
    )
}

/// Reports whether a VolumeAttachment is gone. After an error the agent asks again later.
async fn is_gone(cluster: &Cluster, attachment: &str) -> bool {
    cluster.has_attachment(attachment).await.is_ok_and(|there| !there)
}

fn is_written(what: &str, written: Result<(), ClusterError>) -> bool {
    match written {
        Ok(()) => true,
        Err(error) => {
            log::warn!(what = what, error = daemon::error::chain(&error).as_str(); "API request failed");
            false
        }
    }
}

//! What is to be done about the node's pods, decided without doing it: `now` and the network are arguments.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::{Value, json};

use super::node::seconds;
use super::{Options, Timing};

/// How long a step may take to show in the API before it is tried again.
const RETRY: Duration = Duration::from_secs(2);

/// Which pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID: a pod of the same name that comes later is another pod.
    pub uid: String,
}

/// Something to do now.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Say that it runs.
    Run {
        /// The pod.
        pod: Key,
        /// A strategic merge patch of its status.
        status: Value,
        /// Whether it is the CNI plugin, whose start configures the network.
        brings_network: bool,
    },
    /// Say that its containers have what they request now.
    Resize {
        /// The pod.
        pod: Key,
        /// A merge patch of its status.
        status: Value,
    },
    /// Remove it: its containers have ended.
    End {
        /// The pod.
        pod: Key,
    },
}

impl Step {
    /// The pod it is about.
    pub fn pod(&self) -> &Key {
        match self {
            Self::Run { pod, .. } | Self::Resize { pod, .. } | Self::End { pod } => pod,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self {
            Self::Run { .. } => "runs",
            Self::Resize { .. } => "has what it requests now",
            Self::End { .. } => "ended",
        };
        let Key { namespace, name, uid } = self.pod();
        write!(f, "pod {namespace}/{name} ({uid}) {verb}")
    }
}

/// The pods that are bound to the node.
#[derive(Debug)]
pub struct Pods {
    network: [u8; 2],
    node_ip: Option<String>,
    timing: Timing,
    tracked: BTreeMap<String, Tracked>,
    listed: Option<BTreeSet<String>>,
}

#[derive(Debug)]
struct Tracked {
    pod: Pod,
    key: Key,
    /// Not before then: its start, its end, or the next try.
    not_before: Instant,
    ending: bool,
    /// The last number of its address, 0 on the host's network.
    number: u8,
}

impl Pods {
    /// No pods yet.
    pub fn new(options: &Options, node_ip: Option<String>) -> Self {
        let (network, timing) = (options.pod_network, options.timing);
        Self { network, node_ip, timing, tracked: BTreeMap::new(), listed: None }
    }

    /// A list begins: what it does not name is gone.
    pub fn begin_list(&mut self) {
        self.listed = Some(BTreeSet::new());
    }

    /// A list is complete.
    pub fn end_list(&mut self) {
        if let Some(listed) = self.listed.take() {
            self.tracked.retain(|uid, _| listed.contains(uid));
        }
    }

    /// A pod is new or has changed.
    pub fn observe(&mut self, pod: &Pod, now: Instant) {
        let meta = &pod.metadata;
        let (Some(name), Some(namespace), Some(uid)) = (&meta.name, &meta.namespace, &meta.uid) else {
            return;
        };
        if let Some(listed) = &mut self.listed {
            listed.insert(uid.clone());
        }
        let number = if host_network(pod) { 0 } else { self.number(pod, uid) };
        let key = Key { namespace: namespace.clone(), name: name.clone(), uid: uid.clone() };
        let timing = self.timing;
        let fresh = || Tracked { pod: pod.clone(), key, not_before: now + timing.pod_start, ending: false, number };
        let tracked = self.tracked.entry(uid.clone()).or_insert_with(fresh);
        tracked.pod = pod.clone();
        if meta.deletion_timestamp.is_some() && !tracked.ending {
            tracked.ending = true;
            tracked.not_before = now + time_to_end(pod, timing.pod_stop);
        }
    }

    /// A pod is gone.
    pub fn forget(&mut self, uid: &str) {
        self.tracked.remove(uid);
    }

    /// What to do now. A step comes again when it shows no effect.
    pub fn due(&mut self, network_ready: bool, now: Instant, time: Timestamp) -> Vec<Step> {
        let mut steps = Vec::new();
        for tracked in self.tracked.values_mut().filter(|tracked| tracked.not_before <= now) {
            let step = if tracked.ending {
                Step::End { pod: tracked.key.clone() }
            } else if waits(&tracked.pod) && (network_ready || host_network(&tracked.pod)) {
                let address = address(self.network, tracked.number, self.node_ip.as_deref());
                let status = running(&tracked.pod, &tracked.key, &address, self.node_ip.as_deref(), time);
                Step::Run { pod: tracked.key.clone(), status, brings_network: brings_network(&tracked.pod) }
            } else if let Some(status) = resized(&tracked.pod, &tracked.key) {
                Step::Resize { pod: tracked.key.clone(), status }
            } else {
                continue;
            };
            tracked.not_before = now + RETRY;
            steps.push(step);
        }
        steps
    }

    /// The number that the pod's address ends with: the one it has, else the lowest that is free.
    fn number(&self, pod: &Pod, uid: &str) -> u8 {
        if let Some(tracked) = self.tracked.get(uid) {
            return tracked.number;
        }
        let told = pod.status.as_ref().and_then(|status| status.pod_ip.as_ref());
        if let Some(number) = told.and_then(|ip| ip.rsplit('.').next()?.parse().ok()) {
            return number;
        }
        let used: BTreeSet<u8> = self.tracked.values().map(|tracked| tracked.number).collect();
        (2..=254).find(|number| !used.contains(number)).unwrap_or(255)
    }
}

fn host_network(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.host_network).unwrap_or(false)
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

fn waits(pod: &Pod) -> bool {
    phase(pod) == "Pending"
}

/// What is said of a pod that runs once its containers have other requests than before; each is granted, for nothing runs.
fn resized(pod: &Pod, key: &Key) -> Option<Value> {
    let (spec, status) = (pod.spec.as_ref()?, pod.status.as_ref().filter(|_| phase(pod) == "Running")?);
    let mut statuses = status.container_statuses.clone()?;
    let mut changed = false;
    for status in &mut statuses {
        let container = spec.containers.iter().find(|container| container.name == status.name)?;
        if amounts(&status.resources) != amounts(&container.resources) {
            status.resources.clone_from(&container.resources);
            status.allocated_resources = container.resources.as_ref().and_then(|it| it.requests.clone());
            changed = true;
        }
    }
    changed.then(|| json!({"metadata": {"uid": key.uid}, "status": {"containerStatuses": statuses}}))
}

/// Requests and limits; none at all may be written in two ways.
fn amounts(resources: &Option<ResourceRequirements>) -> [Option<&BTreeMap<String, Quantity>>; 2] {
    let all = |of: fn(&ResourceRequirements) -> &Option<BTreeMap<String, Quantity>>| {
        resources.as_ref().and_then(|it| of(it).as_ref()).filter(|it| !it.is_empty())
    };
    [all(|it| &it.requests), all(|it| &it.limits)]
}

/// A pod that never ran or has ended needs no time to stop; others take what they are given, up to `longest`.
fn time_to_end(pod: &Pod, longest: Duration) -> Duration {
    if phase(pod) != "Running" {
        return Duration::ZERO;
    }
    let grace = pod.metadata.deletion_grace_period_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    longest.min(Duration::from_secs(grace.unwrap_or(30)))
}

/// Whether it belongs to the DaemonSet of the VPC CNI.
fn brings_network(pod: &Pod) -> bool {
    let owners = pod.metadata.owner_references.iter().flatten();
    owners.into_iter().any(|owner| owner.kind == "DaemonSet" && owner.name == "aws-node")
}

fn address([second, third]: [u8; 2], number: u8, node_ip: Option<&str>) -> String {
    match (number, node_ip) {
        (0, Some(ip)) => ip.to_owned(),
        _ => format!("100.{second}.{third}.{number}"),
    }
}

fn running(pod: &Pod, key: &Key, address: &str, node_ip: Option<&str>, time: Timestamp) -> Value {
    let now = seconds(time);
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now});
    let kinds = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"];
    let spec = pod.spec.as_ref();
    let containers = spec.map(|spec| spec.containers.as_slice()).unwrap_or_default();
    let before = spec.and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
    let mut status = json!({
        "phase": "Running",
        "conditions": kinds.map(condition),
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": now,
        "containerStatuses": containers.iter().map(|container| started(container, key, &now)).collect::<Vec<_>>(),
        "initContainerStatuses": before.iter().map(|container| initialized(container, key, &now)).collect::<Vec<_>>(),
    });
    if let Some(ip) = node_ip {
        status["hostIP"] = json!(ip);
        status["hostIPs"] = json!([{"ip": ip}]);
    }
    json!({"metadata": {"uid": key.uid}, "status": status})
}

fn started(container: &Container, key: &Key, now: &str) -> Value {
    let mut status = described(container, key);
    status["started"] = json!(true);
    status["state"] = json!({"running": {"startedAt": now}});
    status
}

/// An ordinary init container has ended well; a sidecar (restartPolicy Always) runs on.
fn initialized(container: &Container, key: &Key, now: &str) -> Value {
    if container.restart_policy.as_deref() == Some("Always") {
        return started(container, key, now);
    }
    let mut status = described(container, key);
    status["started"] = json!(false);
    status["state"] =
        json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}});
    status
}

fn described(container: &Container, key: &Key) -> Value {
    let image = container.image.as_deref().unwrap_or_default();
    json!({
        "name": container.name,
        "resources": container.resources,
        "allocatedResources": container.resources.as_ref().and_then(|it| it.requests.as_ref()),
        "image": image,
        "imageID": image,
        "containerID": format!("containerd://{}-{}", key.uid, container.name),
        "ready": true,
        "restartCount": 0,
    })
}

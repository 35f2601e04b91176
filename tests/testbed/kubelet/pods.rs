//! Next steps for the node's pods, as a pure decision: `now` and the state of the network are arguments.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use super::devices::advertised_by;
use super::node::seconds;
use super::{Options, Timing};

/// Time after which a step without a visible effect is repeated.
const RETRY: Duration = Duration::from_secs(2);

/// Identity of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// UID of the pod: a later pod of the same name is another pod.
    pub uid: String,
}

/// Step to take now.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Reports the pod as running.
    Run {
        /// Pod of the step.
        pod: Key,
        /// Strategic merge patch of its status.
        status: Value,
        /// True for the CNI plugin, whose start configures the network.
        brings_network: bool,
        /// Resources of the devices that the pod makes known.
        devices: Vec<&'static str>,
    },
    /// Reports that the containers have their current requests.
    Resize {
        /// Pod of the step.
        pod: Key,
        /// Merge patch of its status.
        status: Value,
    },
    /// Reports that all containers have completed.
    Complete {
        /// Pod of the step.
        pod: Key,
        /// Strategic merge patch of its status.
        status: Value,
    },
    /// Removes the pod, because its containers have ended.
    End {
        /// Pod of the step.
        pod: Key,
    },
}

impl Step {
    /// Returns the pod of the step.
    pub fn pod(&self) -> &Key {
        match self {
            Self::Run { pod, .. } | Self::Resize { pod, .. } | Self::Complete { pod, .. } | Self::End { pod } => pod,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self {
            Self::Run { .. } => "runs",
            Self::Resize { .. } => "has what it requests now",
            Self::Complete { .. } => "completed",
            Self::End { .. } => "ended",
        };
        let Key { namespace, name, uid } = self.pod();
        write!(f, "pod {namespace}/{name} ({uid}) {verb}")
    }
}

/// Pods that are bound to the node.
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
    /// Earliest moment of the next step: its start, its end, or the next attempt.
    not_before: Instant,
    ending: bool,
    /// Last number of its address; 0 for the host network.
    number: u8,
}

impl Pods {
    /// Creates the set without pods.
    pub fn new(options: &Options, node_ip: Option<String>) -> Self {
        let (network, timing) = (options.pod_network, options.timing);
        Self { network, node_ip, timing, tracked: BTreeMap::new(), listed: None }
    }

    /// Begins a list; pods that it does not contain are removed at its end.
    pub fn begin_list(&mut self) {
        self.listed = Some(BTreeSet::new());
    }

    /// Completes a list.
    pub fn end_list(&mut self) {
        if let Some(listed) = self.listed.take() {
            self.tracked.retain(|uid, _| listed.contains(uid));
        }
    }

    /// Adds or updates a pod.
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

    /// Removes a pod.
    pub fn forget(&mut self, uid: &str) {
        self.tracked.remove(uid);
    }

    /// Returns the steps that are due now. A step without an effect is repeated.
    pub fn due(&mut self, network_ready: bool, now: Instant, time: Timestamp) -> Vec<Step> {
        let mut steps = Vec::new();
        for tracked in self.tracked.values_mut().filter(|tracked| tracked.not_before <= now) {
            let step = if tracked.ending {
                Step::End { pod: tracked.key.clone() }
            } else if waits(&tracked.pod) && (network_ready || host_network(&tracked.pod)) {
                let address = address(self.network, tracked.number, self.node_ip.as_deref());
                let status = running(&tracked.pod, &tracked.key, &address, self.node_ip.as_deref(), time);
                let (brings_network, devices) = (brings_network(&tracked.pod), advertised_by(&tracked.pod));
                Step::Run { pod: tracked.key.clone(), status, brings_network, devices }
            } else if let Some(status) = resized(&tracked.pod, &tracked.key) {
                Step::Resize { pod: tracked.key.clone(), status }
            } else if let Some(status) = completed(&tracked.pod, &tracked.key, time) {
                Step::Complete { pod: tracked.key.clone(), status }
            } else {
                continue;
            };
            tracked.not_before = now + RETRY;
            steps.push(step);
        }
        steps
    }

    /// Returns the last number of the pod's address: its current one, or the lowest free one.
    fn number(&self, pod: &Pod, uid: &str) -> u8 {
        if let Some(tracked) = self.tracked.get(uid) {
            return tracked.number;
        }
        let reported = pod.status.as_ref().and_then(|status| status.pod_ip.as_ref());
        if let Some(number) = reported.and_then(|ip| ip.rsplit('.').next()?.parse().ok()) {
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

/// Returns the status of a running pod after a change of its requests. Every resize is accepted, because no container runs.
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

/// Returns the status of a running pod that completes: every container only sleeps, and none is restarted after a success.
fn completed(pod: &Pod, key: &Key, time: Timestamp) -> Option<Value> {
    let (spec, status) = (pod.spec.as_ref()?, pod.status.as_ref().filter(|_| phase(pod) == "Running")?);
    spec.restart_policy.as_deref().filter(|policy| *policy != "Always")?;
    let sleeps = |container: &Container| sleep(container.command.as_ref()?);
    let longest = spec.containers.iter().map(sleeps).collect::<Option<Vec<Duration>>>()?.into_iter().max()?;
    let started = status.start_time.as_ref()?.0;
    Duration::try_from(time.duration_since(started)).ok().filter(|ran| *ran >= longest)?;
    let (begin, end) = (seconds(started), seconds(time));
    let containers = spec.containers.iter().map(|container| {
        let mut status = described(container, key);
        status["ready"] = json!(false);
        status["started"] = json!(false);
        status["state"] =
            json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": begin, "finishedAt": end}});
        status
    });
    let unready = ["Ready", "ContainersReady"]
        .map(|kind| json!({"type": kind, "status": "False", "lastTransitionTime": end, "reason": "PodCompleted"}));
    let containers: Vec<Value> = containers.collect();
    let status = json!({"phase": "Succeeded", "conditions": unready, "containerStatuses": containers});
    Some(json!({"metadata": {"uid": key.uid}, "status": status}))
}

/// Returns requests and limits; an empty map and a missing one are the same.
fn amounts(resources: &Option<ResourceRequirements>) -> [Option<&BTreeMap<String, Quantity>>; 2] {
    let all = |of: fn(&ResourceRequirements) -> &Option<BTreeMap<String, Quantity>>| {
        resources.as_ref().and_then(|it| of(it).as_ref()).filter(|it| !it.is_empty())
    };
    [all(|it| &it.requests), all(|it| &it.limits)]
}

/// Returns the stop time of a pod: zero if it never ran or has ended, otherwise its hooks and the time `after_signal`, limited by its
/// grace period.
fn time_to_end(pod: &Pod, after_signal: Duration) -> Duration {
    if phase(pod) != "Running" {
        return Duration::ZERO;
    }
    let grace = pod.metadata.deletion_grace_period_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let hooks = pod.spec.iter().flat_map(|spec| &spec.containers).filter_map(pre_stop_sleep).max();
    (hooks.unwrap_or_default() + after_signal).min(Duration::from_secs(grace.unwrap_or(30)))
}

/// Returns the duration of a preStop hook that sleeps, by the action `sleep` or by a command; other commands take no time.
fn pre_stop_sleep(container: &Container) -> Option<Duration> {
    let hook = container.lifecycle.as_ref()?.pre_stop.as_ref()?;
    if let Some(action) = &hook.sleep {
        return u64::try_from(action.seconds).ok().map(Duration::from_secs);
    }
    sleep(hook.exec.as_ref()?.command.as_ref()?)
}

/// Returns the duration of a command that sleeps.
fn sleep(command: &[String]) -> Option<Duration> {
    let command = command.join(" ");
    let mut words = command.split_whitespace().skip_while(|word| *word != "sleep").skip(1);
    words.next()?.parse().ok().map(Duration::from_secs)
}

fn is_sidecar(init: &Container) -> bool {
    init.restart_policy.as_deref() == Some("Always")
}

/// Reports the result of the readiness probe: a container listens on the ports that it declares, and every command succeeds.
fn is_ready(container: &Container) -> bool {
    let Some(probe) = &container.readiness_probe else { return true };
    let http = probe.http_get.as_ref().map(|action| action.port.clone());
    let tcp = probe.tcp_socket.as_ref().map(|action| action.port.clone());
    let grpc = probe.grpc.as_ref().map(|action| IntOrString::Int(action.port));
    http.or(tcp).or(grpc).is_none_or(|port| listens(container, &port))
}

fn listens(container: &Container, port: &IntOrString) -> bool {
    container.ports.iter().flatten().any(|declared| match port {
        IntOrString::Int(number) => declared.container_port == *number,
        IntOrString::String(name) => declared.name.as_ref() == Some(name),
    })
}

/// Reports whether the pod belongs to the DaemonSet of the VPC CNI.
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
    let spec = pod.spec.as_ref();
    let containers = spec.map(|spec| spec.containers.as_slice()).unwrap_or_default();
    let before = spec.and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
    let unready = before.iter().filter(|container| is_sidecar(container)).chain(containers).filter(|it| !is_ready(it));
    let mut status = json!({
        "phase": "Running",
        "conditions": conditions(unready, &now),
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

/// Returns the conditions of a running pod, of which these containers are not ready.
fn conditions<'a>(unready: impl Iterator<Item = &'a Container>, now: &str) -> Vec<Value> {
    let unready: Vec<&str> = unready.map(|container| container.name.as_str()).collect();
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now});
    let readiness = |kind: &str| match unready.as_slice() {
        [] => condition(kind),
        names => json!({
            "type": kind, "status": "False", "lastTransitionTime": now, "reason": "ContainersNotReady",
            "message": format!("containers with unready status: [{}]", names.join(" ")),
        }),
    };
    let started = ["PodReadyToStartContainers", "Initialized"].map(condition);
    started.into_iter().chain(["Ready", "ContainersReady"].map(readiness)).collect()
}

fn started(container: &Container, key: &Key, now: &str) -> Value {
    let mut status = described(container, key);
    status["started"] = json!(true);
    status["ready"] = json!(is_ready(container));
    status["state"] = json!({"running": {"startedAt": now}});
    status
}

/// Returns the status of an init container: completed for an ordinary one, running for a sidecar (restartPolicy Always).
fn initialized(container: &Container, key: &Key, now: &str) -> Value {
    if is_sidecar(container) {
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

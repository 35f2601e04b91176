//! Readiness of this node. Each gate is one fact about the machine. The condition names the gates that are still closed, and
//! since when. Pure: facts and probe results arrive with their time.

mod ask;
mod cni;
mod gate;
mod prober;

use std::time::Duration;

use api::{Quantity, condition, reason};
use drain::Millis;
use machine::agent::gates::{DaemonSetGate, GateSettings, Target};

use crate::bootstrap::BootstrapState;
use crate::cluster::{ConditionUpdate, Node, NodeCondition};
use crate::health;
use crate::health::hysteresis::Hysteresis;
use crate::host::clock::WallOffset;
use crate::notices::moment;

pub use cni::trouble as cni_trouble;
pub use gate::{Gate, GateAnswer, GateKind};
pub use prober::{ProbeResult, Probers};

use gate::{FACT, POD};

/// Time for which `NetworkingReady=False` of another agent closes the gate. Our own checks of the network have a verdict by then.
/// The EKS node monitoring agent withdraws such a condition only when it restarts.
const FOREIGN_NETWORK: Duration = Duration::from_secs(60);

/// Facts about this machine that no gate requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct MachineFacts<'a> {
    /// State of bootstrap.
    pub bootstrap: Option<&'a BootstrapState>,
    /// Our Node.
    pub node: Option<&'a Node>,
    /// Problem that our own checks of the network found.
    pub network: Option<&'a str>,
    /// Offset of the wall clock, by which the Node has its times.
    pub wall: WallOffset,
}

/// Index of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateId(usize);

/// A fact that requires a read of the machine or a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Existence of the CNI, in files.
    Cni(machine::agent::gates::CniGate),
    /// Registration of this CSI driver.
    CsiDriver(String),
    /// Readiness of this DaemonSet's pod.
    DaemonSet(DaemonSetGate),
    /// A probe of the user.
    Target(Target),
}

/// All gates of this node.
#[derive(Clone, Debug)]
pub struct Gates {
    settings: GateSettings,
    gates: Vec<Gate>,
    /// Time since which another agent reports a failure of the network.
    foreign_network: Option<Millis>,
}

impl Gates {
    /// Creates the gates of these settings, all closed.
    #[must_use]
    pub fn new(settings: &GateSettings, now: Millis) -> Self {
        let once = Hysteresis::AT_ONCE;
        let asked = Hysteresis::times(3);
        let mut gates = vec![
            Gate::new(GateKind::Bootstrap, "", once, FACT, now),
            Gate::new(GateKind::Kubelet, "", once, FACT, now),
        ];
        if settings.cni.enabled {
            gates.push(Gate::new(GateKind::Cni, "", once, asked, now));
            gates.push(Gate::new(GateKind::Cni, "network", once, FACT, now));
        }
        let drivers = settings.csi_drivers.iter().map(|name| Gate::new(GateKind::CsiDriver, name, once, asked, now));
        gates.extend(drivers);
        gates.extend(settings.devices.iter().map(|name| Gate::new(GateKind::Device, name, once, FACT, now)));
        gates.extend(settings.daemon_sets.iter().map(|set| Gate::new(GateKind::DaemonSet, &set.name, once, POD, now)));
        let probes = settings.probes.iter().map(|probe| {
            let rising = Hysteresis::times(probe.success_threshold);
            Gate::new(GateKind::Probe, &probe.name, rising, Hysteresis::times(probe.failure_threshold), now)
        });
        gates.extend(probes);
        Self { settings: settings.clone(), gates, foreign_network: None }
    }

    /// Returns the settings of the gates.
    #[must_use]
    pub fn settings(&self) -> &GateSettings {
        &self.settings
    }

    /// Iterates over the gates.
    pub fn iter(&self) -> impl Iterator<Item = &Gate> {
        self.gates.iter()
    }

    /// Returns the id of the gate of this name.
    #[must_use]
    pub fn id(&self, name: &str) -> Option<GateId> {
        self.gates.iter().position(|gate| gate.name() == name).map(GateId)
    }

    /// Records the result of a check or a request.
    pub fn take(&mut self, gate: GateId, answer: GateAnswer, now: Millis) {
        if let Some(gate) = self.gates.get_mut(gate.0) {
            gate.take(answer, now);
        }
    }

    /// Records facts about this machine. Without a Node the gates of kubelet, network and devices receive no answer.
    pub fn observe(&mut self, facts: &MachineFacts<'_>, now: Millis) {
        if let Some(node) = facts.node {
            self.foreign_network = foreign_network(node, facts.wall, now)
                .map(|since| self.foreign_network.map_or(since, |known| known.min(since)));
        }
        let is_doubted = self.foreign_network.is_some_and(|since| now >= since + FOREIGN_NETWORK);
        for gate in &mut self.gates {
            let answer = match (gate.kind(), facts.node) {
                (GateKind::Bootstrap, _) => Some(bootstrapped(facts.bootstrap)),
                (GateKind::Kubelet, Some(node)) => Some(kubelet(node)),
                (GateKind::Cni, Some(node)) if gate.which() == "network" => {
                    Some(network(node, facts.network, is_doubted))
                }
                (GateKind::Device, Some(node)) => Some(device(node, gate.which())),
                _ => None,
            };
            if let Some(answer) = answer {
                gate.take(answer, now);
            }
        }
    }

    /// Returns the next time at which an answer changes by itself.
    #[must_use]
    pub fn changes_at(&self, now: Millis) -> Option<Millis> {
        self.foreign_network.map(|since| since + FOREIGN_NETWORK).filter(|at| *at > now)
    }

    /// Returns the condition `kerf.sh/Ready`. Returns `None` while a restarted agent has no result that contradicts the
    /// condition `True` of the Node.
    #[must_use]
    pub fn news(&self, node: &Node, wall: WallOffset) -> Option<ConditionUpdate> {
        let mut closed = self.gates.iter().filter(|gate| !gate.is_open()).peekable();
        let stands = node.condition(condition::AGENT_READY).is_some_and(|it| it.status == condition::TRUE);
        let doubtless = stands && closed.peek().is_some() && closed.all(Gate::is_undecided);
        (!doubtless).then(|| self.condition_update(wall))
    }

    /// Returns the condition `kerf.sh/Ready` with all open or closed gates.
    #[must_use]
    pub fn condition_update(&self, wall: WallOffset) -> ConditionUpdate {
        let closed: Vec<&Gate> = self.gates.iter().filter(|gate| !gate.is_open()).collect();
        if closed.is_empty() {
            let names: Vec<String> = self.gates.iter().map(Gate::name).collect();
            return ConditionUpdate {
                kind: condition::AGENT_READY,
                status: condition::TRUE,
                reason: reason::GATES_OPEN.to_owned(),
                message: format!("all gates are open: {}", names.join(", ")),
            };
        }
        let mut kinds: Vec<&str> = closed.iter().map(|gate| gate.kind().as_str()).collect();
        kinds.dedup();
        let complaints: Vec<String> = closed.iter().map(|gate| gate.complaint(wall)).collect();
        ConditionUpdate {
            kind: condition::AGENT_READY,
            status: condition::FALSE,
            reason: kinds.join(","),
            message: complaints.join("; "),
        }
    }
}

fn bootstrapped(state: Option<&BootstrapState>) -> GateAnswer {
    match state {
        Some(BootstrapState::Done { .. }) => GateAnswer::Holds,
        Some(BootstrapState::Waiting { reason, .. }) => GateAnswer::Fails(format!("bootstrap is waiting: {reason}")),
        Some(BootstrapState::Failed { reason, .. }) => GateAnswer::Fails(format!("bootstrap failed: {reason}")),
        None => GateAnswer::Fails("no report of bootstrap since the boot".to_owned()),
    }
}

fn kubelet(node: &Node) -> GateAnswer {
    match node.condition(condition::READY) {
        Some(ready) if ready.status == condition::TRUE => GateAnswer::Holds,
        Some(ready) => GateAnswer::Fails(format!("kubelet is not ready: {}", ready.message)),
        None => GateAnswer::Fails("no report of kubelet yet".to_owned()),
    }
}

/// Returns the network's state by our own checks, by the conditions of network plugins without files of their own, and of cloud
/// controllers. A missing condition is no failure. `is_doubted` excludes the condition of another agent.
fn network(node: &Node, own: Option<&str>, is_doubted: bool) -> GateAnswer {
    if let Some(problem) = own {
        return GateAnswer::Fails(problem.to_owned());
    }
    let bad = [(condition::NETWORK_UNAVAILABLE, condition::TRUE), (condition::NETWORKING_READY, condition::FALSE)];
    let mut found = bad.iter().filter_map(|(kind, status)| node.condition(kind).filter(|it| it.status == *status));
    let counts = |it: &&NodeCondition| !(is_doubted && it.kind == condition::NETWORKING_READY && !health::is_own(it));
    found.find(counts).map_or(GateAnswer::Holds, |it| {
        GateAnswer::Fails(format!("the Node's condition {} is {}: {}", it.kind, it.status, it.message))
    })
}

/// Returns since when another agent reports a failure of the network, at most since `now`; `None` if none does. The transition
/// time alone does not suffice, because it moves with each reason.
fn foreign_network(node: &Node, wall: WallOffset, now: Millis) -> Option<Millis> {
    let found = node.condition(condition::NETWORKING_READY)?;
    let failed = found.status == condition::FALSE && !health::is_own(found);
    failed.then(|| found.last_transition_time.map_or(now, |at| wall.ours(moment(at)).min(now)))
}

fn device(node: &Node, name: &str) -> GateAnswer {
    let there = node.status.allocatable.get(name).and_then(|amount| Quantity(amount.clone()).millis().ok());
    if there.unwrap_or(0) > 0 {
        return GateAnswer::Holds;
    }
    GateAnswer::Fails(format!("the Node has no {name}; its device plugin did not register it"))
}

#[cfg(test)]
mod tests;

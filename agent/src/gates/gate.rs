//! One gate: its kind, its last answer and its verdict.

use std::time::Duration;

use drain::Millis;

use crate::health::hysteresis::{Hysteresis, Verdict};
use crate::host::clock::{WallOffset, rfc3339};

/// Kind of a gate, as it appears in the condition's reason and in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GateKind {
    /// Bootstrap is done.
    Bootstrap,
    /// kubelet reports Ready.
    Kubelet,
    /// The pod network.
    Cni,
    /// A CSI driver.
    CsiDriver,
    /// An extended resource.
    Device,
    /// A DaemonSet's pod.
    DaemonSet,
    /// A probe of the user.
    Probe,
}

impl GateKind {
    /// Returns the name of the kind.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bootstrap => "Bootstrap",
            Self::Kubelet => "Kubelet",
            Self::Cni => "CNI",
            Self::CsiDriver => "CSIDriver",
            Self::Device => "Device",
            Self::DaemonSet => "DaemonSet",
            Self::Probe => "Probe",
        }
    }
}

/// Result of a check of a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateAnswer {
    /// The check passed.
    Holds,
    /// The check failed, with the reason.
    Fails(String),
    /// The check had no result, with the reason: an unreachable API server gives no information about this machine.
    Unknown(String),
}

/// Tolerance of an open gate for facts that other programs report. Such facts are read at every step, so only the duration
/// counts.
pub(super) const FACT: Hysteresis = Hysteresis::over(Duration::from_secs(5));
/// Tolerance for a DaemonSet's pod: a rollout of its DaemonSet replaces the pod, which must not close the gate.
pub(super) const POD: Hysteresis = Hysteresis::over(Duration::from_secs(60));

/// A gate.
#[derive(Clone, Debug)]
pub struct Gate {
    kind: GateKind,
    /// Name among gates of the same kind; empty where the kind has only one gate.
    which: String,
    verdict: Verdict,
    why: String,
    /// Set once the gate was open, or a check failed, since the agent started.
    decided: bool,
}

impl Gate {
    pub(super) fn new(kind: GateKind, which: &str, rising: Hysteresis, falling: Hysteresis, now: Millis) -> Self {
        let verdict = Verdict::new(false, rising, falling, now);
        Self { kind, which: which.to_owned(), verdict, why: "not evaluated yet".to_owned(), decided: false }
    }

    /// Records the result of a check.
    pub(super) fn take(&mut self, answer: GateAnswer, now: Millis) {
        let turned = match answer {
            GateAnswer::Holds => self.verdict.take(true, now),
            GateAnswer::Fails(why) => {
                self.decided = true;
                let closed = self.verdict.take(false, now);
                self.why = why;
                closed
            }
            GateAnswer::Unknown(why) => {
                self.why = why;
                false
            }
        };
        if turned {
            self.decided = true;
            let (gate, state) = (self.name(), if self.is_open() { "open" } else { "closed" });
            log::info!(gate = gate.as_str(); "gate {state}");
        }
    }

    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> GateKind {
        self.kind
    }

    pub(super) fn which(&self) -> &str {
        &self.which
    }

    /// Reports whether the gate is closed only because the agent has just started.
    pub(super) fn is_undecided(&self) -> bool {
        !self.decided
    }

    /// Returns the name for users: `CNI`, `Probe licence`.
    #[must_use]
    pub fn name(&self) -> String {
        let kind = self.kind.as_str();
        if self.which.is_empty() { kind.to_owned() } else { format!("{kind} {}", self.which) }
    }

    /// Reports whether the gate is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.verdict.is_good()
    }

    /// Returns since when the gate is open, or closed.
    #[must_use]
    pub fn since(&self) -> Millis {
        self.verdict.since()
    }

    /// Returns in one sentence why the gate is closed.
    pub(super) fn complaint(&self, wall: WallOffset) -> String {
        format!("{} since {}: {}", self.name(), rfc3339(wall.wall_time(self.since())), self.why)
    }
}

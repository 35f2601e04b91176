//! One gate: what it is about, what was answered last, and the verdict.

use std::time::Duration;

use drain::Millis;

use crate::clock::WallOffset;
use crate::hysteresis::{Hysteresis, Verdict};
use crate::report::rfc3339;

/// What a gate is about: the word that stands in the condition's reason and in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GateKind {
    /// bootstrap is done.
    Bootstrap,
    /// kubelet says Ready.
    Kubelet,
    /// The network of pods.
    Cni,
    /// A CSI driver.
    CsiDriver,
    /// An extended resource.
    Device,
    /// A DaemonSet's pod.
    DaemonSet,
    /// A question of the user's.
    Probe,
}

impl GateKind {
    /// One word.
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

/// What was found at a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateAnswer {
    /// It is as it must be.
    Holds,
    /// It is not, and why.
    Fails(String),
    /// Nobody could be asked, and why: an API server that is away says nothing about this machine.
    Unknown(String),
}

/// What an open gate forgives: facts that others write are looked at at every step, so it is the time that counts.
pub(super) const FACT: Hysteresis = Hysteresis::over(Duration::from_secs(5));
/// A DaemonSet's pod is replaced when its DaemonSet is updated; that must not close the gate.
pub(super) const POD: Hysteresis = Hysteresis::over(Duration::from_secs(60));

/// A gate.
#[derive(Clone, Debug)]
pub struct Gate {
    kind: GateKind,
    /// Which one of its kind; empty where there is one only.
    which: String,
    verdict: Verdict,
    why: String,
    /// It was open, or found closed, since the agent started.
    decided: bool,
}

impl Gate {
    pub(super) fn new(kind: GateKind, which: &str, rising: Hysteresis, falling: Hysteresis, now: Millis) -> Self {
        let verdict = Verdict::new(false, rising, falling, now);
        Self { kind, which: which.to_owned(), verdict, why: "not evaluated yet".to_owned(), decided: false }
    }

    /// Takes in what was found.
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

    /// What it is about.
    #[must_use]
    pub fn kind(&self) -> GateKind {
        self.kind
    }

    pub(super) fn which(&self) -> &str {
        &self.which
    }

    /// Whether it is closed only because the agent has just started.
    pub(super) fn is_undecided(&self) -> bool {
        !self.decided
    }

    /// How people call it: `CNI`, `Probe licence`.
    #[must_use]
    pub fn name(&self) -> String {
        let kind = self.kind.as_str();
        if self.which.is_empty() { kind.to_owned() } else { format!("{kind} {}", self.which) }
    }

    /// Whether it holds.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.verdict.is_good()
    }

    /// Since when it is open, or closed.
    #[must_use]
    pub fn since(&self) -> Millis {
        self.verdict.since()
    }

    /// Why it is closed, in a sentence.
    pub(super) fn complaint(&self, wall: WallOffset) -> String {
        format!("{} since {}: {}", self.name(), rfc3339(wall.wall_time(self.since())), self.why)
    }
}

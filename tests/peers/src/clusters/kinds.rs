//! Kinds of constraint, as a set to which a run can be limited.

use std::fmt;

use anyhow::{Result, bail};

use super::Dice;

/// One kind of constraint or cluster state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Node selectors.
    Selectors,
    /// Required node affinity with alternatives and all operators.
    Affinity,
    /// Preferred node and pod affinity, and soft topology spread.
    Preferences,
    /// Taints and tolerations.
    Taints,
    /// Required pod affinity.
    Near,
    /// Required pod anti-affinity.
    Apart,
    /// Hard topology spread.
    Spread,
    /// Terms that select other namespaces.
    Namespaces,
    /// Host ports.
    Ports,
    /// Bound, unbound and ephemeral volumes, and attach limits.
    Volumes,
    /// DaemonSets.
    Daemons,
    /// Priorities.
    Priorities,
    /// GPUs.
    Extended,
    /// Init containers, sidecars, overhead, and limits without requests.
    Requests,
    /// Several NodePools with weights and narrow requirements.
    Pools,
    /// NodePools with limits.
    Limits,
    /// Existing nodes, with pods on them.
    Existing,
    /// Nodes that are not initialized yet; only with `Existing`.
    Starting,
    /// Nodes that are being deleted; only with `Existing`.
    Leaving,
    /// NodeClaims without a response of EC2; only with `Existing` and `Starting`.
    Open,
    /// Capacity reservations.
    Reserved,
    /// Static NodePools; only with `Pools`.
    Static,
    /// Pods with scheduling gates, and completed pods.
    Idle,
    /// DaemonSets in the namespaces of other pods, whose selectors match them; only with `Daemons`.
    Agents,
    /// Terminating pods; only with `Existing`.
    Ending,
    /// Extended resources other than GPUs, and huge pages.
    Devices,
    /// NodeOverlays.
    Overlays,
    /// CapacityBuffers.
    Buffers,
}

/// Set of kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds(u32);

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 28] = [
        Self::Selectors,
        Self::Affinity,
        Self::Preferences,
        Self::Taints,
        Self::Near,
        Self::Apart,
        Self::Spread,
        Self::Namespaces,
        Self::Ports,
        Self::Volumes,
        Self::Daemons,
        Self::Priorities,
        Self::Extended,
        Self::Requests,
        Self::Pools,
        Self::Limits,
        Self::Existing,
        Self::Starting,
        Self::Leaving,
        Self::Open,
        Self::Reserved,
        Self::Static,
        Self::Idle,
        Self::Agents,
        Self::Ending,
        Self::Devices,
        Self::Overlays,
        Self::Buffers,
    ];

    fn bit(self) -> u32 {
        1 << self as u32
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", format!("{self:?}").to_lowercase())
    }
}

impl Kinds {
    /// Returns the set of all kinds.
    #[must_use]
    pub fn all() -> Self {
        Kind::ALL.into_iter().collect()
    }

    /// Reports whether the kind is in the set.
    #[must_use]
    pub fn has(self, kind: Kind) -> bool {
        self.0 & kind.bit() != 0
    }

    /// Returns the kinds of the set.
    pub fn iter(self) -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(move |kind| self.has(*kind))
    }

    /// Parses a comma-separated list of names.
    ///
    /// # Errors
    /// Returns an error if a name is unknown; the message lists the known names.
    pub fn parse(names: &str) -> Result<Self> {
        names.split(',').map(str::trim).map(one).collect()
    }

    /// Returns about half of the set, or all of it if there are only a few. Clusters with one kind find bugs that clusters with
    /// all kinds hide.
    pub(super) fn some(self, dice: &mut Dice) -> Self {
        let few = self.0.count_ones() <= 4;
        let share = *dice.one(&[25, 50, 75]);
        self.iter().filter(|_| few || dice.chance(share)).collect()
    }
}

fn one(name: &str) -> Result<Kind> {
    match Kind::ALL.into_iter().find(|kind| kind.to_string() == name) {
        Some(kind) => Ok(kind),
        None => {
            let known: Vec<String> = Kind::ALL.iter().map(Kind::to_string).collect();
            bail!("{name:?} is no kind of constraint; there are {}", known.join(", "))
        }
    }
}

impl FromIterator<Kind> for Kinds {
    fn from_iter<I: IntoIterator<Item = Kind>>(kinds: I) -> Self {
        Self(kinds.into_iter().fold(0, |all, kind| all | kind.bit()))
    }
}

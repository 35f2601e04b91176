//! Kinds of constraint, as a set that a run can be narrowed to.

use std::fmt;

use anyhow::{Result, bail};

use super::Dice;

/// One kind of constraint, or of circumstance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Node selectors.
    Selectors,
    /// Required node affinity with alternatives and all operators.
    Affinity,
    /// Preferences for nodes and for company, and soft spreads.
    Preferences,
    /// Taints and tolerations.
    Taints,
    /// Required pod affinity.
    Near,
    /// Required pod anti-affinity.
    Apart,
    /// Hard topology spread.
    Spread,
    /// Terms that look into other namespaces.
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
    /// Several pools with weights and narrow requirements.
    Pools,
    /// Pools with limits.
    Limits,
    /// Nodes that exist, with pods on them.
    Existing,
    /// Nodes that are on their way to be ready; only beside `Existing`.
    Starting,
    /// Nodes that are on their way out; only beside `Existing`.
    Leaving,
    /// Claims that EC2 has not answered yet; only beside `Existing` and `Starting`.
    Open,
    /// Capacity reservations.
    Reserved,
    /// Static pools; only beside `Pools`.
    Static,
    /// Pods that are gated or done.
    Idle,
    /// DaemonSets in the namespaces of other pods, which those count; only beside `Daemons`.
    Agents,
    /// Pods that are on their way out; only beside `Existing`.
    Ending,
    /// Extended resources other than GPUs, and huge pages.
    Devices,
    /// NodeOverlays.
    Overlays,
    /// CapacityBuffers.
    Buffers,
}

/// A set of kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds(u32);

impl Kind {
    /// All of them.
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
    /// Every kind.
    #[must_use]
    pub fn all() -> Self {
        Kind::ALL.into_iter().collect()
    }

    /// Whether the kind is in the set.
    #[must_use]
    pub fn has(self, kind: Kind) -> bool {
        self.0 & kind.bit() != 0
    }

    /// The kinds of the set.
    pub fn iter(self) -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(move |kind| self.has(*kind))
    }

    /// Reads names with commas between them.
    ///
    /// # Errors
    /// When a name is no kind; the message lists those that there are.
    pub fn parse(names: &str) -> Result<Self> {
        names.split(',').map(str::trim).map(one).collect()
    }

    /// About half of the set, or all of it when there are only a few: clusters of one kind find what clusters of all hide.
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

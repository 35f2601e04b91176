//! Karpenter's feature gates: the known ones, and their values.

use daemon::flag::boolean;
use snapshot::NodeRepair;

/// Karpenter's feature gates.
const KNOWN: [&str; 6] = [NODE_REPAIR, RESERVED_CAPACITY, SPOT_TO_SPOT, NODE_OVERLAY, STATIC_CAPACITY, CAPACITY_BUFFER];
/// Gate of earlier versions of Karpenter, which is always open now.
const DRIFT: &str = "Drift";
const NODE_REPAIR: &str = "NodeRepair";
const RESERVED_CAPACITY: &str = "ReservedCapacity";
const SPOT_TO_SPOT: &str = "SpotToSpotConsolidation";
const NODE_OVERLAY: &str = "NodeOverlay";
const STATIC_CAPACITY: &str = "StaticCapacity";
const CAPACITY_BUFFER: &str = "CapacityBuffer";

/// Values of the feature gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each feature gate has its own value")]
pub struct Gates {
    /// Nodes that are replaced while they are unhealthy.
    pub node_repair: NodeRepair,
    /// Offerings of capacity reservations.
    pub reserved_capacity: bool,
    /// Replacement of spot nodes by cheaper spot nodes.
    pub spot_to_spot: bool,
    /// NodeOverlays.
    pub node_overlay: bool,
    /// NodePools with a fixed number of nodes.
    pub static_capacity: bool,
    /// CapacityBuffers.
    pub capacity_buffer: bool,
}

impl Default for Gates {
    fn default() -> Self {
        Written::default().gates()
    }
}

/// Known gates as written; of several values for a gate the last applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Written(Vec<(String, bool)>);

/// Parses `NAME=true,NAME=false`.
pub(super) fn read(text: &str) -> Result<Written, String> {
    let mut all = Vec::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let parsed = pair.split_once('=').and_then(|(name, value)| Some((name, boolean(value).ok()?)));
        let (name, value) = parsed.ok_or_else(|| format!("{pair:?} is not NAME=true or NAME=false"))?;
        if name != DRIFT && !KNOWN.contains(&name) {
            return Err(format!("unknown feature gate {name:?}; known are {}", KNOWN.join(", ")));
        }
        all.push((name.to_owned(), value));
    }
    Ok(Written(all))
}

impl Written {
    /// Returns the values of the gates. Gates that are not mentioned keep their defaults.
    pub(super) fn gates(&self) -> Gates {
        Gates {
            node_repair: NodeRepair::from_gate(self.value(NODE_REPAIR)),
            reserved_capacity: self.value(RESERVED_CAPACITY).unwrap_or(true),
            spot_to_spot: self.is_open(SPOT_TO_SPOT),
            node_overlay: self.is_open(NODE_OVERLAY),
            static_capacity: self.is_open(STATIC_CAPACITY),
            capacity_buffer: self.is_open(CAPACITY_BUFFER),
        }
    }

    /// Returns a sentence about a value without effect.
    pub(super) fn unmet(&self) -> Option<String> {
        let is_closed = self.value(DRIFT) == Some(false);
        is_closed.then(|| {
            "feature gate Drift=false has no effect: nodes always drift; a disruption budget for reason Drifted with 0 nodes keeps them"
                .to_owned()
        })
    }

    fn value(&self, name: &str) -> Option<bool> {
        self.0.iter().rev().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    fn is_open(&self, name: &str) -> bool {
        self.value(name) == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::{Gates, NodeRepair, read};

    const DEFAULTS: Gates = Gates {
        node_repair: NodeRepair::WithAgent,
        reserved_capacity: true,
        spot_to_spot: false,
        node_overlay: false,
        static_capacity: false,
        capacity_buffer: false,
    };

    #[test]
    fn read_parses_gates_as_karpenter_does() {
        let rows = [
            ("", DEFAULTS),
            (
                "NodeRepair=true,SpotToSpotConsolidation=true",
                Gates { node_repair: NodeRepair::All, spot_to_spot: true, ..DEFAULTS },
            ),
            ("NodeRepair=false", Gates { node_repair: NodeRepair::Off, ..DEFAULTS }),
            ("NodeOverlay=true, StaticCapacity=true", Gates { node_overlay: true, static_capacity: true, ..DEFAULTS }),
            (
                "CapacityBuffer=true,ReservedCapacity=false",
                Gates { capacity_buffer: true, reserved_capacity: false, ..DEFAULTS },
            ),
            ("NodeOverlay=true,NodeOverlay=false", DEFAULTS),
            (
                "NodeOverlay=True,ReservedCapacity=F,Drift=TRUE",
                Gates { node_overlay: true, reserved_capacity: false, ..DEFAULTS },
            ),
        ];
        for (text, expected) in rows {
            assert_eq!(read(text).map(|written| written.gates()), Ok(expected), "{text:?}");
        }
        assert_eq!(Gates::default(), DEFAULTS);
    }

    #[test]
    fn read_fails_when_a_gate_is_unknown() {
        assert!(read("NodeRepair").is_err_and(|message| message.contains("NAME=true")));
        assert!(read("NodeRepairs=true").is_err_and(|message| message.contains("known are NodeRepair")));
    }
}

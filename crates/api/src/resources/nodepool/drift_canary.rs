//! Canary of a NodePool: drifted nodes that are replaced before the others (annotation `kerf.sh/drift-canary`).

use crate::units::duration;
use crate::units::node_count::part;

/// Drifted nodes that are replaced first, and how long their replacements must be healthy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriftCanary {
    nodes: String,
    /// Time for which the replacements must be healthy, in nanoseconds.
    pub time: i64,
}

/// Text that is no canary.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not nodes and a time; write 2 for 15m or 10% for 1h")]
pub struct InvalidDriftCanary {
    text: String,
}

impl DriftCanary {
    /// Reads a number or percentage of nodes and a duration, such as `10% for 15m`.
    ///
    /// # Errors
    /// Returns an error if the text has another form, or names no node.
    pub fn read(text: &str) -> Result<Self, InvalidDriftCanary> {
        let read = || {
            let (nodes, time) = text.split_once(" for ")?;
            let nodes = nodes.trim();
            part(nodes, 100).filter(|nodes| *nodes > 0)?;
            Some(Self { nodes: nodes.to_owned(), time: duration::span(time.trim()).ok()? })
        };
        read().ok_or_else(|| InvalidDriftCanary { text: text.to_owned() })
    }

    /// Returns the number of nodes among this many nodes, at least one.
    #[must_use]
    pub fn nodes(&self, total: u32) -> u32 {
        part(&self.nodes, total).unwrap_or_default().max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::DriftCanary;

    #[test]
    fn read_accepts_nodes_and_a_time() {
        let rows = [
            ("2 for 15m", Some((2, 900))),
            ("10% for 1h", Some((5, 3600))),
            (" 1% for  0s ", Some((1, 0))),
            ("300 for 10m", Some((300, 600))),
            ("0 for 15m", None),
            ("0% for 15m", None),
            ("10%", None),
            ("10% for", None),
            ("10% for ever", None),
            ("ten for 5m", None),
            ("-1 for 5m", None),
            ("2 for -5m", None),
            ("", None),
        ];
        for (text, expected) in rows {
            let found = DriftCanary::read(text);
            let numbers = found.as_ref().ok().map(|canary| (canary.nodes(50), canary.time / 1_000_000_000));
            assert_eq!(numbers, expected, "{text:?}");
            if let Err(error) = found {
                assert!(error.to_string().contains("write 2 for 15m"), "{error}");
            }
        }
    }

    #[test]
    fn nodes_is_one_when_the_share_of_few_nodes_is_less() {
        let canary = DriftCanary::read("10% for 15m").unwrap();
        assert_eq!([0, 1, 10, 11, 100].map(|total| canary.nodes(total)), [1, 1, 1, 2, 10]);
    }
}

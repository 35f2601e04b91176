//! Times of the models, from the recording.

use jiff::{SignedDuration, Timestamp};

use crate::history::{History, RecordedNode, RecordedPod};

/// Durations of steps that planner and controller do not decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// From the creation of a NodeClaim to its launch.
    pub launch: SignedDuration,
    /// From the launch to an initialized node.
    pub boot: SignedDuration,
    /// From the binding of a pod until it is ready.
    pub start: SignedDuration,
    /// From the request to delete a running pod until it is gone.
    pub stop: SignedDuration,
}

impl Default for Pace {
    fn default() -> Self {
        let seconds = SignedDuration::from_secs;
        Self { launch: seconds(2), boot: seconds(35), start: seconds(3), stop: seconds(3) }
    }
}

impl Pace {
    /// Returns the median of each time; the default where the recording has none.
    #[must_use]
    pub fn of(history: &History) -> Self {
        let usual = Self::default();
        let nodes = |from: fn(&RecordedNode) -> Option<Timestamp>, to: fn(&RecordedNode) -> Option<Timestamp>| {
            median(history.nodes.iter().filter_map(|node| Some(to(node)?.duration_since(from(node)?))))
        };
        let pods = |from: fn(&RecordedPod) -> Option<Timestamp>, to: fn(&RecordedPod) -> Option<Timestamp>| {
            median(history.pods.iter().filter_map(|pod| Some(to(pod)?.duration_since(from(pod)?))))
        };
        Self {
            launch: nodes(|node| Some(node.created), |node| node.launched).unwrap_or(usual.launch),
            boot: nodes(|node| node.launched, |node| node.initialized).unwrap_or(usual.boot),
            start: pods(|pod| pod.bound, |pod| pod.ready).unwrap_or(usual.start),
            stop: pods(|pod| pod.leaves.filter(|_| pod.ready.is_some() && !pod.succeeded), |pod| pod.gone)
                .unwrap_or(usual.stop),
        }
    }
}

/// Returns the median of the durations that are not negative.
fn median(all: impl Iterator<Item = SignedDuration>) -> Option<SignedDuration> {
    let mut all: Vec<SignedDuration> = all.filter(|one| !one.is_negative()).collect();
    all.sort_unstable();
    all.get(all.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_ignores_negative_durations() {
        let seconds = |all: &[i64]| median(all.iter().map(|one| SignedDuration::from_secs(*one)));
        assert_eq!(seconds(&[]), None);
        assert_eq!(seconds(&[-1]), None);
        assert_eq!(seconds(&[9, 1, -5, 3]), Some(SignedDuration::from_secs(3)));
    }
}

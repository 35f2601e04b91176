//! Memory of attempts that failed, so that the next one waits: launches that gave pods no place, nodes that pods could not use, and
//! replacements that were not initialized. A change of the NodePool or its EC2NodeClass ends the memory: the change may be the fix.

pub mod launches;
mod pool_failures;
pub mod replacements;
pub mod stored;

use std::collections::BTreeSet;
use std::time::Duration;

use api::{EC2NodeClass, annotation};
use daemon::backoff::doubled;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::state::index::Index;
use crate::state::nominations::after;

/// Exponential delay between attempts.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// Delay after the first failure.
    first: Duration,
    /// Maximum delay.
    most: Duration,
}

impl Backoff {
    /// Creates a delay that doubles with each failure, from `first` to `most`.
    #[must_use]
    pub const fn new(first: Duration, most: Duration) -> Self {
        Self { first, most }
    }

    /// Returns the time of the next attempt after this many failures in a row, of which the last one was at `last`.
    #[must_use]
    pub fn next(&self, failures: u32, last: Timestamp) -> Timestamp {
        let Some(doublings) = failures.checked_sub(1) else { return last };
        after(last, doubled(self.first, doublings, self.most))
    }
}

/// Generations of a NodePool and its EC2NodeClass, with what a generation of the EC2NodeClass leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolVersion {
    pool: Option<(String, i64)>,
    class: Option<(String, i64)>,
    /// Hash of the annotations about the agent and of the images.
    content: u64,
}

impl PoolVersion {
    /// Returns the present generations.
    #[must_use]
    pub fn from_index(index: &Index, pool: &str) -> Self {
        let Some(pool) = index.pools.get(pool) else { return Self::default() };
        let class = index.classes.get(&pool.spec.template.spec.node_class_ref.name);
        let version =
            |meta: &kube::api::ObjectMeta| (meta.uid.clone().unwrap_or_default(), meta.generation.unwrap_or_default());
        Self {
            pool: Some(version(&pool.metadata)),
            class: class.map(|class| version(&class.metadata)),
            content: class.map_or(0, |class| content(class)),
        }
    }
}

/// Failures since the last success. They survive a restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FailuresInARow {
    count: u32,
    last: Timestamp,
    cause: String,
}

/// Maximum length of a cause in characters. Nodes write parts of it.
const MOST_CAUSE: usize = 300;

fn bounded_cause(cause: &str) -> String {
    cause.chars().take(MOST_CAUSE).collect()
}

impl FailuresInARow {
    /// Returns the failures with a last one that is not after `now`: the clock of another process may be ahead.
    fn until(self, now: Timestamp) -> Self {
        Self { last: self.last.min(now), ..self }
    }
}

/// Returns a hash of the annotations about the agent and of the images: another image may have the agent.
fn content(class: &EC2NodeClass) -> u64 {
    let annotations = class.metadata.annotations.as_ref();
    let annotation = |key: &&str| annotations.and_then(|all| all.get(*key)).map_or("", String::as_str);
    let about_agent = [annotation::AGENT, annotation::AGENT_SETTINGS, annotation::GATE_TIMEOUT];
    let images: BTreeSet<&str> =
        class.status.iter().flat_map(|status| status.amis.iter().map(|image| image.id.as_str())).collect();
    let parts = about_agent.iter().map(annotation).chain(images);
    api::hash::fnv1a(parts.flat_map(|part| part.bytes().chain([0])))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::{Backoff, PoolVersion};
    use crate::fixture::{at, class, pool};
    use crate::state::index::Index;

    fn version(change: &Value) -> PoolVersion {
        let mut index = Index::default();
        drop(index.apply(pool(&json!({})).as_ref().clone(), at(0), true));
        drop(index.apply(class(change).as_ref().clone(), at(0), true));
        PoolVersion::from_index(&index, "default")
    }

    /// Annotations and images have no generation, and each of them may be the fix of nodes without an agent.
    #[test]
    fn from_index_changes_with_agent_annotations_and_images() {
        let rows = [
            (json!({"metadata": {"annotations": {"kerf.sh/agent": "enabled"}}}), true),
            (json!({"metadata": {"annotations": {"kerf.sh/gate-timeout": "5m"}}}), true),
            (json!({"status": {"amis": [{"id": "ami-2", "requirements": []}]}}), true),
            (json!({"metadata": {"annotations": {"other": "note"}}}), false),
            (json!({"metadata": {"generation": 9}}), true),
        ];
        for (change, differs) in rows {
            assert_eq!(version(&change) != version(&json!({})), differs, "{change}");
        }
    }

    #[test]
    fn next_doubles_the_delay_up_to_the_maximum() {
        let backoff = Backoff::new(Duration::from_secs(10), Duration::from_secs(60));
        let delays: Vec<i64> =
            [0, 1, 2, 3, 4, 40].map(|failures| (backoff.next(failures, at(0)) - at(0)).get_seconds()).into();
        assert_eq!(delays, [0, 10, 20, 40, 60, 60]);
    }
}

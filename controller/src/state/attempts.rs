//! Memory of attempts that failed, so that the next one waits: launches that gave pods no place, and replacements that were not
//! initialized. A change of the NodePool or its EC2NodeClass ends the memory: the change may be the fix.

pub mod launches;
pub mod replacements;

use std::time::Duration;

use daemon::backoff::doubled;
use jiff::Timestamp;

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

/// Generations of a NodePool and its EC2NodeClass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolVersion {
    pool: Option<(String, i64)>,
    class: Option<(String, i64)>,
}

impl PoolVersion {
    /// Returns the present generations.
    #[must_use]
    pub fn from_index(index: &Index, pool: &str) -> Self {
        let Some(pool) = index.pools.get(pool) else { return Self::default() };
        let class = index.classes.get(&pool.spec.template.spec.node_class_ref.name);
        let version =
            |meta: &kube::api::ObjectMeta| (meta.uid.clone().unwrap_or_default(), meta.generation.unwrap_or_default());
        Self { pool: Some(version(&pool.metadata)), class: class.map(|class| version(&class.metadata)) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Backoff;
    use crate::fixture::at;

    #[test]
    fn next_doubles_the_delay_up_to_the_maximum() {
        let backoff = Backoff::new(Duration::from_secs(10), Duration::from_secs(60));
        let delays: Vec<i64> =
            [0, 1, 2, 3, 4, 40].map(|failures| (backoff.next(failures, at(0)) - at(0)).get_seconds()).into();
        assert_eq!(delays, [0, 10, 20, 40, 60, 60]);
    }
}

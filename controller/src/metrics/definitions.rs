//! Names, kinds, labels and meanings of all metrics, by topic.

mod aws;
mod buckets;
pub mod conditions;
pub(super) mod detailed;
mod disruption;
mod fleet;
mod labels;
mod nodeclaims;
mod nodes;
mod process;
mod scheduler;
mod usage;

use daemon::metric::Description;

pub use aws::*;
pub use detailed::{QUEUE_DEPTH, UNFINISHED_WORK};
pub use disruption::*;
pub use fleet::*;
pub use labels::*;
pub use nodeclaims::*;
pub use nodes::*;
pub use process::*;
pub use scheduler::*;
pub use usage::*;

/// Returns the description of every metric, in the detail of sums.
#[must_use]
pub fn table() -> Vec<Description> {
    let by_topic = [
        NODECLAIM_METRICS,
        NODE_METRICS,
        SCHEDULER_METRICS,
        DISRUPTION_METRICS,
        USAGE_METRICS,
        PROCESS_METRICS,
        AWS_METRICS,
        CLUSTER_METRICS,
    ];
    let conditions = conditions::ALL.iter().flat_map(|conditions| conditions.descriptions());
    by_topic.concat().into_iter().chain(conditions).collect()
}

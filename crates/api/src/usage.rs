//! Measured utilization of nodes: decaying histograms in integers, which merge exactly and are small enough to transfer. The
//! agent records samples, the controller merges and queries histograms. Both use this code, so it is beside the report that
//! transfers it. Nothing here reads a clock: every sample has its own time.

mod buckets;
mod histogram;
mod joint;
mod pods;
mod report;
mod weights;
mod wire;

pub use buckets::{BUCKETS, FIRST, Level};
pub use histogram::Histogram;
pub use joint::{Joint, Share};
pub use pods::{PodId, PodUsage, UNKNOWN, decode_pods, encode_pods};
pub use report::{Amounts, InvalidReport, STALE_AFTER, Shortage, Usage};
pub use wire::InvalidText;

//! What a machine really uses, in numbers that add up the same everywhere: decaying histograms in whole numbers, small
//! enough to travel. The agent counts, the controller merges and asks; both by the code in here, so this stands beside the
//! report that carries it and not in a crate of either. Nothing here reads a clock: every sample brings its moment.

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

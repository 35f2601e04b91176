//! Zonal shifts of ARC, Amazon Application Recovery Controller.

use jiff::Timestamp;

/// A shift of a cluster's traffic away from one zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZonalShift {
    /// Zone id, such as `usw2-az1`.
    pub zone_id: String,
    /// End of the shift; `None` for an autoshift, which AWS ends.
    pub expires: Option<Timestamp>,
    /// True if the shift is in effect. ARC applies one of several shifts that are active at once.
    pub applied: bool,
}

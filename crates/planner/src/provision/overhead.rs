//! Which DaemonSets' pods come with a node.

use std::collections::BTreeMap;

use crate::{Offer, Requirements, Snapshot, Taint};

use super::demand::{Demand, Tolerance};

/// The DaemonSets whose pods will come with a node of this type, with what they request.
pub(super) fn daemons<'d, 'a: 'd>(
    snapshot: &'a Snapshot,
    demands: &'d [Demand<'a>],
    possible: &'d Requirements,
    given: &'d BTreeMap<String, String>,
    taints: &'d [Taint],
    offer: &'d Offer<'a>,
) -> impl Iterator<Item = &'d Demand<'a>> {
    let well_known = &snapshot.policy.well_known;
    demands.iter().filter(move |demand| {
        demand.first_untolerated(taints, Tolerance::Lenient).is_none()
            && demand.alternatives.iter().any(|asked| {
                let both = possible.intersection(asked);
                possible.first_conflict(asked, well_known).is_none()
                    && offer.labels_match(&both, given, well_known)
                    && offer.offerings(&both).next().is_some()
            })
    })
}

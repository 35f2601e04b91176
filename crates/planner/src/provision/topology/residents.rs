//! Pods that run on nodes which may go: counted where they are, and taken back when their node is vacated.

use super::{Counts, Domain, HOST, Kind, Membership, Pods, Shelf, Spot, Topology, domain_at, slot};

/// One pod that is there.
const ONE: Pods = Pods { count: 1, there: Counts::Surely };

/// Where everybody is, to come back to.
#[derive(Clone)]
pub(in crate::provision) struct Counted<'a>(Shelf<'a>);

impl<'a> Topology<'a> {
    /// Where everybody is now.
    pub(in crate::provision) fn counted(&self) -> Counted<'a> {
        Counted(self.groups.clone())
    }

    /// Lets everybody be where they were.
    pub(in crate::provision) fn restore(&mut self, before: Counted<'a>) {
        self.groups = before.0;
    }

    /// Counts a pod on a node of the snapshot, where it runs.
    pub(in crate::provision) fn settle_in(&mut self, membership: Membership<'_>, site: Domain) {
        self.record(membership, Spot { site: Some(site), pins: None }, ONE, |_, _| Counts::Surely);
    }

    /// Takes back a pod that was counted on a node of the snapshot whose labels are known. Who must be near it finds it in
    /// its zone until the last of its group has left, for pods leave one after another.
    pub(in crate::provision) fn move_out(&mut self, membership: Membership<'_>, site: Domain) {
        let spot = Spot { site: Some(site), pins: None };
        for id in membership.counts {
            let group = &mut self.groups[*id];
            let is_spread = matches!(group.kind, Kind::Spread(_));
            let stays_near = matches!(group.kind, Kind::Near { .. }) && group.keys != [HOST];
            if stays_near || (is_spread && group.eligible[site as usize] != Counts::Surely) {
                continue;
            }
            let mut somewhere = false;
            for (position, key) in group.keys.iter().enumerate() {
                if let Some(domain) = domain_at(&self.keys, *key, spot) {
                    let tally = slot(&mut group.tallies[position], domain);
                    *tally = tally.saturating_sub(1);
                    somewhere = true;
                }
            }
            group.total = group.total.saturating_sub(u64::from(somewhere));
            if is_spread
                && !somewhere
                && let Some(pods) = group.on_site.get_mut(&site)
            {
                *pods = pods.saturating_sub(1);
            }
        }
        for id in membership.holds {
            let group = &mut self.groups[*id];
            if let Some(domain) = domain_at(&self.keys, group.keys[0], spot) {
                let holders = slot(&mut group.holders, domain);
                *holders = holders.saturating_sub(1);
            }
        }
    }
}

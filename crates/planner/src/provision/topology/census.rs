//! Who is there already: the pods of the snapshot's nodes, counted in their groups and domains.

use std::collections::{BTreeMap, BTreeSet};

use crate::provision::frame::Frames;
use crate::provision::wants::{Tolerance, Wants, first_untolerated};
use crate::{Node, PodShape, Snapshot};

use super::groups::SpreadGroup;
use super::{Domain, HOST, Kind, Spot, Topology};

impl<'a> Topology<'a> {
    /// Makes groups of the anti-affinity that bound pods hold.
    pub(in crate::provision) fn heed_bound(&mut self, snapshot: &'a Snapshot) {
        for shape in bound_shapes(snapshot).values() {
            for term in &shape.apart {
                self.held(&shape.namespace, term);
            }
        }
    }

    /// Counts all pods that are bound and not to be placed anew.
    pub(in crate::provision) fn count_bound(&mut self, snapshot: &'a Snapshot, wants: &Wants<'a>) {
        if self.is_empty() {
            return;
        }
        self.locate(snapshot);
        self.find_eligible(snapshot, wants);
        let moving: BTreeSet<&str> =
            snapshot.pods.iter().filter(|pod| pod.leaving_node.is_some()).map(|pod| pod.uid.as_str()).collect();
        let shapes = bound_shapes(snapshot);
        let memberships: BTreeMap<*const PodShape, (Vec<usize>, Vec<usize>)> = shapes
            .into_iter()
            .map(|(address, shape)| (address, (self.counting(shape), self.holding(shape))))
            .filter(|(_, (counts, holds))| !counts.is_empty() || !holds.is_empty())
            .collect();
        for (site, node) in snapshot.nodes.iter().enumerate() {
            let spot = Spot { site: Domain::try_from(site).ok(), pins: None };
            for pod in node.pods.iter().filter(|pod| !pod.ending && !moving.contains(pod.uid.as_str())) {
                if let Some((counts, holds)) = memberships.get(&std::ptr::from_ref(pod.shape.as_ref())) {
                    self.record(counts, holds, spot, 1, |_| true);
                }
            }
        }
    }

    fn holding(&mut self, shape: &'a PodShape) -> Vec<usize> {
        shape.apart.iter().map(|term| self.held(&shape.namespace, term)).collect()
    }

    /// Which value of each key every node has.
    fn locate(&mut self, snapshot: &Snapshot) {
        for key in 0..self.keys.len() {
            let name = self.keys[key].name.clone();
            let values = snapshot.nodes.iter().map(|node| node.labels.get(&name));
            let domains = values.map(|value| value.map(|value| self.domain(key, value)));
            self.keys[key].of_site = domains.collect();
        }
    }

    /// On which nodes a spread counts pods. Nodes that leave are no domains of what is to come.
    fn find_eligible(&mut self, snapshot: &Snapshot, wants: &Wants<'a>) {
        for group in &mut self.groups {
            if let Kind::Spread(spread) = &group.kind {
                let counts = |node: &Node| node.leaving.is_none() && spread.counts_on(node, wants);
                group.eligible = snapshot.nodes.iter().map(|node| counts(node)).collect();
            }
        }
    }

    /// Works out over which domains each spread goes: those of nodes that count and those that pools can open.
    pub(in crate::provision) fn find_reachable(&mut self, frames: &mut Frames<'a>, wants: &Wants<'a>) {
        for id in 0..self.groups.len() {
            let Kind::Spread(spread) = self.groups[id].kind.clone() else { continue };
            let key = self.groups[id].keys[0];
            if key == HOST {
                continue;
            }
            let sites = self.groups[id].eligible.iter().zip(&self.keys[key].of_site);
            let mut reachable: BTreeSet<Domain> =
                sites.filter(|(eligible, _)| **eligible).filter_map(|(_, domain)| *domain).collect();
            let (alternatives, tolerations) = &spread.reach;
            for base in frames.bases_bearing(tolerations) {
                for want in alternatives {
                    if let Some(frame) = frames.narrowed(base, *want, wants, self) {
                        reachable.extend(frames.values(frame, key, self).iter());
                    }
                }
            }
            self.groups[id].reachable = reachable.into_iter().collect();
        }
    }
}

impl SpreadGroup<'_> {
    fn counts_on(&self, node: &Node, wants: &Wants<'_>) -> bool {
        let suits = |alternatives: &Vec<usize>| alternatives.iter().any(|it| wants.get(*it).allow_labels(&node.labels));
        let bears = |tolerations: &&[crate::Toleration]| {
            first_untolerated(tolerations, &node.taints, Tolerance::Lenient).is_none()
        };
        self.beside.iter().all(|key| *key == crate::label::HOSTNAME || node.labels.contains_key(*key))
            && self.wants.as_ref().is_none_or(suits)
            && self.tolerations.as_ref().is_none_or(bears)
    }
}

/// Distinct shapes of bound pods; pods of one owner share theirs, so the address tells them apart.
fn bound_shapes(snapshot: &Snapshot) -> BTreeMap<*const PodShape, &PodShape> {
    let pods = snapshot.nodes.iter().flat_map(|node| &node.pods);
    pods.map(|pod| (std::ptr::from_ref(pod.shape.as_ref()), pod.shape.as_ref())).collect()
}

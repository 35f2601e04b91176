//! Volume claims that several pods share: the place of one pod constrains the others.
//!
//! A claim with `WaitForFirstConsumer` gets its volume in the zone of its first pod, and all other pods must run there. A
//! `ReadWriteOncePod` claim serves only one pod. The API does not show whether a driver's volumes are bound to a zone. EBS
//! volumes are, and volumes with zones in their topology are assumed to be. An existing volume names its zone itself, and the
//! rule adds nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::{PodShape, Snapshot, label};

use super::capacity_split::SplitPart;
use super::{Demand, DemandCompiler};
use crate::provision::topology::{GroupId, Rule, Topology};

/// CSI driver of EBS, whose volumes exist in one zone.
const EBS: &str = "ebs.csi.aws.com";

/// Claims that constrain several pods, each with its rule.
pub(in crate::provision) struct SharedClaims<'a> {
    rules: BTreeMap<&'a str, Rule>,
}

impl<'a> SharedClaims<'a> {
    /// Finds claims of pending pods that another pod also uses, bound or not.
    pub(in crate::provision) fn new(snapshot: &'a Snapshot, topology: &mut Topology<'a>) -> Self {
        let mut users: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for pod in &snapshot.pods {
            for claim in binding(snapshot, &snapshot.shapes[pod.shape], &pod.claims) {
                users.entry(claim).or_default().insert(&pod.uid);
            }
        }
        let bound = snapshot.nodes.iter().flat_map(|node| &node.pods);
        for (pod, claim) in bound.flat_map(|pod| pod.claims.iter().map(move |claim| (pod, claim))) {
            if let Some(users) = users.get_mut(claim.as_str()) {
                users.insert(&pod.uid);
            }
        }
        let shared = users.into_iter().filter(|(_, users)| users.len() > 1).map(|(claim, _)| claim);
        let rule = |claim: &'a str| (claim, topology.claim(claim, snapshot.single_claims.contains(claim)));
        Self { rules: shared.map(rule).collect() }
    }

    /// Returns the rules of a pod's claims.
    pub(in crate::provision) fn rules(&self, claims: &[String]) -> impl Iterator<Item = &Rule> {
        claims.iter().filter_map(|claim| self.rules.get(claim.as_str()))
    }

    /// Returns all demands, and the demand of each pod. The demands of the shapes come first; demands of pods with shared
    /// claims or a part in a workload's split follow.
    pub(in crate::provision) fn demands(
        &self,
        snapshot: &'a Snapshot,
        parts: &[SplitPart],
        compiler: &mut DemandCompiler<'a, '_>,
    ) -> (Vec<Demand<'a>>, Vec<usize>) {
        let mut demands: Vec<Demand<'a>> =
            snapshot.shapes.iter().map(|shape| Demand::new(shape, SplitPart::Free, compiler)).collect();
        let mut known: BTreeMap<(usize, SplitPart, Vec<GroupId>), usize> = BTreeMap::new();
        let mut demand_of = Vec::with_capacity(snapshot.pods.len());
        for (pod, part) in snapshot.pods.iter().zip(parts) {
            let part = part.in_force();
            let rules: Vec<Rule> = self.rules(&pod.claims).cloned().collect();
            if rules.is_empty() && part == SplitPart::Free {
                demand_of.push(pod.shape);
                continue;
            }
            let name = (pod.shape, part, rules.iter().map(|rule| rule.group).collect());
            let demand = *known.entry(name).or_insert_with(|| {
                demands.push(Demand::new(&snapshot.shapes[pod.shape], part, compiler).sharing(&rules));
                demands.len() - 1
            });
            demand_of.push(demand);
        }
        (demands, demand_of)
    }
}

/// Returns the claims of a pod whose volume is in one zone, or which only one pod may use.
fn binding<'a>(snapshot: &'a Snapshot, shape: &'a PodShape, claims: &'a [String]) -> impl Iterator<Item = &'a str> {
    let named = shape.volumes.iter().zip(claims).map(|(volume, claim)| (volume, claim.as_str()));
    let zonal = |volume: &crate::VolumeNeed| {
        let mut named = volume.alternatives.iter().flatten();
        volume.driver.as_deref() == Some(EBS) || named.any(|it| it.key == label::ZONE)
    };
    named
        .filter(move |(volume, claim)| zonal(volume) || snapshot.single_claims.contains(*claim))
        .map(|(_, claim)| claim)
}

//! Volume claims that several pods have: what one of them does binds the others.
//!
//! A claim that waits for its first pod gets its volume in that pod's zone, and all others must go there. A claim for one
//! pod only serves the first. Whether a driver's volumes are bound to a zone cannot be seen: those of EBS are, and those
//! that name zones are taken to be. A volume that exists names its zone itself; the rule adds nothing there.

use std::collections::{BTreeMap, BTreeSet};

use crate::{PodShape, Snapshot, label};

use super::capacity_split::SplitPart;
use super::demand::{Demand, DemandCompiler};
use super::topology::{GroupId, Rule, Topology};

/// The CSI driver of EBS, whose volumes are in one zone.
const EBS: &str = "ebs.csi.aws.com";

/// Claims that bind pods to each other, each with what that asks of them.
pub(super) struct SharedClaims<'a> {
    rules: BTreeMap<&'a str, Rule>,
}

impl<'a> SharedClaims<'a> {
    /// Claims of pods to be placed that another pod has too, bound or not.
    pub(super) fn new(snapshot: &'a Snapshot, topology: &mut Topology<'a>) -> Self {
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

    /// What the claims of a pod ask of it.
    pub(super) fn rules(&self, claims: &[String]) -> impl Iterator<Item = &Rule> {
        claims.iter().filter_map(|claim| self.rules.get(claim.as_str()))
    }

    /// The demand of each shape, then those of pods of a shape that share the same claims or have the same part in a
    /// workload's split; and which one each pod has.
    pub(super) fn demands(
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

/// The claims of a pod whose volume is in one zone, or for one pod only.
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

//! Volume claims that several pods share: the place of one pod constrains the others.
//!
//! A claim with `WaitForFirstConsumer` gets its volume in the zone of its first pod, and all other pods must run there. A
//! `ReadWriteOncePod` claim serves only one pod. The API does not show whether a driver's volumes are bound to a zone. EBS
//! volumes are, and volumes with zones in their topology are assumed to be. An existing volume names its zone itself, and the
//! rule adds nothing.
//!
//! Pods of one shape that use different claims are different to a node which has one of the volumes attached: the volume needs no
//! further attachment. Such pods are therefore placed apart from the others of their shape.

use std::collections::{BTreeMap, BTreeSet};

use crate::{PodShape, Snapshot, label};

use super::capacity_split::SplitPart;
use super::dimensions::Dimensions;
use super::{Demand, DemandCompiler};
use crate::provision::topology::{Rule, Topology};

/// CSI driver of EBS, whose volumes exist in one zone.
const EBS: &str = "ebs.csi.aws.com";

/// Claims that several pods use.
pub(in crate::provision) struct SharedClaims<'a> {
    /// Claims that constrain their pods, each with its rule.
    rules: BTreeMap<&'a str, Rule>,
    /// Claims whose attachments are counted.
    attached: BTreeSet<&'a str>,
}

impl<'a> SharedClaims<'a> {
    /// Finds claims of pending pods that another pod also uses.
    pub(in crate::provision) fn new(
        snapshot: &'a Snapshot,
        dimensions: &Dimensions,
        topology: &mut Topology<'a>,
    ) -> Self {
        let pending = || snapshot.pods.iter().map(|pod| (pod, &snapshot.shapes[pod.shape]));
        let binding = pending().flat_map(|(pod, shape)| binding(snapshot, shape, &pod.claims));
        let attached = pending().flat_map(|(pod, shape)| {
            let counted = dimensions.attachments(shape).into_iter();
            counted.filter_map(|(volume, _)| pod.claims.get(volume)).map(String::as_str)
        });
        let shared = shared(snapshot);
        let of_several = |claim: &&str| shared.contains(claim);
        let rule = |claim: &'a str| (claim, topology.claim(claim, snapshot.single_claims.contains(claim)));
        let binding: BTreeSet<&str> = binding.filter(of_several).collect();
        Self { rules: binding.into_iter().map(rule).collect(), attached: attached.filter(of_several).collect() }
    }

    /// Reports whether the claim makes its pods different from others of their shape.
    fn is_distinct(&self, claim: &str) -> bool {
        self.rules.contains_key(claim) || self.attached.contains(claim)
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
        let mut known: BTreeMap<(usize, SplitPart, Vec<&String>), usize> = BTreeMap::new();
        let mut demand_of = Vec::with_capacity(snapshot.pods.len());
        for (pod, part) in snapshot.pods.iter().zip(parts) {
            let part = part.in_force();
            let claims: Vec<&String> = pod.claims.iter().filter(|claim| self.is_distinct(claim)).collect();
            if claims.is_empty() && part == SplitPart::Free {
                demand_of.push(pod.shape);
                continue;
            }
            let demand = *known.entry((pod.shape, part, claims)).or_insert_with(|| {
                let rules: Vec<Rule> = self.rules(&pod.claims).cloned().collect();
                demands.push(Demand::new(&snapshot.shapes[pod.shape], part, compiler).sharing(&rules));
                demands.len() - 1
            });
            demand_of.push(demand);
        }
        (demands, demand_of)
    }
}

/// Returns the claims that at least two pods use, bound or not.
fn shared(snapshot: &Snapshot) -> BTreeSet<&str> {
    let pending = snapshot.pods.iter().map(|pod| (pod.uid.as_str(), &pod.claims));
    let bound = snapshot.nodes.iter().flat_map(|node| &node.pods).map(|pod| (pod.uid.as_str(), &pod.claims));
    let mut users: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (pod, claim) in pending.chain(bound).flat_map(|(pod, claims)| claims.iter().map(move |claim| (pod, claim))) {
        users.entry(claim).or_default().insert(pod);
    }
    users.into_iter().filter(|(_, users)| users.len() > 1).map(|(claim, _)| claim).collect()
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

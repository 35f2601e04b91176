//! Shared resources of pods on one node in addition to requests: host ports and volume attachments.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Node, Pod, PodShape, Snapshot};

use super::Findings;

/// Pods that the plan assigns to one node.
pub(super) struct NodePods<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) subject: &'a str,
    pub(super) pods: &'a [usize],
}

/// Attachment: the driver, and the claim, or the pod's own volume without a claim.
type Attachment = (String, String);

impl<'a> NodePods<'a> {
    fn shape(&self, pod: usize) -> &'a PodShape {
        &self.snapshot.shapes[self.snapshot.pods[pod].shape]
    }

    /// Checks that no assigned pod binds a port of another assigned pod or of a resident.
    pub(super) fn ports(&self, residents: &[&PodShape], findings: &mut Findings) {
        let mut taken: Vec<_> = residents.iter().flat_map(|shape| &shape.ports).collect();
        for pod in self.pods {
            let own = &self.shape(*pod).ports;
            if let Some(port) = own.iter().find(|port| taken.iter().any(|other| port.clashes(other))) {
                let name = &self.snapshot.pods[*pod].name;
                findings.add(self.subject, format!("port {} of pod {name} is taken", port.port));
            }
            taken.extend(own);
        }
    }

    /// Checks that the attachments of assigned pods are within the limit of every driver; shared claims count once.
    pub(super) fn attachments(
        &self,
        node: Option<&Node>,
        limits: &BTreeMap<String, i64>,
        what: &str,
        findings: &mut Findings,
    ) {
        let bound = node.into_iter().flat_map(|node| &node.pods);
        let present: BTreeSet<Attachment> =
            bound.flat_map(|pod| attachments(&pod.uid, &pod.shape, &pod.claims)).collect();
        let mut all = present.clone();
        for pod in self.pods {
            let Pod { uid, claims, .. } = &self.snapshot.pods[*pod];
            all.extend(attachments(uid, self.shape(*pod), claims));
        }
        for (driver, limit) in limits {
            let of = |set: &BTreeSet<Attachment>| set.iter().filter(|it| it.0 == *driver).count();
            let (before, after) = (of(&present), of(&all));
            let within = after == before || i64::try_from(after).is_ok_and(|after| after <= *limit);
            findings.expect(within, self.subject, || {
                format!("{what}attaches {after} volumes of {driver}, at most {limit}")
            });
        }
    }
}

fn attachments(uid: &str, shape: &PodShape, claims: &[String]) -> Vec<Attachment> {
    let volumes = shape.volumes.iter().enumerate();
    let counted = volumes.filter_map(|(position, volume)| Some((position, volume.driver.clone()?)));
    let named = |(position, driver): (usize, String)| {
        let claim = claims.get(position).cloned().unwrap_or_else(|| format!("{uid} volume {position}"));
        (driver, claim)
    };
    counted.map(named).collect()
}

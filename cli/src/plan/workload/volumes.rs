//! Claims of pods: those of a StatefulSet's templates and of ephemeral volumes.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::objects::{
    PersistentVolumeClaim, PersistentVolumeClaimSource, PersistentVolumeClaimStatus, Pod, StatefulSet, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Adds the claims of a StatefulSet's templates, `TEMPLATE-POD`, to its pods, unless the claims are in the input.
pub(super) fn of_stateful_set(set: &StatefulSet, pods: &mut [Pod], claims: &mut Vec<Arc<PersistentVolumeClaim>>) {
    let (namespace, name) = super::key(&set.metadata);
    let owns = |pod: &Pod| {
        pod.namespace() == namespace && pod.controller().is_some_and(|by| by.kind == "StatefulSet" && by.name == name)
    };
    let mut known = names(claims);
    for pod in pods.iter_mut().filter(|pod| owns(pod)) {
        for template in &set.spec.volume_claim_templates {
            let volume = template.metadata.name.clone().unwrap_or_default();
            let claim = format!("{volume}-{}", pod.name());
            pod.spec.volumes.retain(|own| own.name != volume);
            pod.spec.volumes.push(Volume {
                name: volume,
                persistent_volume_claim: Some(PersistentVolumeClaimSource { claim_name: claim.clone() }),
                ..Volume::default()
            });
            if known.insert((namespace.to_owned(), claim.clone())) {
                let mut new = template.clone();
                new.metadata.name = Some(claim);
                new.metadata.namespace = Some(namespace.to_owned());
                new.status = PersistentVolumeClaimStatus::default();
                claims.push(Arc::new(new));
            }
        }
    }
}

/// Adds the claims of ephemeral volumes, `POD-VOLUME`, for pods without a node, unless the claims are in the input.
pub(super) fn of_pods(pods: &[Arc<Pod>], claims: &mut Vec<Arc<PersistentVolumeClaim>>) {
    let mut known = names(claims);
    for pod in pods.iter().filter(|pod| !pod.is_bound() && !pod.is_terminal()) {
        for volume in &pod.spec.volumes {
            let template = volume.ephemeral.as_ref().and_then(|it| it.volume_claim_template.as_ref());
            let Some(template) = template else { continue };
            let name = format!("{}-{}", pod.name(), volume.name);
            if known.insert((pod.namespace().to_owned(), name.clone())) {
                let metadata = ObjectMeta {
                    name: Some(name),
                    namespace: Some(pod.namespace().to_owned()),
                    ..ObjectMeta::default()
                };
                let spec = template.spec.clone();
                claims.push(Arc::new(PersistentVolumeClaim { metadata, spec, ..Default::default() }));
            }
        }
    }
}

fn names(claims: &[Arc<PersistentVolumeClaim>]) -> BTreeSet<(String, String)> {
    let owned = |(namespace, name): (&str, &str)| (namespace.to_owned(), name.to_owned());
    claims.iter().map(|claim| owned(super::key(&claim.metadata))).collect()
}

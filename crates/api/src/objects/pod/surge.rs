//! Pods that are evicted only after a copy of them is ready. This module checks whether a pod can have a copy and requests one,
//! and parses the annotation of a pod that waits for its copy.
//!
//! A pod of a Deployment belongs to its ReplicaSet by the label `pod-template-hash`. Without that label the ReplicaSet no
//! longer owns the pod and creates another one. Services do not select by that label, so they keep sending traffic to the pod
//! until its eviction.

use std::fmt;

use jiff::Timestamp;

use super::Pod;
use crate::names::{annotation, label};
use crate::objects::affinity::PodAffinityTerm;

/// Annotation of a pod that waits for its copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surged {
    /// UID of the ReplicaSet that owned the pod.
    pub owner: String,
    /// Name of that ReplicaSet. The names of its pods begin with it.
    pub name: String,
    /// Time at which that ownership ended, in whole seconds like the age of pods.
    pub since: Timestamp,
}

impl Surged {
    /// Reads the annotation that a pod has while it waits for its copy.
    #[must_use]
    pub fn from_pod(pod: &Pod) -> Option<Self> {
        Self::parse(pod.annotation(annotation::SURGED)?)
    }

    /// Parses the text that [`fmt::Display`] writes. Returns `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let (owner, name, since) = (words.next()?, words.next()?, words.next()?.parse().ok()?);
        words.next().is_none().then(|| Self { owner: owner.to_owned(), name: name.to_owned(), since })
    }
}

impl fmt::Display for Surged {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {} {}", self.owner, self.name, self.since)
    }
}

/// Pods of a NodePool that get a copy before their eviction, unless they have the annotation `kerf.sh/surge`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PoolSurge {
    /// Single pods of Deployments whose budget blocks their eviction for ever.
    #[default]
    Blocked,
    /// All single pods of Deployments.
    Single,
    /// None.
    Never,
}

/// Reports whether a copy of the pod must be ready before its eviction. The annotation `kerf.sh/surge` of the pod decides.
/// Without a valid annotation the NodePool does, for a pod that is `alone` in its ReplicaSet, and perhaps `blocked` for ever by its
/// budget. A pod that cannot have a copy never gets one.
pub fn surges(pod: &Pod, pool: PoolSurge, alone: impl FnOnce() -> bool, blocked: impl FnOnce() -> bool) -> bool {
    let requested = match (pod.annotation(annotation::SURGE), pool) {
        (Some(annotation::TRUE), _) => true,
        (Some(annotation::FALSE), _) | (_, PoolSurge::Never) => false,
        (_, PoolSurge::Single) => alone(),
        (_, PoolSurge::Blocked) => blocked() && alone(),
    };
    requested && can_surge(pod)
}

/// Returns the value of the annotation `kerf.sh/surge` if it is neither `true` nor `false`.
#[must_use]
pub fn misread_surge(pod: &Pod) -> Option<&str> {
    pod.annotation(annotation::SURGE).filter(|text| ![annotation::TRUE, annotation::FALSE].contains(text))
}

/// Reports whether a copy can run beside the pod. The pod must be running, and a Deployment must own it. The pod must use
/// no claims, because their volumes would still be attached to its node. Its required anti-affinity may match its own
/// labels only by host name, because the copy runs on another host.
pub(crate) fn can_surge(pod: &Pod) -> bool {
    let is_running = !pod.is_terminating() && !pod.is_terminal();
    is_running
        && pod.replica_set().is_some()
        && !has_claims(pod)
        && !anti_affinity_terms(pod).any(|term| is_matched_by(pod, term))
}

fn has_claims(pod: &Pod) -> bool {
    pod.spec.volumes.iter().any(|it| it.persistent_volume_claim.is_some() || it.ephemeral.is_some())
}

fn anti_affinity_terms(pod: &Pod) -> impl Iterator<Item = &PodAffinityTerm> {
    let terms = pod.spec.affinity.as_ref().and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let terms = terms.into_iter().flat_map(|apart| &apart.required);
    terms.filter(|term| term.topology_key != label::HOSTNAME)
}

fn is_matched_by(pod: &Pod, term: &PodAffinityTerm) -> bool {
    let labels = pod.metadata.labels.clone().unwrap_or_default();
    term.label_selector.as_ref().is_some_and(|selector| selector.matches(&labels))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns a pod of the Deployment `web` with these changes.
    fn pod(metadata: Value, spec: Value) -> Pod {
        let owner =
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d9", "uid": "rs", "controller": true});
        let labels = json!({"app": "web", "pod-template-hash": "7d9"});
        let mut pod = json!({
            "metadata": {"name": "web-7d9-x", "namespace": "default", "labels": labels, "ownerReferences": [owner]},
            "spec": spec,
        });
        pod["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn surges_follows_the_pod_before_the_pool() {
        let annotated = |word: &str| json!({"annotations": {"kerf.sh/surge": word}});
        let rows = [
            (json!({}), PoolSurge::Never, true, false),
            (json!({}), PoolSurge::Single, true, true),
            (json!({}), PoolSurge::Single, false, false),
            (json!({}), PoolSurge::Blocked, true, false),
            (annotated("true"), PoolSurge::Never, false, true),
            (annotated("false"), PoolSurge::Single, true, false),
            (annotated("yes"), PoolSurge::Never, true, false),
            (annotated("yes"), PoolSurge::Single, true, true),
        ];
        for (metadata, pool, alone, expected) in rows {
            let pod = pod(metadata.clone(), json!({}));
            assert_eq!(surges(&pod, pool, || alone, || false), expected, "{metadata} {pool:?} {alone}");
        }
        assert_eq!(misread_surge(&pod(annotated("yes"), json!({}))), Some("yes"));
        assert_eq!(misread_surge(&pod(annotated("false"), json!({}))), None);
    }

    #[test]
    fn surges_is_false_when_a_copy_cannot_run() {
        let apart = |key: &str, app: &str| {
            let term = json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}});
            json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
        };
        let claim = json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]});
        let rows = [
            ("nothing in the way", json!({}), json!({}), true),
            ("a scratch volume", json!({}), json!({"volumes": [{"name": "tmp"}]}), true),
            ("a claim", json!({}), claim, false),
            ("keeps to one a host", json!({}), apart(label::HOSTNAME, "web"), true),
            ("keeps to one a zone", json!({}), apart(label::ZONE, "web"), false),
            ("keeps away from others", json!({}), apart(label::ZONE, "db"), true),
            ("without an owner", json!({"ownerReferences": []}), json!({}), false),
            ("a bare ReplicaSet's", json!({"labels": {"app": "web"}}), json!({}), false),
            ("on its way out", json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), json!({}), false),
        ];
        for (what, metadata, spec, expected) in rows {
            let surges = surges(&pod(metadata, spec), PoolSurge::Single, || true, || false);
            assert_eq!(surges, expected, "{what}");
        }
    }

    #[test]
    fn surges_by_default_where_a_budget_blocks_the_only_pod() {
        let pod = pod(json!({}), json!({}));
        assert!(surges(&pod, PoolSurge::Blocked, || true, || true));
        assert!(
            !surges(&pod, PoolSurge::Blocked, || false, || true) && !surges(&pod, PoolSurge::Never, || true, || true)
        );
    }

    #[test]
    fn surged_parses_only_its_own_text() {
        let surged = Surged { owner: "rs".into(), name: "web-7d9".into(), since: Timestamp::from_second(7).unwrap() };
        let written = json!({"annotations": {"kerf.sh/surged": surged.to_string()}});
        assert_eq!(Surged::from_pod(&pod(written, json!({}))), Some(surged));
        for text in ["", "rs", "rs web", "rs web noon", "rs web 2026-01-01T00:00:00Z more"] {
            assert_eq!(Surged::parse(text), None, "{text}");
        }
    }
}

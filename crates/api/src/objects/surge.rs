//! Pods that leave only once a copy of them is up: which can, which ask for it, and what is written on one that waits.
//!
//! A pod of a Deployment is its ReplicaSet's by the label `pod-template-hash`. Without that label it is nobody's: the ReplicaSet makes
//! another, and Services, which do not look at that label, keep sending it traffic until it goes.

use std::fmt;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::{Pod, PodAffinityTerm};
use crate::{annotation, label};

/// Value of the annotation that asks for no copy, whatever the pool says.
const FALSE: &str = "false";

/// What is written on a pod that waits for its copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surged {
    /// UID of the ReplicaSet whose pod it was.
    pub owner: String,
    /// Name of that ReplicaSet, with which the names of its pods begin.
    pub name: String,
    /// Since when it is not any more, to the second like the age of pods.
    pub since: Timestamp,
}

impl Surged {
    /// Reads what [`fmt::Display`] writes; `None` for anything else.
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

impl Pod {
    /// Whether a copy of the pod is to be up before it is evicted: its annotation `kerf.sh/surge` says so, or it says nothing, its
    /// pool asks that for single pods and it is `alone` in its ReplicaSet. A pod of which there can be no copy beside it asks in vain.
    pub fn surges(&self, pool_asks: bool, alone: impl FnOnce() -> bool) -> bool {
        let asked = match self.annotation(annotation::SURGE) {
            Some(annotation::TRUE) => true,
            Some(FALSE) => false,
            _ => pool_asks && alone(),
        };
        asked && self.can_surge()
    }

    /// What the annotation `kerf.sh/surge` says, if that is neither `true` nor `false`.
    #[must_use]
    pub fn misread_surge(&self) -> Option<&str> {
        self.annotation(annotation::SURGE).filter(|text| ![annotation::TRUE, FALSE].contains(text))
    }

    /// The ReplicaSet of a Deployment whose pod it is.
    #[must_use]
    pub fn replica_set(&self) -> Option<&OwnerReference> {
        let labelled =
            self.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(label::POD_TEMPLATE_HASH));
        self.controller().filter(|owner| labelled && owner.kind == "ReplicaSet" && owner.api_version == "apps/v1")
    }

    /// What is written on it while it waits for its copy.
    #[must_use]
    pub fn surged(&self) -> Option<Surged> {
        Surged::parse(self.annotation(annotation::SURGED)?)
    }

    /// Whether a copy can be up beside it: a Deployment makes it, no volume of it would be attached here still, and it does not keep
    /// away from its own kind by more than the host, which it leaves.
    pub(super) fn can_surge(&self) -> bool {
        let lives = !self.is_terminating() && !self.is_terminal();
        lives
            && self.replica_set().is_some()
            && !self.has_claims()
            && !self.keeps_away().any(|term| self.is_meant(term))
    }

    fn has_claims(&self) -> bool {
        self.spec.volumes.iter().any(|it| it.persistent_volume_claim.is_some() || it.ephemeral.is_some())
    }

    fn keeps_away(&self) -> impl Iterator<Item = &PodAffinityTerm> {
        let terms = self.spec.affinity.as_ref().and_then(|affinity| affinity.pod_anti_affinity.as_ref());
        let terms = terms.into_iter().flat_map(|apart| &apart.required);
        terms.filter(|term| term.topology_key != label::HOSTNAME)
    }

    fn is_meant(&self, term: &PodAffinityTerm) -> bool {
        let labels = self.metadata.labels.clone().unwrap_or_default();
        term.label_selector.as_ref().is_some_and(|selector| selector.matches(&labels))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A pod of the Deployment `web`, changed.
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
    fn the_pod_has_the_word_and_its_pool_only_for_single_pods() {
        let says = |word: &str| json!({"annotations": {"kerf.sh/surge": word}});
        let rows = [
            (json!({}), false, true, false),
            (json!({}), true, true, true),
            (json!({}), true, false, false),
            (says("true"), false, false, true),
            (says("false"), true, true, false),
            (says("yes"), false, true, false),
            (says("yes"), true, true, true),
        ];
        for (metadata, pool_asks, alone, expected) in rows {
            let pod = pod(metadata.clone(), json!({}));
            assert_eq!(pod.surges(pool_asks, || alone), expected, "{metadata} {pool_asks} {alone}");
        }
        assert_eq!(pod(says("yes"), json!({})).misread_surge(), Some("yes"));
        assert_eq!(pod(says("false"), json!({})).misread_surge(), None);
    }

    #[test]
    fn who_cannot_have_a_copy_asks_in_vain() {
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
            ("nobody's", json!({"ownerReferences": []}), json!({}), false),
            ("a bare ReplicaSet's", json!({"labels": {"app": "web"}}), json!({}), false),
            ("on its way out", json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), json!({}), false),
        ];
        for (what, metadata, spec, expected) in rows {
            assert_eq!(pod(metadata, spec).surges(true, || true), expected, "{what}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let surged = Surged { owner: "rs".into(), name: "web-7d9".into(), since: Timestamp::from_second(7).unwrap() };
        let written = json!({"annotations": {"kerf.sh/surged": surged.to_string()}});
        assert_eq!(pod(written, json!({})).surged(), Some(surged));
        for text in ["", "rs", "rs web", "rs web noon", "rs web 2026-01-01T00:00:00Z more"] {
            assert_eq!(Surged::parse(text), None, "{text}");
        }
    }
}

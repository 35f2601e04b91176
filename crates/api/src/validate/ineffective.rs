//! Settings of objects that have no effect, each with its fix: keys that nothing reads on an object of this kind, keys of older
//! versions, misspelt keys, and limits of resources that no node has.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;

use crate::names::annotation;
use crate::names::similar::nearest;
use crate::units::quantity::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};

/// A setting without effect.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ineffective {
    /// Path of the setting, such as `metadata.annotations[kerf.sh/spotshare]`.
    pub field: String,
    /// Fix, as the end of a sentence.
    pub fix: String,
}

impl fmt::Display for Ineffective {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} has no effect: {}", self.field, self.fix)
    }
}

/// Object, or part of an object, that has keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyOwner {
    /// CapacityBuffer.
    Buffer,
    /// EC2NodeClass.
    Class,
    /// NodeClaim.
    Claim,
    /// Node.
    Node,
    /// NodeOverlay.
    Overlay,
    /// Pod, or the pod template of a workload.
    Pod,
    /// NodePool.
    Pool,
    /// Template of a NodePool, whose keys its nodes get.
    PoolTemplate,
}

impl fmt::Display for KeyOwner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Buffer => "CapacityBuffers",
            Self::Class => "EC2NodeClasses",
            Self::Claim => "NodeClaims",
            Self::Node => "Nodes",
            Self::Overlay => "NodeOverlays",
            Self::Pod => "pods",
            Self::Pool => "NodePools (metadata)",
            Self::PoolTemplate => "NodePools (spec.template.metadata)",
        })
    }
}

/// Domain of our own keys.
const DOMAIN: &str = "kerf.sh/";
/// First key behind the domain in order.
const BEHIND: &str = "kerf.sh0";

/// Our annotations, with the owners on which they are read. A test compares the keys with those of [`annotation`].
const ANNOTATIONS: [(&str, &[KeyOwner]); 47] = {
    use KeyOwner::{Buffer, Claim, Class, Node, Overlay, Pod, Pool, PoolTemplate};
    [
        (annotation::ACTIVE_TIMES, &[Buffer, Pool]),
        (annotation::ADOPTED_AT, &[Claim]),
        (annotation::AGENT, &[Class]),
        (annotation::AGENT_HEARTBEAT, &[Node]),
        (annotation::AGENT_SETTINGS, &[Class]),
        (annotation::BUDGET_TIMEZONE, &[Pool]),
        (annotation::CONSOLIDATION_LOST_WORK, &[Pool]),
        (annotation::CONSOLIDATION_MIN_SAVING, &[Pool]),
        (annotation::CONSOLIDATION_MIN_SAVING_PER_POD, &[Pool]),
        (annotation::CONSOLIDATION_WARM_UP, &[Pool]),
        (annotation::DISRUPT_AT_MOST_ONCE_PER, &[Pod]),
        (annotation::DRAIN, &[Node]),
        (annotation::DRAIN_TAKEN_OVER, &[Claim, Node]),
        (annotation::DRIFT_CANARY, &[Pool]),
        (annotation::EMULATED_EVENT, &[Node]),
        (annotation::EMULATED_INSTANCE, &[Node]),
        (annotation::EMULATED_SHORTAGE, &[Class]),
        (annotation::FAILED_ATTEMPTS, &[Pool]),
        (annotation::GATE_TIMEOUT, &[Class]),
        (annotation::INTERRUPTION_DEADLINE, &[Node]),
        (annotation::LAUNCH_TOKEN, &[Claim]),
        (annotation::MAX_COST_PER_HOUR, &[Pool]),
        (annotation::NODE_FEE, &[Pool]),
        (annotation::NOTICE_REMOVALS, &[Pool]),
        (annotation::ON_DEMAND_BASE, &[Pod]),
        (annotation::PACK_FLOOR, &[Pool]),
        (annotation::PACK_MARGIN, &[Pool]),
        (annotation::PACK_MIN_HISTORY, &[Pool]),
        (annotation::PERFORMANCE, &[Overlay]),
        (annotation::PERFORMANCE_FACTORS, &[Pool]),
        (annotation::POD_GROUP, &[Pod]),
        (annotation::POD_GROUP_MIN, &[Pod]),
        (annotation::PREFERENCE_PREMIUM, &[Pool]),
        (annotation::REBALANCE, &[Claim, Node, PoolTemplate]),
        (annotation::REBOOT_TIMEOUT, &[Class]),
        (annotation::REPLACED_BY, &[Claim]),
        (annotation::REPLACEMENT_APPROVED, &[Node]),
        (annotation::REPLACES, &[Claim]),
        (annotation::REQUESTED, &[Pod]),
        (annotation::GIVEN_BACK, &[Pod]),
        (annotation::REQUESTS_LOWERED, &[Claim]),
        (annotation::RESIZE, &[Pod]),
        (annotation::SPOT_SHARE, &[Pod]),
        (annotation::SURGE, &[Pod, Pool]),
        (annotation::SURGED, &[Pod]),
        (annotation::TIMELINE, &[Node]),
        (annotation::UTILIZATION, &[Pool]),
    ]
};

/// Our annotations that are also read as labels of pods.
const LABELS: [&str; 2] = [annotation::ON_DEMAND_BASE, annotation::SPOT_SHARE];

/// Annotations of older versions of Karpenter that block disruption.
const RETIRED: [&str; 2] = ["karpenter.sh/do-not-consolidate", "karpenter.sh/do-not-evict"];
/// Beginning of keys that may be meant as [`annotation::DO_NOT_DISRUPT`].
const ALIKE: &str = "karpenter.sh/d";
/// Owners on which [`annotation::DO_NOT_DISRUPT`] is read.
const PROTECTED: [KeyOwner; 4] = [KeyOwner::Claim, KeyOwner::Node, KeyOwner::Pod, KeyOwner::PoolTemplate];

/// Annotations and labels of an object.
type Keys = BTreeMap<String, String>;

/// Returns the annotations and labels without effect. `path` is that of the metadata, such as `spec.template.metadata`.
#[must_use]
pub fn keys(owner: KeyOwner, path: &str, annotations: Option<&Keys>, labels: Option<&Keys>) -> Vec<Ineffective> {
    let found = |map: &str, key: &str, fix: String| Ineffective { field: format!("{path}.{map}[{key}]"), fix };
    let own_annotations = annotations.into_iter().flat_map(own_keys);
    let of_ours = own_annotations.filter_map(|key| Some(found("annotations", key, fix_of_annotation(owner, key)?)));
    let of_karpenter = annotations.into_iter().flat_map(|all| {
        let retired = all.keys().filter(move |_| PROTECTED.contains(&owner));
        retired.filter_map(|key| Some(found("annotations", key, fix_of_protection(key)?)))
    });
    let conversions = annotations.into_iter().flat_map(|all| {
        let read = CONVERSIONS.iter().filter(move |(key, _)| owner == KeyOwner::Pool && all.contains_key(*key));
        read.map(|(key, fix)| found("annotations", key, (*fix).to_owned()))
    });
    let requests =
        annotations.filter(|all| owner == KeyOwner::Node && !all.contains_key(annotation::EMULATED_INSTANCE));
    let of_real_nodes = requests.filter(|all| all.contains_key(annotation::EMULATED_EVENT));
    let of_real_nodes =
        of_real_nodes.map(|_| found("annotations", annotation::EMULATED_EVENT, EMULATED_ONLY.to_owned()));
    let own_labels = labels.into_iter().flat_map(own_keys);
    let of_labels = own_labels.filter_map(|key| Some(found("labels", key, fix_of_label(owner, key)?)));
    of_ours.chain(of_karpenter).chain(conversions).chain(of_real_nodes).chain(of_labels).collect()
}

/// Fix for a request to the emulated EC2 that reaches the real one.
const EMULATED_ONLY: &str = "EC2 is emulated only with kerf.provider=kwok of the chart; remove it";

/// Returns the request of an EC2NodeClass to the emulated EC2, which the real one does not read.
#[must_use]
pub fn request_to_real_ec2(annotations: Option<&Keys>) -> Option<Ineffective> {
    let key = annotation::EMULATED_SHORTAGE;
    annotations?
        .contains_key(key)
        .then(|| Ineffective { field: format!("metadata.annotations[{key}]"), fix: EMULATED_ONLY.to_owned() })
}

/// Annotations of NodePools that only Karpenter 1.0 read, with the fix.
const CONVERSIONS: [(&str, &str); 2] = [
    (
        annotation::KUBELET_CONVERSION,
        "Karpenter 1.0 took kubelet settings from it; `kerf convert` writes them as spec.kubelet of the EC2NodeClass",
    ),
    (annotation::NODE_CLASS_CONVERSION, "only the conversion to v1beta1 in Karpenter 1.0 read it; remove it"),
];

fn own_keys(keys: &Keys) -> impl Iterator<Item = &str> {
    let bounds = (Bound::Included(DOMAIN), Bound::Excluded(BEHIND));
    keys.range::<str, _>(bounds).map(|(key, _)| key.as_str())
}

/// Returns the fix for one of our annotations; `None` if it is read.
fn fix_of_annotation(owner: KeyOwner, key: &str) -> Option<String> {
    match ANNOTATIONS.iter().find(|(known, _)| *known == key) {
        Some((_, owners)) if owners.contains(&owner) => None,
        // Registration copies the annotations of a NodeClaim to its Node.
        Some((_, owners)) if owner == KeyOwner::Node && owners.contains(&KeyOwner::Claim) => None,
        Some((_, owners)) => Some(format!("it is an annotation of {}", list(owners))),
        None => Some(similar_to(key).unwrap_or_else(|| "Kerf has no annotation of this name; remove it".to_owned())),
    }
}

/// Returns the fix for one of our labels. A key that does not resemble an annotation of ours is a label of the user's own.
fn fix_of_label(owner: KeyOwner, key: &str) -> Option<String> {
    match ANNOTATIONS.iter().find(|(known, _)| *known == key) {
        Some(_) if owner == KeyOwner::Pod && LABELS.contains(&key) => None,
        Some((_, owners)) => Some(format!("it is an annotation of {}, and no label", list(owners))),
        None => similar_to(key),
    }
}

fn similar_to(key: &str) -> Option<String> {
    let known: Vec<&str> = ANNOTATIONS.iter().map(|(known, _)| *known).collect();
    nearest(key, &known).map(|similar| format!("did you mean {similar}?"))
}

fn list(owners: &[KeyOwner]) -> String {
    owners.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}

/// Returns the fix for a key that was to block disruption and does not.
fn fix_of_protection(key: &str) -> Option<String> {
    const KEY: &str = annotation::DO_NOT_DISRUPT;
    if RETIRED.contains(&key) {
        return Some(format!("only Karpenter before v1beta1 read it; write {KEY}"));
    }
    // Nodes have many annotations of this domain, which need no comparison.
    let is_misspelt = key != KEY && key.starts_with(ALIKE) && nearest(key, &[KEY]).is_some();
    is_misspelt.then(|| format!("did you mean {KEY}?"))
}

/// Returns the limits of resources that no node has, by their names.
pub fn limits<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<Ineffective> {
    const NODES: &str = "nodes";
    const KNOWN: [&str; 5] = [CPU, EPHEMERAL_STORAGE, MEMORY, NODES, PODS];
    // Devices have a domain.
    let is_known = |name: &str| KNOWN.contains(&name) || name.contains('/') || name.starts_with("hugepages-");
    let fix = |name: &str| match nearest(name, &KNOWN) {
        _ if ["gpu", "gpus"].contains(&name) => "write the name of the device, such as nvidia.com/gpu".to_owned(),
        Some(similar) => format!("did you mean {similar}?"),
        None => "no node has such a resource; limit cpu, memory or nodes".to_owned(),
    };
    let names = names.into_iter().filter(|name| !is_known(name));
    names.map(|name| Ineffective { field: format!("spec.limits[{name}]"), fix: fix(name) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(keys: &[&str]) -> Keys {
        keys.iter().map(|key| ((*key).to_owned(), "x".to_owned())).collect()
    }

    fn of_annotation(owner: KeyOwner, key: &str) -> String {
        keys(owner, "metadata", Some(&map(&[key])), None).iter().map(ToString::to_string).collect()
    }

    fn of_label(owner: KeyOwner, key: &str) -> String {
        keys(owner, "metadata", None, Some(&map(&[key]))).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn annotations_are_those_of_the_names() {
        let text = include_str!("../names/annotation.rs");
        let mut keys: Vec<&str> =
            text.split('"').filter(|text| text.starts_with(DOMAIN) && !text.contains(' ')).collect();
        keys.sort_unstable();
        assert_eq!(keys, ANNOTATIONS.map(|(key, _)| key));
    }

    #[test]
    fn keys_are_empty_when_all_are_read() {
        for (key, owners) in ANNOTATIONS {
            for owner in owners.iter().filter(|_| key != annotation::EMULATED_EVENT) {
                assert_eq!(of_annotation(*owner, key), "", "{key} of {owner}");
            }
        }
        let simulated = map(&[annotation::EMULATED_EVENT, annotation::EMULATED_INSTANCE]);
        assert_eq!(keys(KeyOwner::Node, "metadata", Some(&simulated), None), []);
        let read = [
            of_label(KeyOwner::Pod, "kerf.sh/spot-share"),
            of_label(KeyOwner::PoolTemplate, "kerf.sh/tier"),
            of_label(KeyOwner::Pod, "karpenter.sh/do-not-evict"),
            of_annotation(KeyOwner::Pod, "karpenter.sh/do-not-disrupt"),
            of_annotation(KeyOwner::Pool, "karpenter.sh/stored-version-migrated"),
            of_annotation(KeyOwner::Node, annotation::REPLACES),
            of_annotation(KeyOwner::Pod, "example.com/do-not-disrup"),
            keys(KeyOwner::Pod, "metadata", None, None).iter().map(ToString::to_string).collect(),
        ];
        assert_eq!(read.concat(), "");
    }

    #[test]
    fn keys_name_the_fix() {
        let rows = [
            (KeyOwner::Pod, "kerf.sh/spotshare", "did you mean kerf.sh/spot-share?"),
            (KeyOwner::Pod, "kerf.sh/node-fee", "it is an annotation of NodePools (metadata)"),
            (KeyOwner::PoolTemplate, "kerf.sh/surge", "it is an annotation of pods and NodePools (metadata)"),
            (KeyOwner::Class, "kerf.sh/sunshine", "Kerf has no annotation of this name; remove it"),
            (
                KeyOwner::Pod,
                "karpenter.sh/do-not-evict",
                "only Karpenter before v1beta1 read it; write karpenter.sh/do-not-disrupt",
            ),
            (
                KeyOwner::Node,
                "kerf.sh/emulated-event",
                "EC2 is emulated only with kerf.provider=kwok of the chart; remove it",
            ),
            (KeyOwner::Node, "karpenter.sh/do-not-disrup", "did you mean karpenter.sh/do-not-disrupt?"),
            (
                KeyOwner::Pool,
                "compatibility.karpenter.sh/v1beta1-nodeclass-reference",
                "only the conversion to v1beta1 in Karpenter 1.0 read it; remove it",
            ),
        ];
        for (owner, key, fix) in rows {
            assert_eq!(of_annotation(owner, key), format!("metadata.annotations[{key}] has no effect: {fix}"));
        }
        assert_eq!(
            of_label(KeyOwner::Pool, "kerf.sh/node-fee"),
            "metadata.labels[kerf.sh/node-fee] has no effect: it is an annotation of NodePools (metadata), and no label"
        );
    }

    #[test]
    fn limits_name_resources_that_no_node_has() {
        let found = limits(["cost", "cpu", "gpu", "hugepages-2Mi", "memroy", "nodes", "nvidia.com/gpu"]);
        let fixes: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            fixes,
            [
                "spec.limits[cost] has no effect: no node has such a resource; limit cpu, memory or nodes",
                "spec.limits[gpu] has no effect: write the name of the device, such as nvidia.com/gpu",
                "spec.limits[memroy] has no effect: did you mean memory?",
            ]
        );
    }
}

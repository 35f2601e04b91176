//! Tags and names of the AWS resources that Kerf creates.

use api::{annotation, label};
use serde::Serialize;

use crate::calls::Tags;
use crate::settings::Settings;

/// Tag key of the owning NodeClaim's name.
pub const NODE_CLAIM_TAG: &str = "karpenter.sh/nodeclaim";
/// Tag key of the owning NodeClaim's UID.
pub const NODE_CLAIM_UID_TAG: &str = "kerf.sh/nodeclaim-uid";
/// Tag key of the launch token; the NodeClaim's annotation has the same key.
pub const LAUNCH_TOKEN_TAG: &str = annotation::LAUNCH_TOKEN;
/// Tag keys of launches that Karpenter does not write at launches.
pub const OWN_LAUNCH_TAGS: [&str; 3] = [LAUNCH_TOKEN_TAG, NODE_CLAIM_TAG, NODE_CLAIM_UID_TAG];
/// Tag key of the cluster's name.
pub const CLUSTER_TAG: &str = "eks:eks-cluster-name";
/// Name prefix of launch templates.
pub const TEMPLATE_PREFIX: &str = "karpenter.k8s.aws/";

/// Returns the tags that select every instance of the cluster, in all NodePools.
#[must_use]
pub fn cluster_tags(settings: &Settings) -> Tags {
    [
        (CLUSTER_TAG.to_owned(), settings.cluster_name.clone()),
        (label::NODEPOOL.to_owned(), "*".to_owned()),
        (label::EC2_NODE_CLASS.to_owned(), "*".to_owned()),
    ]
    .into()
}

/// Returns the tags that select every launch template of an EC2NodeClass.
#[must_use]
pub fn template_tags(class: &str, settings: &Settings) -> Tags {
    [(CLUSTER_TAG.to_owned(), settings.cluster_name.clone()), (label::EC2_NODE_CLASS.to_owned(), class.to_owned())]
        .into()
}

/// Returns a hash of a value that is stable across builds and machines (FNV-1a over its JSON).
pub(crate) fn fingerprint(value: &impl Serialize) -> u64 {
    let json = serde_json::to_vec(value).unwrap_or_default();
    api::hash::fnv1a(json)
}

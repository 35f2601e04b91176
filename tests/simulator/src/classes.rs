//! The EC2NodeClass of all nodes here, and NodeClaims for it.

use api::{EC2NodeClass, label};
use cloud::Cloud;
use cloud::fake::settings;
use cloud::nodeclass::{ResolutionCache, fetch, queries, resolve};
use controller::capacity::offerings::Offerings;
use controller::reconcile::work::Triggers;
use controller::state::cluster::Cluster;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Returns the EC2NodeClass as applied.
#[must_use]
pub fn default_class() -> Value {
    json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
        "spec": {
            "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "kerf"}}],
            "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "kerf"}}],
            "amiSelectorTerms": [{"alias": "al2023@latest"}], "instanceProfile": "nodes",
        },
    })
}

/// Returns NodeClaim number `number` of the default NodePool, as a plan writes it.
#[must_use]
pub fn claim(number: u64, requirements: &[Value]) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": format!("default-{number:05}"), "uid": format!("uid-{number:05}"),
            "finalizers": ["karpenter.sh/termination"], "labels": {label::NODEPOOL: "default"},
        },
        "spec": {
            "requirements": requirements, "resources": {"requests": {"cpu": "1", "pods": "3"}},
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "expireAfter": "Never",
        },
    })
}

/// Adds the EC2NodeClass to the index, without a reconcile.
pub fn index(cluster: &Cluster) {
    let class: EC2NodeClass = serde_json::from_value(default_class()).unwrap();
    cluster.change(|index| {
        drop(index.apply(class, cluster.now(), false));
        Triggers::default()
    });
}

/// Resolves the EC2NodeClass with this cloud and adds it to the offerings, without an object in the cluster.
pub async fn learn(ec2: &dyn Cloud, offerings: &Offerings) {
    let class: EC2NodeClass = serde_json::from_value(default_class()).unwrap();
    let (settings, now) = (settings(), Timestamp::now());
    let answers = fetch(ec2, &queries(&class, &settings), &ResolutionCache::default(), now).await;
    let resolution = resolve(&class, answers, &settings, now);
    offerings.learn(&class, resolution.class).unwrap();
}

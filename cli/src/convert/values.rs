//! Conversion of Helm values of older charts into those of chart 1.14, which Kerf's chart accepts unchanged.

use super::object::Object;
use super::tree::Node;

/// Top-level keys by which values of Karpenter's chart are recognized.
const KNOWN: [&str; 9] = [
    "settings",
    "clusterName",
    "clusterEndpoint",
    "serviceAccount",
    "serviceMonitor",
    "controller",
    "webhook",
    "logConfig",
    "logLevel",
];

/// Values that have another path now.
const MOVED: [(&[&str], &[&str]); 25] = [
    (&["clusterName"], &["settings", "clusterName"]),
    (&["clusterEndpoint"], &["settings", "clusterEndpoint"]),
    (&["controller", "clusterName"], &["settings", "clusterName"]),
    (&["controller", "clusterEndpoint"], &["settings", "clusterEndpoint"]),
    (&["controller", "logLevel"], &["logLevel"]),
    (&["controller", "outputPaths"], &["logOutputPaths"]),
    (&["controller", "errorOutputPaths"], &["logErrorOutputPaths"]),
    (&["controller", "batchMaxDuration"], &["settings", "batchMaxDuration"]),
    (&["controller", "batchIdleDuration"], &["settings", "batchIdleDuration"]),
    (&["logConfig", "outputPaths"], &["logOutputPaths"]),
    (&["logConfig", "errorOutputPaths"], &["logErrorOutputPaths"]),
    (&["logConfig", "logLevel", "controller"], &["logLevel"]),
    (&["logConfig", "logLevel", "global"], &["logLevel"]),
    (&["settings", "aws", "clusterName"], &["settings", "clusterName"]),
    (&["settings", "aws", "clusterEndpoint"], &["settings", "clusterEndpoint"]),
    (&["settings", "aws", "clusterCABundle"], &["settings", "clusterCABundle"]),
    (&["settings", "aws", "isolatedVPC"], &["settings", "isolatedVPC"]),
    (&["settings", "aws", "vmMemoryOverheadPercent"], &["settings", "vmMemoryOverheadPercent"]),
    (&["settings", "aws", "interruptionQueueName"], &["settings", "interruptionQueue"]),
    (&["settings", "aws", "interruptionQueue"], &["settings", "interruptionQueue"]),
    (&["settings", "interruptionQueueName"], &["settings", "interruptionQueue"]),
    (&["settings", "aws", "reservedENIs"], &["settings", "reservedENIs"]),
    (&["aws", "clusterName"], &["settings", "clusterName"]),
    (&["aws", "clusterEndpoint"], &["settings", "clusterEndpoint"]),
    (&["aws", "vmMemoryOverheadPercent"], &["settings", "vmMemoryOverheadPercent"]),
];

const PROFILE: &str = "it belongs to the EC2NodeClasses; convert their manifests together with these values";
const ROLE: &str = "the controller uses its service account: give it the role by IRSA or Pod Identity";
const DRIFT: &str = "drift is always on; a budget with reasons: [Drifted] and nodes: \"0\" in a NodePool blocks it";
const TAGS: &str = "they belong to the EC2NodeClasses; convert their manifests together with these values";
const WEBHOOK: &str = "webhooks were replaced by validation rules in the CRDs";
const LOGGING: &str = "logs are JSON with one level";
const DENSITY: &str = "use spec.kubelet.maxPods of an EC2NodeClass";
const POD_ENI: &str = "security groups for pods need no setting";
const NODE_NAMES: &str = "nodes are always named by the host name of the instance";

/// Values that no version reads any more.
const GONE: [(&[&str], &str); 20] = [
    (&["aws", "defaultInstanceProfile"], PROFILE),
    (&["settings", "aws", "defaultInstanceProfile"], PROFILE),
    (&["settings", "aws", "assumeRoleARN"], ROLE),
    (&["settings", "aws", "assumeRoleDuration"], ROLE),
    (&["settings", "assumeRoleARN"], ROLE),
    (&["settings", "assumeRoleDuration"], ROLE),
    (&["settings", "aws", "tags"], TAGS),
    (&["settings", "aws", "enableENILimitedPodDensity"], DENSITY),
    (&["aws", "enableENILimitedPodDensity"], DENSITY),
    (&["settings", "aws", "enablePodENI"], POD_ENI),
    (&["aws", "enablePodENI"], POD_ENI),
    (&["settings", "aws", "nodeNameConvention"], NODE_NAMES),
    (&["aws", "nodeNameConvention"], NODE_NAMES),
    (&["settings", "featureGates", "driftEnabled"], DRIFT),
    (&["settings", "featureGates", "drift"], DRIFT),
    (&["featureGates", "driftEnabled"], DRIFT),
    (&["webhook"], WEBHOOK),
    (&["controller", "webhook"], WEBHOOK),
    (&["logConfig"], LOGGING),
    (&["postInstallHook"], "convert objects of v1beta1 with `kerf convert` instead"),
];

/// Key of the values of a subchart.
const BELOW: &str = "karpenter";

/// Reports whether a document that is not an object contains values of Karpenter's chart.
pub(super) fn are_values(root: &Node) -> bool {
    let own = |node: &Node| {
        KNOWN.iter().any(|key| node.get(key).is_some()) || node.at(&["aws", "defaultInstanceProfile"]).is_some()
    };
    own(root) || root.get(BELOW).is_some_and(own)
}

/// Returns the values of Karpenter's chart, which may be those of a subchart.
pub(super) fn own(root: &Node) -> &Node {
    root.get(BELOW).filter(|below| below.is_map()).unwrap_or(root)
}

/// Converts values into the form of chart 1.14.
pub(super) fn modernise(object: &mut Object) {
    let below: &[&'static str] = if object.root.get(BELOW).is_some_and(Node::is_map) { &[BELOW] } else { &[] };
    let full = |path: &[&'static str]| [below, path].concat();
    for (from, to) in MOVED {
        // Only the first of two log levels can be kept.
        if from.starts_with(&["logConfig", "logLevel"]) && object.root.at(&full(to)).is_some() {
            continue;
        }
        object.shift(&full(from), &full(to));
    }
    for (path, why) in GONE {
        object.drop(&full(path), why);
    }
}

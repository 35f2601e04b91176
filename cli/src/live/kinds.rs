//! Kinds that are read from a live cluster.

/// Kind with its place in the API.
pub(super) struct Resource {
    /// API group; empty for the core group.
    pub(super) group: &'static str,
    /// Versions, from the newest.
    pub(super) versions: &'static [&'static str],
    /// Name in paths and in RBAC rules.
    pub(super) plural: &'static str,
    /// Name in objects.
    pub(super) kind: &'static str,
    /// Name of the only object that is read; empty for all.
    pub(super) only: &'static str,
}

impl Resource {
    const fn new(
        group: &'static str,
        versions: &'static [&'static str],
        plural: &'static str,
        kind: &'static str,
    ) -> Self {
        Self { group, versions, plural, kind, only: "" }
    }

    /// Returns `apiVersion` of the objects.
    pub(super) fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() { version.to_owned() } else { format!("{}/{version}", self.group) }
    }

    /// Returns the name as in messages of the API server: `nodepools.karpenter.sh`, `pods`.
    pub(super) fn full_name(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// Returns the path of a watch, to which a resource version is to be added.
    pub(super) fn watch_path(&self, version: &str) -> String {
        let root = if self.group.is_empty() { "api" } else { "apis" };
        format!("/{root}/{}/{}?watch=true&allowWatchBookmarks=true", self.api_version(version), self.plural)
    }

    /// Returns the path of a page of the list: the first one, or the one behind a continue token.
    pub(super) fn path(&self, version: &str, limit: usize, next: &str) -> String {
        let root = if self.group.is_empty() { "api" } else { "apis" };
        let mut path = format!("/{root}/{}/{}?limit={limit}", self.api_version(version), self.plural);
        if !self.only.is_empty() {
            path.push_str(&format!("&fieldSelector=metadata.name%3D{}", self.only));
        }
        if !next.is_empty() {
            // A token is base64 for URLs: it needs no escape.
            path.push_str(&format!("&continue={next}"));
        }
        path
    }
}

/// Kinds that users write.
pub(super) const WRITTEN: &[Resource] = &[
    Resource::new("karpenter.k8s.aws", &["v1", "v1beta1"], "ec2nodeclasses", "EC2NodeClass"),
    Resource::new("karpenter.sh", &["v1", "v1beta1"], "nodepools", "NodePool"),
];

/// The same kinds of Karpenter before v1beta1. Newer versions do not read them.
pub(super) const OLDEST: &[Resource] = &[
    Resource::new("karpenter.k8s.aws", &["v1alpha1"], "awsnodetemplates", "AWSNodeTemplate"),
    Resource::new("karpenter.sh", &["v1alpha5"], "provisioners", "Provisioner"),
];

/// NodeClaims.
pub(super) const CLAIMS: &[Resource] = &[Resource::new("karpenter.sh", &["v1", "v1beta1"], "nodeclaims", "NodeClaim")];

/// Workloads, and other programs of the cluster among them.
pub(super) const WORKLOADS: &[Resource] = &[
    Resource::new("apps", &["v1"], "deployments", "Deployment"),
    Resource::new("apps", &["v1"], "daemonsets", "DaemonSet"),
];

/// The Lease of the leader. A cluster has many other Leases, one for each node.
pub(super) const LEASE: &[Resource] = &[Resource {
    only: "karpenter-leader-election",
    ..Resource::new("coordination.k8s.io", &["v1"], "leases", "Lease")
}];

/// Further kinds that a plan depends on.
pub(super) const CLUSTER: &[Resource] = &[
    Resource::new("", &["v1"], "nodes", "Node"),
    Resource::new("", &["v1"], "pods", "Pod"),
    Resource::new("", &["v1"], "persistentvolumeclaims", "PersistentVolumeClaim"),
    Resource::new("", &["v1"], "persistentvolumes", "PersistentVolume"),
    Resource::new("", &["v1"], "namespaces", "Namespace"),
    Resource::new("", &["v1"], "limitranges", "LimitRange"),
    Resource::new("", &["v1"], "podtemplates", "PodTemplate"),
    Resource::new("apps", &["v1"], "replicasets", "ReplicaSet"),
    Resource::new("apps", &["v1"], "statefulsets", "StatefulSet"),
    Resource::new("policy", &["v1"], "poddisruptionbudgets", "PodDisruptionBudget"),
    Resource::new("storage.k8s.io", &["v1"], "storageclasses", "StorageClass"),
    Resource::new("storage.k8s.io", &["v1"], "csinodes", "CSINode"),
    Resource::new("scheduling.k8s.io", &["v1"], "priorityclasses", "PriorityClass"),
    Resource::new("node.k8s.io", &["v1"], "runtimeclasses", "RuntimeClass"),
    Resource::new("karpenter.sh", &["v1alpha1"], "nodeoverlays", "NodeOverlay"),
    Resource::new("autoscaling.x-k8s.io", &["v1beta1"], "capacitybuffers", "CapacityBuffer"),
    Resource::new("kerf.sh", &["v1alpha1"], "nodeusages", "NodeUsage"),
    Resource::new("autoscaling.x-k8s.io", &["v1"], "provisioningrequests", "ProvisioningRequest"),
    Resource::new("kerf.sh", &["v1alpha1"], "spendpolicies", "SpendPolicy"),
    Resource::new("kerf.sh", &["v1alpha1"], "commitments", "Commitment"),
];

/// Events about objects.
pub(super) const EVENTS: Resource = Resource::new("", &["v1"], "events", "Event");

/// Returns the kinds of a recording: those of a plan without usage reports, of which every node writes one a minute.
pub(super) fn followed() -> impl Iterator<Item = &'static Resource> {
    let all = WRITTEN.iter().chain(CLAIMS).chain(WORKLOADS).chain(CLUSTER);
    all.filter(|resource| resource.kind != "NodeUsage")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde::Deserialize;

    use super::{CLAIMS, CLUSTER, EVENTS, WORKLOADS, WRITTEN, followed};

    #[derive(Deserialize)]
    struct ClusterRole {
        rules: Vec<Rule>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Rule {
        api_groups: Vec<String>,
        resources: Vec<String>,
        verbs: Vec<String>,
    }

    /// Returns API group and resource of everything that the role in a page grants with exactly these verbs.
    fn granted(page: &str, verbs: &[&str]) -> BTreeSet<(String, String)> {
        let texts = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
        let role = texts.into_iter().find(|text| text.contains("\nkind: ClusterRole\n")).unwrap();
        let role: ClusterRole = serde_saphyr::from_str(role).unwrap();
        let mut granted = BTreeSet::new();
        for rule in role.rules {
            assert_eq!(rule.verbs, verbs);
            for group in &rule.api_groups {
                granted.extend(rule.resources.iter().map(|resource| (group.clone(), resource.clone())));
            }
        }
        granted
    }

    fn names<'r>(resources: impl Iterator<Item = &'r super::Resource>) -> BTreeSet<(String, String)> {
        resources.map(|it| (it.group.to_owned(), it.plural.to_owned())).collect()
    }

    #[test]
    fn documented_roles_have_exactly_the_needed_rights() {
        let read = [WRITTEN, CLAIMS, WORKLOADS, CLUSTER, &[EVENTS]].into_iter().flatten();
        assert_eq!(granted(include_str!("../../../docs/live.md"), &["list"]), names(read));
        assert_eq!(granted(include_str!("../../../docs/replay.md"), &["list", "watch"]), names(followed()));
    }
}

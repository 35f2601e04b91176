//! Data of the cluster that nodes need. Version and DNS address follow the cluster while the controller runs.

use api::EC2NodeClass;
use cloud::settings::Settings as CloudSettings;

use super::Offerings;

/// Data of the cluster that changed since the start of this process.
#[derive(Default)]
pub(super) struct ClusterChanges {
    kubernetes: Option<String>,
    dns: Option<Vec<String>>,
}

impl Offerings {
    /// Returns the data of the cluster that nodes need, as of the start of this process.
    #[must_use]
    pub fn settings(&self) -> &CloudSettings {
        &self.settings
    }

    /// Returns [`Self::settings`] with the current version of the cluster, on which image aliases depend, and the current
    /// address of cluster DNS, which new nodes receive.
    #[must_use]
    pub fn settings_of_today(&self) -> CloudSettings {
        let state = self.state();
        let ClusterChanges { kubernetes, dns } = &state.cluster;
        let settings = self.settings.clone();
        CloudSettings {
            kubernetes: kubernetes.clone().unwrap_or_else(|| settings.kubernetes.clone()),
            cluster_dns: dns.clone().unwrap_or_else(|| settings.cluster_dns.clone()),
            ..settings
        }
    }

    /// Sets the version of the cluster and reports whether it changed.
    pub fn follow(&self, kubernetes: &str) -> bool {
        let mut state = self.state();
        let known = state.cluster.kubernetes.as_deref().unwrap_or(&self.settings.kubernetes);
        let changed = known != kubernetes;
        if changed {
            state.cluster.kubernetes = Some(kubernetes.to_owned());
        }
        changed
    }

    /// Sets the address of cluster DNS, `None` if unknown, and reports whether it changed.
    pub fn follow_dns(&self, address: Option<String>) -> bool {
        let mut state = self.state();
        let found: Vec<String> = address.into_iter().collect();
        let changed = *state.cluster.dns.as_ref().unwrap_or(&self.settings.cluster_dns) != found;
        if changed {
            state.cluster.dns = Some(found);
        }
        changed
    }

    /// Returns the hash that detects drift from the EC2NodeClass. The hash includes the cluster's CA.
    #[must_use]
    pub fn class_hash(&self, class: &EC2NodeClass) -> String {
        api::hash::ec2_node_class(class, Some(&self.settings.cluster_ca))
    }
}

#[cfg(test)]
mod tests {
    use cloud::fake::FakeCloud;
    use jiff::Timestamp;

    use crate::fixture;

    /// A new address of cluster DNS changes the user data of new nodes only: existing nodes do not drift, and no plan changes.
    #[tokio::test]
    async fn follow_dns_changes_neither_class_hash_nor_catalogue() {
        let fake = FakeCloud::builder("us-west-2").only_types(&["m5.large"]).build().unwrap();
        let offerings = fixture::offerings(&fake).await;
        let class = fixture::class(&fixture::discovered());
        offerings.learn(&class, fixture::resolution(&class, &offerings).await.class).unwrap();
        let facts = || (offerings.class_hash(&class), offerings.catalogue("default", Timestamp::UNIX_EPOCH).unwrap());
        let before = facts();
        for (address, changed) in [("10.100.0.10", true), ("10.100.0.10", false), ("fd00:10::a", true)] {
            assert_eq!(offerings.follow_dns(Some(address.to_owned())), changed, "{address}");
            assert_eq!(offerings.settings_of_today().cluster_dns, [address]);
            assert_eq!(facts(), before, "{address}");
        }
        assert!(offerings.follow_dns(None) && offerings.settings_of_today().cluster_dns.is_empty());
        assert_eq!(facts(), before);
    }
}

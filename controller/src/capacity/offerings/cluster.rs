//! Data of the cluster that nodes need. Version and DNS address follow the cluster while the controller runs.

use cloud::settings::Settings as CloudSettings;
use parking_lot::Mutex;

/// Data of the cluster at the start of this process, and what changed since.
pub struct ClusterSettings {
    start: CloudSettings,
    changes: Mutex<ClusterChanges>,
}

#[derive(Default)]
struct ClusterChanges {
    kubernetes: Option<String>,
    dns: Option<Vec<String>>,
}

impl ClusterSettings {
    pub(super) fn new(start: CloudSettings) -> Self {
        Self { start, changes: Mutex::default() }
    }

    /// Returns the data as of the start of this process.
    #[must_use]
    pub fn start(&self) -> &CloudSettings {
        &self.start
    }

    /// Returns the data with the current version of the cluster, on which image aliases depend, and the current address of
    /// cluster DNS, which new nodes receive.
    #[must_use]
    pub fn today(&self) -> CloudSettings {
        let changes = self.changes.lock();
        let settings = self.start.clone();
        CloudSettings {
            kubernetes: changes.kubernetes.clone().unwrap_or_else(|| settings.kubernetes.clone()),
            cluster_dns: changes.dns.clone().unwrap_or_else(|| settings.cluster_dns.clone()),
            ..settings
        }
    }

    /// Sets the version of the cluster and reports whether it changed.
    pub fn follow(&self, kubernetes: &str) -> bool {
        let mut changes = self.changes.lock();
        let known = changes.kubernetes.as_deref().unwrap_or(&self.start.kubernetes);
        let changed = known != kubernetes;
        if changed {
            changes.kubernetes = Some(kubernetes.to_owned());
        }
        changed
    }

    /// Sets the address of cluster DNS, `None` if unknown, and reports whether it changed.
    pub fn follow_dns(&self, address: Option<String>) -> bool {
        let mut changes = self.changes.lock();
        let found: Vec<String> = address.into_iter().collect();
        let changed = *changes.dns.as_ref().unwrap_or(&self.start.cluster_dns) != found;
        if changed {
            changes.dns = Some(found);
        }
        changed
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
            assert_eq!(offerings.cluster().follow_dns(Some(address.to_owned())), changed, "{address}");
            assert_eq!(offerings.cluster().today().cluster_dns, [address]);
            assert_eq!(facts(), before, "{address}");
        }
        assert!(offerings.cluster().follow_dns(None) && offerings.cluster().today().cluster_dns.is_empty());
        assert_eq!(facts(), before);
    }
}

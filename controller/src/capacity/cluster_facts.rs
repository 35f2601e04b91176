//! Data of the cluster that user data and launches need: name, endpoint, certificates, network.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cloud::ClusterDescription;
use cloud::settings::Settings as CloudSettings;

use crate::settings::Settings;

/// Returns the data of the cluster that nodes need: from the settings, else from the kubeconfig, else from EKS. `dns` is the
/// address of cluster DNS.
#[must_use]
pub fn cluster_facts(
    settings: &Settings,
    config: &kube::Config,
    described: ClusterDescription,
    kubernetes: String,
    dns: Option<String>,
) -> CloudSettings {
    let said = |given: &String| Some(given.clone()).filter(|given| !given.is_empty());
    let own_ca = || config.root_cert.as_ref().map(|certificates| pem(certificates));
    CloudSettings {
        cluster_name: settings.cluster_name.clone(),
        cluster_endpoint: said(&settings.cluster_endpoint).unwrap_or(described.endpoint),
        cluster_ca: said(&settings.cluster_ca_bundle).or_else(own_ca).unwrap_or(described.ca),
        cluster_cidr: said(&settings.cluster_cidr).unwrap_or(described.service_cidr),
        cluster_dns: dns.into_iter().collect(),
        kubernetes,
        region: settings.region.clone(),
        reserved_enis: settings.reserved_enis,
        memory_overhead_thousandths: settings.memory_overhead_per_mille,
        isolated_vpc: settings.isolated_vpc,
        reserved_capacity: settings.gates.reserved_capacity,
        min_values: settings.planning.min_values,
        disable_dry_run: settings.disable_dry_run,
    }
}

/// Encodes the certificates as one PEM bundle in Base64.
fn pem(certificates: &[Vec<u8>]) -> String {
    let mut bundle = String::new();
    for certificate in certificates {
        bundle.push_str("-----BEGIN CERTIFICATE-----\n");
        let text = STANDARD.encode(certificate);
        for line in text.as_bytes().chunks(64) {
            bundle.push_str(&String::from_utf8_lossy(line));
            bundle.push('\n');
        }
        bundle.push_str("-----END CERTIFICATE-----\n");
    }
    STANDARD.encode(bundle)
}

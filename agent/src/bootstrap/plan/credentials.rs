//! Configuration of the credential provider for Elastic Container Registry: the images for which kubelet runs the provider, and
//! the duration for which kubelet caches its result.

use std::path::Path;

use machine::json;
use serde_json::{Value, json};

use super::{BootstrapPlan, PlanPart};
use crate::bootstrap::facts::{Facts, PROVIDER_VARIABLE};

/// The configuration that kubelet reads.
pub const CONFIG: &str = "/etc/eks/image-credential-provider/config.json";
/// Path of the provider in EKS images.
pub const DEFAULT_PROVIDER: &str = "/etc/eks/image-credential-provider/ecr-credential-provider";

/// Cache duration: the lifetime of a token of the registry.
const CACHE: &str = "12h0m0s";

/// Registries of ECR in all partitions, each with the first minor release of Kubernetes for which it is matched.
const IMAGES: [(u32, &str); 13] = [
    (0, "*.dkr.ecr.*.amazonaws.com"),
    (0, "*.dkr-ecr.*.on.aws"),
    (0, "*.dkr.ecr.*.amazonaws.com.cn"),
    (0, "*.dkr-ecr.*.on.amazonwebservices.com.cn"),
    (0, "*.dkr.ecr-fips.*.amazonaws.com"),
    (0, "*.dkr-ecr-fips.*.on.aws"),
    (0, "*.dkr.ecr.*.c2s.ic.gov"),
    (0, "*.dkr.ecr.*.sc2s.sgov.gov"),
    (0, "*.dkr.ecr.*.cloud.adc-e.uk"),
    (0, "*.dkr.ecr.*.csp.hci.ic.gov"),
    (0, "*.dkr.ecr.*.amazonaws.eu"),
    (0, "public.ecr.aws"),
    (32, "ecr-public.aws.com"),
];

pub(super) fn add(plan: &mut BootstrapPlan, facts: &Facts) {
    match &facts.software.credential_provider {
        Some(provider) => plan.put(PlanPart::Kubelet, CONFIG, json::pretty(&config(facts, provider))),
        None => plan.warn(format!(
            "no credential provider for ECR at {DEFAULT_PROVIDER}; private images of ECR cannot be pulled: install \
             it, or set {PROVIDER_VARIABLE}"
        )),
    }
}

/// Returns the folder of a provider, which kubelet needs in addition to the configuration.
pub(super) fn folder(provider: &str) -> String {
    Path::new(provider).parent().map_or_else(|| "/".to_owned(), |folder| folder.display().to_string())
}

fn config(facts: &Facts, provider: &str) -> Value {
    let name = Path::new(provider).file_name().unwrap_or_default().to_string_lossy();
    let matched = IMAGES.iter().filter(|(since, _)| facts.software.kubelet.at_least(*since));
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1",
        "kind": "CredentialProviderConfig",
        "providers": [{
            "name": name,
            "matchImages": matched.map(|(_, image)| *image).collect::<Vec<_>>(),
            "defaultCacheDuration": CACHE,
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        }],
    })
}

//! Reads objects of a live cluster, for the commands that can do without files. Only this file knows Kubernetes' client.

use http::Request;
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::failure::{Failure, told};

/// Kinds of Karpenter's APIs: group, the versions from the newest, plural, kind.
const KINDS: [(&str, &[&str], &str, &str); 5] = [
    ("karpenter.k8s.aws", &["v1", "v1beta1"], "ec2nodeclasses", "EC2NodeClass"),
    ("karpenter.k8s.aws", &["v1alpha1"], "awsnodetemplates", "AWSNodeTemplate"),
    ("karpenter.sh", &["v1", "v1beta1"], "nodepools", "NodePool"),
    ("karpenter.sh", &["v1", "v1beta1"], "nodeclaims", "NodeClaim"),
    ("karpenter.sh", &["v1alpha5"], "provisioners", "Provisioner"),
];
/// Where other programs stand, and the Lease that says which of them acts: of all the others each node has one.
const PROGRAMS: [(&str, &str, &str, &str); 3] = [
    ("apps", "v1", "deployments", "Deployment"),
    ("apps", "v1", "daemonsets", "DaemonSet"),
    ("coordination.k8s.io", "v1", "leases?fieldSelector=metadata.name%3Dkarpenter-leader-election", "Lease"),
];

/// What is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveKinds {
    /// What people write: pools and classes of every version.
    Written,
    /// These, the claims, and the programs that run.
    Everything,
}

/// Reads the cluster that the kubeconfig names.
///
/// # Errors
/// When there is no cluster, or it does not answer; the sentence holds the cure.
pub fn read(wish: LiveKinds) -> Result<Vec<Value>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::internal)?;
    // Another part of the program may have chosen the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    runtime.block_on(all(wish))
}

/// What people write, as documents of YAML.
///
/// # Errors
/// As [`read`].
pub fn manifests() -> Result<String, Failure> {
    let mut texts = Vec::new();
    for object in read(LiveKinds::Written)? {
        texts.push(serde_saphyr::to_string(&object).map_err(|error| Failure::fault(error.to_string()))?);
    }
    Ok(texts.join("---\n"))
}

async fn all(wish: LiveKinds) -> Result<Vec<Value>, Failure> {
    let config = Config::infer()
        .await
        .map_err(|error| Failure::usage(format!("no cluster: {}; set KUBECONFIG, or use files", told(&error))))?;
    let client = Client::try_from(config).map_err(|error| Failure::usage(told(&error)))?;
    let mut objects = Vec::new();
    for (group, versions, plural, kind) in KINDS {
        if wish == LiveKinds::Written && kind == "NodeClaim" {
            continue;
        }
        for version in versions {
            if let Some(items) = list(&client, group, version, plural, kind).await? {
                objects.extend(items);
                break;
            }
        }
    }
    if wish == LiveKinds::Everything {
        for (group, version, plural, kind) in PROGRAMS {
            objects.extend(list(&client, group, version, plural, kind).await?.unwrap_or_default());
        }
    }
    Ok(objects)
}

/// All objects of a kind; `None` where the cluster does not know it.
async fn list(
    client: &Client,
    group: &str,
    version: &str,
    plural: &str,
    kind: &str,
) -> Result<Option<Vec<Value>>, Failure> {
    let request =
        Request::get(format!("/apis/{group}/{version}/{plural}")).body(Vec::new()).map_err(Failure::internal)?;
    match client.request::<Value>(request).await {
        Ok(mut answer) => {
            let items = answer["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
            let api = json!(format!("{group}/{version}"));
            // Items of a list do not say what they are.
            let whole = |mut item: Value| {
                item["apiVersion"] = api.clone();
                item["kind"] = json!(kind);
                item
            };
            Ok(Some(items.into_iter().map(whole).collect()))
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(Failure::unavailable(format!(
            "{}.{group}: {}; check the kubeconfig and your permissions to list them",
            plural.split('?').next().unwrap_or(plural),
            told(&error)
        ))),
    }
}

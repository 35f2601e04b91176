//! The NodePool. Only its node class differs between both sides.

use anyhow::{Context, Result};
use api::status::Conditioned;
use api::{NodePool, condition, label};
use kube::Client;
use kube::api::Api;
use serde_json::{Value, json};

/// Name of the NodePool.
pub const NAME: &str = "default";

/// Returns the NodePool for a node class. Nodes of an older generation are drifted.
pub fn object(class: &Value, generation: u32) -> Result<Value> {
    let group =
        class["apiVersion"].as_str().and_then(|version| version.split('/').next()).context("a class of no group")?;
    let requires = |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
    Ok(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": NAME},
        "spec": {
            "template": {
                "metadata": {"labels": {"example.com/generation": generation.to_string()}},
                "spec": {
                    "nodeClassRef": {"group": group, "kind": class["kind"], "name": class["metadata"]["name"]},
                    "requirements": [
                        requires(label::CAPACITY_TYPE, &[label::CAPACITY_ON_DEMAND]),
                        requires(label::OS, &[label::OS_LINUX]),
                        requires(label::ARCH, &[label::ARCH_AMD64, label::ARCH_ARM64]),
                    ],
                    "expireAfter": "Never",
                },
            },
            "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"},
        },
    }))
}

/// Returns the reason why the NodePool is not ready; `None` when it is.
pub async fn objection(client: &Client) -> Result<Option<String>> {
    let pool = Api::<NodePool>::all(client.clone()).get(NAME).await?;
    let ready = api::status::find(pool.conditions(), condition::READY);
    Ok((!ready.is_some_and(api::Condition::is_true)).then(|| format!("its conditions are {:?}", pool.conditions())))
}

//! Workload of a scenario: the Deployments of the pods in a fixture, which is also used for the planner comparison.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// Deployments of a scenario.
#[derive(Clone, Debug)]
pub struct Workload(Vec<Deployment>);

#[derive(Clone, Debug)]
struct Deployment {
    name: String,
    replicas: usize,
    spec: Value,
}

impl Workload {
    /// Returns the owners of the pods in `objects.json` of the folder.
    pub fn of_fixture(folder: &Path) -> Result<Self> {
        let file = folder.join("objects.json");
        let text = std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let list: Value = serde_json::from_slice(&text).with_context(|| format!("{} is no JSON", file.display()))?;
        let mut owners: BTreeMap<String, Deployment> = BTreeMap::new();
        for pod in list["items"].as_array().into_iter().flatten().filter(|object| object["kind"] == "Pod") {
            let name = pod["metadata"]["labels"]["app"].as_str().context("a pod without the label app")?.to_owned();
            let first = || Deployment { name: name.clone(), replicas: 0, spec: pod["spec"].clone() };
            owners.entry(name.clone()).or_insert_with(first).replicas += 1;
        }
        Ok(Self(owners.into_values().collect()))
    }

    /// Returns a Deployment of small pods, of which each node takes only one.
    pub fn one_a_node(pods: usize) -> Self {
        let name = "lonely";
        let term = json!({"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": "kubernetes.io/hostname"});
        let spec = json!({
            "containers": [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": "900m", "memory": "1Gi"}}}],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        });
        Self(vec![Deployment { name: name.to_owned(), replicas: pods, spec }])
    }

    /// Returns the same Deployments with `percent` percent of their replicas, at least one each.
    pub fn scaled(&self, percent: usize) -> Self {
        let scaled = |it: &Deployment| Deployment { replicas: (it.replicas * percent / 100).max(1), ..it.clone() };
        Self(self.0.iter().map(scaled).collect())
    }

    /// Returns the total number of replicas.
    pub fn pods(&self) -> usize {
        self.0.iter().map(|deployment| deployment.replicas).sum()
    }

    /// Returns the objects to apply to the cluster.
    pub fn objects(&self) -> impl Iterator<Item = Value> {
        self.0.iter().map(Deployment::object)
    }
}

impl Deployment {
    fn object(&self) -> Value {
        let labels = json!({"app": self.name});
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": self.name, "namespace": "default"},
            "spec": {"replicas": self.replicas, "selector": {"matchLabels": labels},
                     "template": {"metadata": {"labels": labels}, "spec": self.spec}},
        })
    }
}

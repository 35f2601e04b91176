//! Workloads: how large their pods are, how they start and stop, and what they ask for.

use std::sync::Arc;

use anyhow::Context;
use api::objects::{Pod, PodDisruptionBudget};
use api::{annotation, label};
use planner::Size;
use serde_json::{Map, Value, json};

use crate::clock::SECOND;

/// The one namespace.
pub const NAMESPACE: &str = "default";
/// The label that says whose a pod is.
pub const APP: &str = "app";
/// The one container of each pod.
pub const CONTAINER: &str = "main";

/// A Deployment, or with `lasts` a Job.
#[derive(Clone, Debug)]
pub struct App {
    /// Its name, and the value of its pods' label.
    pub name: String,
    /// Pods that it wants now.
    pub wanted: usize,
    /// Request of a pod, in millicores.
    pub cpu: i64,
    /// Request of a pod, in bytes.
    pub memory: i64,
    /// What a pod really uses of its request on average, in percent.
    pub uses: i64,
    /// `terminationGracePeriodSeconds`.
    pub grace: i64,
    /// Milliseconds from the binding to Ready.
    pub starts: i64,
    /// Milliseconds that a pod takes to stop, within its grace.
    pub stops: i64,
    /// How many pods its PodDisruptionBudget lets be away, if it has one.
    pub may_be_away: Option<usize>,
    /// Whether its pods are spread evenly over zones, as a must.
    pub spread: bool,
    /// Whether no two of its pods share a node.
    pub apart: bool,
    /// Whether its pods stay off spot.
    pub on_demand: bool,
    /// `kerf.sh/disrupt-at-most-once-per`, in milliseconds.
    pub rests: Option<i64>,
    /// How long a pod of a Job runs, in milliseconds.
    pub lasts: Option<i64>,
}

impl Default for App {
    fn default() -> Self {
        Self {
            name: String::new(),
            wanted: 0,
            cpu: 500,
            memory: 1 << 30,
            uses: 40,
            grace: 30,
            starts: 4 * SECOND,
            stops: 2 * SECOND,
            may_be_away: None,
            spread: false,
            apart: false,
            on_demand: false,
            rests: None,
            lasts: None,
        }
    }
}

impl App {
    /// What its pods are made from.
    ///
    /// # Errors
    /// When the made-up object cannot be read.
    pub fn template(&self) -> anyhow::Result<Arc<Pod>> {
        let owner = if self.lasts.is_some() { ("batch/v1", "Job") } else { ("apps/v1", "ReplicaSet") };
        let own = json!({"matchLabels": {APP: self.name}});
        let mut annotations = Map::new();
        if let Some(rests) = self.rests {
            let text = format!("{}s", rests / SECOND);
            annotations.insert(annotation::DISRUPT_AT_MOST_ONCE_PER.to_owned(), Value::String(text));
        }
        let mut spec = json!({
            "containers": [{"name": CONTAINER, "resources": {
                "requests": {"cpu": format!("{}m", self.cpu), "memory": self.memory.to_string()},
            }}],
            "terminationGracePeriodSeconds": self.grace,
        });
        if self.spread {
            spec["topologySpreadConstraints"] = json!([{
                "maxSkew": 1, "topologyKey": label::ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": own,
            }]);
        }
        if self.apart {
            spec["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": own, "topologyKey": label::HOSTNAME},
            ]}});
        }
        if self.on_demand {
            spec["nodeSelector"] = json!({label::CAPACITY_TYPE: "on-demand"});
        }
        let object = json!({
            "metadata": {
                "namespace": NAMESPACE, "labels": {APP: self.name}, "annotations": annotations,
                "ownerReferences": [{
                    "apiVersion": owner.0, "kind": owner.1, "name": self.name, "uid": self.name, "controller": true,
                }],
            },
            "spec": spec,
            "status": {"phase": "Pending"},
        });
        serde_json::from_value(object).context("a made-up pod")
    }

    /// Its PodDisruptionBudget, with the figures that Kubernetes' own controller would write.
    ///
    /// # Errors
    /// When the made-up object cannot be read.
    pub fn budget(&self, healthy: usize) -> anyhow::Result<Option<Arc<PodDisruptionBudget>>> {
        let Some(away) = self.may_be_away else { return Ok(None) };
        let object = json!({
            "metadata": {"namespace": NAMESPACE, "name": self.name},
            "spec": {"selector": {"matchLabels": {APP: self.name}}, "maxUnavailable": away},
            "status": {
                "disruptionsAllowed": self.allowed(healthy), "currentHealthy": healthy,
                "desiredHealthy": self.least_healthy(), "expectedPods": self.wanted,
            },
        });
        Ok(Some(serde_json::from_value(object).context("a made-up budget")?))
    }

    /// What a new pod of it requests.
    #[must_use]
    pub fn size(&self) -> Size {
        Size { cpu: self.cpu, memory: self.memory }
    }

    /// How many of its pods could be evicted while so many are healthy.
    #[must_use]
    pub fn allowed(&self, healthy: usize) -> usize {
        healthy.saturating_sub(self.least_healthy())
    }

    /// How many of its pods must be healthy.
    #[must_use]
    pub fn least_healthy(&self) -> usize {
        self.may_be_away.map_or(0, |away| self.wanted.saturating_sub(away))
    }
}

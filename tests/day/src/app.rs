//! Workloads of the simulated cluster: pod requests, start and stop times, and scheduling constraints.

use api::{annotation, label};
use jiff::SignedDuration;
use planner::Size;
use serde_json::{Value, json};
use simulator::surroundings::Workload;

use crate::clock::SECOND;

/// Namespace of all pods.
pub const NAMESPACE: &str = "default";
/// Pod label that holds the name of the workload.
pub const APP: &str = "app";
/// Name of the only container of each pod.
pub const CONTAINER: &str = "main";

/// Deployment, or a Job if `lasts` is set.
#[derive(Clone, Debug)]
pub struct App {
    /// Name of the workload and value of the `app` label of its pods.
    pub name: String,
    /// Desired number of pods.
    pub wanted: usize,
    /// CPU request of a pod, in millicores.
    pub cpu: i64,
    /// Memory request of a pod, in bytes.
    pub memory: i64,
    /// Number of GPUs that a pod requests.
    pub gpus: i64,
    /// Average use of a pod, in percent of its requests.
    pub uses: i64,
    /// `terminationGracePeriodSeconds`.
    pub grace: i64,
    /// Time from binding to Ready, in milliseconds.
    pub starts: i64,
    /// Time that a pod takes to stop within its grace period, in milliseconds.
    pub stops: i64,
    /// `maxUnavailable` of its PodDisruptionBudget, if it has one.
    pub may_be_away: Option<usize>,
    /// Requires an even spread of its pods over zones (`DoNotSchedule`).
    pub spread: bool,
    /// Requires that no two of its pods share a node.
    pub apart: bool,
    /// Requires on-demand nodes for its pods.
    pub on_demand: bool,
    /// Priority of its pods.
    pub priority: i32,
    /// `kerf.sh/disrupt-at-most-once-per`, in milliseconds.
    pub rests: Option<i64>,
    /// Run time of a pod of a Job, in milliseconds.
    pub lasts: Option<i64>,
}

impl Default for App {
    fn default() -> Self {
        Self {
            name: String::new(),
            wanted: 0,
            cpu: 500,
            memory: 1 << 30,
            gpus: 0,
            uses: 40,
            grace: 30,
            starts: 4 * SECOND,
            stops: 2 * SECOND,
            may_be_away: None,
            spread: false,
            apart: false,
            on_demand: false,
            priority: 0,
            rests: None,
            lasts: None,
        }
    }
}

impl App {
    /// Returns the workload with its pod template.
    #[must_use]
    pub fn workload(&self) -> Workload {
        let (starts, lasts) = (SignedDuration::from_millis(self.starts), self.lasts.map(SignedDuration::from_millis));
        let (memory, gpus, stops) = (self.memory, self.gpus, Some(SignedDuration::from_millis(self.stops)));
        Workload {
            memory,
            gpus,
            starts,
            stops,
            lasts,
            template: self.template(),
            ..Workload::of(self.wanted, self.cpu)
        }
    }

    fn template(&self) -> Value {
        let owner = if self.lasts.is_some() { ("batch/v1", "Job") } else { ("apps/v1", "ReplicaSet") };
        let own = json!({"matchLabels": {APP: self.name}});
        let mut template = json!({
            "metadata": {"ownerReferences": [{
                "apiVersion": owner.0, "kind": owner.1, "name": self.name, "uid": self.name, "controller": true,
            }]},
            "spec": {"terminationGracePeriodSeconds": self.grace},
        });
        if self.priority != 0 {
            template["spec"]["priority"] = json!(self.priority);
        }
        if let Some(rests) = self.rests {
            let text = format!("{}s", rests / SECOND);
            template["metadata"]["annotations"] = json!({annotation::DISRUPT_AT_MOST_ONCE_PER: text});
        }
        if self.spread {
            template["spec"]["topologySpreadConstraints"] = json!([{
                "maxSkew": 1, "topologyKey": label::ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": own,
            }]);
        }
        if self.apart {
            let alone = json!([{"labelSelector": own, "topologyKey": label::HOSTNAME}]);
            template["spec"]["affinity"] =
                json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": alone}});
        }
        if self.on_demand {
            template["spec"]["nodeSelector"] = json!({label::CAPACITY_TYPE: "on-demand"});
        }
        template
    }

    /// Returns the PodDisruptionBudget.
    #[must_use]
    pub fn budget(&self) -> Option<Value> {
        let away = self.may_be_away?;
        Some(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"namespace": NAMESPACE, "name": self.name},
            "spec": {"selector": {"matchLabels": {APP: self.name}}, "maxUnavailable": away},
        }))
    }

    /// Returns the requests of a new pod.
    #[must_use]
    pub fn size(&self) -> Size {
        Size { cpu: self.cpu, memory: self.memory }
    }

    /// Returns how many pods must be healthy.
    #[must_use]
    pub fn least_healthy(&self) -> usize {
        self.may_be_away.map_or(0, |away| self.wanted.saturating_sub(away))
    }
}

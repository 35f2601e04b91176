//! From objects to a plan: what the controller would do, at one moment, with what can be bought.

mod defaults;

use jiff::Timestamp;
use planner::{MinValuesPolicy, Plan, PreferencePolicy, ValidatedPlan};
use snapshot::{Input, Problem, SnapshotResult, UsageError};

use crate::catalogue::{self, CatalogueOptions, CatalogueSet};
use crate::failure::Failure;
use crate::input::{Manifests, Objects};
use crate::workload;

/// What a plan depends on besides the objects.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// The moment that the plan speaks of.
    pub now: Timestamp,
    /// Breaks ties that nothing else breaks.
    pub seed: u64,
    /// What can be bought.
    pub wish: CatalogueOptions,
    /// What preferences count for.
    pub preferences: PreferencePolicy,
    /// What happens when `minValues` cannot be met.
    pub min_values: MinValuesPolicy,
    /// Which of Karpenter's features are on.
    pub gates: Gates,
}

impl Conditions {
    /// Karpenter's defaults at one moment, with EC2's embedded catalogue.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self {
            now,
            seed: 0,
            wish: CatalogueOptions { reserved: true, ..CatalogueOptions::default() },
            preferences: PreferencePolicy::default(),
            min_values: MinValuesPolicy::default(),
            gates: Gates::default(),
        }
    }
}

/// Features that a plan depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gates {
    /// Overlays, honoured unless the gate was closed by hand.
    pub overlays: Gate,
    /// Static pools.
    pub static_pools: Gate,
    /// Capacity buffers.
    pub buffers: Gate,
    /// Whether unhealthy nodes are replaced; as in the controller only where someone says so.
    pub node_repair: bool,
    /// Whether spot may take the place of spot; likewise.
    pub spot_to_spot: bool,
}

/// One feature gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gate {
    /// Nobody said anything: closed in the controller, but what is given is honoured here.
    #[default]
    Default,
    /// Opened by hand.
    Open,
    /// Closed by hand.
    Closed,
}

/// A cluster with what can be bought for it: everything that a snapshot is made of.
#[derive(Clone, Debug)]
pub struct PlanInput {
    /// The objects, workloads expanded, defaults written.
    pub objects: Objects,
    /// What can be bought.
    pub offer: CatalogueSet,
    /// What deserves a word, sorted.
    pub warnings: Vec<String>,
}

/// A plan with everything that it was made from.
#[derive(Clone, Debug)]
pub struct PlanAnswer {
    /// The cluster.
    pub cluster: PlanInput,
    /// The planner's input and what did not go into it.
    pub built: SnapshotResult,
    /// The plan.
    pub plan: Plan,
}

impl PlanInput {
    /// Completes what was read: expands workloads, writes what the API server and controllers would have written, and
    /// finds what can be bought.
    ///
    /// # Errors
    /// When a catalogue or price file cannot be read, or the region is not known.
    pub fn new(manifests: Manifests, conditions: &Conditions) -> Result<Self, Failure> {
        let Manifests { mut objects, mut warnings, .. } = manifests;
        warnings.extend(defaults::gates(&mut objects, &conditions.gates));
        warnings.extend(workload::expand(&mut objects));
        warnings.extend(defaults::settle(&mut objects, conditions.now));
        let offer = catalogue::offer(&objects, &conditions.wish, conditions.now)?;
        warnings.extend(offer.warnings.iter().cloned());
        warnings.sort();
        warnings.dedup();
        Ok(Self { objects, offer, warnings })
    }

    /// The planner's input.
    pub fn snapshot(&self, conditions: &Conditions) -> SnapshotResult {
        let it = &self.objects;
        let settings = snapshot::Settings {
            preferences: conditions.preferences,
            min_values: conditions.min_values,
            node_repair: conditions.gates.node_repair,
            spot_to_spot: conditions.gates.spot_to_spot,
            ..snapshot::Settings::default()
        };
        snapshot::build(&Input {
            seed: conditions.seed,
            pods: it.pods.iter().collect(),
            nodes: it.nodes.iter().collect(),
            claims: it.claims.iter().collect(),
            pools: it.pools.iter().collect(),
            daemon_sets: it.daemon_sets.iter().collect(),
            budgets: it.budgets.iter().collect(),
            usages: it.usages.iter().collect(),
            volume_claims: it.volume_claims.iter().collect(),
            volumes: it.volumes.iter().collect(),
            storage_classes: it.storage_classes.iter().collect(),
            csi_nodes: it.csi_nodes.iter().collect(),
            namespaces: it.namespaces.iter().collect(),
            overlays: it.overlays.iter().collect(),
            buffers: it.buffers.iter().collect(),
            pod_templates: it.pod_templates.iter().collect(),
            deployments: it.deployments.iter().collect(),
            replica_sets: it.replica_sets.iter().collect(),
            stateful_sets: it.stateful_sets.iter().collect(),
            catalogues: self.offer.catalogues.clone(),
            type_labels: self.offer.labels.clone(),
            settings,
            ..Input::at(conditions.now)
        })
    }
}

impl PlanAnswer {
    /// The same once all moves are done: pods that moved are pods with a place like others.
    #[must_use]
    pub fn after_moves(&self) -> Self {
        let mut after = self.clone();
        (after.built.snapshot, after.plan) = planner::carried_out(&self.built.snapshot, &self.plan);
        after
    }
}

/// A problem with the cure that only this command knows.
fn told(problem: &Problem) -> String {
    match problem {
        Problem::Usage { why: UsageError::Stale | UsageError::Ahead, .. } => {
            format!("{problem}; set --now to the time of the dump")
        }
        problem => problem.to_string(),
    }
}

/// Plans, and checks the plan with code that shares nothing with the planner: what is left is what the controller would carry out.
///
/// # Errors
/// When a catalogue or price file cannot be read, or when the check finds a fault in the places of pods.
pub fn answer(manifests: Manifests, conditions: &Conditions) -> Result<PlanAnswer, Failure> {
    let mut cluster = PlanInput::new(manifests, conditions)?;
    let built = cluster.snapshot(conditions);
    cluster.warnings.extend(built.problems.iter().map(told));
    cluster.warnings.extend(defaults::unserved(&cluster.objects, &built));
    cluster.warnings.extend(defaults::unrepaired(&cluster.objects, &built, conditions));
    let ValidatedPlan { sound, findings } = planner::checked(&built.snapshot, planner::plan(&built.snapshot));
    let findings = findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let Some(plan) = sound else { return Err(Failure::fault(format!("plan validation failed: {findings}"))) };
    if !findings.is_empty() {
        cluster
            .warnings
            .push(format!("plan validation failed, some commands were removed (bug: please report): {findings}"));
    }
    cluster.warnings.sort();
    cluster.warnings.dedup();
    Ok(PlanAnswer { cluster, built, plan })
}

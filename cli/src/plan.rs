//! Computes a plan from objects: the controller's decisions at one moment with one catalogue.

mod cost;
mod defaults;
pub(crate) mod explain;
pub(crate) mod hints;
pub mod report;
pub(crate) mod table;
pub(crate) mod top;
pub(crate) mod ui;
pub mod view;
pub mod what_if;
pub mod workload;

use std::collections::BTreeSet;
use std::sync::Arc;

use api::objects::Pod;
use jiff::Timestamp;
use planner::{MicroDollars, MinValuesPolicy, Plan, PreferencePolicy, PreferencePremium, ValidatedPlan};
use snapshot::{Ignored, Input, Problem, SnapshotResult, UsageError};

use crate::catalogue::{self, CatalogueOptions, CatalogueSet};
use crate::failure::Failure;
use crate::input::{Manifests, Objects};
use crate::instance::userdata;
pub(crate) use defaults::{complete, gates};
use workload::Expansion;

/// Inputs of a plan besides the objects.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// Time of the plan.
    pub now: Timestamp,
    /// Seed for ties that no other rule breaks.
    pub seed: u64,
    /// Sources of instance types and prices.
    pub catalogue: CatalogueOptions,
    /// Policy for preferences of pods.
    pub preferences: PreferencePolicy,
    /// Maximum premium for the preferences of a workload.
    pub preference_premium: PreferencePremium,
    /// Maximum hourly cost of all nodes.
    pub cost_limit: Option<MicroDollars>,
    /// Policy for `minValues` that cannot be met.
    pub min_values: MinValuesPolicy,
    /// Feature gates.
    pub gates: Gates,
    /// `true` if the objects are those of a cluster: pods of workloads exist already, complete as the API server stores them.
    pub live: bool,
}

impl Conditions {
    /// Returns Karpenter's defaults at a time, with EC2's embedded catalogue.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self {
            now,
            seed: 0,
            catalogue: CatalogueOptions { reserved: true, ..CatalogueOptions::default() },
            preferences: PreferencePolicy::default(),
            preference_premium: PreferencePremium::default(),
            cost_limit: None,
            min_values: MinValuesPolicy::default(),
            gates: Gates::default(),
            live: false,
        }
    }

    /// Returns the settings of the planner.
    pub(crate) fn planner_settings(&self) -> snapshot::Settings {
        snapshot::Settings {
            preferences: self.preferences,
            preference_premium: self.preference_premium,
            cost_limit: self.cost_limit,
            min_values: self.min_values,
            node_repair: self.gates.node_repair,
            spot_to_spot: self.gates.spot_to_spot,
            ..snapshot::Settings::default()
        }
    }
}

/// Features that a plan depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gates {
    /// NodeOverlays; used unless the gate is explicitly closed.
    pub overlays: Gate,
    /// Static NodePools.
    pub static_pools: Gate,
    /// CapacityBuffers.
    pub buffers: Gate,
    /// Nodes that are replaced while they are unhealthy.
    pub node_repair: snapshot::NodeRepair,
    /// `true` if spot nodes may replace spot nodes; off unless explicitly enabled, as in the controller.
    pub spot_to_spot: bool,
}

impl Gates {
    /// Returns the gates with those closed that are not set, as the controller reads them.
    pub(crate) fn as_in_controller(self) -> Self {
        let set = |gate: Gate| if gate == Gate::Default { Gate::Closed } else { gate };
        let Self { overlays, static_pools, buffers, .. } = self;
        Self { overlays: set(overlays), static_pools: set(static_pools), buffers: set(buffers), ..self }
    }
}

/// State of one feature gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gate {
    /// Not set: closed in the controller, but objects in the input are used here.
    #[default]
    Default,
    /// Explicitly open.
    Open,
    /// Explicitly closed.
    Closed,
}

/// Cluster with its catalogues: the complete input of a snapshot.
#[derive(Clone, Debug)]
pub struct PlanInput {
    /// Objects, with expanded workloads and defaults.
    pub objects: Objects,
    /// Pods that the API server would refuse, by name. No plan contains them.
    pub refused: Vec<Ignored>,
    /// Catalogues.
    pub catalogue_set: CatalogueSet,
    /// Warnings for the user, sorted.
    pub warnings: Vec<String>,
    /// Sentences about the changes of objects.
    pub changes: Vec<String>,
}

/// A plan with all its inputs.
#[derive(Clone, Debug)]
pub struct PlanAnswer {
    /// Cluster of the plan.
    pub cluster: PlanInput,
    /// The planner's input and the pods that it excludes.
    pub built: SnapshotResult,
    /// The plan.
    pub plan: Plan,
}

impl PlanInput {
    /// Completes the manifests: expands workloads, adds the defaults of the API server and controllers, and builds the
    /// catalogues.
    ///
    /// # Errors
    /// Returns an error if a catalogue or price file cannot be read, or if the region is unknown.
    pub fn new(manifests: Manifests, conditions: &Conditions) -> Result<Self, Failure> {
        let Manifests { mut objects, mut warnings, changes, .. } = manifests;
        warnings.extend(gates(&mut objects, &conditions.gates));
        let expansion = if conditions.live { Expansion::default() } else { workload::expand(&mut objects) };
        let Expansion { warnings: expanded, refused } = expansion;
        warnings.extend(expanded);
        warnings.extend(complete(&mut objects, conditions.now));
        warnings.extend(hints::without_constant_budget(&objects.pools));
        warnings.extend(userdata::warnings(&objects));
        let catalogue_set = catalogue::build(&objects, &conditions.catalogue, conditions.now)?;
        warnings.extend(catalogue_set.warnings.iter().cloned());
        warnings.sort();
        warnings.dedup();
        Ok(Self { objects, refused, catalogue_set, warnings, changes })
    }

    /// Builds the planner's input.
    pub fn snapshot(&self, conditions: &Conditions) -> SnapshotResult {
        let it = &self.objects;
        let names: BTreeSet<&str> = self.refused.iter().map(|refused| refused.pod.as_str()).collect();
        let exists = |pod: &&Arc<Pod>| !names.contains(format!("{}/{}", pod.namespace(), pod.name()).as_str());
        let mut built = snapshot::build(&Input {
            seed: conditions.seed,
            pods: it.pods.iter().filter(exists).collect(),
            catalogues: self.catalogue_set.catalogues.clone(),
            type_labels: self.catalogue_set.labels.clone(),
            settings: conditions.planner_settings(),
            ..it.input(conditions.now)
        });
        built.ignored.extend(self.refused.iter().cloned());
        built.ignored.sort_by(|one, other| one.pod.cmp(&other.pod));
        built
    }
}

impl PlanAnswer {
    /// Returns the answer after all commands are carried out: pods that moved are placed like other pods.
    #[must_use]
    pub fn after_moves(&self) -> Self {
        let mut after = self.clone();
        (after.built.snapshot, after.plan) = planner::carried_out(&self.built.snapshot, &self.plan);
        after
    }
}

/// Returns a problem, with the fix if only this command offers one.
fn with_fix(problem: &Problem) -> String {
    match problem {
        Problem::Usage { why: UsageError::Stale | UsageError::Ahead, .. } => {
            format!("{problem}; set --now to the time of the dump")
        }
        problem => problem.to_string(),
    }
}

/// Reports whether the problem is already a warning about the manifest of a NodePool.
fn is_reported_by_input(problem: &Problem) -> bool {
    matches!(problem, Problem::Ineffective { kind: "NodePool", .. })
}

/// Computes a plan and validates it with code that is independent of the planner. Commands that fail the validation are
/// removed, so the rest is what the controller would carry out.
///
/// # Errors
/// Returns an error if a catalogue or price file cannot be read, or if the validation rejects the placement of pods.
pub fn answer(manifests: Manifests, conditions: &Conditions) -> Result<PlanAnswer, Failure> {
    let mut cluster = PlanInput::new(manifests, conditions)?;
    let built = cluster.snapshot(conditions);
    cluster.warnings.extend(built.problems.iter().filter(|problem| !is_reported_by_input(problem)).map(with_fix));
    cluster.warnings.extend(defaults::without_capacity(&cluster.objects, &built));
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

//! Cache between snapshots, so that only changed objects are translated again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::objects::{PersistentVolume, PersistentVolumeClaim, StorageClass};
use api::provisioningrequest::RequestPhase;
use api::{NodeOverlay, NodePool, label};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use planner::{Catalogue, Policy, Snapshot};

use crate::buffers::HeldCapacity;
use crate::buffers::requests::RequestState;
use crate::catalogues::reserved::Reserved;
use crate::catalogues::{self, Catalogues};
use crate::nodes::{CachedNode, NodeSource, TranslationContext};
use crate::overlays::{self, Evaluation};
use crate::pods::admission::Admission;
use crate::pods::records::Records;
use crate::pods::selection::PodSelection;
use crate::pods::selection::awaited_requests::AwaitedRequests;
use crate::pods::selection::pod_groups::PodGroups;
use crate::pods::volumes::Storage;
use crate::pods::volumes::single_claims::SingleClaims;
use crate::pods::{daemons, idle_budgets, pauses, terms};
use crate::{Input, Problem, SnapshotResult, buffers, millis, nodes, pools};

/// Results of earlier translations, each with its source objects. The cache makes the next translation faster and never changes
/// its result, which always equals that of [`crate::build`].
#[derive(Default)]
pub struct SnapshotCache {
    records: Records,
    kept: Vec<CachedNode>,
    storage: SeenVersions,
    reserved: Reserved,
    overlays: Overlays,
}

/// The objects of the last translation that determine the location of volumes.
#[derive(Default)]
struct SeenVersions {
    claims: Vec<Arc<PersistentVolumeClaim>>,
    volumes: Vec<Arc<PersistentVolume>>,
    classes: Vec<Arc<StorageClass>>,
}

/// The last evaluation of overlays with its inputs.
#[derive(Default)]
struct Overlays {
    pools: Vec<Arc<NodePool>>,
    overlays: Vec<Arc<NodeOverlay>>,
    classes: BTreeMap<String, Arc<Catalogue>>,
    evaluation: Evaluation,
}

impl SnapshotCache {
    /// Translates a cluster into a snapshot.
    pub fn build(&mut self, input: &Input<'_>) -> SnapshotResult {
        let mut problems = Vec::new();
        let machines = nodes::machines(input);
        let new_pods = self.update_pods(input, &machines);
        let admission = admission(input);
        let mut daemons = daemons::translate(input, &admission, &self.records, &mut problems);
        let HeldCapacity { buffers, requests, pods: mut virtual_pods } =
            buffers::resolve(input, &admission, &self.records);
        let shapes = || daemons.iter().map(|it| &it.shape).chain(virtual_pods.iter().map(|pods| &pods.shape));
        let keys = shapes().flat_map(terms::keys).map(str::to_owned).collect();
        self.complete_pods(input, new_pods, keys);
        problems.extend(self.records.annotation_problems());
        problems.extend(idle_budgets::problems(input, &self.records));
        let shapes =
            daemons.iter_mut().map(|it| &mut it.shape).chain(virtual_pods.iter_mut().map(|pods| &mut pods.shape));
        shapes.for_each(|shape| shape.labels = self.records.selectable_labels(&shape.labels));
        let catalogues = self.catalogues(input, &mut problems);
        problems.extend(nodes::unclaimed::problems(input, &machines));
        self.update_nodes(input, &catalogues, &machines, &mut problems);
        let mut selection = self.select_pods(input, &machines, awaited(&requests));
        virtual_pods.into_iter().for_each(|pods| pods.add(&mut selection));
        let single_claims = selection.single_claims();
        let (mut shapes, mut pods, ignored) = selection.finish();
        pauses::pause_launches(&input.delays, &mut shapes, &mut pods);
        let mut pools = pools::translate(input, &catalogues, &self.kept, &mut problems);
        let spending = pools::spend::evaluate(input, &mut pools, &self.kept, &mut problems);
        let commitments = pools::commitments::evaluate(input, &mut problems);
        let mut snapshot = Snapshot {
            now: millis(input.now),
            seed: input.seed,
            policy: policy(input),
            pools,
            spend_limits: spending.limits,
            commitments: commitments.usable.clone(),
            catalogues: catalogues.list(),
            nodes: self.kept.iter().map(|kept| Arc::clone(&kept.node)).collect(),
            shapes,
            pods,
            single_claims,
            daemons,
            resting: self.records.resting(),
            namespaces: input.namespaces.iter().map(|it| (it.name().to_owned(), it.labels())).collect(),
        };
        snapshot.pay_for_nodes();
        let commitments = commitments.states(&snapshot);
        let Evaluation { verdicts, overlaid, .. } = self.overlays.evaluation.clone();
        let never_evicted = self.kept.iter().flat_map(CachedNode::never_evicted).collect();
        let spending = spending.states;
        SnapshotResult {
            snapshot,
            ignored,
            problems,
            never_evicted,
            overlays: verdicts,
            overlaid,
            buffers,
            requests,
            spending,
            commitments,
        }
    }

    /// Returns the catalogues without the reserved capacity of in-flight NodeClaims, and with the changes of overlays and
    /// factors.
    fn catalogues(&mut self, input: &Input<'_>, problems: &mut Vec<Problem>) -> Catalogues {
        let classes = self.reserved.available(&input.claims, &input.catalogues);
        let evaluation = self.overlays.refresh(input, &classes);
        problems.extend(evaluation.problems.iter().cloned());
        Catalogues { pools: evaluation.pools.clone(), classes }
    }

    /// Updates the records of pods and returns those that are incomplete.
    fn update_pods(&mut self, input: &Input<'_>, machines: &[NodeSource<'_>]) -> BTreeSet<u32> {
        self.records.update_budgets(&input.budgets);
        let lowered = machines.iter().filter(|machine| machine.claim.is_some_and(|claim| claim.has_lowered_requests()));
        self.records.refresh(&input.pods, lowered.map(|machine| machine.name().to_owned()).collect())
    }

    fn complete_pods(&mut self, input: &Input<'_>, new_pods: BTreeSet<u32>, keys: BTreeSet<String>) {
        let storage_changed = self.storage.refresh(input);
        self.records.complete_shapes(new_pods, keys, &Storage::new(input), storage_changed);
    }

    fn update_nodes(
        &mut self,
        input: &Input<'_>,
        catalogues: &Catalogues,
        machines: &[NodeSource<'_>],
        problems: &mut Vec<Problem>,
    ) {
        let context = TranslationContext {
            input,
            catalogues,
            records: &self.records,
            well_known: well_known(input),
            packing: pools::packing_pools(input),
            ignoring: pools::ignoring_pools(input),
            surging: pools::surging_pools(input),
        };
        self.kept = nodes::refresh(&context, machines, std::mem::take(&mut self.kept), problems);
    }

    fn select_pods<'a>(
        &self,
        input: &'a Input<'a>,
        machines: &'a [NodeSource<'a>],
        awaited: AwaitedRequests,
    ) -> PodSelection<'a> {
        let single_claims = SingleClaims::new(input, || self.records.with_volumes());
        let selection = PodSelection::new(input, nodes::nominations(input, machines), single_claims);
        let mut selection = selection.with_groups(PodGroups::new(&self.records)).awaiting(awaited);
        selection.add_pending(&self.records);
        for (machine, kept) in machines.iter().zip(&self.kept) {
            let Some(leaving) = &kept.node.leaving else { continue };
            let group = machine.node.and_then(|node| self.records.pods_on(node.name()));
            selection.add_of_leaving_node(&kept.node, leaving, &self.records, group);
        }
        selection
    }
}

impl SeenVersions {
    /// Stores the objects and reports whether any of them changed.
    fn refresh(&mut self, input: &Input<'_>) -> bool {
        let claims = replace(&mut self.claims, &input.volume_claims);
        let volumes = replace(&mut self.volumes, &input.volumes);
        let classes = replace(&mut self.classes, &input.storage_classes);
        claims || volumes || classes
    }
}

impl Overlays {
    fn refresh(&mut self, input: &Input<'_>, classes: &BTreeMap<String, Arc<Catalogue>>) -> &Evaluation {
        if !self.is_of(input, classes) {
            self.pools = input.pools.iter().map(|pool| Arc::clone(pool)).collect();
            self.overlays = input.overlays.iter().map(|overlay| Arc::clone(overlay)).collect();
            self.classes = classes.clone();
            self.evaluation = overlays::evaluate(&self.pools, &self.overlays, &self.classes);
        }
        &self.evaluation
    }

    /// Reports whether the inputs of the overlays are unchanged. A changed status alone has no effect.
    fn is_of(&self, input: &Input<'_>, classes: &BTreeMap<String, Arc<Catalogue>>) -> bool {
        let pool = |one: &NodePool, other: &NodePool| {
            one.spec.template == other.spec.template && same_metadata(&one.metadata, &other.metadata)
        };
        let overlay = |one: &NodeOverlay, other: &NodeOverlay| {
            one.spec == other.spec && same_metadata(&one.metadata, &other.metadata)
        };
        alike(&self.pools, &input.pools, pool)
            && alike(&self.overlays, &input.overlays, overlay)
            && catalogues::same(&self.classes, classes)
    }
}

fn admission<'a>(input: &Input<'a>) -> Admission<'a> {
    Admission::new(
        input.limit_ranges.iter().copied(),
        input.runtime_classes.iter().copied(),
        input.priority_classes.iter().copied(),
    )
}

/// Returns the requests whose capacity does not exist.
fn awaited(requests: &[RequestState]) -> AwaitedRequests {
    let without = requests.iter().filter(|it| matches!(it.phase, RequestPhase::Waiting | RequestPhase::Failed));
    AwaitedRequests(without.map(|it| it.request.clone()).collect())
}

fn same_metadata(one: &ObjectMeta, other: &ObjectMeta) -> bool {
    one.name == other.name
        && one.annotations == other.annotations
        && one.deletion_timestamp.is_some() == other.deletion_timestamp.is_some()
}

fn alike<T>(former: &[Arc<T>], present: &[&Arc<T>], same: impl Fn(&T, &T) -> bool) -> bool {
    let same = |(one, other): (&Arc<T>, &&Arc<T>)| Arc::ptr_eq(one, other) || same(one, other);
    former.len() == present.len() && former.iter().zip(present).all(same)
}

fn replace<T>(former: &mut Vec<Arc<T>>, present: &[&Arc<T>]) -> bool {
    let same = alike(former, present, |_, _| false);
    if !same {
        *former = present.iter().map(|object| Arc::clone(object)).collect();
    }
    !same
}

fn policy(input: &Input<'_>) -> Policy {
    let settings = input.settings;
    Policy {
        max_steps: settings.max_steps,
        max_instance_types: settings.max_instance_types,
        well_known: well_known(input),
        preferences: settings.preferences,
        preference_premium: settings.preference_premium,
        min_values: settings.min_values,
        least_spot_types: settings.least_spot_types,
        spot_to_spot: settings.spot_to_spot,
    }
}

fn well_known(input: &Input<'_>) -> BTreeSet<String> {
    let known = label::CORE_WELL_KNOWN.iter().chain(&label::AWS_WELL_KNOWN).map(|key| (*key).to_owned());
    known.chain(input.type_labels.iter().cloned()).collect()
}

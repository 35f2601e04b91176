//! Cache between snapshots, so that only changed objects are translated again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::objects::{PersistentVolume, PersistentVolumeClaim, StorageClass};
use api::{NodeOverlay, NodePool, label};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use planner::{Catalogue, Policy, Snapshot};

use crate::catalogues::Catalogues;
use crate::nodes::{CachedNode, NodeSource, TranslationContext};
use crate::overlays::{self, Evaluation};
use crate::records::Records;
use crate::rescheduling::Sorting;
use crate::reserved::{self, Reserved};
use crate::volumes::{Singles, Storage};
use crate::{Input, Problem, SnapshotResult, buffers, daemons, millis, nodes, pools, terms, unclaimed_nodes};

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
        let mut daemons = daemons::translate(input, &mut problems);
        let (buffers, mut rooms) = buffers::resolve(input);
        let waiting = || daemons.iter().map(|it| &it.shape).chain(rooms.iter().map(|room| &room.shape));
        let keys = waiting().flat_map(terms::keys).map(str::to_owned).collect();
        self.take_pods(input, keys);
        problems.extend(self.records.misread());
        problems.extend(unclaimed_nodes::budgets(input, &self.records));
        let shapes = daemons.iter_mut().map(|it| &mut it.shape).chain(rooms.iter_mut().map(|room| &mut room.shape));
        shapes.for_each(|shape| shape.labels = self.records.seen(&shape.labels));
        let catalogues = self.catalogues(input, &mut problems);
        let machines = nodes::machines(input);
        problems.extend(unclaimed_nodes::nodes(input, &machines));
        self.take_machines(input, &catalogues, &machines, &mut problems);
        let mut sorting = self.sort(input, &machines);
        rooms.into_iter().for_each(|room| room.add_pods(&mut sorting));
        let single_claims = sorting.single_claims();
        let (shapes, pods, ignored) = sorting.finish();
        let snapshot = Snapshot {
            now: millis(input.now),
            seed: input.seed,
            policy: policy(input),
            pools: pools::translate(input, &catalogues, &self.kept, &mut problems),
            catalogues: catalogues.list(),
            nodes: self.kept.iter().map(|kept| Arc::clone(&kept.node)).collect(),
            shapes,
            pods,
            single_claims,
            daemons,
            resting: self.records.resting(),
            namespaces: input.namespaces.iter().map(|it| (it.name().to_owned(), it.labels())).collect(),
        };
        let Evaluation { verdicts, overlaid, .. } = self.overlays.evaluation.clone();
        let never_evicted = self.kept.iter().flat_map(CachedNode::never_evicted).collect();
        SnapshotResult { snapshot, ignored, problems, never_evicted, overlays: verdicts, overlaid, buffers }
    }

    /// Returns the catalogues without the reserved capacity of in-flight NodeClaims, and with the changes of overlays and
    /// factors.
    fn catalogues(&mut self, input: &Input<'_>, problems: &mut Vec<Problem>) -> Catalogues {
        let classes = self.reserved.taken(&input.claims, &input.catalogues);
        let evaluation = self.overlays.refresh(input, &classes);
        problems.extend(evaluation.problems.iter().cloned());
        Catalogues { pools: evaluation.pools.clone(), classes }
    }

    fn take_pods(&mut self, input: &Input<'_>, keys: BTreeSet<String>) {
        self.records.take_budgets(&input.budgets);
        let moved = self.storage.refresh(input);
        self.records.refresh(&input.pods, keys, &Storage::of(input), moved);
    }

    fn take_machines(
        &mut self,
        input: &Input<'_>,
        catalogues: &Catalogues,
        machines: &[NodeSource<'_>],
        problems: &mut Vec<Problem>,
    ) {
        let scene = TranslationContext {
            input,
            catalogues,
            records: &self.records,
            well_known: well_known(input),
            packing: pools::packing(input),
            ignoring: pools::ignoring(input),
            surging: pools::surging(input),
        };
        self.kept = nodes::refresh(&scene, machines, std::mem::take(&mut self.kept), problems);
    }

    fn sort<'a>(&self, input: &'a Input<'a>, machines: &'a [NodeSource<'a>]) -> Sorting<'a> {
        let singles = Singles::of(input, || self.records.with_volumes());
        let mut sorting = Sorting::new(input, nodes::promises(input, machines), singles);
        sorting.pending(&self.records);
        for (machine, kept) in machines.iter().zip(&self.kept) {
            let Some(leaving) = &kept.node.leaving else { continue };
            let group = machine.node.and_then(|node| self.records.on(node.name()));
            sorting.leaving(&kept.node, leaving, &self.records, group);
        }
        sorting
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
            && reserved::same(&self.classes, classes)
    }
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
        min_values: settings.min_values,
        least_spot_types: settings.least_spot_types,
        spot_to_spot: settings.spot_to_spot,
    }
}

fn well_known(input: &Input<'_>) -> BTreeSet<String> {
    let known = label::CORE_WELL_KNOWN.iter().chain(&label::AWS_WELL_KNOWN).map(|key| (*key).to_owned());
    known.chain(input.type_labels.iter().cloned()).collect()
}

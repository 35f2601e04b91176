//! What is kept from one snapshot to the next, so that only what has changed is translated anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::label;
use api::objects::{PersistentVolume, PersistentVolumeClaim, StorageClass};
use planner::{Policy, Snapshot};

use crate::catalogues::Catalogues;
use crate::nodes::{Kept, Machine, Scene};
use crate::records::Records;
use crate::rescheduling::Sorting;
use crate::volumes::Storage;
use crate::{Built, Input, Problem, Settings, daemons, millis, nodes, pools, terms};

/// Records of former translations, each with the objects that it was made of. It makes the next translation faster and
/// never changes it: whatever was translated before, the answer is that of [`crate::build`].
#[derive(Default)]
pub struct Memory {
    records: Records,
    kept: Vec<Kept>,
    storage: Seen,
}

/// The objects of the last translation that say where volumes are.
#[derive(Default)]
struct Seen {
    claims: Vec<Arc<PersistentVolumeClaim>>,
    volumes: Vec<Arc<PersistentVolume>>,
    classes: Vec<Arc<StorageClass>>,
}

impl Memory {
    /// Translates a cluster.
    pub fn build(&mut self, input: &Input<'_>) -> Built {
        let mut problems = Vec::new();
        let mut daemons = daemons::translate(input, &mut problems);
        let keys = daemons.iter().flat_map(|it| terms::keys(&it.shape)).map(str::to_owned).collect();
        self.take_pods(input, keys);
        for daemon in &mut daemons {
            daemon.shape.labels = self.records.seen(&daemon.shape.labels);
        }
        let catalogues = Catalogues { classes: input.catalogues.clone(), pools: BTreeMap::new() };
        let machines = nodes::machines(input);
        self.take_machines(input, &catalogues, &machines, &mut problems);
        let (shapes, pods, ignored) = self.sort(input, &machines).finish();
        let snapshot = Snapshot {
            now: millis(input.now),
            seed: input.seed,
            policy: policy(input.settings),
            pools: pools::translate(input, &catalogues, &machines, &self.kept, &mut problems),
            catalogues: catalogues.list(),
            nodes: self.kept.iter().map(|kept| Arc::clone(&kept.node)).collect(),
            shapes,
            pods,
            daemons,
            namespaces: input.namespaces.iter().map(|it| (it.name().to_owned(), it.labels())).collect(),
        };
        Built { snapshot, ignored, problems }
    }

    fn take_pods(&mut self, input: &Input<'_>, keys: BTreeSet<String>) {
        let moved = self.storage.refresh(input);
        self.records.refresh(&input.pods, keys, &Storage::of(input), moved);
    }

    fn take_machines(
        &mut self,
        input: &Input<'_>,
        catalogues: &Catalogues,
        machines: &[Machine<'_>],
        problems: &mut Vec<Problem>,
    ) {
        let csi_nodes = input.csi_nodes.iter().map(|node| (node.metadata.name.as_deref().unwrap_or_default(), *node));
        let scene = Scene { input, catalogues, records: &self.records, csi_nodes: csi_nodes.collect() };
        self.kept = nodes::refresh(&scene, machines, std::mem::take(&mut self.kept), problems);
    }

    fn sort<'a>(&self, input: &'a Input<'a>, machines: &'a [Machine<'a>]) -> Sorting<'a> {
        let mut sorting = Sorting::new(input, nodes::promises(input, machines));
        sorting.pending(&self.records.loose());
        for machine in machines.iter().filter(|machine| machine.leaving().is_some()) {
            let group = machine.node.and_then(|node| self.records.on(node.name()));
            sorting.leaving(machine, &self.records.members(group));
        }
        sorting
    }
}

impl Seen {
    /// Whether anything is other than last time.
    fn refresh(&mut self, input: &Input<'_>) -> bool {
        let claims = replace(&mut self.claims, &input.volume_claims);
        let volumes = replace(&mut self.volumes, &input.volumes);
        let classes = replace(&mut self.classes, &input.storage_classes);
        claims || volumes || classes
    }
}

fn replace<T>(former: &mut Vec<Arc<T>>, present: &[&Arc<T>]) -> bool {
    let same = former.len() == present.len() && former.iter().zip(present).all(|(one, other)| Arc::ptr_eq(one, other));
    if !same {
        *former = present.iter().map(|object| Arc::clone(object)).collect();
    }
    !same
}

fn policy(settings: Settings) -> Policy {
    let well_known = label::CORE_WELL_KNOWN.iter().chain(&label::AWS_WELL_KNOWN).map(|key| (*key).to_owned());
    Policy {
        max_steps: settings.max_steps,
        max_instance_types: settings.max_instance_types,
        well_known: well_known.collect(),
        preferences: settings.preferences,
        min_values: settings.min_values,
        least_spot_types: settings.least_spot_types,
    }
}

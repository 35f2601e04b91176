//! Requirements of a pod's volumes on its node: the location of volumes, and the driver whose attachments they count for.

pub(crate) mod single_claims;

use std::cell::OnceCell;
use std::collections::BTreeMap;

use api::label;
use api::objects::{
    EBS_DRIVER, NodeSelectorTerm, PersistentVolume, PersistentVolumeClaim, PodSpec, StorageClass, TopologySelectorTerm,
    Volume,
};
use planner::{Operator, Requirement, VolumeNeed};

use super::ignored::VolumeError;
use crate::{Input, requirements};

/// Alternatives, each a list of requirements that must all hold; an empty list means any node.
type Alternatives = Vec<Vec<Requirement>>;

/// Claims, volumes and StorageClasses, indexed at first use.
pub(crate) struct Storage<'a> {
    input: &'a Input<'a>,
    index: OnceCell<Index<'a>>,
}

/// Claims, volumes and StorageClasses by name.
struct Index<'a> {
    claims: BTreeMap<(&'a str, &'a str), &'a PersistentVolumeClaim>,
    volumes: BTreeMap<&'a str, &'a PersistentVolume>,
    classes: BTreeMap<&'a str, &'a StorageClass>,
    default: Option<&'a StorageClass>,
}

/// The volumes of a pod that matter for scheduling.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    pub(crate) needs: Vec<VolumeNeed>,
    /// One claim name for each need.
    pub(crate) claims: Vec<String>,
    /// The first claim with a problem, and the problem.
    pub(crate) error: Option<(String, VolumeError)>,
}

/// Reports whether a pod has volumes that need [`Storage`].
pub(crate) fn has_claims(spec: &PodSpec) -> bool {
    spec.volumes.iter().any(Volume::may_attach)
}

impl<'a> Storage<'a> {
    pub(crate) fn new(input: &'a Input<'a>) -> Self {
        Self { input, index: OnceCell::new() }
    }

    /// Returns the volumes of a pod, each claim once.
    pub(crate) fn volumes(&self, namespace: &str, pod: &str, spec: &PodSpec) -> Volumes {
        self.index.get_or_init(|| Index::new(self.input)).volumes(namespace, pod, spec)
    }
}

impl<'a> Index<'a> {
    fn new(input: &'a Input<'a>) -> Self {
        let named = |claim: &'a PersistentVolumeClaim| {
            let of = |name: &'a Option<String>| name.as_deref().unwrap_or_default();
            ((of(&claim.metadata.namespace), of(&claim.metadata.name)), claim)
        };
        let classes: BTreeMap<&str, &StorageClass> =
            input.storage_classes.iter().map(|class| (class.name(), class.as_ref())).collect();
        // The newest default counts, then the first by name.
        let age = |class: &&StorageClass| class.metadata.creation_timestamp.as_ref().map(|at| at.0);
        let default = classes.values().copied().filter(|class| class.is_default());
        let default = default.reduce(|best, next| if age(&next) > age(&best) { next } else { best });
        Self {
            claims: input.volume_claims.iter().map(|claim| named(claim)).collect(),
            volumes: input.volumes.iter().map(|volume| (volume.name(), volume.as_ref())).collect(),
            classes,
            default,
        }
    }

    fn volumes(&self, namespace: &str, pod: &str, spec: &PodSpec) -> Volumes {
        let mut all = Volumes::default();
        for volume in &spec.volumes {
            let ephemeral = || volume.ephemeral.as_ref().map(|_| format!("{pod}-{}", volume.name));
            let named = volume.persistent_volume_claim.as_ref().map(|it| it.claim_name.clone());
            if let Some(disk) = &volume.aws_elastic_block_store {
                all.add(format!("{EBS_DRIVER}/{}", disk.handle()), attached(EBS_DRIVER));
            } else if let Some(claim) = named.or_else(ephemeral) {
                let name = format!("{namespace}/{claim}");
                let need = self.need(namespace, &claim).unwrap_or_else(|error| {
                    all.error.get_or_insert_with(|| (name.clone(), error));
                    VolumeNeed::default()
                });
                all.add(name, need);
            }
        }
        all
    }

    fn need(&self, namespace: &str, name: &str) -> Result<VolumeNeed, VolumeError> {
        let claim = self.claims.get(&(namespace, name)).ok_or(VolumeError::Missing)?;
        if claim.is_terminating() {
            return Err(VolumeError::Terminating);
        }
        if claim.is_lost() {
            return Err(VolumeError::Lost);
        }
        match claim.spec.volume_name.as_str() {
            "" => self.unbound(claim),
            volume => self.bound(claim, volume),
        }
    }

    fn bound(&self, claim: &PersistentVolumeClaim, name: &str) -> Result<VolumeNeed, VolumeError> {
        let named = || name.to_owned();
        if !claim.is_bind_completed() {
            return Err(VolumeError::Binding { volume: named() });
        }
        let volume = self.volumes.get(name).ok_or_else(|| VolumeError::VolumeMissing { volume: named() })?;
        if volume.is_terminating() {
            return Err(VolumeError::VolumeTerminating { volume: named() });
        }
        let alternatives = reach(volume).ok_or_else(|| VolumeError::Nowhere { volume: named() })?;
        Ok(VolumeNeed { alternatives, driver: volume.driver().map(str::to_owned) })
    }

    fn unbound(&self, claim: &PersistentVolumeClaim) -> Result<VolumeNeed, VolumeError> {
        let class = match claim.storage_class() {
            Some("") => return Err(VolumeError::NoClass),
            None => self.default.ok_or(VolumeError::NoDefaultClass)?,
            Some(name) => {
                let missing = || VolumeError::ClassMissing { class: name.to_owned() };
                self.classes.get(name).copied().ok_or_else(missing)?
            }
        };
        if !class.waits_for_consumer() {
            return Err(VolumeError::Immediate { class: class.name().to_owned() });
        }
        let alternatives = class.allowed_topologies.iter().map(places).filter(|place| !place.is_empty()).collect();
        Ok(VolumeNeed { alternatives, ..attached(class.driver()) })
    }
}

impl Volumes {
    fn add(&mut self, claim: String, need: VolumeNeed) {
        if !self.claims.contains(&claim) {
            self.claims.push(claim);
            self.needs.push(need);
        }
    }
}

/// Returns the need of a volume without a location that counts as an attachment of the driver. A name without a real driver has
/// no limit on the node and therefore no effect.
fn attached(driver: &str) -> VolumeNeed {
    VolumeNeed { driver: Some(driver.to_owned()), alternatives: Vec::new() }
}

/// Returns the locations of a volume; `None` if its affinity selects no node.
fn reach(volume: &PersistentVolume) -> Option<Alternatives> {
    let affinity = volume.spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    let mut terms: Alternatives = match affinity {
        None => vec![Vec::new()],
        // An empty term selects no node.
        Some(affinity) => {
            let terms = affinity.node_selector_terms.iter().filter(|term| !term.match_expressions.is_empty());
            terms.map(|term| conjunction(volume, term)).collect()
        }
    };
    let labelled = labelled(volume);
    terms.iter_mut().for_each(|term| term.extend(labelled.iter().cloned()));
    if terms.is_empty() {
        return None;
    }
    // A term without requirements holds on every node, and one term is enough.
    Some(if terms.iter().any(Vec::is_empty) { Vec::new() } else { terms })
}

/// Returns the zone and region in the labels of a volume, which volumes older than CSI drivers have. Several values are joined
/// by `__`.
fn labelled(volume: &PersistentVolume) -> Vec<Requirement> {
    let labels = volume.metadata.labels.iter().flatten();
    let places = labels.filter_map(|(key, value)| {
        let key = label::canonical(key);
        (key == label::ZONE || key == label::REGION).then(|| Requirement::new(key, Operator::In, value.split("__")))
    });
    places.collect()
}

/// Converts a term of a volume's affinity. The host name of a local disk is omitted, because a new node has another host name.
fn conjunction(volume: &PersistentVolume, term: &NodeSelectorTerm) -> Vec<Requirement> {
    let all = term.match_expressions.iter().map(requirements::convert);
    all.filter(|it| !volume.is_local() || it.key != label::HOSTNAME).collect()
}

fn places(term: &TopologySelectorTerm) -> Vec<Requirement> {
    let one = |it: &api::objects::TopologySelectorLabel| {
        Requirement::new(label::canonical(&it.key), Operator::In, &it.values)
    };
    term.match_label_expressions.iter().map(one).collect()
}

//! Kinds that pods refer to or that only plans depend on: volumes and their classes, namespaces, the objects of admission,
//! NodeOverlays, SpendPolicies, CapacityBuffers, ProvisioningRequests and the sources of their pods.

use api::annotation;
use api::objects::{
    CSINode, Deployment, LimitRange, Namespace, NodeReport, PersistentVolume, PersistentVolumeClaim, PodTemplate,
    PodTemplateSpec, PriorityClass, ReplicaSet, RuntimeClass, StatefulSet, StorageClass,
};
use api::{CapacityBuffer, Commitment, NodeOverlay, ProvisioningRequest, SpendPolicy};
use kube::Resource;
use kube::api::ObjectMeta;

use super::triggers::{Indexed, keep_annotations};
use super::{Index, Table, key_of};
use crate::provision::batcher::PlanTrigger;
use crate::reconcile::work::{Triggers, WorkItem};

/// Selects the table of a kind.
macro_rules! table {
    ($table:ident) => {
        fn table(index: &Index) -> &Table<Self> {
            &index.$table
        }

        fn table_mut(index: &mut Index) -> &mut Table<Self> {
            &mut index.$table
        }
    };
}

/// Triggers a plan if pods are pending, because the change may help them. The id is the same for all changes, so that a stream
/// of changes keeps no batch open.
fn plan_for_waiting(index: &Index) -> Triggers {
    let plan = if index.has_waiting_pods() { vec![PlanTrigger::New("context".to_owned())] } else { Vec::new() };
    Triggers { plan, ..Triggers::default() }
}

impl Indexed for PersistentVolumeClaim {
    table!(volume_claims);

    fn slim(&mut self) {
        keep_annotations(&mut self.metadata, |key| {
            [annotation::BIND_COMPLETED, annotation::BETA_STORAGE_CLASS].contains(&key)
        });
        self.metadata.labels = None;
    }

    fn consequences(index: &Index, before: Option<&Self>, after: Option<&Self>) -> Triggers {
        let decisive = |claim: Option<&Self>| {
            claim.map(|claim| (claim.spec.clone(), claim.is_bind_completed(), claim.is_terminating(), claim.is_lost()))
        };
        if decisive(before) == decisive(after) { Triggers::default() } else { plan_for_waiting(index) }
    }
}

impl Indexed for PersistentVolume {
    table!(volumes);

    /// Removes the annotations. Labels are kept: volumes from before CSI drivers have their topology in labels.
    fn slim(&mut self) {
        keep_annotations(&mut self.metadata, |_| false);
    }

    fn consequences(index: &Index, before: Option<&Self>, after: Option<&Self>) -> Triggers {
        let decisive = |volume: Option<&Self>| {
            volume.map(|volume| (volume.spec.clone(), volume.metadata.labels.clone(), volume.is_terminating()))
        };
        if decisive(before) == decisive(after) { Triggers::default() } else { plan_for_waiting(index) }
    }
}

impl Indexed for StorageClass {
    table!(storage_classes);

    fn consequences(index: &Index, _: Option<&Self>, _: Option<&Self>) -> Triggers {
        plan_for_waiting(index)
    }
}

impl Indexed for CSINode {
    table!(csi_nodes);

    fn slim(&mut self) {
        keep_annotations(&mut self.metadata, |_| false);
    }

    fn consequences(index: &Index, before: Option<&Self>, after: Option<&Self>) -> Triggers {
        let spec = |node: Option<&Self>| node.map(|node| node.spec.clone());
        if spec(before) == spec(after) { Triggers::default() } else { plan_for_waiting(index) }
    }
}

impl Indexed for NodeReport {
    table!(usages);

    fn slim(&mut self) {
        keep_annotations(&mut self.metadata, |_| false);
    }

    /// Triggers no plan, only a check whether the node of the report still exists.
    fn consequences(index: &Index, _: Option<&Self>, after: Option<&Self>) -> Triggers {
        let name = after.map(key_of).filter(|name| index.nodes.get(name).is_none());
        Triggers { work: name.map(WorkItem::Usage).into_iter().collect(), ..Triggers::default() }
    }
}

impl Indexed for Namespace {
    table!(namespaces);

    fn slim(&mut self) {
        keep_annotations(&mut self.metadata, |_| false);
    }

    fn consequences(index: &Index, before: Option<&Self>, after: Option<&Self>) -> Triggers {
        let labels = |namespace: Option<&Self>| namespace.map(Namespace::labels);
        if labels(before) == labels(after) { Triggers::default() } else { plan_for_waiting(index) }
    }
}

/// Implements a kind that changes pods when the API server admits them. Plans apply the kind to pods that do not exist yet: of
/// DaemonSets, which count where pods are pending, of CapacityBuffers and of ProvisioningRequests.
macro_rules! read_by_admission {
    ($kind:ident, $table:ident) => {
        impl Indexed for $kind {
            table!($table);

            fn slim(&mut self) {
                keep_annotations(&mut self.metadata, |_| false);
                self.metadata.labels = None;
            }

            fn consequences(index: &Index, _: Option<&Self>, _: Option<&Self>) -> Triggers {
                let mut triggers = plan_for_waiting(index);
                triggers.plan.extend(index.buffers.keys().map(|key| plan_for_buffer(key)));
                triggers.plan.extend(index.requests.keys().map(|key| plan_for_request(key)));
                triggers
            }
        }
    };
}

read_by_admission!(LimitRange, limit_ranges);
read_by_admission!(RuntimeClass, runtime_classes);
read_by_admission!(PriorityClass, priority_classes);

impl Indexed for NodeOverlay {
    table!(overlays);

    fn consequences(_: &Index, before: Option<&Self>, after: Option<&Self>) -> Triggers {
        let name = after.or(before).map(key_of).unwrap_or_default();
        let said = |overlay: Option<&Self>| {
            let annotations = |overlay: &Self| overlay.metadata.annotations.clone();
            overlay.map(|overlay| (overlay.spec.clone(), annotations(overlay), leaves(&overlay.metadata)))
        };
        let plan = if said(before) == said(after) {
            Vec::new()
        } else {
            vec![PlanTrigger::New(format!("nodeoverlay/{name}"))]
        };
        Triggers { work: vec![WorkItem::Overlay(name)], plan }
    }
}

impl Indexed for SpendPolicy {
    table!(spend_policies);

    /// Triggers a plan for pending pods, which a new limit may permit. The status triggers none: each update of the cost would.
    fn consequences(index: &Index, before: Option<&Self>, after: Option<&Self>) -> Triggers {
        let name = after.or(before).map(key_of).unwrap_or_default();
        let said = |policy: Option<&Self>| policy.map(|policy| (policy.spec.clone(), leaves(&policy.metadata)));
        let triggers = if said(before) == said(after) { Triggers::default() } else { plan_for_waiting(index) };
        Triggers { work: vec![WorkItem::SpendPolicy(name)], ..triggers }
    }
}

impl Indexed for Commitment {
    table!(commitments);

    /// Triggers a plan for each change of the specification: consolidation may use what is paid. The status triggers none.
    fn consequences(_: &Index, before: Option<&Self>, after: Option<&Self>) -> Triggers {
        let name = after.or(before).map(key_of).unwrap_or_default();
        let said = |commitment: Option<&Self>| commitment.map(|it| (it.spec.clone(), leaves(&it.metadata)));
        let plan =
            if said(before) == said(after) { Vec::new() } else { vec![PlanTrigger::New(format!("commitment/{name}"))] };
        Triggers { work: vec![WorkItem::Commitment(name)], plan }
    }
}

impl Indexed for CapacityBuffer {
    table!(buffers);

    fn consequences(_: &Index, before: Option<&Self>, after: Option<&Self>) -> Triggers {
        let key = after.or(before).map(key_of).unwrap_or_default();
        let said = |buffer: Option<&Self>| buffer.map(|buffer| (buffer.spec.clone(), leaves(&buffer.metadata)));
        let plan = if said(before) == said(after) { Vec::new() } else { vec![plan_for_buffer(&key)] };
        Triggers { work: vec![WorkItem::Buffer(key)], plan }
    }
}

impl Indexed for ProvisioningRequest {
    table!(requests);

    /// Triggers a plan for a new request and for each change of its phase. Requests of classes of other programs trigger nothing.
    fn consequences(_: &Index, before: Option<&Self>, after: Option<&Self>) -> Triggers {
        let Some(request) = after.or(before).filter(|request| request.class().is_some()) else {
            return Triggers::default();
        };
        let key = key_of(request);
        let said = |request: Option<&Self>| request.map(|request| (request.phase(), leaves(&request.metadata)));
        let plan = if said(before) == said(after) { Vec::new() } else { vec![plan_for_request(&key)] };
        Triggers { work: vec![WorkItem::Request(key)], plan }
    }
}

fn plan_for_buffer(key: &str) -> PlanTrigger {
    PlanTrigger::New(format!("capacitybuffer/{key}"))
}

fn plan_for_request(key: &str) -> PlanTrigger {
    PlanTrigger::New(format!("provisioningrequest/{key}"))
}

fn leaves(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some()
}

impl Indexed for PodTemplate {
    table!(pod_templates);

    fn slim(&mut self) {
        slim_template(&mut self.metadata, &mut self.template);
    }

    fn consequences(index: &Index, before: Option<&Self>, after: Option<&Self>) -> Triggers {
        let named = |buffer: &CapacityBuffer, name: &str| {
            buffer.spec.pod_template_ref.as_ref().is_some_and(|template| template.name == name)
        };
        let template =
            |object: Option<&Self>| object.map(|object| (object.template.clone(), object.metadata.generation));
        let changed = template(before) != template(after);
        let mut triggers = followed(index, after.or(before), changed, named);
        if changed && let Some(template) = after.or(before) {
            triggers.plan.extend(requests_of_template(index, template));
        }
        triggers
    }
}

impl Indexed for Deployment {
    table!(deployments);

    fn slim(&mut self) {
        slim_template(&mut self.metadata, &mut self.spec.template);
    }

    fn consequences(index: &Index, before: Option<&Self>, after: Option<&Self>) -> Triggers {
        let changed = before.map(|object| &object.spec) != after.map(|object| &object.spec);
        followed(index, after.or(before), changed, |buffer, name| follows(buffer, "Deployment", name))
    }
}

impl Indexed for ReplicaSet {
    table!(replica_sets);

    fn slim(&mut self) {
        slim_template(&mut self.metadata, &mut self.spec.template);
    }

    fn consequences(index: &Index, before: Option<&Self>, after: Option<&Self>) -> Triggers {
        let changed = before.map(|object| &object.spec) != after.map(|object| &object.spec);
        followed(index, after.or(before), changed, |buffer, name| follows(buffer, "ReplicaSet", name))
    }
}

impl Indexed for StatefulSet {
    table!(stateful_sets);

    fn slim(&mut self) {
        slim_template(&mut self.metadata, &mut self.spec.template);
        self.spec.volume_claim_templates = Vec::new();
    }

    fn consequences(index: &Index, before: Option<&Self>, after: Option<&Self>) -> Triggers {
        let changed = before.map(|object| &object.spec) != after.map(|object| &object.spec);
        followed(index, after.or(before), changed, |buffer, name| follows(buffer, "StatefulSet", name))
    }
}

/// Keeps only the template of a workload, and of the template only what affects the placement of its pods.
fn slim_template(meta: &mut ObjectMeta, template: &mut PodTemplateSpec) {
    keep_annotations(meta, |_| false);
    meta.labels = None;
    keep_annotations(&mut template.metadata, |_| false);
}

fn follows(buffer: &CapacityBuffer, kind: &str, name: &str) -> bool {
    buffer.spec.scalable_ref.as_ref().is_some_and(|named| named.kind == kind && named.name == name)
}

/// Triggers a plan if the source of a CapacityBuffer in the same namespace has changed.
fn followed(
    index: &Index,
    object: Option<&impl Resource>,
    changed: bool,
    named: impl Fn(&CapacityBuffer, &str) -> bool,
) -> Triggers {
    let Some(meta) = object.map(Resource::meta).filter(|_| changed) else { return Triggers::default() };
    let name = meta.name.as_deref().unwrap_or_default();
    let near = index.buffers.values().filter(|buffer| buffer.metadata.namespace == meta.namespace);
    let buffers = near.filter(|buffer| named(buffer, name));
    let plan = buffers.map(|buffer| plan_for_buffer(&key_of(buffer.as_ref()))).collect();
    Triggers { plan, ..Triggers::default() }
}

/// Triggers a plan for each ProvisioningRequest with pods of a template.
fn requests_of_template<'a>(index: &'a Index, template: &'a PodTemplate) -> impl Iterator<Item = PlanTrigger> + 'a {
    let near = index.requests.values().filter(|request| request.metadata.namespace == template.metadata.namespace);
    let name = template.metadata.name.as_deref();
    let named = near.filter(move |request| {
        request.spec.pod_sets.iter().any(|set| Some(set.pod_template_ref.name.as_str()) == name)
    });
    named.map(|request| plan_for_request(&key_of(request.as_ref())))
}

#[cfg(test)]
mod tests;

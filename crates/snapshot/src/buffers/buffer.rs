//! CapacityBuffers: capacity that is kept free for future pods.
//!
//! A buffer becomes virtual pods that exist only in the plan. The planner places them like other pods, but last, and never
//! binds them. Real pods take their capacity, and the next plan provides new capacity.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use api::capacitybuffer::{PRIORITY, ScalableRef};
use api::objects::PodTemplateSpec;
use api::schedule::{InvalidTimes, Times};
use api::{CapacityBuffer, annotation, reason};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use planner::{CapacityHolder, Plan, PodShape, PodVerdict, Resources};

use super::templates::{PodSource, TemplateError, full_name, is_named};
use super::virtual_pods::VirtualPods;
use crate::{Input, SnapshotResult};

/// Result of the resolution of a CapacityBuffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferState {
    /// Name of the buffer, `namespace/name`.
    pub buffer: String,
    /// Size of the buffer, or the reason why the size is unknown.
    pub resolved: Result<BufferSize, BufferError>,
}

/// Size of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferSize {
    /// Number of virtual pods.
    pub replicas: i32,
    /// Name of the PodTemplate; `None` if the template belongs to a workload.
    pub pod_template: Option<String>,
    /// Generation of the PodTemplate.
    pub pod_template_generation: Option<i64>,
    /// True if the buffer keeps capacity only at other times.
    pub is_inactive: bool,
}

/// The reason why a buffer cannot be resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BufferError {
    /// The buffer names neither a template nor a workload.
    NoTemplate,
    /// The pods of the template are unknown, or no node can be launched for them.
    Template(TemplateError),
    /// Buffers do not support the kind of the workload.
    UnknownKind {
        /// Kind of the workload.
        kind: String,
    },
    /// The workload does not exist.
    ScalableMissing {
        /// Kind of the workload.
        kind: String,
        /// Name of the workload.
        name: String,
    },
    /// The number of pods is unknown.
    NoSize,
    /// A limit is not a valid quantity.
    Quantity {
        /// Text of the quantity.
        text: String,
    },
    /// The times of the buffer are invalid.
    Times(InvalidTimes),
}

impl BufferError {
    /// Returns the reason of the condition `ReadyForProvisioning`.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Template(TemplateError::Missing { .. }) => reason::POD_TEMPLATE_NOT_FOUND,
            Self::ScalableMissing { .. } => reason::SCALABLE_REF_NOT_FOUND,
            _ => reason::RESOLUTION_FAILED,
        }
    }
}

impl fmt::Display for BufferError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTemplate => out.write_str("no pod template: set spec.podTemplateRef or spec.scalableRef"),
            Self::Template(error) => error.fmt(out),
            Self::UnknownKind { kind } => {
                write!(out, "unsupported kind {kind} in spec.scalableRef: use a Deployment, ReplicaSet or StatefulSet")
            }
            Self::ScalableMissing { kind, name } => write!(out, "{kind} {name} does not exist: create it"),
            Self::NoSize => out.write_str(
                "unknown number of pods: set spec.replicas, spec.percentage of a workload, or spec.limits on a \
                 resource that the pods request",
            ),
            Self::Quantity { text } => TemplateError::Quantity { text: text.clone() }.fmt(out),
            Self::Times(error) => write!(out, "annotation {}: {error}", annotation::ACTIVE_TIMES),
        }
    }
}

impl From<TemplateError> for BufferError {
    fn from(error: TemplateError) -> Self {
        Self::Template(error)
    }
}

/// Availability of a buffer's capacity: condition `Provisioning`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provisioning {
    /// Existing and in-flight nodes have capacity for all pods.
    FitsExistingCapacity,
    /// Some pods need new nodes or are unschedulable.
    RequiresNewCapacity {
        /// Number of pods without capacity.
        missing: usize,
        /// Number of all pods.
        of: usize,
    },
    /// The buffer could not be resolved.
    NotReadyForProvisioning,
    /// The buffer keeps capacity only at other times.
    OutsideActiveTimes,
    /// The buffer requests no pods.
    BufferEmpty,
}

impl Provisioning {
    /// Reports whether the condition is `True`.
    #[must_use]
    pub fn is_true(self) -> bool {
        self == Self::FitsExistingCapacity
    }

    /// Returns the reason of the condition.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::FitsExistingCapacity => reason::FITS_EXISTING_CAPACITY,
            Self::RequiresNewCapacity { .. } => reason::REQUIRES_NEW_CAPACITY,
            Self::NotReadyForProvisioning => reason::NOT_READY_FOR_PROVISIONING,
            Self::OutsideActiveTimes => reason::OUTSIDE_ACTIVE_TIMES,
            Self::BufferEmpty => reason::BUFFER_EMPTY,
        }
    }
}

impl fmt::Display for Provisioning {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FitsExistingCapacity => out.write_str("capacity is available for all pods"),
            Self::RequiresNewCapacity { missing, of } => write!(out, "{missing} of {of} pods need new nodes"),
            Self::NotReadyForProvisioning => out.write_str("unknown template or size"),
            Self::OutsideActiveTimes => write!(out, "{} has no time now", annotation::ACTIVE_TIMES),
            Self::BufferEmpty => out.write_str("zero pods requested"),
        }
    }
}

/// Returns the availability of each buffer's capacity after execution of `plan`, in the order of [`SnapshotResult::buffers`].
#[must_use]
pub fn provisioning(built: &SnapshotResult, plan: &Plan) -> Vec<(String, Provisioning)> {
    let mut seen: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (pod, verdict) in built.snapshot.pods.iter().zip(&plan.report.pods) {
        let Some(CapacityHolder::Buffer(buffer)) = &pod.holder else { continue };
        let (missing, of) = seen.entry(buffer).or_default();
        *missing += usize::from(!matches!(verdict, PodVerdict::Existing { .. }));
        *of += 1;
    }
    let state_of = |state: &BufferState| match (&state.resolved, seen.get(state.buffer.as_str())) {
        (Err(_), _) => Provisioning::NotReadyForProvisioning,
        (Ok(size), None) if size.is_inactive => Provisioning::OutsideActiveTimes,
        (Ok(_), None) => Provisioning::BufferEmpty,
        (Ok(_), Some((0, _))) => Provisioning::FitsExistingCapacity,
        (Ok(_), Some((missing, of))) => Provisioning::RequiresNewCapacity { missing: *missing, of: *of },
    };
    built.buffers.iter().map(|state| (state.buffer.clone(), state_of(state))).collect()
}

/// Resolves all of Kerf's buffers, ordered by name.
pub(super) fn resolve<'a>(source: &PodSource<'_, 'a>) -> (Vec<BufferState>, Vec<VirtualPods<'a>>) {
    let is_active =
        |buffer: &&&Arc<CapacityBuffer>| buffer.metadata.deletion_timestamp.is_none() && buffer.spec.is_active();
    let mut buffers: Vec<&'a CapacityBuffer> =
        source.input.buffers.iter().filter(is_active).map(|it| it.as_ref()).collect();
    buffers.sort_by_key(|buffer| full_name(&buffer.metadata));
    let (mut states, mut virtual_pods) = (Vec::new(), Vec::new());
    for buffer in buffers {
        let name = full_name(&buffer.metadata);
        let resolved = resolve_buffer(source, buffer).map(|(size, shape)| {
            virtual_pods.push(VirtualPods {
                metadata: &buffer.metadata,
                holder: CapacityHolder::Buffer(name.clone()),
                prefix: format!("capacity-buffer-{}", buffer.metadata.name.as_deref().unwrap_or_default()),
                shape: PodShape { priority: PRIORITY, ..shape },
                count: size.replicas,
                group: None,
            });
            size
        });
        states.push(BufferState { buffer: name, resolved });
    }
    (states, virtual_pods)
}

fn resolve_buffer(source: &PodSource<'_, '_>, buffer: &CapacityBuffer) -> Result<(BufferSize, PodShape), BufferError> {
    let namespace = buffer.metadata.namespace.as_deref().unwrap_or_default();
    let spec = &buffer.spec;
    let (shape, scalable, named) = match (&spec.pod_template_ref, &spec.scalable_ref) {
        (Some(named), _) => {
            let (shape, template) = source.named(namespace, &named.name)?;
            (shape, None, Some(template))
        }
        (None, Some(named)) => {
            let (template, replicas) = workload(source.input, namespace, named)?;
            (source.shape_of_workload(namespace, named, template)?, Some(replicas), None)
        }
        (None, None) => return Err(BufferError::NoTemplate),
    };
    let requests = shape.requests.iter().filter(|(name, _)| *name != Resources::PODS);
    let requests = requests.map(|(name, amount)| (name.to_owned(), amount)).collect();
    let replicas = spec.desired_pods(scalable, &requests);
    let replicas = replicas.map_err(|error| BufferError::Quantity { text: error.text })?.ok_or(BufferError::NoSize)?;
    let is_inactive = !is_active_now(buffer, source.input.now)?;
    let size = BufferSize {
        replicas: if is_inactive { 0 } else { replicas },
        is_inactive,
        pod_template: named.and_then(|template| template.name.clone()),
        pod_template_generation: named.and_then(|template| template.generation),
    };
    Ok((size, shape))
}

/// Reports whether the buffer keeps capacity now. Without times it always does.
fn is_active_now(buffer: &CapacityBuffer, now: Timestamp) -> Result<bool, BufferError> {
    let text = buffer.metadata.annotations.as_ref().and_then(|all| all.get(annotation::ACTIVE_TIMES));
    Times::are_now(text.map(String::as_str), now).map_err(BufferError::Times)
}

/// Returns the pod template and the replicas of a workload.
fn workload<'a>(
    input: &Input<'a>,
    namespace: &str,
    named: &ScalableRef,
) -> Result<(&'a PodTemplateSpec, i32), BufferError> {
    if !named.is_supported() {
        return Err(BufferError::UnknownKind { kind: named.kind.clone() });
    }
    let is = |metadata: &ObjectMeta| is_named(metadata, namespace, &named.name);
    let deployment =
        || input.deployments.iter().find(|it| is(&it.metadata)).map(|it| (&it.spec.template, it.spec.replicas()));
    let replica_set =
        || input.replica_sets.iter().find(|it| is(&it.metadata)).map(|it| (&it.spec.template, it.spec.replicas()));
    let stateful_set =
        || input.stateful_sets.iter().find(|it| is(&it.metadata)).map(|it| (&it.spec.template, it.spec.replicas()));
    let found = match named.kind.as_str() {
        "Deployment" => deployment(),
        "ReplicaSet" => replica_set(),
        _ => stateful_set(),
    };
    found.ok_or_else(|| BufferError::ScalableMissing { kind: named.kind.clone(), name: named.name.clone() })
}

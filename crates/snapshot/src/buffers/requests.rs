//! ProvisioningRequests: capacity for pods that do not exist yet, for all of them or for none.
//!
//! While a request waits, its virtual pods get places together or not at all. Once their nodes are ready, the capacity is booked:
//! the virtual pods stay for a while, fewer with each pod that consumes the request.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use api::objects::consumed_request;
use api::provisioningrequest::{InvalidParameter, RequestClass, RequestPhase};
use api::{ProvisioningRequest, reason};
use jiff::Timestamp;
use planner::{CapacityHolder, LaunchPause, Millis, Plan, PodGroup, PodShape, PodVerdict, Stage, UnschedulableReason};

use super::templates::{PodSource, TemplateError, full_name};
use super::virtual_pods::VirtualPods;
use crate::SnapshotResult;
use crate::pods::records::{Record, Records};

/// State of a ProvisioningRequest of a class that Kerf handles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestState {
    /// Name of the request, `namespace/name`.
    pub request: String,
    /// Class of the request.
    pub class: RequestClass,
    /// Phase at the time of the snapshot.
    pub phase: RequestPhase,
    /// Size of the request, or the reason why it cannot be planned.
    pub resolved: Result<RequestSize, RequestError>,
}

/// Size of a ProvisioningRequest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestSize {
    /// Number of pods that still need capacity: all but those that have a node already.
    pub pods: usize,
    /// Time by which the capacity must exist.
    pub until: Timestamp,
}

/// The reason why a ProvisioningRequest cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// A parameter has an invalid value.
    Parameter(InvalidParameter),
    /// The pods of a pod set are unknown, or no node can be launched for them.
    PodSet {
        /// Position of the pod set.
        position: usize,
        /// Reason.
        error: Box<TemplateError>,
    },
}

impl RequestError {
    /// Reports whether the request can never be planned, because it cannot be changed. A missing PodTemplate may still be
    /// created.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self {
            Self::Parameter(_) => true,
            Self::PodSet { error, .. } => !matches!(error.as_ref(), TemplateError::Missing { .. }),
        }
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parameter(error) => error.fmt(out),
            Self::PodSet { position, error } => write!(out, "spec.podSets[{position}]: {error}"),
        }
    }
}

/// Capacity of a ProvisioningRequest after execution of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestCapacity {
    /// The plan has no pods of the request.
    Unplanned,
    /// Ready nodes have capacity for all pods, or the pods run already.
    Ready,
    /// Some pods wait for nodes that start.
    Starting {
        /// Number of these pods.
        waiting: usize,
        /// Number of all pods.
        of: usize,
    },
    /// Some pods have no place.
    Missing {
        /// Number of pods that could get a place.
        placed: usize,
        /// Number of all pods.
        of: usize,
        /// Nearest miss of each NodePool for one of the other pods.
        reasons: Vec<String>,
    },
}

impl RequestCapacity {
    /// Returns the reason of the condition `Provisioned`.
    #[must_use]
    pub fn reason(&self, class: RequestClass) -> &'static str {
        match (self, class) {
            (Self::Ready, RequestClass::CheckCapacity) => reason::CAPACITY_IS_FOUND,
            (Self::Ready, RequestClass::AtomicScaleUp) => reason::CAPACITY_IS_PROVISIONED,
            (Self::Starting { .. }, _) => reason::CAPACITY_IS_STARTING,
            (Self::Unplanned | Self::Missing { .. }, _) => reason::CAPACITY_IS_NOT_FOUND,
        }
    }
}

impl fmt::Display for RequestCapacity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unplanned => out.write_str("not planned yet"),
            Self::Ready => out.write_str("nodes are ready for all pods"),
            Self::Starting { waiting, of } => write!(out, "{waiting} of {of} pods wait for nodes that start"),
            Self::Missing { placed, of, reasons } if reasons.is_empty() => {
                write!(out, "existing nodes have a place for {placed} of {of} pods")
            }
            Self::Missing { placed, of, reasons } => {
                write!(out, "{placed} of {of} pods could get a place: {}", reasons.join("; "))
            }
        }
    }
}

/// Returns the capacity of each request after execution of `plan`, in the order of [`SnapshotResult::requests`].
#[must_use]
pub fn request_capacity(built: &SnapshotResult, plan: &Plan) -> Vec<RequestCapacity> {
    let mut places: BTreeMap<&str, Vec<&PodVerdict>> = BTreeMap::new();
    for (pod, verdict) in built.snapshot.pods.iter().zip(&plan.report.pods) {
        if let Some(CapacityHolder::Request(name)) = &pod.holder {
            places.entry(name).or_default().push(verdict);
        }
    }
    let nodes = built.snapshot.nodes.iter().filter(|node| node.stage == Stage::Initialized);
    let ready: BTreeSet<&str> = nodes.map(|node| node.name.as_str()).collect();
    let is_ready =
        |verdict: &PodVerdict| matches!(verdict, PodVerdict::Existing { node, .. } if ready.contains(node.as_str()));
    let capacity_of = |state: &RequestState| {
        let Some(verdicts) = places.get(state.request.as_str()) else {
            let is_used = state.resolved.as_ref().is_ok_and(|size| size.pods == 0);
            return if is_used { RequestCapacity::Ready } else { RequestCapacity::Unplanned };
        };
        let of = verdicts.len();
        let missing: Vec<&PodVerdict> = verdicts.iter().copied().filter(|verdict| is_missing(verdict)).collect();
        let waiting = verdicts.iter().filter(|verdict| !is_ready(verdict)).count();
        match missing.first() {
            Some(first) => {
                let placed = placed_of_group(first).unwrap_or(of - missing.len());
                RequestCapacity::Missing { placed, of, reasons: reasons(first, state.class) }
            }
            None if waiting == 0 => RequestCapacity::Ready,
            None => RequestCapacity::Starting { waiting, of },
        }
    };
    built.requests.iter().map(capacity_of).collect()
}

fn is_missing(verdict: &PodVerdict) -> bool {
    matches!(verdict, PodVerdict::Unschedulable { .. } | PodVerdict::Postponed)
}

/// Returns how many pods of a group could get a place, if a pod is left out with its group.
fn placed_of_group(verdict: &PodVerdict) -> Option<usize> {
    let PodVerdict::Unschedulable { pools } = verdict else { return None };
    pools.iter().find_map(|pool| match &pool.miss {
        UnschedulableReason::Group(shortage) => usize::try_from(shortage.placed).ok(),
        _ => None,
    })
}

/// Returns the nearest miss of each NodePool. A request that launches nothing has none.
fn reasons(verdict: &PodVerdict, class: RequestClass) -> Vec<String> {
    let PodVerdict::Unschedulable { pools } = verdict else { return Vec::new() };
    if class == RequestClass::CheckCapacity {
        return Vec::new();
    }
    let own = |miss: &UnschedulableReason| match miss {
        UnschedulableReason::Group(shortage) => shortage.nearest.as_deref().unwrap_or(miss).to_string(),
        _ => miss.to_string(),
    };
    pools.iter().map(|pool| format!("NodePool {}: {}", pool.pool, own(&pool.miss))).collect()
}

/// Resolves all requests of classes that Kerf handles, ordered by name, and returns their states and virtual pods.
pub(super) fn resolve<'a>(source: &PodSource<'_, 'a>) -> (Vec<RequestState>, Vec<VirtualPods<'a>>) {
    let mut requests: Vec<(&'a ProvisioningRequest, RequestClass)> =
        source.input.requests.iter().filter_map(|request| Some((request.as_ref(), request.class()?))).collect();
    requests.sort_by_key(|(request, _)| full_name(&request.metadata));
    let consumers = Consumers::new(source.records);
    let (mut states, mut virtual_pods) = (Vec::new(), Vec::new());
    for (request, class) in requests {
        let mut phase = request.phase();
        let resolved = source.resolve_request(request, class, &consumers).map(|(size, pods)| {
            let is_current = match phase {
                RequestPhase::Waiting => source.input.now < size.until,
                RequestPhase::Booked(until) => source.input.now < until,
                RequestPhase::Ended | RequestPhase::Failed => false,
            };
            if is_current && request.metadata.deletion_timestamp.is_none() {
                virtual_pods.extend(pods);
            }
            size
        });
        if phase == RequestPhase::Waiting && resolved.as_ref().is_err_and(RequestError::is_final) {
            phase = RequestPhase::Failed;
        }
        states.push(RequestState { request: full_name(&request.metadata), class, phase, resolved });
    }
    (states, virtual_pods)
}

impl<'a> PodSource<'_, 'a> {
    fn resolve_request(
        &self,
        request: &'a ProvisioningRequest,
        class: RequestClass,
        consumers: &Consumers<'_>,
    ) -> Result<(RequestSize, Vec<VirtualPods<'a>>), RequestError> {
        let until = request.valid_until().map_err(RequestError::Parameter)?;
        request.is_tried_once().map_err(RequestError::Parameter)?;
        let name = full_name(&request.metadata);
        let namespace = request.metadata.namespace.as_deref().unwrap_or_default();
        let mut sets = Vec::new();
        for (position, set) in request.spec.pod_sets.iter().enumerate() {
            let shape = self.named(namespace, &set.pod_template_ref.name).map(|(shape, _)| shape);
            sets.push((shape.map_err(|error| RequestError::PodSet { position, error: Box::new(error) })?, set.count));
        }
        let is_waiting = request.phase() == RequestPhase::Waiting;
        consumers.take_from(&name, is_waiting, &mut sets);
        let total: u32 = sets.iter().map(|(_, count)| u32::try_from(*count).unwrap_or_default()).sum();
        let group = is_waiting.then(|| {
            let name = CapacityHolder::Request(name.clone()).to_string();
            Arc::new(PodGroup { name, least: total, running: 0 })
        });
        let own = request.metadata.name.as_deref().unwrap_or_default();
        let pods = sets.into_iter().enumerate().map(|(position, (shape, count))| VirtualPods {
            metadata: &request.metadata,
            holder: CapacityHolder::Request(name.clone()),
            prefix: format!("provisioning-request-{own}-{position}"),
            shape: PodShape { paused: self.pauses(class), ..shape },
            count,
            group: group.clone(),
        });
        let size = RequestSize { pods: usize::try_from(total).unwrap_or(usize::MAX), until };
        Ok((size, pods.collect()))
    }

    /// Returns the NodePools that launch nothing for a request: all of them, if it only checks the capacity.
    fn pauses(&self, class: RequestClass) -> Vec<LaunchPause> {
        if class == RequestClass::AtomicScaleUp {
            return Vec::new();
        }
        let names = self.input.pools.iter().filter_map(|pool| pool.metadata.name.clone());
        names.map(|pool| LaunchPause { pool, failures: 0, until: Millis(i64::MAX) }).collect()
    }
}

/// Pods that consume requests, by the name of the request.
struct Consumers<'a>(BTreeMap<String, Vec<&'a Record>>);

impl<'a> Consumers<'a> {
    fn new(records: &'a Records) -> Self {
        let mut consumers: BTreeMap<String, Vec<&'a Record>> = BTreeMap::new();
        for record in records.consuming() {
            if let Some(request) = consumed_request(&record.pod) {
                consumers.entry(request).or_default().push(record);
            }
        }
        Self(consumers)
    }

    /// Reduces the pods of a request by those that use its capacity: from the pod set with the same requests if possible. Once the
    /// capacity is booked, the plan itself places the pods that kube-scheduler has refused.
    fn take_from(&self, request: &str, is_waiting: bool, sets: &mut [(PodShape, i32)]) {
        let uses = |record: &&&Record| {
            let pod = &record.pod;
            pod.is_bound() || pod.is_terminal() || !is_waiting && pod.is_unschedulable()
        };
        for record in self.0.get(request).into_iter().flatten().filter(uses) {
            let equal = sets.iter().position(|(shape, count)| *count > 0 && shape.requests == record.shape.requests);
            let other = || sets.iter().position(|(_, count)| *count > 0);
            if let Some(position) = equal.or_else(other) {
                sets[position].1 -= 1;
            }
        }
    }
}

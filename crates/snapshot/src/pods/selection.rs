//! Selection of the pods that need a node: unschedulable pods, and pods whose node is leaving.
//!
//! With many new pods at once, kube-scheduler needs time for each. A pod that the scheduler has not tried yet will be refused
//! if an equal pod was refused. Such pods are planned together with it, so that a thousand replicas become one plan. A pod that
//! was created just now counts too while the same scheduler refuses others. If a node has capacity for it, the planner uses
//! that node and launches nothing.

pub(crate) mod awaited_requests;
pub(crate) mod pod_groups;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::objects::{Pod, PodDisruptionBudget, Unevictable};
use jiff::{SignedDuration, Timestamp};
use planner::{Leaving, PodShape};

use super::ignored::{Ignored, IgnoredReason};
use super::records::{Group, Record, Records};
use super::volumes::single_claims::SingleClaims;
use super::{full_name, is_reschedulable, uid};
use crate::nodes::Nominations;
use crate::{Input, millis};
use awaited_requests::AwaitedRequests;
use pod_groups::PodGroups;

/// Maximum age of a new pod: the longest batch window and half of it again.
const NEW: SignedDuration = SignedDuration::from_secs(15);

/// Pods that need a node: planned, or ignored with a reason.
pub(crate) struct PodSelection<'a> {
    input: &'a Input<'a>,
    nominations: Nominations<'a>,
    single_claims: SingleClaims,
    groups: PodGroups,
    awaited: AwaitedRequests,
    shapes: Shapes,
    pub(crate) pods: Vec<planner::Pod>,
    pub(crate) ignored: Vec<Ignored>,
}

impl<'a> PodSelection<'a> {
    /// Creates an empty value. `nominations` has the nominations of recent plans by UID; `single_claims` has the claims for a
    /// single pod.
    pub(crate) fn new(input: &'a Input<'a>, nominations: Nominations<'a>, single_claims: SingleClaims) -> Self {
        Self {
            input,
            nominations,
            single_claims,
            groups: PodGroups::default(),
            awaited: AwaitedRequests::default(),
            shapes: Shapes::default(),
            pods: Vec::new(),
            ignored: Vec::new(),
        }
    }

    /// Plans the pods of these groups together.
    pub(crate) fn with_groups(self, groups: PodGroups) -> Self {
        Self { groups, ..self }
    }

    /// Leaves out the pods that wait for one of these requests.
    pub(crate) fn awaiting(self, awaited: AwaitedRequests) -> Self {
        Self { awaited, ..self }
    }

    /// Adds unschedulable pods, and ignores those that wait for something else first.
    pub(crate) fn add_pending(&mut self, records: &Records) {
        let unbound = records.unbound();
        let refused = unbound.iter().filter(|record| record.pod.is_unschedulable());
        let refused: BTreeSet<SchedulingKey<'_>> = refused.map(|record| scheduling_key(record)).collect();
        let refusing: BTreeSet<&str> = refused.iter().map(|(_, scheduler)| *scheduler).collect();
        self.pods.reserve(unbound.len());
        for record in unbound {
            let pod = &record.pod;
            let awaited = || self.awaited.of(pod).map(|request| IgnoredReason::AwaitsRequest { request });
            match waiting_reason(pod, records).or_else(awaited) {
                Some(reason) => self.ignore(record, reason),
                None if pod.is_unschedulable() => self.plan(record, None),
                None if pod.is_awaiting_scheduler() => {
                    let is_of_batch = refusing.contains(pod.spec.scheduler_name.as_str()) && self.is_new(pod);
                    if is_of_batch || refused.contains(&scheduling_key(record)) {
                        self.plan(record, None);
                    }
                }
                None => {}
            }
        }
    }

    /// Adds pods whose node is leaving and that need another one.
    pub(crate) fn add_of_leaving_node(
        &mut self,
        node: &planner::Node,
        leaving: &Leaving,
        records: &Records,
        pods: Option<&Group>,
    ) {
        let forced = matches!(leaving, Leaving::Interrupted { .. });
        let now = self.input.now;
        let ends = node.termination_grace.is_some();
        let surging: BTreeSet<&str> = node.pods.iter().filter(|pod| pod.surges).map(|pod| pod.uid.as_str()).collect();
        for record in records.members(pods).into_iter().filter(|record| is_reschedulable(&record.pod)) {
            // A surge copy or the end of the drain allows the eviction of a pod that its budget blocks.
            let yields = ends || record.pod.metadata.uid.as_deref().is_some_and(|uid| surging.contains(uid));
            match held_reason(&records.budgets(record), &record.pod, yields, now).filter(|_| !forced) {
                Some(reason) => self.ignore(record, reason),
                None => self.plan(record, Some(&node.name)),
            }
        }
    }

    /// Adds a virtual pod.
    pub(crate) fn add_virtual_pod(&mut self, shape: &Arc<PodShape>, pod: planner::Pod) {
        let shape = self.shapes.position(shape);
        self.pods.push(planner::Pod { shape, ..pod });
    }

    /// Returns shapes, pods and ignored pods; pods are ordered by name.
    pub(crate) fn finish(mut self) -> (Vec<Arc<PodShape>>, Vec<planner::Pod>, Vec<Ignored>) {
        self.pods.sort_by(|one, other| (&one.name, &one.uid).cmp(&(&other.name, &other.uid)));
        self.pods.shrink_to_fit();
        self.ignored.sort_by(|one, other| (&one.pod, &one.uid).cmp(&(&other.pod, &other.uid)));
        (self.shapes.list, self.pods, self.ignored)
    }

    /// Returns the volume claims for a single pod, of pods to be placed and of bound pods.
    pub(crate) fn single_claims(&self) -> BTreeSet<String> {
        let claims = self.pods.iter().flat_map(|pod| &pod.claims);
        let waiting = claims.filter(|claim| self.single_claims.contains(claim));
        waiting.chain(self.single_claims.in_use()).cloned().collect()
    }

    fn is_new(&self, pod: &Pod) -> bool {
        let created = pod.metadata.creation_timestamp.as_ref();
        created.is_some_and(|at| self.input.now.duration_since(at.0).abs() <= NEW)
    }

    fn ignore(&mut self, record: &Record, reason: IgnoredReason) {
        self.ignored.push(Ignored { pod: full_name(&record.pod), uid: uid(&record.pod), reason });
    }

    fn plan(&mut self, record: &Record, node: Option<&str>) {
        if let Some(reason) = record.error().cloned().or_else(|| self.single_claims.waits(record)) {
            self.ignore(record, reason);
            return;
        }
        let pod = &record.pod;
        let uid = uid(pod);
        let created = pod.metadata.creation_timestamp.as_ref();
        let nomination = self.nominations.get(uid.as_str());
        self.pods.push(planner::Pod {
            name: full_name(pod),
            shape: self.shapes.position(&record.shape),
            created: created.map(|at| millis(at.0)).unwrap_or_default(),
            leaving_node: node.map(str::to_owned),
            nominated: nomination.map(|(_, to)| (*to).to_owned()),
            nominated_after: nomination.map_or(0, |(number, _)| *number),
            claims: record.claims.clone(),
            holder: None,
            mix: record.mix.clone(),
            group: self.groups.of(pod),
            uid,
        });
    }
}

/// Shapes in the order of their first use. Equal shapes share one `Arc`, so their addresses identify them.
#[derive(Default)]
struct Shapes {
    list: Vec<Arc<PodShape>>,
    known: BTreeMap<usize, usize>,
}

impl Shapes {
    fn position(&mut self, shape: &Arc<PodShape>) -> usize {
        *self.known.entry(Arc::as_ptr(shape).addr()).or_insert_with(|| {
            self.list.push(Arc::clone(shape));
            self.list.len() - 1
        })
    }
}

/// The parts of a pod that determine the scheduler's decision: its shape and its scheduler's name.
type SchedulingKey<'a> = (usize, &'a str);

fn scheduling_key(record: &Record) -> SchedulingKey<'_> {
    (Arc::as_ptr(&record.shape).addr(), &record.pod.spec.scheduler_name)
}

/// Returns what a pod without a node waits for besides capacity.
///
/// A nominated pod waits for terminating pods on its node, which kube-scheduler preempts. Without a terminating pod the
/// nomination is one of Kerf, or outdated.
fn waiting_reason(pod: &Pod, records: &Records) -> Option<IgnoredReason> {
    if pod.is_terminating() || pod.is_daemon() || pod.is_static() {
        return None;
    }
    if let Some(gate) = pod.spec.scheduling_gates.iter().map(|gate| &gate.name).min() {
        return Some(IgnoredReason::Gated { gate: gate.clone() });
    }
    let node = &pod.status.nominated_node_name;
    let is_preempting = || records.members(records.pods_on(node)).into_iter().any(|record| record.pod.is_terminating());
    (!node.is_empty() && is_preempting()).then(|| IgnoredReason::Preempting { node: node.clone() })
}

/// Returns why a pod on a leaving node remains until the deadline. Such a pod gets no capacity in advance: Kerf would launch
/// and remove unused nodes again and again.
fn held_reason(own: &[&PodDisruptionBudget], pod: &Pod, yields: bool, now: Timestamp) -> Option<IgnoredReason> {
    if pod.is_do_not_disrupt(now) {
        return Some(IgnoredReason::DoNotDisrupt);
    }
    Unevictable::from_pod(pod, own, yields, now).map(|_| IgnoredReason::BlockedByBudget)
}

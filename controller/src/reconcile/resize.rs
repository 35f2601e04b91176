//! Resizes of running pods: their writes and the order of the writes, so that a crash between two writes loses nothing. The
//! original requests are in `kerf.sh/requested` before any request is lowered; before that the NodeClaim records that the
//! annotation counts on its node. The time of a restoration because of a shortage
//! is in `kerf.sh/requests-given-back` before requests are raised.

mod execute;
mod recommendation;

use std::sync::Arc;

use api::objects::{Container, Pod, Requested};
use api::quantity::{self, CPU, MEMORY};
use api::{NodeClaim, Quantity, annotation, reason};
use jiff::Timestamp;
use planner::{ContainerResize, Resize, ResizeReason, Size};
use serde_json::{Map, Value, json};

pub use execute::Resizer;
pub use recommendation::{Recommendation, Recommender, advice};

use crate::write::events::{Event, ObjectReference};
use crate::write::writer::{Operation, PodRef, Target};

/// Returns the operations that resize a pod of the NodeClaim's node; none if the pod is another one, is ending, or has other
/// requests than in the plan.
#[must_use]
pub fn steps(pod: &Arc<Pod>, claim: &NodeClaim, resize: &Resize, now: Timestamp) -> Vec<Operation> {
    let same = pod.metadata.uid.as_deref() == Some(&resize.uid) && !pod.is_terminating() && !pod.is_terminal();
    let known =
        |it: &ContainerResize| pod.spec.containers.iter().any(|own| own.name == it.name && size(own) == it.from);
    if !same || !resize.containers.iter().all(known) {
        return Vec::new();
    }
    let target = PodRef { namespace: pod.namespace().to_owned(), name: pod.name().to_owned(), uid: resize.uid.clone() };
    let mut steps = Vec::new();
    if resize.why == ResizeReason::MakesRoom && !claim.has_lowered_requests() {
        let claim = Target::Claim(claim.metadata.name.clone().unwrap_or_default());
        let annotations = json!({annotation::REQUESTS_LOWERED: annotation::TRUE});
        steps.push(Operation::Patch(claim, json!({"metadata": {"annotations": annotations}})));
    }
    let annotations = annotations(pod, claim, resize, now);
    if !annotations.is_empty() {
        let metadata =
            json!({"uid": resize.uid, "resourceVersion": pod.metadata.resource_version, "annotations": annotations});
        steps.push(Operation::PatchPod(target.clone(), json!({"metadata": metadata})));
    }
    if resize.containers.is_empty() {
        return steps;
    }
    let containers: Vec<Value> = resize.containers.iter().map(container).collect();
    let body = json!({"metadata": {"uid": resize.uid}, "spec": {"containers": containers}});
    steps.push(Operation::ResizePod(target, body));
    let reason = match resize.why {
        ResizeReason::MakesRoom => reason::REQUESTS_LOWERED,
        ResizeReason::Pressure | ResizeReason::Grown | ResizeReason::Unpacked | ResizeReason::NoRoom => {
            reason::REQUESTS_RAISED
        }
    };
    let message = format!("{}: {}", changes(resize), resize.why);
    steps.push(Operation::Note(Event::normal(ObjectReference::to::<Pod>(pod.as_ref()), reason, message)));
    steps
}

fn size(container: &Container) -> Size {
    let amount = |name: &str| container.resources.requests.get(name).and_then(|it| it.amount(name).ok()).unwrap_or(0);
    Size { cpu: amount(CPU), memory: amount(MEMORY) }
}

/// Returns the annotations that the pod needs and does not have yet.
fn annotations(pod: &Pod, claim: &NodeClaim, resize: &Resize, now: Timestamp) -> Map<String, Value> {
    let mut all = Map::new();
    if resize.why == ResizeReason::MakesRoom {
        let written = claim.has_lowered_requests().then(|| pod.requested().ok().flatten());
        let before = written.flatten().unwrap_or_default();
        let requested = remembered(&before, resize);
        if requested != before {
            all.insert(annotation::REQUESTED.to_owned(), requested.text().into());
        }
    }
    if resize.marks {
        let before = pod.annotation(annotation::GIVEN_BACK).map(|text| format!("{text},")).unwrap_or_default();
        all.insert(annotation::GIVEN_BACK.to_owned(), format!("{before}{now}").into());
    }
    all
}

fn remembered(before: &Requested, resize: &Resize) -> Requested {
    let mut requested = before.clone();
    for it in &resize.containers {
        let own = requested.0.entry(it.name.clone()).or_default();
        for (name, amount) in [(CPU, it.requested.cpu), (MEMORY, it.requested.memory)].into_iter().filter(|it| it.1 > 0)
        {
            own.insert(name.to_owned(), Quantity(quantity::text(name, amount)));
        }
    }
    requested
}

fn container(it: &ContainerResize) -> Value {
    let requests: Map<String, Value> =
        changed(it).map(|(name, _, to)| (name.to_owned(), quantity::text(name, to).into())).collect();
    json!({"name": it.name, "resources": {"requests": requests}})
}

/// Returns the resources whose requests change, with the old and the new amount.
fn changed(it: &ContainerResize) -> impl Iterator<Item = (&'static str, i64, i64)> {
    let both = [(CPU, it.from.cpu, it.to.cpu), (MEMORY, it.from.memory, it.to.memory)];
    both.into_iter().filter(|(_, from, to)| from != to)
}

/// Returns a text such as `main requests cpu 750m instead of 1500m`.
fn changes(resize: &Resize) -> String {
    let text = |it: &ContainerResize| {
        let one =
            |(name, from, to)| format!("{name} {} instead of {}", quantity::text(name, to), quantity::text(name, from));
        format!("{} requests {}", it.name, changed(it).map(one).collect::<Vec<_>>().join(", "))
    };
    resize.containers.iter().map(text).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests;

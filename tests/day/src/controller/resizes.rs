//! In-place resizes of pods in the order of the shipped controller: first the annotation with the original requests, then the
//! requests. A crash between the two loses nothing.

use std::collections::BTreeMap;

use api::objects::Requested;
use api::quantity::{self, CPU, MEMORY};
use api::{Quantity, annotation};
use planner::{ContainerResize, Resize, ResizeReason};

use super::{Controller, Died, Hands};
use crate::clock::{Moment, timestamp};
use crate::world::Running;

/// Most resizes per plan; the next plan continues.
const MOST_AT_ONCE: usize = 50;

impl Controller {
    /// Carries out the resizes of a plan.
    pub(super) fn resize(&mut self, hands: &mut Hands<'_>, resizes: &[Resize]) -> Result<(), Died> {
        for resize in resizes.iter().take(MOST_AT_ONCE) {
            self.resize_pod(hands, resize)?;
        }
        Ok(())
    }

    /// Resizes one pod. Does nothing if the pod is terminating or deleted, or if its requests differ from the plan's.
    fn resize_pod(&mut self, hands: &mut Hands<'_>, resize: &Resize) -> Result<(), Died> {
        let name = resize.pod.rsplit('/').next().unwrap_or_default();
        let change = resize.containers.first();
        let Some(pod) = hands.world.pods.get(name) else { return Ok(()) };
        if pod.ending.is_some() || change.is_some_and(|change| pod.asks != change.from) {
            return Ok(());
        }
        let notes = notes(pod, resize, hands.world.now);
        if !notes.is_empty() {
            self.step()?;
            hands.world.edit_pod(name, |pod| pod.metadata.annotations.get_or_insert_default().extend(notes));
        }
        *hands.record.resizes.entry(resize.why).or_default() += 1;
        let Some(change) = change else { return Ok(()) };
        self.step()?;
        hands.world.resize(name, change.to);
        Ok(())
    }
}

/// Returns the annotations that the pod must keep.
fn notes(pod: &Running, resize: &Resize, now: Moment) -> BTreeMap<String, String> {
    let mut notes = BTreeMap::new();
    if let Some(change) = resize.containers.first().filter(|_| resize.why == ResizeReason::MakesRoom) {
        notes.insert(annotation::REQUESTED.to_owned(), requested(change).text());
    }
    if resize.marks {
        let before = pod.object.annotation(annotation::GIVEN_BACK).map(|text| format!("{text},")).unwrap_or_default();
        notes.insert(annotation::GIVEN_BACK.to_owned(), format!("{before}{}", timestamp(now)));
    }
    notes
}

fn requested(change: &ContainerResize) -> Requested {
    let amounts = [(CPU, change.requested.cpu), (MEMORY, change.requested.memory)];
    let list = amounts.map(|(name, amount)| (name.to_owned(), Quantity(quantity::text(name, amount))));
    Requested(BTreeMap::from([(change.name.clone(), list.into_iter().collect())]))
}

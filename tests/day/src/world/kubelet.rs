//! In-place resizes: the API server stores the requests at once. kubelet applies them a moment later if the node has capacity,
//! and defers them otherwise. Some nodes apply no resize at all.

use planner::Size;

use super::{World, objects};
use crate::clock::{Moment, SECOND};

/// Time from new requests to kubelet's response, and between two attempts for deferred requests.
const ANSWERS: Moment = 2 * SECOND;
/// One of so many nodes cannot resize running pods, as with the static CPU policy.
const RIGID: usize = 20;

impl World {
    /// Stores new requests of a pod. Terminating pods do not change.
    pub fn resize(&mut self, name: &str, asks: Size) {
        let Some(pod) = self.pods.get_mut(name).filter(|pod| pod.ending.is_none()) else { return };
        pod.asks = asks;
        objects::set_amounts(&mut pod.object, asks, pod.kept);
        self.resizes.insert((self.now + ANSWERS, name.to_owned()));
    }

    /// Applies or defers the requests that have changed.
    pub(super) fn grant(&mut self) {
        while let Some((at, name)) = self.resizes.first().cloned().filter(|(at, _)| *at <= self.now) {
            self.resizes.remove(&(at, name.clone()));
            let hindrance = self.hindrance(&name);
            let Some(pod) = self.pods.get_mut(&name) else { continue };
            objects::set_pending(&mut pod.object, hindrance);
            match hindrance {
                None => {
                    pod.kept = pod.asks;
                    objects::set_amounts(&mut pod.object, pod.asks, pod.kept);
                    self.stirred = true;
                }
                Some(DEFERRED) => _ = self.resizes.insert((self.now + ANSWERS, name)),
                Some(_) => {}
            }
        }
    }

    /// Returns why a pod does not get its current requests.
    fn hindrance(&self, name: &str) -> Option<&'static str> {
        let pod = self.pods.get(name)?;
        let instance = self.market.instances.get(pod.node.as_deref()?)?;
        if pod.asks == pod.kept {
            return None;
        }
        if instance.number.is_multiple_of(RIGID) {
            return Some(INFEASIBLE);
        }
        let others = self.pods_on(&instance.id).filter(|(other, _)| *other != name);
        let all = others.fold(pod.asks, |all, (_, other)| all.plus(other.kept));
        (!all.is_within(Size::from_resources(&self.market.kind(instance).allocatable))).then_some(DEFERRED)
    }
}

const DEFERRED: &str = "Deferred";
const INFEASIBLE: &str = "Infeasible";

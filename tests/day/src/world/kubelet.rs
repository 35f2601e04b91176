//! Requests that change while pods run: the API server writes them down at once, kubelet carries them out a moment later where there is
//! room, puts them off where there is none, and on some machines grants nothing at all.

use planner::Size;

use super::{World, objects};
use crate::clock::{Moment, SECOND};

/// From new requests to kubelet's answer, and from one look at what was put off to the next.
const ANSWERS: Moment = 2 * SECOND;
/// The kubelet of one of so many machines cannot change what runs, as with a static CPU policy.
const RIGID: usize = 20;

impl World {
    /// Writes down what a pod requests from now on. Who is about to end is left as it is.
    pub fn resize(&mut self, name: &str, asks: Size) {
        let Some(pod) = self.pods.get_mut(name).filter(|pod| pod.ending.is_none()) else { return };
        pod.asks = asks;
        objects::set_amounts(&mut pod.object, asks, pod.kept);
        self.resizes.insert((self.now + ANSWERS, name.to_owned()));
    }

    /// What kubelet does about requests that have changed.
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

    /// Why a pod does not get what it requests now.
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

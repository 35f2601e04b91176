//! How machines come up and go: EC2 starts them, kubelet registers and gets ready, EC2 takes them away.

use std::collections::BTreeSet;

use api::condition;
use api::objects::NodeCondition;

use crate::clock::{Moment, SECOND, timestamp};
use crate::dice::Dice;
use crate::world::{World, node};

/// From the purchase to the Node, in milliseconds.
const REGISTERS: (i64, i64) = (18 * SECOND, 32 * SECOND);
/// From the Node to kubelet's Ready, in milliseconds.
const READY: i64 = 8 * SECOND;
/// From the request for a machine's end to its end, in milliseconds.
pub const SHUTS_DOWN: i64 = 20 * SECOND;

/// What happens to a machine by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Kubelet makes the Node.
    Register,
    /// Kubelet says that the Node is ready.
    Ready,
    /// It is gone.
    Gone,
}

/// What is due to happen to machines.
#[derive(Debug)]
pub struct Machines {
    due: BTreeSet<(Moment, String, Stage)>,
    dice: Dice,
    /// Of a hundred machines so many never come up.
    duds: u32,
}

impl Machines {
    /// No machine yet.
    #[must_use]
    pub fn new(seed: u64, duds: u32) -> Self {
        Self { due: BTreeSet::new(), dice: Dice::new(seed), duds }
    }

    /// Machines that are bought from now on come up.
    pub fn only_good(&mut self) {
        self.duds = 0;
    }

    /// A machine was bought.
    pub fn bought(&mut self, id: &str, now: Moment) {
        if !self.dice.chance(self.duds) {
            self.due.insert((now + self.dice.between(REGISTERS.0, REGISTERS.1), id.to_owned(), Stage::Register));
        }
    }

    /// A machine is to be gone by then.
    pub fn ends(&mut self, id: &str, at: Moment) {
        self.due.insert((at, id.to_owned(), Stage::Gone));
    }

    /// When something happens next.
    #[must_use]
    pub fn next(&self) -> Option<Moment> {
        self.due.first().map(|(at, _, _)| *at)
    }

    /// Lets happen what is due. Returns the machines that are gone now.
    ///
    /// # Errors
    /// When a Node cannot be made.
    pub fn happen(&mut self, world: &mut World) -> anyhow::Result<Vec<String>> {
        let mut gone = Vec::new();
        while let Some((at, id, stage)) = self.due.first().cloned().filter(|(at, _, _)| *at <= world.now) {
            self.due.remove(&(at, id.clone(), stage));
            let Some(instance) = world.market.instances.get(&id).cloned() else { continue };
            match stage {
                Stage::Register => {
                    let made = node(&instance, world.market.kind(&instance), at)?;
                    world.nodes.insert(id.clone(), made);
                    self.due.insert((at + READY, id, Stage::Ready));
                }
                Stage::Ready => world.edit_node(&id, |node| node.status.conditions = vec![ready(at)]),
                Stage::Gone => {
                    world.market.instances.remove(&id);
                    world.lose_node(&id);
                    gone.push(id);
                }
            }
        }
        Ok(gone)
    }
}

fn ready(at: Moment) -> NodeCondition {
    NodeCondition {
        type_: condition::READY.to_owned(),
        status: condition::TRUE.to_owned(),
        last_transition_time: Some(api::status::Time(timestamp(at))),
        ..NodeCondition::default()
    }
}

//! Life of instances: EC2 starts them, kubelet registers and becomes ready, EC2 terminates them.

use std::collections::BTreeSet;

use api::condition;
use api::objects::NodeCondition;

use crate::clock::{Moment, SECOND, timestamp};
use crate::dice::Dice;
use crate::world::{World, node};

/// Time from the launch to the Node, in milliseconds.
const REGISTERS: (i64, i64) = (18 * SECOND, 32 * SECOND);
/// Time from the Node to kubelet's Ready, in milliseconds.
const READY: i64 = 8 * SECOND;
/// Time from the request to terminate an instance to its end, in milliseconds.
pub const SHUTS_DOWN: i64 = 20 * SECOND;

/// Event in the life of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Kubelet creates the Node.
    Register,
    /// Kubelet reports the Node as ready.
    Ready,
    /// The instance is terminated.
    Gone,
}

/// Scheduled events of instances.
#[derive(Debug)]
pub struct Machines {
    due: BTreeSet<(Moment, String, Stage)>,
    dice: Dice,
    /// Percentage of instances that never register.
    duds: u32,
}

impl Machines {
    /// Creates the schedule without any instance.
    #[must_use]
    pub fn new(seed: u64, duds: u32) -> Self {
        Self { due: BTreeSet::new(), dice: Dice::new(seed), duds }
    }

    /// Lets all instances that are launched from now on register.
    pub fn only_good(&mut self) {
        self.duds = 0;
    }

    /// Schedules the registration of a launched instance.
    pub fn bought(&mut self, id: &str, now: Moment) {
        if !self.dice.chance(self.duds) {
            self.due.insert((now + self.dice.between(REGISTERS.0, REGISTERS.1), id.to_owned(), Stage::Register));
        }
    }

    /// Schedules the end of an instance.
    pub fn ends(&mut self, id: &str, at: Moment) {
        self.due.insert((at, id.to_owned(), Stage::Gone));
    }

    /// Returns the moment of the next event.
    #[must_use]
    pub fn next(&self) -> Option<Moment> {
        self.due.first().map(|(at, _, _)| *at)
    }

    /// Processes the events that are due. Returns the ids of the instances that ended.
    ///
    /// # Errors
    /// Returns an error if a Node cannot be generated.
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

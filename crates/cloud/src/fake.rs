//! A cloud that behaves like EC2 where Kerf can tell the difference: pools run dry, tokens are remembered, instances
//! live and die with the clock, answers get lost. Fresh for each test, deterministic by seed, no globals.
//!
//! Time passes only when someone looks: every call first lets happen what is due. Whoever must react without calling
//! (a machine room) runs [`FakeCloud::tick`] at [`FakeCloud::next_change`] and waits on [`FakeCloud::changes`].

mod builder;
mod clock;
mod controls;
mod events;
mod faults;
mod find;
mod fleet;
mod places;
mod profiles;
mod queue;
mod serve;
mod world;

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use crate::calls::{Call, FleetRequest, SpotPrice, Subnet};
use crate::error::CloudError;

pub use builder::{Builder, IMAGE_VERSION, own_image};
pub use clock::{Clock, ManualClock, SystemClock};
pub use faults::{Fault, Input, Logged};
pub use find::{ACCOUNT, AMAZON};
pub use world::{CapacityOutage, FakeInstance, Pool, Timing};

use events::FakeEvent;
use faults::no_answer;
use world::World;

/// The fake; clones share one world.
#[derive(Clone)]
pub struct FakeCloud {
    world: Arc<Mutex<World>>,
    clock: Arc<dyn Clock>,
    revision: watch::Sender<u64>,
    /// Counts what is sent to queues, for those who wait for a message.
    sent: watch::Sender<u64>,
}

impl FakeCloud {
    /// Describes a cloud in `region` (us-west-2, us-east-1 or eu-west-2).
    #[must_use]
    pub fn builder(region: &str) -> Builder {
        Builder::new(region)
    }

    fn new(world: World, clock: Arc<dyn Clock>) -> Self {
        Self { world: Arc::new(Mutex::new(world)), clock, revision: watch::Sender::new(0), sent: watch::Sender::new(0) }
    }

    /// Counts every change of an instance; wait on it, then read [`Self::machines`].
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// Lets happen what is due.
    pub fn tick(&self) {
        drop(self.at_present());
    }

    /// The next moment at which something happens by itself.
    #[must_use]
    pub fn next_change(&self) -> Option<Timestamp> {
        self.at_present().0.next_change()
    }

    /// The fake's present.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The region's name.
    #[must_use]
    pub fn region(&self) -> String {
        self.at_present().0.region.clone()
    }

    /// Every instance that EC2 remembers, in the order of the ids, the invisible and the terminated ones included.
    #[must_use]
    pub fn machines(&self) -> Vec<FakeInstance> {
        self.at_present().0.machines.values().cloned().collect()
    }

    /// One instance, whatever its state.
    #[must_use]
    pub fn machine(&self, id: &str) -> Option<FakeInstance> {
        self.at_present().0.machines.get(id).cloned()
    }

    /// Names of the launch templates that exist.
    #[must_use]
    pub fn template_names(&self) -> Vec<String> {
        self.at_present().0.templates.keys().cloned().collect()
    }

    /// A subnet as it is now.
    #[must_use]
    pub fn subnet(&self, id: &str) -> Option<Subnet> {
        self.at_present().0.subnets.iter().find(|subnet| subnet.id == id).cloned()
    }

    /// Publishes a spot interruption: notice now, end at `deadline`. False when there is no such running instance.
    pub fn interrupt(&self, id: &str, deadline: Timestamp) -> bool {
        self.notice(id, FakeEvent::SpotInterruption, |machine, _| machine.interruption = Some(deadline))
    }

    /// Publishes a rebalance recommendation. False when there is no such running instance.
    pub fn recommend_rebalance(&self, id: &str) -> bool {
        self.notice(id, FakeEvent::Rebalance, |machine, now| machine.rebalance = Some(now))
    }

    /// Ends an instance as a person or the hardware would, without any call of ours. False when it has ended before.
    pub fn kill(&self, id: &str) -> bool {
        let (mut world, now) = self.at_present();
        let ended = world.shut_down(id, now);
        drop(world);
        self.announce(ended);
        ended
    }

    /// Gives a pool a finite number of instances; `None` makes it unbounded again.
    pub fn set_stock(&self, pool: Pool, left: Option<u32>) {
        let (mut world, _) = self.at_present();
        match left {
            Some(left) => world.stock.insert(pool, left),
            None => world.stock.remove(&pool),
        };
    }

    /// Gives the account so many vCPUs to run at once that are bought as `capacity_type`; `None` makes that unbounded again.
    pub fn set_quota(&self, capacity_type: &str, vcpus: Option<u32>) {
        let (mut world, _) = self.at_present();
        match vcpus {
            Some(vcpus) => world.quotas.insert(capacity_type.to_owned(), vcpus),
            None => world.quotas.remove(capacity_type),
        };
    }

    /// Makes pools dry until [`Self::end_droughts`].
    pub fn dry_up(&self, drought: CapacityOutage) {
        self.at_present().0.droughts.push(drought);
    }

    /// Ends every drought; finite stocks stay.
    pub fn end_droughts(&self) {
        self.at_present().0.droughts.clear();
    }

    /// Sets how many addresses a subnet has left.
    pub fn set_free_addresses(&self, subnet_id: &str, free: u32) {
        let (mut world, _) = self.at_present();
        if let Some(subnet) = world.subnets.iter_mut().find(|subnet| subnet.id == subnet_id) {
            subnet.free_addresses = free;
        }
    }

    /// Sets one spot price, millionths of a dollar per hour.
    pub fn set_spot_price(&self, instance_type: &str, zone: &str, micro_dollars: i64) {
        let (mut world, _) = self.at_present();
        world.spot_prices.retain(|price| price.instance_type != instance_type || price.zone != zone);
        world.spot_prices.push(SpotPrice {
            instance_type: instance_type.to_owned(),
            zone: zone.to_owned(),
            micro_dollars,
        });
    }

    /// Removes a launch template behind Kerf's back.
    pub fn remove_template(&self, name: &str) {
        self.at_present().0.templates.remove(name);
    }

    /// Orders a fault for the `nth` call of this action from now on; 1 is the next.
    pub fn fail(&self, call: &str, nth: u64, fault: Fault) {
        self.at_present().0.script.order(call, nth, fault);
    }

    /// How many faults still wait for their call.
    #[must_use]
    pub fn faults_waiting(&self) -> usize {
        self.at_present().0.script.waiting()
    }

    /// Every call so far.
    #[must_use]
    pub fn log(&self) -> Vec<Logged> {
        self.at_present().0.log.clone()
    }

    /// How many calls of one action there were.
    #[must_use]
    pub fn count(&self, call: &str) -> usize {
        self.at_present().0.log.iter().filter(|logged| logged.call == call).count()
    }

    /// The inputs of every CreateFleet so far that was meant.
    #[must_use]
    pub fn fleets(&self) -> Vec<FleetRequest> {
        let fleet = |logged: &Logged| match &logged.input {
            Input::Fleet(request) if logged.call == "CreateFleet" => Some((**request).clone()),
            _ => None,
        };
        self.at_present().0.log.iter().filter_map(fleet).collect()
    }

    /// The world as of now.
    fn at_present(&self) -> (MutexGuard<'_, World>, Timestamp) {
        let now = self.clock.now();
        let mut world = self.world.lock();
        let changed = world.advance(now);
        self.announce(changed);
        (world, now)
    }

    fn announce(&self, changed: bool) {
        if changed {
            self.revision.send_modify(|revision| *revision += 1);
            self.sent.send_modify(|count| *count += 1);
        }
    }

    fn notice(&self, id: &str, told: FakeEvent<'_>, publish: impl FnOnce(&mut FakeInstance, Timestamp)) -> bool {
        let (mut world, now) = self.at_present();
        let machine = world.machines.get_mut(id).filter(|machine| !machine.instance.is_ending());
        let found = machine.map(|machine| publish(machine, now)).is_some();
        if found {
            world.tell(id, told, now);
        }
        drop(world);
        self.announce(found);
        found
    }

    /// A call that happens when it is awaited, as a real one would.
    fn call<'a, T: Send + 'a>(
        &'a self,
        call: &'static str,
        input: Input,
        serve: impl FnOnce(&mut World, Timestamp) -> Result<T, CloudError> + Send + 'a,
    ) -> Call<'a, T> {
        Box::pin(async move { self.serve(call, input, serve) })
    }

    /// One call: logged, then served unless a fault is due. What `serve` did stays done when the answer is lost.
    fn serve<T>(
        &self,
        call: &'static str,
        input: Input,
        serve: impl FnOnce(&mut World, Timestamp) -> Result<T, CloudError>,
    ) -> Result<T, CloudError> {
        let (mut world, now) = self.at_present();
        let fault = world.script.strike(call);
        world.log.push(Logged { call, at: now, input, fault: fault.clone() });
        let before = world.changes;
        let answer = match fault {
            None => serve(&mut world, now),
            Some(Fault::Lost) => serve(&mut world, now).and(Err(no_answer(call))),
            Some(Fault::Dropped) => Err(no_answer(call)),
            Some(Fault::Error { kind, code, message }) => Err(CloudError { call, kind, code, message }),
        };
        let changed = before != world.changes;
        drop(world);
        self.announce(changed);
        answer
    }
}

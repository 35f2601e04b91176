//! An emulation of EC2 in memory, with the behaviour that Kerf depends on.
//!
//! Pools run out of capacity, client tokens are stored, instances change state with the clock, and answers get lost. Each test
//! creates its own fake. The fake is deterministic for a seed and has no global state.
//!
//! Time passes only in calls: every call first applies the changes that are due. A test that must react without a call (a node
//! simulator) runs [`FakeCloud::tick`] at [`FakeCloud::next_change`] and waits on [`FakeCloud::changes`].

mod builder;
mod clock;
mod controls;
mod faults;
mod filter;
mod fleet;
mod placement;
mod profiles;
mod queue;
mod resources;
mod serve;
mod state;

use std::sync::Arc;

use daemon::changes::{ChangeCounter, Changes};
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};

use crate::Settings;
use crate::calls::{Call, CloudError, FleetRequest, SpotPrice, Subnet};

pub use builder::{Builder, IMAGE_VERSION, own_image};
pub use clock::{Clock, ManualClock, SystemClock};
pub use faults::{Fault, Input, Logged};
pub use filter::{ACCOUNT, AMAZON};
pub use resources::Account;
pub use serve::{KARPENTER_POLICIES, karpenter_policies};
pub use state::{CapacityOutage, FakeInstance, Pool, Timing};

use faults::no_answer;
use queue::FakeEvent;
use state::FakeState;

/// The fake; clones share their state.
#[derive(Clone)]
pub struct FakeCloud {
    state: Arc<Mutex<FakeState>>,
    clock: Arc<dyn Clock>,
    revision: ChangeCounter,
    /// Counter of messages sent to queues, for tasks that wait for a message.
    sent: ChangeCounter,
}

/// Returns the settings of a cluster in us-west-2, for tests.
#[must_use]
pub fn settings() -> Settings {
    Settings {
        cluster_name: "kerf".to_owned(),
        cluster_endpoint: "https://10.0.0.1".to_owned(),
        cluster_ca: "Q0E=".to_owned(),
        cluster_cidr: "10.100.0.0/16".to_owned(),
        kubernetes: "1.36".to_owned(),
        region: "us-west-2".to_owned(),
        ..Settings::default()
    }
}

impl FakeCloud {
    /// Starts the description of a cloud in `region` (us-west-2, us-east-1 or eu-west-2).
    #[must_use]
    pub fn builder(region: &str) -> Builder {
        Builder::new(region)
    }

    fn new(state: FakeState, clock: Arc<dyn Clock>) -> Self {
        let (revision, sent) = (ChangeCounter::default(), ChangeCounter::default());
        Self { state: Arc::new(Mutex::new(state)), clock, revision, sent }
    }

    /// Returns the calls of other clients of the account.
    #[must_use]
    pub fn account(&self) -> Account<'_> {
        Account::new(self)
    }

    /// Subscribes to a counter of instance changes. After a change, read [`Self::machines`].
    #[must_use]
    pub fn changes(&self) -> Changes {
        self.revision.subscribe()
    }

    /// Applies the changes that are due.
    pub fn tick(&self) {
        drop(self.at_present());
    }

    /// Returns the next moment at which a change is due.
    #[must_use]
    pub fn next_change(&self) -> Option<Timestamp> {
        self.at_present().0.next_change()
    }

    /// Returns the current time of the fake.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the region's name.
    #[must_use]
    pub fn region(&self) -> String {
        self.at_present().0.region.clone()
    }

    /// Returns all instances in the order of their ids, including the invisible and terminated ones.
    #[must_use]
    pub fn machines(&self) -> Vec<FakeInstance> {
        self.at_present().0.machines.values().cloned().collect()
    }

    /// Returns one instance in any state.
    #[must_use]
    pub fn machine(&self, id: &str) -> Option<FakeInstance> {
        self.at_present().0.machines.get(id).cloned()
    }

    /// Returns the names of the existing launch templates.
    #[must_use]
    pub fn template_names(&self) -> Vec<String> {
        self.at_present().0.templates.keys().cloned().collect()
    }

    /// Returns the current state of a subnet.
    #[must_use]
    pub fn subnet(&self, id: &str) -> Option<Subnet> {
        self.at_present().0.subnets.iter().find(|subnet| subnet.id == id).cloned()
    }

    /// Publishes a spot interruption: the notice now, the termination at `deadline`. Returns false if no such instance runs.
    pub fn interrupt(&self, id: &str, deadline: Timestamp) -> bool {
        self.notice(id, FakeEvent::SpotInterruption, |machine, _| machine.interruption = Some(deadline))
    }

    /// Publishes a rebalance recommendation. Returns false if no such instance runs.
    pub fn recommend_rebalance(&self, id: &str) -> bool {
        self.notice(id, FakeEvent::Rebalance, |machine, now| machine.rebalance = Some(now))
    }

    /// Terminates an instance without an API call of Kerf, as an operator or a hardware failure does. Returns false if it has
    /// already ended.
    pub fn kill(&self, id: &str) -> bool {
        let (mut state, now) = self.at_present();
        let ended = state.shut_down(id, now);
        drop(state);
        self.announce(ended);
        ended
    }

    /// Limits the capacity of a pool to a number of instances; `None` removes the limit.
    pub fn set_stock(&self, pool: Pool, left: Option<u32>) {
        let (mut state, _) = self.at_present();
        match left {
            Some(left) => state.stock.insert(pool, left),
            None => state.stock.remove(&pool),
        };
    }

    /// Limits the vCPUs that the account may run at once with `capacity_type`; `None` removes the limit.
    pub fn set_quota(&self, capacity_type: &str, vcpus: Option<u32>) {
        let (mut state, _) = self.at_present();
        match vcpus {
            Some(vcpus) => state.quotas.insert(capacity_type.to_owned(), vcpus),
            None => state.quotas.remove(capacity_type),
        };
    }

    /// Removes the capacity of pools until [`Self::end_outages`].
    pub fn start_outage(&self, outage: CapacityOutage) {
        self.at_present().0.outages.push(outage);
    }

    /// Replaces the capacity outages; limits of pools remain.
    pub fn set_outages(&self, outages: Vec<CapacityOutage>) {
        self.at_present().0.outages = outages;
    }

    /// Ends all capacity outages; limits of pools remain.
    pub fn end_outages(&self) {
        self.set_outages(Vec::new());
    }

    /// Sets the number of free addresses of a subnet.
    pub fn set_free_addresses(&self, subnet_id: &str, free: u32) {
        let (mut state, _) = self.at_present();
        if let Some(subnet) = state.subnets.iter_mut().find(|subnet| subnet.id == subnet_id) {
            subnet.free_addresses = free;
        }
    }

    /// Sets one spot price, in millionths of a dollar per hour.
    pub fn set_spot_price(&self, instance_type: &str, zone: &str, micro_dollars: i64) {
        let (mut state, _) = self.at_present();
        state.spot_prices.retain(|price| price.instance_type != instance_type || price.zone != zone);
        state.spot_prices.push(SpotPrice {
            instance_type: instance_type.to_owned(),
            zone: zone.to_owned(),
            micro_dollars,
        });
    }

    /// Deletes a launch template without an API call of Kerf.
    pub fn remove_template(&self, name: &str) {
        self.at_present().0.templates.remove(name);
    }

    /// Schedules a fault for the `nth` next call of this action; 1 is the next call.
    pub fn fail(&self, call: &str, nth: u64, fault: Fault) {
        self.at_present().0.script.order(call, nth, fault);
    }

    /// Returns the number of scheduled faults that have not occurred yet.
    #[must_use]
    pub fn faults_waiting(&self) -> usize {
        self.at_present().0.script.waiting()
    }

    /// Returns all calls so far.
    #[must_use]
    pub fn log(&self) -> Vec<Logged> {
        self.at_present().0.log.clone()
    }

    /// Returns the number of calls of one action so far.
    #[must_use]
    pub fn count(&self, call: &str) -> usize {
        self.at_present().0.log.iter().filter(|logged| logged.call == call).count()
    }

    /// Returns the inputs of all CreateFleet calls so far, without dry runs.
    #[must_use]
    pub fn fleets(&self) -> Vec<FleetRequest> {
        let fleet = |logged: &Logged| match &logged.input {
            Input::Fleet(request) if logged.call == "CreateFleet" => Some((**request).clone()),
            _ => None,
        };
        self.at_present().0.log.iter().filter_map(fleet).collect()
    }

    /// Applies the changes that are due and returns the locked state with the current time.
    fn at_present(&self) -> (MutexGuard<'_, FakeState>, Timestamp) {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let changed = state.advance(now);
        self.announce(changed);
        (state, now)
    }

    fn announce(&self, changed: bool) {
        if changed {
            self.revision.add();
            self.sent.add();
        }
    }

    fn notice(&self, id: &str, event: FakeEvent<'_>, publish: impl FnOnce(&mut FakeInstance, Timestamp)) -> bool {
        let (mut state, now) = self.at_present();
        let machine = state.machines.get_mut(id).filter(|machine| !machine.instance.is_ending());
        let found = machine.map(|machine| publish(machine, now)).is_some();
        if found {
            state.send_event(id, event, now);
        }
        drop(state);
        self.announce(found);
        found
    }

    /// Returns a call that takes effect when it is awaited, as in the real client.
    fn call<'a, T: Send + 'a>(
        &'a self,
        call: &'static str,
        input: Input,
        serve: impl FnOnce(&mut FakeState, Timestamp) -> Result<T, CloudError> + Send + 'a,
    ) -> Call<'a, T> {
        Box::pin(async move { self.serve(call, input, serve) })
    }

    /// Logs one call, then serves it unless a fault is due. The effect of `serve` remains if the answer is lost.
    fn serve<T>(
        &self,
        call: &'static str,
        input: Input,
        serve: impl FnOnce(&mut FakeState, Timestamp) -> Result<T, CloudError>,
    ) -> Result<T, CloudError> {
        let (mut state, now) = self.at_present();
        let fault = state.script.strike(call).or_else(|| serve::refusal(&state, call, &input));
        if !state.for_trials {
            state.log.push(Logged { call, at: now, input, fault: fault.clone() });
        }
        let before = state.changes;
        let answer = match fault {
            None => serve(&mut state, now),
            Some(Fault::Lost) => serve(&mut state, now).and(Err(no_answer(call))),
            Some(Fault::Dropped) => Err(no_answer(call)),
            Some(Fault::Error { kind, code, message }) => Err(CloudError { call, kind, code, message }),
        };
        let changed = before != state.changes;
        drop(state);
        self.announce(changed);
        answer
    }
}

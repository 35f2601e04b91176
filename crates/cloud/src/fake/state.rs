//! State of the fake: its resources and their changes over time. Every step receives `now`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};

use jiff::{SignedDuration, Timestamp};

use super::faults::{Logged, Script};
use super::filter;
use super::profiles::Profiles;
use super::queue::{FakeEvent, Queues, envelope};
use crate::calls::{
    CapacityReservation, ClusterDescription, FleetAnswer, FleetRequest, Image, Instance, InstanceStatus,
    InstanceTypeInfo, LaunchTemplate, LaunchTemplateRequest, OnDemandPrice, PlacementGroup, SecurityGroup, SpotPrice,
    Subnet, Tags, TypeOffering, ZonalShift,
};
use crate::policy::evaluation::PolicySet;

/// Time for which EC2 still describes a terminated instance, and at least remembers a client token.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(1);

/// A capacity pool: one instance type with one capacity type in one zone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pool {
    /// Capacity type: `spot` or `on-demand`.
    pub capacity_type: String,
    /// Instance type.
    pub instance_type: String,
    /// Zone name.
    pub zone: String,
}

impl Pool {
    /// Creates the pool of a capacity type, an instance type and a zone.
    #[must_use]
    pub fn new(capacity_type: &str, instance_type: &str, zone: &str) -> Self {
        Self { capacity_type: capacity_type.to_owned(), instance_type: instance_type.to_owned(), zone: zone.to_owned() }
    }
}

/// A capacity outage of all matching pools; an absent field matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapacityOutage {
    /// Capacity type: `spot` or `on-demand`.
    pub capacity_type: Option<String>,
    /// Instance type.
    pub instance_type: Option<String>,
    /// Zone name.
    pub zone: Option<String>,
}

impl CapacityOutage {
    fn covers(&self, pool: &Pool) -> bool {
        let same = |wanted: &Option<String>, value: &String| wanted.as_ref().is_none_or(|wanted| wanted == value);
        same(&self.capacity_type, &pool.capacity_type)
            && same(&self.instance_type, &pool.instance_type)
            && same(&self.zone, &pool.zone)
    }
}

/// Delays of the fake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Time that an instance is `pending`.
    pub pending: SignedDuration,
    /// Time that an instance is `shutting-down`.
    pub shutting_down: SignedDuration,
    /// Time that DescribeInstances omits a new instance.
    pub invisible: SignedDuration,
    /// Time that ReceiveMessage waits for the first message, in real time.
    pub long_poll: SignedDuration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            pending: SignedDuration::from_millis(500),
            shutting_down: SignedDuration::from_millis(500),
            invisible: SignedDuration::ZERO,
            long_poll: SignedDuration::from_secs(20),
        }
    }
}

/// An instance with its full state, including the parts that DescribeInstances does not return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeInstance {
    /// Instance as EC2 describes it.
    pub instance: Instance,
    /// Architecture: `x86_64` or `arm64`.
    pub architecture: String,
    /// Launch template at the time of the launch: user data (base64), instance profile, IMDS options, volumes.
    pub template: LaunchTemplateRequest,
    /// Client token of the CreateFleet call that launched it.
    pub client_token: String,
    /// Termination time of a spot interruption, once the notice is published.
    pub interruption: Option<Timestamp>,
    /// Time of the rebalance recommendation.
    pub rebalance: Option<Timestamp>,
    /// Launch time.
    pub launched: Timestamp,
    /// Time at which its stop began.
    pub stopped: Option<Timestamp>,
    /// Time at which its shutdown began.
    pub ended: Option<Timestamp>,
}

impl FakeInstance {
    /// Returns the primary IPv6 address; `None` if the launch template requests none.
    #[must_use]
    pub fn ipv6(&self) -> Option<Ipv6Addr> {
        let interface = self.template.network_interfaces.first()?;
        let own: Ipv4Addr = self.instance.private_ip.parse().ok()?;
        let [_, network, net, host] = own.octets().map(u16::from);
        interface.ipv6_addresses.filter(|count| *count > 0)?;
        Some(Ipv6Addr::new(0x2600, 0x1f14, network, net, host, 0, 0, 1))
    }
}

/// All resources of the fake's region.
#[derive(Default)]
pub(super) struct FakeState {
    pub(super) region: String,
    /// Second octet of private addresses.
    pub(super) network: u8,
    pub(super) seed: u64,
    pub(super) timing: Timing,
    pub(super) types: BTreeMap<String, InstanceTypeInfo>,
    pub(super) offerings: Vec<TypeOffering>,
    pub(super) spot_prices: Vec<SpotPrice>,
    pub(super) on_demand: BTreeMap<String, i64>,
    pub(super) subnets: Vec<Subnet>,
    pub(super) security_groups: Vec<SecurityGroup>,
    pub(super) images: Vec<Image>,
    pub(super) parameters: BTreeMap<String, String>,
    pub(super) reservations: Vec<CapacityReservation>,
    /// Interruptible reservations by the reservation that lends them its capacity.
    pub(super) interruptible: BTreeMap<String, String>,
    pub(super) placement_groups: Vec<PlacementGroup>,
    /// Subnets whose instances are named by their ids.
    pub(super) resource_names: BTreeSet<String>,
    pub(super) profiles: Profiles,
    pub(super) clusters: BTreeMap<String, ClusterDescription>,
    /// Zonal shifts of the clusters that are registered with ARC, by ARN.
    pub(super) zonal_shifts: BTreeMap<String, Vec<ZonalShift>>,
    pub(super) queues: Queues,
    /// Queue that receives the events of instances.
    pub(super) event_queue: Option<String>,
    pub(super) statuses: BTreeMap<String, InstanceStatus>,
    pub(super) templates: BTreeMap<String, (LaunchTemplate, LaunchTemplateRequest)>,
    pub(super) machines: BTreeMap<String, FakeInstance>,
    /// Remaining instances of each limited pool.
    pub(super) stock: BTreeMap<Pool, u32>,
    /// Maximum vCPUs that may run at once, by capacity type.
    pub(super) quotas: BTreeMap<String, u32>,
    pub(super) outages: Vec<CapacityOutage>,
    /// True if the account lacks the service-linked role for EC2 Spot and the permission to create it.
    pub(super) without_spot_role: bool,
    /// Policies that authorize every call; `None` allows all calls.
    pub(super) policies: Option<PolicySet>,
    /// Fleets by client token, with the time of their launch.
    pub(super) fleets: BTreeMap<String, (FleetRequest, FleetAnswer, Timestamp)>,
    /// True if the account has whatever an EC2NodeClass selects, and forgets its calls.
    pub(super) for_trials: bool,
    pub(super) script: Script,
    pub(super) log: Vec<Logged>,
    /// Counter of all created resources, so that ids never repeat.
    pub(super) made: u64,
    /// Counter of launches and shutdowns, so that observers are notified of those that a call causes.
    pub(super) changes: u64,
}

impl FakeState {
    /// Returns a new id such as `i-0123456789abcdef0`, a function of the seed and the counter.
    pub(super) fn new_id(&mut self, prefix: &str) -> String {
        self.made += 1;
        format!("{prefix}-0{:016x}", scramble(self.seed ^ scramble(self.made)))
    }

    /// Applies all changes that are due by `now`. Returns true if the state changed.
    pub(super) fn advance(&mut self, now: Timestamp) -> bool {
        let mut changed = false;
        let due: Vec<(String, Timestamp)> =
            self.machines.values().filter_map(|machine| machine.taken_back(now)).collect();
        for (id, deadline) in due {
            changed |= self.shut_down(&id, deadline);
        }
        let mut moved = Vec::new();
        for machine in self.machines.values_mut() {
            if machine.advance(now, self.timing) {
                moved.push((machine.instance.id.clone(), machine.instance.state.clone()));
            }
        }
        changed |= !moved.is_empty();
        for (id, state) in moved {
            self.send_event(&id, FakeEvent::State(&state), now);
        }
        let before = self.machines.len();
        self.machines.retain(|_, machine| !machine.forgotten(now));
        if self.for_trials {
            self.fleets.retain(|_, (_, _, launched)| now.duration_since(*launched) < REMEMBERED);
        }
        changed || self.machines.len() != before
    }

    /// Returns the next moment at which a change is due.
    pub(super) fn next_change(&self) -> Option<Timestamp> {
        self.machines.values().filter_map(|machine| machine.next_change(self.timing)).min()
    }

    /// Begins the shutdown of an instance and returns its capacity to the pool, subnet and reservation. Returns false if the
    /// instance is already ending or does not exist.
    pub(super) fn shut_down(&mut self, id: &str, at: Timestamp) -> bool {
        let Some(machine) = self.machines.get_mut(id).filter(|machine| !machine.instance.is_ending()) else {
            return false;
        };
        "shutting-down".clone_into(&mut machine.instance.state);
        machine.ended = Some(at);
        self.changes += 1;
        let pool = machine.pool();
        let subnet_id = machine.instance.subnet_id.clone();
        let reservation = machine.instance.capacity_reservation_id.clone();
        if let Some(reservation) = reservation {
            self.return_to_reservation(&reservation);
        }
        if let Some(stock) = self.stock.get_mut(&pool) {
            *stock += 1;
        }
        if let Some(subnet) = self.subnets.iter_mut().find(|subnet| subnet.id == subnet_id) {
            subnet.free_addresses += 1;
        }
        self.send_event(id, FakeEvent::State("shutting-down"), at);
        true
    }

    /// Sends an event to the queue of the rule, if the rule exists. A missing queue receives nothing.
    pub(super) fn send_event(&mut self, instance: &str, event: FakeEvent<'_>, now: Timestamp) {
        let Some(queue) = self.event_queue.clone() else { return };
        self.made += 1;
        let message = envelope(&self.region, self.made, instance, event, now);
        self.queues.send(&queue, &message, now);
    }

    /// Returns the remaining instances of a pool; `None` without a limit.
    pub(super) fn stock_of(&self, pool: &Pool) -> Option<u32> {
        if self.outages.iter().any(|outage| outage.covers(pool)) {
            return Some(0);
        }
        self.stock.get(pool).copied()
    }

    /// Returns the instances of a type that the account's quota still allows; `None` without a quota.
    pub(super) fn quota_of(&self, pool: &Pool) -> Option<u32> {
        let vcpus = |name: &str| self.types.get(name).map_or(1, |info| info.vcpus.max(1));
        let spot = pool.capacity_type == "spot";
        let counts = |machine: &&FakeInstance| machine.instance.spot == spot && !machine.instance.is_ending();
        let running = self.machines.values().filter(counts).map(|machine| vcpus(&machine.instance.instance_type));
        let left = self.quotas.get(&pool.capacity_type)?.saturating_sub(running.sum());
        Some(left / vcpus(&pool.instance_type))
    }

    pub(super) fn offered(&self, instance_type: &str, zone: &str) -> bool {
        self.offerings.iter().any(|offering| offering.instance_type == instance_type && offering.zone == zone)
    }

    pub(super) fn on_demand(&self) -> Vec<OnDemandPrice> {
        let price =
            |(name, price): (&String, &i64)| OnDemandPrice { instance_type: name.clone(), micro_dollars: *price };
        self.on_demand.iter().map(price).collect()
    }

    /// Returns the answer of DescribeInstanceStatus: the running instances with a status that a test has set.
    pub(super) fn unhealthy(&self) -> Vec<InstanceStatus> {
        let runs = |id: &&String| self.machines.get(*id).is_some_and(|machine| machine.instance.state == "running");
        self.statuses.keys().filter(runs).filter_map(|id| self.statuses.get(id)).cloned().collect()
    }

    /// Returns the answer of DescribeInstances by tags, without terminated instances and without those that are still
    /// invisible.
    pub(super) fn instances(&self, tags: &Tags, now: Timestamp) -> Vec<Instance> {
        let shown = |machine: &&FakeInstance| {
            machine.visible(now, self.timing)
                && machine.instance.state != "terminated"
                && filter::tagged(&machine.instance.tags, tags)
        };
        self.machines.values().filter(shown).map(|machine| machine.instance.clone()).collect()
    }

    /// Adds tags to instances, subnets, security groups, images and launch templates. Returns the first unknown id as error.
    pub(super) fn tag(&mut self, ids: &[String], tags: &Tags) -> Result<(), String> {
        if let Some(unknown) = ids.iter().find(|id| self.tags_of(id).is_none()) {
            return Err(unknown.clone());
        }
        for id in ids {
            if let Some(own) = self.tags_of(id) {
                own.extend(tags.clone());
            }
        }
        Ok(())
    }

    pub(super) fn tags_of(&mut self, id: &str) -> Option<&mut Tags> {
        if let Some(machine) = self.machines.get_mut(id) {
            return Some(&mut machine.instance.tags);
        }
        if let Some(subnet) = self.subnets.iter_mut().find(|subnet| subnet.id == id) {
            return Some(&mut subnet.tags);
        }
        if let Some(group) = self.security_groups.iter_mut().find(|group| group.id == id) {
            return Some(&mut group.tags);
        }
        if let Some(image) = self.images.iter_mut().find(|image| image.id == id) {
            return Some(&mut image.tags);
        }
        self.templates.values_mut().find(|(template, _)| template.id == id).map(|(template, _)| &mut template.tags)
    }
}

impl FakeInstance {
    fn pool(&self) -> Pool {
        let capacity_type = if self.instance.spot { "spot" } else { "on-demand" };
        Pool::new(capacity_type, &self.instance.instance_type, &self.instance.zone)
    }

    pub(super) fn visible(&self, now: Timestamp, timing: Timing) -> bool {
        now >= self.launched.saturating_add(timing.invisible).unwrap_or(Timestamp::MAX)
    }

    /// Returns the id and deadline if a spot interruption terminates the instance by `now`.
    fn taken_back(&self, now: Timestamp) -> Option<(String, Timestamp)> {
        let deadline = self.interruption.filter(|deadline| *deadline <= now && !self.instance.is_ending())?;
        Some((self.instance.id.clone(), deadline))
    }

    fn advance(&mut self, now: Timestamp, timing: Timing) -> bool {
        let next = match self.instance.state.as_str() {
            "pending" => "running",
            "shutting-down" => "terminated",
            "stopping" => "stopped",
            _ => return false,
        };
        if self.next_change(timing).is_none_or(|at| at > now) {
            return false;
        }
        next.clone_into(&mut self.instance.state);
        true
    }

    fn next_change(&self, timing: Timing) -> Option<Timestamp> {
        let after = |since: Timestamp, by: SignedDuration| since.checked_add(by).ok();
        match self.instance.state.as_str() {
            "pending" => after(self.launched, timing.pending).into_iter().chain(self.interruption).min(),
            "running" => self.interruption,
            "shutting-down" => self.ended.and_then(|ended| after(ended, timing.shutting_down)),
            "stopping" => self.stopped.and_then(|stopped| after(stopped, timing.shutting_down)),
            _ => None,
        }
    }

    fn forgotten(&self, now: Timestamp) -> bool {
        self.instance.state == "terminated" && self.ended.is_some_and(|ended| now.duration_since(ended) > REMEMBERED)
    }
}

/// Mixes 64 bits with a fixed function (splitmix64's finaliser).
pub(super) fn scramble(value: u64) -> u64 {
    let mut mixed = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

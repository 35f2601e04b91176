//! Prices of offerings, and the instances of the fake of EC2. Only a launch reveals insufficient capacity.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context;
use cloud::data;
use cloud::fake::{FakeCloud, FakeInstance, Pool};
use planner::{CapacityType, InstanceType, MicroDollars};
use simulator::clock::OfTokio;
use simulator::kinds;

use crate::clock::{Moment, SECOND};
use crate::dice::Dice;

const REGION: &str = "us-west-2";
/// Range of spot prices, in percent of the on-demand price.
const SPOT: (i64, i64) = (28, 48);
/// Time from the request to terminate an instance to its end, in milliseconds.
const SHUTS_DOWN: i64 = 20 * SECOND;
/// Name of the queue that receives the notices of EC2.
pub const QUEUE: &str = "notices";

/// Instance that runs.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Name of its Node, which is its private DNS name.
    pub id: String,
    /// EC2's id of the instance.
    pub ec2: String,
    /// NodeClaim whose status has its provider ID; empty before.
    pub claim: String,
    /// Instance type.
    pub kind: Arc<InstanceType>,
    /// Availability zone.
    pub zone: String,
    /// Capacity type, spot or on-demand.
    pub capacity_type: CapacityType,
    /// Price per hour.
    pub price: MicroDollars,
    /// Moment of the launch.
    pub bought: Moment,
    /// True after the request to terminate the instance.
    pub ending: bool,
    /// True after a spot interruption notice, or after EC2 has ended the instance.
    pub noticed: bool,
    /// True while its agent does not run.
    pub agent_dead: bool,
}

/// Offerings and instances.
#[derive(Debug)]
pub struct Market {
    /// Prices of all offerings.
    pub prices: BTreeMap<Pool, MicroDollars>,
    /// Offerings with insufficient capacity, with the end of that state.
    pub dry: BTreeMap<Pool, Moment>,
    /// Instances that have not ended, by the name of their Node.
    pub instances: BTreeMap<String, Instance>,
    /// Node of a NodeClaim, by the NodeClaim's name.
    owners: BTreeMap<String, String>,
    /// Name of the Node of each instance that ever ran, by the id in EC2.
    names: BTreeMap<String, String>,
}

impl Market {
    /// Creates instance types of these families and sizes at on-demand prices, with random spot prices, and the fake of EC2
    /// that sells them.
    ///
    /// # Errors
    /// Returns an error if Kerf's data files are damaged.
    pub fn new(dice: &mut Dice, families: &[&str], sizes: &[&str]) -> anyhow::Result<(Self, FakeCloud)> {
        let wanted = |name: &str| {
            name.split_once('.').is_some_and(|(family, size)| families.contains(&family) && sizes.contains(&size))
        };
        let mut names: Vec<&str> = data::instance_types()?.keys().map(String::as_str).filter(|it| wanted(it)).collect();
        names.sort_unstable();
        let ec2 = FakeCloud::builder(REGION).only_types(&names).clock(OfTokio).without_spot_prices();
        let ec2 = ec2.shutting_down_for(jiff::SignedDuration::from_millis(SHUTS_DOWN)).build()?;
        ec2.create_queue(QUEUE);
        ec2.events_to(Some(QUEUE));
        let facts = data::facts()?;
        let mut prices = BTreeMap::new();
        for offering in data::type_offerings(REGION)?.iter().filter(|it| names.contains(&it.instance_type.as_str())) {
            let (name, zone) = (offering.instance_type.as_str(), offering.zone.as_str());
            let full = *facts.on_demand.get(name).with_context(|| format!("no price for {name}"))?;
            let spot = full * dice.between(SPOT.0, SPOT.1) / 100;
            ec2.set_spot_price(name, zone, spot);
            prices.insert(Pool::new(CapacityType::OnDemand.as_str(), name, zone), MicroDollars(full));
            prices.insert(Pool::new(CapacityType::Spot.as_str(), name, zone), MicroDollars(spot));
        }
        let (dry, instances) = (BTreeMap::new(), BTreeMap::new());
        Ok((Self { prices, dry, instances, owners: BTreeMap::new(), names: BTreeMap::new() }, ec2))
    }

    /// Takes over the instances of EC2, and returns how many are new.
    pub fn see(&mut self, machines: &[FakeInstance]) -> usize {
        let before = self.names.len();
        let runs = |machine: &&FakeInstance| machine.instance.state != "terminated";
        let live: BTreeMap<&str, &FakeInstance> =
            machines.iter().filter(runs).map(|it| (it.instance.private_dns_name.as_str(), it)).collect();
        self.instances.retain(|id, _| live.contains_key(id.as_str()));
        for (id, machine) in live {
            if !self.instances.contains_key(id) {
                self.instances.insert(id.to_owned(), self.launched(machine));
                self.names.insert(machine.instance.id.clone(), id.to_owned());
            }
            if let Some(instance) = self.instances.get_mut(id) {
                instance.ending = machine.instance.is_ending();
                instance.noticed |= machine.interruption.is_some();
            }
        }
        self.names.len() - before
    }

    fn launched(&self, machine: &FakeInstance) -> Instance {
        let instance = &machine.instance;
        let capacity_type = if instance.spot { CapacityType::Spot } else { CapacityType::OnDemand };
        let pool = Pool::new(capacity_type.as_str(), &instance.instance_type, &instance.zone);
        Instance {
            id: instance.private_dns_name.clone(),
            ec2: instance.id.clone(),
            claim: String::new(),
            kind: kinds::kind(&instance.instance_type),
            zone: instance.zone.clone(),
            capacity_type,
            price: self.prices.get(&pool).copied().unwrap_or(MicroDollars(0)),
            bought: machine.launched.as_millisecond(),
            ending: false,
            noticed: false,
            agent_dead: false,
        }
    }

    /// Notes the instance of a NodeClaim.
    pub fn belongs(&mut self, provider_id: &str, claim: &str) {
        let Some(id) = provider_id.rsplit('/').next().and_then(|ec2| self.names.get(ec2)) else { return };
        self.owners.insert(claim.to_owned(), id.clone());
        if let Some(instance) = self.instances.get_mut(id) {
            claim.clone_into(&mut instance.claim);
        }
    }

    /// Returns the instance of a NodeClaim.
    #[must_use]
    pub fn of_claim(&self, claim: &str) -> Option<&Instance> {
        self.instances.get(self.owners.get(claim)?)
    }

    /// Returns the name of the Node of a NodeClaim's instance, also after its end.
    #[must_use]
    pub fn node_of(&self, claim: &str) -> Option<&str> {
        self.owners.get(claim).map(String::as_str)
    }

    /// Returns the price of all instances per hour, including those that are terminating.
    #[must_use]
    pub fn cost(&self) -> i64 {
        self.instances.values().map(|it| it.price.0).sum()
    }
}

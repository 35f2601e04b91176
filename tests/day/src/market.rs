//! EC2's side: what can be bought at what price, what is out of stock without anybody knowing, and the machines that run.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{EC2NodeClass, EC2NodeClassSpec};
use cloud::nodeclass::ResolvedImage;
use cloud::types::{ClassSettings, OfferingSource as Prices, Source, Zone, catalogue};
use cloud::unavailable_offerings::UnavailableOfferings;
use cloud::{Image, data};
use jiff::Timestamp;
use planner::{CapacityType, Catalogue, InstanceType, MicroDollars, Offering};

use crate::clock::Moment;
use crate::dice::Dice;

const REGION: &str = "us-east-1";
const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];
/// General, compute and memory machines of both architectures: enough choice, and plans stay fast.
const FAMILIES: [&str; 6] = ["c7i.", "m7i.", "r7i.", "c7g.", "m7g.", "r7g."];
/// Spot costs between these shares of the list price, in percent.
const SPOT: (i64, i64) = (28, 48);

/// A way to buy a machine: type, zone, capacity type.
pub type Shelf = (String, String, CapacityType);

/// A machine that runs, or ran.
#[derive(Clone, Debug)]
pub struct Instance {
    /// EC2's id, and the name of its Node.
    pub id: String,
    /// How many were bought until then, itself included.
    pub number: usize,
    /// The claim that it was bought for, as its tag says.
    pub claim: String,
    /// Its type's position in the catalogue.
    pub kind: usize,
    /// Availability zone.
    pub zone: String,
    /// Spot or on-demand.
    pub capacity_type: CapacityType,
    /// Per hour.
    pub price: MicroDollars,
    /// When it was bought.
    pub bought: Moment,
    /// Whether its end has been asked for.
    pub ending: bool,
    /// Whether it is in one of EC2's notices.
    pub noticed: bool,
    /// Whether its agent has died.
    pub agent_dead: bool,
}

/// Offerings and machines.
#[derive(Debug)]
pub struct Market {
    /// Everything that is sold, all of it available: who asks learns otherwise.
    pub catalogue: Arc<Catalogue>,
    /// What is out of stock, and until when.
    pub dry: BTreeMap<Shelf, Moment>,
    /// Machines that are not gone, by id.
    pub instances: BTreeMap<String, Instance>,
    /// The machine that was bought last for a claim, by the claim's name.
    owners: BTreeMap<String, String>,
    bought: usize,
}

impl Market {
    /// Real types of these sizes at list prices; spot prices are drawn.
    ///
    /// # Errors
    /// When Kerf's own data files are damaged.
    pub fn new(dice: &mut Dice, sizes: &[&str]) -> anyhow::Result<Self> {
        let mut catalogue = on_demand(sizes)?;
        catalogue.types.iter_mut().for_each(|kind| add_spot(kind, dice));
        Ok(Self {
            catalogue: Arc::new(catalogue),
            dry: BTreeMap::new(),
            instances: BTreeMap::new(),
            owners: BTreeMap::new(),
            bought: 0,
        })
    }

    /// The type of an instance.
    #[must_use]
    pub fn kind(&self, instance: &Instance) -> &InstanceType {
        &self.catalogue.types[instance.kind]
    }

    /// What can be bought as far as those are right who know of these shortages.
    #[must_use]
    pub fn without(&self, short: &BTreeMap<Shelf, Moment>) -> Arc<Catalogue> {
        if short.is_empty() {
            return Arc::clone(&self.catalogue);
        }
        let mut known = Catalogue::clone(&self.catalogue);
        for kind in &mut known.types {
            for offering in &mut kind.offerings {
                offering.available = !short.contains_key(&shelf(&kind.name, offering));
            }
        }
        Arc::new(known)
    }

    /// Buys the cheapest that suits and is in stock; what would have suited and was not is told first.
    pub fn buy(&mut self, claim: &str, suits: impl Fn(&InstanceType, &Offering) -> bool, now: Moment) -> Bought {
        let mut dry = Vec::new();
        let mut best: Option<(MicroDollars, usize, &Offering)> = None;
        for (position, kind) in self.catalogue.types.iter().enumerate() {
            for offering in kind.offerings.iter().filter(|offering| suits(kind, offering)) {
                let shelf = shelf(&kind.name, offering);
                if self.dry.get(&shelf).is_some_and(|until| *until > now) {
                    dry.push(shelf);
                } else if best.as_ref().is_none_or(|(price, _, _)| offering.price < *price) {
                    best = Some((offering.price, position, offering));
                }
            }
        }
        let instance = best.map(|(price, kind, offering)| Instance {
            id: format!("i-{:017x}", self.bought + 1),
            number: self.bought + 1,
            claim: claim.to_owned(),
            kind,
            zone: offering.zone.clone(),
            capacity_type: offering.capacity_type,
            price,
            bought: now,
            ending: false,
            noticed: false,
            agent_dead: false,
        });
        if let Some(instance) = &instance {
            self.bought += 1;
            self.owners.insert(claim.to_owned(), instance.id.clone());
            self.instances.insert(instance.id.clone(), instance.clone());
        }
        Bought { instance, dry }
    }

    /// The machine of a claim, by the tag that it was bought with.
    #[must_use]
    pub fn of_claim(&self, claim: &str) -> Option<&Instance> {
        self.instances.get(self.owners.get(claim)?)
    }

    /// Machines that were bought so far.
    #[must_use]
    pub fn bought(&self) -> usize {
        self.bought
    }

    /// What all machines cost per hour, those that are ending too.
    #[must_use]
    pub fn cost(&self) -> i64 {
        self.instances.values().map(|it| it.price.0).sum()
    }
}

/// What came of a purchase.
#[derive(Debug)]
pub struct Bought {
    /// The machine, if anything was in stock.
    pub instance: Option<Instance>,
    /// What would have suited and was out of stock.
    pub dry: Vec<Shelf>,
}

/// The shelf of an offering.
#[must_use]
pub fn shelf(kind: &str, offering: &Offering) -> Shelf {
    (kind.to_owned(), offering.zone.clone(), offering.capacity_type)
}

fn on_demand(sizes: &[&str]) -> anyhow::Result<Catalogue> {
    let facts = data::facts()?;
    let all = data::instance_types()?.values();
    let wanted = |name: &str| {
        let size = name.split('.').nth(1).unwrap_or_default();
        sizes.contains(&size) && FAMILIES.iter().any(|family| name.starts_with(family))
    };
    let infos: Vec<_> = all.filter(|info| wanted(&info.name)).cloned().collect();
    let mut prices = Prices::new(facts.on_demand.clone());
    prices.set_offerings(data::type_offerings(REGION)?);
    let class = EC2NodeClass::new("default", EC2NodeClassSpec::default());
    let zone = |name: &&str| ((*name).to_owned(), Zone { id: String::new(), subnets: vec![String::new()] });
    let class = ClassSettings::new(&class, ZONES.iter().map(zone).collect())?;
    let images = [ResolvedImage { image: Image::default(), requirements: Vec::new() }];
    let source =
        Source { infos: &infos, facts, market: &prices, shortages: &UnavailableOfferings::default(), images: &images };
    let settings = cloud::Settings { region: REGION.to_owned(), ..cloud::Settings::default() };
    let mut found = catalogue(&source, &class, &settings, Timestamp::UNIX_EPOCH);
    for kind in &mut found.types {
        kind.offerings.retain(|it| it.available && it.capacity_type == CapacityType::OnDemand);
    }
    found.types.retain(|kind| !kind.offerings.is_empty());
    Ok(found)
}

fn add_spot(kind: &mut InstanceType, dice: &mut Dice) {
    let spot = |offering: &Offering, dice: &mut Dice| Offering {
        capacity_type: CapacityType::Spot,
        price: MicroDollars(offering.price.0 * dice.between(SPOT.0, SPOT.1) / 100),
        ..offering.clone()
    };
    let more: Vec<Offering> = kind.offerings.iter().map(|offering| spot(offering, dice)).collect();
    kind.offerings.extend(more);
}

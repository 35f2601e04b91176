//! Simulated EC2: prices of offerings, insufficient capacity that only a launch reveals, and running instances.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{EC2NodeClass, EC2NodeClassSpec};
use cloud::nodeclass::{ResolvedImage, Zone};
use cloud::types::{ClassSettings, OfferingSource as Prices, Source, catalogue};
use cloud::unavailable_offerings::UnavailableOfferings;
use cloud::{Image, data};
use jiff::Timestamp;
use planner::{CapacityType, Catalogue, InstanceType, MicroDollars, Offering};

use crate::clock::Moment;
use crate::dice::Dice;

const REGION: &str = "us-east-1";
const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];
/// General, compute and memory families of both architectures: enough choice for the planner, and short planning times.
const FAMILIES: [&str; 6] = ["c7i.", "m7i.", "r7i.", "c7g.", "m7g.", "r7g."];
/// Range of spot prices, in percent of the on-demand price.
const SPOT: (i64, i64) = (28, 48);

/// Key of an offering: instance type, zone, capacity type.
pub type Shelf = (String, String, CapacityType);

/// Instance that runs, or ran.
#[derive(Clone, Debug)]
pub struct Instance {
    /// EC2's id of the instance and name of its Node.
    pub id: String,
    /// Sequence number of the launch, starting at 1.
    pub number: usize,
    /// NodeClaim of the launch, as in the instance's tag.
    pub claim: String,
    /// Position of its instance type in the catalogue.
    pub kind: usize,
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
    /// True after a spot interruption notice.
    pub noticed: bool,
    /// True while its agent does not run.
    pub agent_dead: bool,
}

/// Offerings and instances.
#[derive(Debug)]
pub struct Market {
    /// All offerings, each marked as available; only a launch reveals insufficient capacity.
    pub catalogue: Arc<Catalogue>,
    /// Offerings with insufficient capacity, with the end of that state.
    pub dry: BTreeMap<Shelf, Moment>,
    /// Instances that have not ended, by id.
    pub instances: BTreeMap<String, Instance>,
    /// Instance of the last launch for a NodeClaim, by the NodeClaim's name.
    owners: BTreeMap<String, String>,
    bought: usize,
}

impl Market {
    /// Creates real instance types of these sizes at on-demand prices; spot prices are random.
    ///
    /// # Errors
    /// Returns an error if Kerf's data files are damaged.
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

    /// Returns the type of an instance.
    #[must_use]
    pub fn kind(&self, instance: &Instance) -> &InstanceType {
        &self.catalogue.types[instance.kind]
    }

    /// Returns the catalogue without these unavailable offerings.
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

    /// Launches the cheapest offering that matches and has capacity, and returns the matching offerings without capacity.
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

    /// Returns the instance of a NodeClaim, by the tag of its launch.
    #[must_use]
    pub fn of_claim(&self, claim: &str) -> Option<&Instance> {
        self.instances.get(self.owners.get(claim)?)
    }

    /// Returns the number of launched instances.
    #[must_use]
    pub fn bought(&self) -> usize {
        self.bought
    }

    /// Returns the price of all instances per hour, including those that are terminating.
    #[must_use]
    pub fn cost(&self) -> i64 {
        self.instances.values().map(|it| it.price.0).sum()
    }
}

/// Result of a launch.
#[derive(Debug)]
pub struct Bought {
    /// Launched instance, if any offering had capacity.
    pub instance: Option<Instance>,
    /// Matching offerings with insufficient capacity.
    pub dry: Vec<Shelf>,
}

/// Returns the key of an offering.
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
    let source = Source {
        infos: &infos,
        facts,
        offerings: &prices,
        shortages: &UnavailableOfferings::default(),
        images: &images,
    };
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

//! Where types can be bought and for how much, and what stands in the way of each offering (aws 3.5).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use api::label;
use jiff::Timestamp;
use planner::{CapacityType, MicroDollars, Offering};

use super::compatibility::Incompatible;
use super::{ClassSettings, Zone};
use crate::calls::{InstanceTypeInfo, SpotPrice, TypeOffering};
use crate::prices::{Origin, PriceBook};
use crate::unavailable_offerings::UnavailableOfferings;

/// Zones and prices of one region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfferingSource {
    zones: BTreeMap<String, BTreeSet<String>>,
    prices: PriceBook,
}

/// Why an offering cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// Machines of the type cannot be what the class describes.
    Unfit(Incompatible),
    /// No image of the class runs on the type.
    NoImage,
    /// Nobody knows what it costs.
    NoPrice,
    /// EC2 had none lately.
    OutOfStock,
    /// No subnet of the class has a free address in the zone.
    NoAddresses,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Unfit(unfit) => return unfit.fmt(out),
            Self::NoImage => "no image of the EC2NodeClass for it",
            Self::NoPrice => "price is unknown",
            Self::OutOfStock => "recent insufficient capacity",
            Self::NoAddresses => "no free IP address in the subnets",
        })
    }
}

/// One way to buy a type in one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quote {
    /// Zone name.
    pub zone: String,
    /// Zone id, such as `usw2-az1`; empty where it is not known.
    pub zone_id: String,
    /// Spot or on-demand.
    pub capacity_type: CapacityType,
    /// Price per hour, where it is known.
    pub price: Option<MicroDollars>,
    /// Why it cannot be had now; `None` when it can.
    pub obstacle: Option<Unavailable>,
}

impl Quote {
    /// As the planner knows it. One without a price counts as nothing until someone says what it costs.
    pub(super) fn offering(&self) -> Offering {
        Offering {
            zone: self.zone.clone(),
            capacity_type: self.capacity_type,
            price: self.price.unwrap_or_default(),
            available: self.obstacle.as_ref().is_none_or(|obstacle| *obstacle == Unavailable::NoPrice),
            labels: [(label::ZONE_ID.to_owned(), self.zone_id.clone())].into(),
            reservation: None,
        }
    }
}

impl OfferingSource {
    /// A market with a table of on-demand prices in millionths of a dollar per hour, and nothing else known yet.
    #[must_use]
    pub fn new(on_demand: BTreeMap<String, i64>) -> Self {
        Self::with_prices(PriceBook::of_table(on_demand))
    }

    /// A market with these prices, and nothing else known yet.
    #[must_use]
    pub fn with_prices(prices: PriceBook) -> Self {
        Self { prices, ..Self::default() }
    }

    /// What is known of prices.
    #[must_use]
    pub fn prices(&self) -> &PriceBook {
        &self.prices
    }

    /// What is known of prices, to lay answers in.
    pub fn prices_mut(&mut self) -> &mut PriceBook {
        &mut self.prices
    }

    /// Takes over what is offered where, in place of what was known.
    pub fn set_offerings(&mut self, offerings: Vec<TypeOffering>) {
        self.zones.clear();
        for offering in offerings {
            self.zones.entry(offering.instance_type).or_default().insert(offering.zone);
        }
    }

    /// Lays a table of spot prices over the known ones; an empty one says nothing and changes nothing.
    pub fn add_spot_prices(&mut self, prices: Vec<SpotPrice>) {
        self.prices.lay_spot(prices, Origin::Table);
    }

    /// The price of an offering, where it is known.
    #[must_use]
    pub fn price(&self, capacity_type: CapacityType, instance_type: &str, zone: &str) -> Option<MicroDollars> {
        self.prices.price(capacity_type, instance_type, zone)
    }

    /// The zones that sell a type.
    pub fn zones(&self, instance_type: &str) -> impl Iterator<Item = &str> {
        self.zones.get(instance_type).into_iter().flatten().map(String::as_str)
    }

    /// Every way to buy a type: zones where it is sold and the class has a subnet, by name, spot first. `standing` is what
    /// stands in the way of all of them. A zone has no addresses when none of its subnets has.
    #[must_use]
    pub fn quotes(
        &self,
        info: &InstanceTypeInfo,
        class: &ClassSettings,
        shortages: &UnavailableOfferings,
        standing: Option<&Unavailable>,
        now: Timestamp,
    ) -> Vec<Quote> {
        let sold_in = self.zones.get(&info.name);
        let zones = class.zones.iter().filter(|(zone, _)| sold_in.is_some_and(|sold| sold.contains(*zone)));
        let quote = |zone: &String, place: &Zone, capacity_type: CapacityType| {
            let known = self.price(capacity_type, &info.name, zone);
            let price = known.map(|price| shortages.priced(capacity_type, &info.name, zone, price));
            let dry = || shortages.holds(capacity_type, &info.name, zone, now).then_some(Unavailable::OutOfStock);
            let full = || {
                let free = place.subnets.iter().any(|subnet| !shortages.holds_subnet(subnet, now));
                (!free).then_some(Unavailable::NoAddresses)
            };
            // What no price would help comes first.
            let rest = || dry().or_else(full).or_else(|| price.is_none().then_some(Unavailable::NoPrice));
            let obstacle = standing.cloned().or_else(rest);
            Quote { zone: zone.clone(), zone_id: place.id.clone(), capacity_type, price, obstacle }
        };
        let mut quotes = Vec::new();
        for (zone, place) in zones {
            for capacity_type in [CapacityType::Spot, CapacityType::OnDemand] {
                if info.usage_classes.iter().any(|class| class == capacity_type.as_str()) {
                    quotes.push(quote(zone, place, capacity_type));
                }
            }
        }
        quotes
    }
}

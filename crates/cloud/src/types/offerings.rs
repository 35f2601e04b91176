//! Offerings of instance types with prices, and the reason why each unavailable offering is unavailable.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use api::label;
use jiff::Timestamp;
use planner::{CapacityType, MicroDollars, Offering};

use super::ClassSettings;
use super::compatibility::Incompatible;
use super::prices::{Origin, PriceBook};
use crate::calls::{InstanceTypeInfo, SpotPrice, TypeOffering};
use crate::nodeclass::Zone;
use crate::unavailable_offerings::UnavailableOfferings;

/// Zones and prices of one region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfferingSource {
    zones: BTreeMap<String, BTreeSet<String>>,
    prices: PriceBook,
}

/// The reason why an offering is unavailable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// The instance type is incompatible with the EC2NodeClass.
    Unfit(Incompatible),
    /// No image of the EC2NodeClass runs on the type.
    NoImage,
    /// The price is unknown.
    NoPrice,
    /// A zonal shift moves traffic away from the zone.
    ZonalShift,
    /// EC2 recently reported insufficient capacity.
    OutOfStock,
    /// No subnet of the EC2NodeClass has a free address in the zone.
    NoAddresses,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Unfit(unfit) => return unfit.fmt(out),
            Self::NoImage => "no image of the EC2NodeClass for it",
            Self::NoPrice => "price is unknown",
            Self::ZonalShift => "zonal shift away from the zone",
            Self::OutOfStock => "recent insufficient capacity",
            Self::NoAddresses => "no free IP address in the subnets",
        })
    }
}

/// An offering of a type with its price and availability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quote {
    /// Zone name.
    pub zone: String,
    /// Zone id, such as `usw2-az1`; empty if unknown.
    pub zone_id: String,
    /// Capacity type, spot or on-demand.
    pub capacity_type: CapacityType,
    /// Price per hour with the premium, if known.
    pub price: Option<MicroDollars>,
    /// Part of the price for the risk of recent interruptions and shortages.
    pub premium: MicroDollars,
    /// Reason why the offering is unavailable; `None` if available.
    pub obstacle: Option<Unavailable>,
}

impl Quote {
    /// Returns the offering for the planner. An offering without price counts as free of charge until a price is known.
    pub(super) fn offering(&self) -> Offering {
        Offering {
            zone: self.zone.clone(),
            capacity_type: self.capacity_type,
            price: self.price.unwrap_or_default(),
            premium: self.premium,
            available: self.obstacle.as_ref().is_none_or(|obstacle| *obstacle == Unavailable::NoPrice),
            labels: [(label::ZONE_ID.to_owned(), self.zone_id.clone())].into(),
            reservation: None,
        }
    }
}

impl OfferingSource {
    /// Creates a source with a table of on-demand prices, in millionths of a dollar per hour, and without zones.
    #[must_use]
    pub fn new(on_demand: BTreeMap<String, i64>) -> Self {
        Self::with_prices(PriceBook::of_table(on_demand))
    }

    /// Creates a source with these prices and without zones.
    #[must_use]
    pub fn with_prices(prices: PriceBook) -> Self {
        Self { prices, ..Self::default() }
    }

    /// Returns the known prices.
    #[must_use]
    pub fn prices(&self) -> &PriceBook {
        &self.prices
    }

    /// Returns the known prices for updates.
    pub fn prices_mut(&mut self) -> &mut PriceBook {
        &mut self.prices
    }

    /// Replaces the zones of all instance types.
    pub fn set_offerings(&mut self, offerings: Vec<TypeOffering>) {
        self.zones.clear();
        for offering in offerings {
            self.zones.entry(offering.instance_type).or_default().insert(offering.zone);
        }
    }

    /// Updates spot prices from a table; an empty table changes nothing.
    pub fn add_spot_prices(&mut self, prices: Vec<SpotPrice>) {
        self.prices.lay_spot(prices, Origin::Table);
    }

    /// Returns the price of an offering, if known.
    #[must_use]
    pub fn price(&self, capacity_type: CapacityType, instance_type: &str, zone: &str) -> Option<MicroDollars> {
        self.prices.price(capacity_type, instance_type, zone)
    }

    /// Returns the zones that offer a type.
    pub fn zones(&self, instance_type: &str) -> impl Iterator<Item = &str> {
        self.zones.get(instance_type).into_iter().flatten().map(String::as_str)
    }

    /// Returns all offerings of a type, in zones that offer the type and have a subnet of the EC2NodeClass. The order is by
    /// zone, spot first. `common` is a reason that applies to all of them. A zone has no addresses when none of its subnets
    /// has free ones.
    #[must_use]
    pub fn quotes(
        &self,
        info: &InstanceTypeInfo,
        class: &ClassSettings,
        shortages: &UnavailableOfferings,
        common: Option<&Unavailable>,
        now: Timestamp,
    ) -> Vec<Quote> {
        let offered_in = self.zones.get(&info.name);
        let zones = class.zones.iter().filter(|(zone, _)| offered_in.is_some_and(|offered| offered.contains(*zone)));
        let quote = |zone: &String, place: &Zone, capacity_type: CapacityType| {
            let known = self.price(capacity_type, &info.name, zone);
            let price = known.map(|price| shortages.priced(capacity_type, &info.name, zone, price));
            let premium = MicroDollars(price.unwrap_or_default().0 - known.unwrap_or_default().0);
            let out_of_stock =
                || shortages.holds(capacity_type, &info.name, zone, now).then_some(Unavailable::OutOfStock);
            let full = || {
                let free = place.subnets.iter().any(|subnet| !shortages.holds_subnet(subnet, now));
                (!free).then_some(Unavailable::NoAddresses)
            };
            // Reasons that a price cannot resolve come first.
            let shifted = || shortages.is_shifted(&place.id, now).then_some(Unavailable::ZonalShift);
            let rest = || {
                shifted()
                    .or_else(out_of_stock)
                    .or_else(full)
                    .or_else(|| price.is_none().then_some(Unavailable::NoPrice))
            };
            let obstacle = common.cloned().or_else(rest);
            Quote { zone: zone.clone(), zone_id: place.id.clone(), capacity_type, price, premium, obstacle }
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

//! Where types can be bought and for how much: zones, list prices, spot prices (aws 3.5, 5).

use std::collections::{BTreeMap, BTreeSet};

use api::label;
use jiff::Timestamp;
use planner::{CapacityType, MicroDollars, Offering};

use super::ClassSettings;
use crate::calls::{InstanceTypeInfo, SpotPrice, TypeOffering};
use crate::shortage::Shortages;

/// Zones and prices of one region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Market {
    zones: BTreeMap<String, BTreeSet<String>>,
    on_demand: BTreeMap<String, i64>,
    /// `None` until the first spot price history came: until then spot costs what on-demand does.
    spot: Option<BTreeMap<(String, String), i64>>,
}

impl Market {
    /// A market with list prices in millionths of a dollar per hour, and nothing else known yet.
    #[must_use]
    pub fn new(on_demand: BTreeMap<String, i64>) -> Self {
        Self { on_demand, ..Self::default() }
    }

    /// Takes over what is offered where, in place of what was known.
    pub fn set_offerings(&mut self, offerings: Vec<TypeOffering>) {
        self.zones.clear();
        for offering in offerings {
            self.zones.entry(offering.instance_type).or_default().insert(offering.zone);
        }
    }

    /// Lays new spot prices over the old ones; an empty answer says nothing and changes nothing.
    pub fn add_spot_prices(&mut self, prices: Vec<SpotPrice>) {
        if prices.is_empty() {
            return;
        }
        let known = self.spot.get_or_insert_default();
        for price in prices.into_iter().filter(|price| price.micro_dollars > 0) {
            known.insert((price.instance_type, price.zone), price.micro_dollars);
        }
    }

    /// The price of an offering, where it is known.
    #[must_use]
    pub fn price(&self, capacity_type: CapacityType, instance_type: &str, zone: &str) -> Option<MicroDollars> {
        let list = || self.on_demand.get(instance_type).copied();
        let price = match (capacity_type, &self.spot) {
            (CapacityType::Spot, Some(spot)) => spot.get(&(instance_type.to_owned(), zone.to_owned())).copied(),
            _ => list(),
        };
        price.map(MicroDollars)
    }

    /// The offerings of a type: zones where it is sold and the class has a subnet, for each way to buy it. One without
    /// a known price is left out: nobody could say what it costs. A zone is out of stock when all its subnets are.
    #[must_use]
    pub fn offerings(
        &self,
        info: &InstanceTypeInfo,
        class: &ClassSettings,
        shortages: &Shortages,
        runs: bool,
        now: Timestamp,
    ) -> Vec<Offering> {
        let mut offerings = Vec::new();
        let sold_in = self.zones.get(&info.name);
        for (zone, place) in class.zones.iter().filter(|(zone, _)| sold_in.is_some_and(|sold| sold.contains(*zone))) {
            let addresses = place.subnets.iter().any(|subnet| !shortages.holds_subnet(subnet, now));
            for capacity_type in [CapacityType::Spot, CapacityType::OnDemand] {
                let sold = info.usage_classes.iter().any(|class| class == capacity_type.as_str());
                if let (true, Some(price)) = (sold, self.price(capacity_type, &info.name, zone)) {
                    let price = shortages.priced(capacity_type, &info.name, zone, price);
                    let stock = !shortages.holds(capacity_type, &info.name, zone, now);
                    offerings.push(Offering {
                        zone: zone.clone(),
                        capacity_type,
                        price,
                        available: runs && addresses && stock,
                        labels: [(label::ZONE_ID.to_owned(), place.id.clone())].into(),
                        reservation: None,
                    });
                }
            }
        }
        offerings
    }
}

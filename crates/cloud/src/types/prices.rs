//! Prices of instance types with their source and age.
//!
//! The code is pure: callers of AWS store the answers here. A new answer updates the known prices, so a type that is missing in
//! a partial answer keeps its price. An answer without any price is an error and changes nothing.

mod schedule;

use std::collections::BTreeMap;

use jiff::Timestamp;
use planner::{CapacityType, MicroDollars};
use thiserror::Error;

use crate::calls::SpotPrice;
use crate::data::Facts;

pub use schedule::{REFRESH, Schedule};

/// An answer without any price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "no {capacity_type} price in the response, keeping the last prices; check that the region offers Linux instances"
)]
pub struct NoPrices {
    /// Capacity type: `on-demand` or `spot`.
    pub capacity_type: &'static str,
}

/// Result of a price update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriceUpdate {
    /// Number of prices in the answer.
    pub reported: usize,
    /// Number of new or changed prices; zero means that no new plan is needed.
    pub changed: usize,
}

/// Source of the prices of one capacity type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A table of the region, given by the caller.
    Table,
    /// The embedded table of [`Facts::price_region`].
    Embedded,
    /// An answer of AWS: the Pricing API or the spot price history.
    Answer {
        /// Time of the answer.
        at: Timestamp,
    },
    /// On-demand prices in place of spot prices, before the first spot price history.
    OnDemand,
}

impl Origin {
    /// Returns the source as a label value for metrics.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Embedded => "embedded",
            Self::Answer { .. } => "aws",
            Self::OnDemand => "on-demand",
        }
    }

    /// All values of [`Origin::as_str`].
    pub const WORDS: [&'static str; 4] = ["table", "embedded", "aws", "on-demand"];

    /// Returns the seconds since AWS's answer; `None` for other sources.
    #[must_use]
    pub fn age(&self, now: Timestamp) -> Option<i64> {
        match self {
            Self::Answer { at } => Some(now.duration_since(*at).as_secs().max(0)),
            _ => None,
        }
    }
}

/// Status of the prices of one capacity type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceStatus {
    /// Capacity type, on-demand or spot.
    pub capacity_type: CapacityType,
    /// Source of the prices.
    pub origin: Origin,
    /// Number of prices.
    pub prices: usize,
}

/// All prices of one region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceBook {
    on_demand: BTreeMap<String, i64>,
    on_demand_origin: Origin,
    /// Spot prices by instance type and zone; `None` before the first history. Until then the on-demand price counts as spot
    /// price.
    spot: Option<BTreeMap<(String, String), i64>>,
    spot_origin: Origin,
}

impl Default for PriceBook {
    fn default() -> Self {
        Self::of_table(BTreeMap::new())
    }
}

/// Level of equal prices, in thousandths.
pub const EQUAL_LEVEL: i64 = 1_000;

impl PriceBook {
    /// Returns the level of the on-demand prices in thousandths of those of a table: the median of the types that both have.
    #[must_use]
    pub fn level(&self, table: &BTreeMap<String, i64>) -> i64 {
        let level = |(name, price): (&String, &i64)| {
            let other = table.get(name).filter(|other| **other > 0)?;
            Some(price.saturating_mul(EQUAL_LEVEL) / other)
        };
        let mut levels: Vec<i64> = self.on_demand.iter().filter_map(level).collect();
        levels.sort_unstable();
        levels.get(levels.len() / 2).copied().unwrap_or(EQUAL_LEVEL)
    }

    /// Creates a price book with a table of on-demand prices, in millionths of a dollar per hour by instance type.
    #[must_use]
    pub fn of_table(on_demand: BTreeMap<String, i64>) -> Self {
        Self { on_demand, on_demand_origin: Origin::Table, spot: None, spot_origin: Origin::OnDemand }
    }

    /// Creates a price book of a region with the embedded table that fits best.
    #[must_use]
    pub fn embedded(facts: &Facts, region: &str) -> Self {
        Self { on_demand_origin: Origin::Embedded, ..Self::of_table(facts.on_demand_in(region).clone()) }
    }

    /// Updates on-demand prices, in millionths of a dollar per hour. Ignores prices of zero or less.
    ///
    /// # Errors
    /// When no price is valid; nothing changes then.
    pub fn learn_on_demand(
        &mut self,
        prices: impl IntoIterator<Item = (String, i64)>,
        now: Timestamp,
    ) -> Result<PriceUpdate, NoPrices> {
        let learned = lay(&mut self.on_demand, prices).ok_or(NoPrices { capacity_type: "on-demand" })?;
        self.on_demand_origin = Origin::Answer { at: now };
        Ok(learned)
    }

    /// Updates spot prices. After the first update, a type and zone that no history contains has no spot price.
    ///
    /// # Errors
    /// When no price is valid; nothing changes then.
    pub fn learn_spot(
        &mut self,
        prices: impl IntoIterator<Item = SpotPrice>,
        now: Timestamp,
    ) -> Result<PriceUpdate, NoPrices> {
        self.lay_spot(prices, Origin::Answer { at: now }).ok_or(NoPrices { capacity_type: "spot" })
    }

    /// Updates spot prices from any source, as [`Self::learn_spot`]; returns `None` without a valid price.
    pub(crate) fn lay_spot(
        &mut self,
        prices: impl IntoIterator<Item = SpotPrice>,
        origin: Origin,
    ) -> Option<PriceUpdate> {
        let mut known = self.spot.clone().unwrap_or_default();
        let keyed = prices.into_iter().map(|price| ((price.instance_type, price.zone), price.micro_dollars));
        let learned = lay(&mut known, keyed)?;
        self.spot = Some(known);
        self.spot_origin = origin;
        Some(learned)
    }

    /// Returns the price per hour of an instance type in a zone, if known. On-demand prices are the same in all zones.
    #[must_use]
    pub fn price(&self, capacity_type: CapacityType, instance_type: &str, zone: &str) -> Option<MicroDollars> {
        let price = match (capacity_type, &self.spot) {
            (CapacityType::Spot, Some(spot)) => spot.get(&(instance_type.to_owned(), zone.to_owned())),
            _ => self.on_demand.get(instance_type),
        };
        price.copied().map(MicroDollars)
    }

    /// Returns the status of both capacity types, on-demand first.
    #[must_use]
    pub fn statuses(&self) -> [PriceStatus; 2] {
        let spot = self.spot.as_ref().map_or(self.on_demand.len(), BTreeMap::len);
        [
            (CapacityType::OnDemand, &self.on_demand_origin, self.on_demand.len()),
            (CapacityType::Spot, &self.spot_origin, spot),
        ]
        .map(|(capacity_type, origin, prices)| PriceStatus { capacity_type, origin: origin.clone(), prices })
    }
}

/// Reports whether the Pricing API can be reached. The API has no endpoint inside an isolated network or for AWS GovCloud.
#[must_use]
pub fn has_pricing_api(region: &str, isolated_network: bool) -> bool {
    !isolated_network && !region.starts_with("us-gov-")
}

/// Updates prices with the positive ones; returns `None` if none is positive.
fn lay<K: Ord>(known: &mut BTreeMap<K, i64>, prices: impl IntoIterator<Item = (K, i64)>) -> Option<PriceUpdate> {
    let mut learned = PriceUpdate { reported: 0, changed: 0 };
    for (key, price) in prices.into_iter().filter(|(_, price)| *price > 0) {
        learned.reported += 1;
        learned.changed += usize::from(known.insert(key, price) != Some(price));
    }
    (learned.reported > 0).then_some(learned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_790_000_000, 0);

    fn book() -> PriceBook {
        PriceBook::of_table([("a.large".to_owned(), 100), ("b.large".to_owned(), 200)].into())
    }

    fn spot(instance_type: &str, zone: &str, micro_dollars: i64) -> SpotPrice {
        SpotPrice { instance_type: instance_type.to_owned(), zone: zone.to_owned(), micro_dollars }
    }

    #[test]
    fn learn_on_demand_keeps_prices_that_an_answer_omits() {
        let mut book = book();
        let learned = book.learn_on_demand([("a.large".to_owned(), 90), ("c.large".to_owned(), 0)], NOW);
        assert_eq!(learned, Ok(PriceUpdate { reported: 1, changed: 1 }));
        let price = |name| book.price(CapacityType::OnDemand, name, "z").map(|price| price.0);
        assert_eq!((price("a.large"), price("b.large"), price("c.large")), (Some(90), Some(200), None));
        let again = book.learn_on_demand([("a.large".to_owned(), 90)], NOW);
        assert_eq!(again, Ok(PriceUpdate { reported: 1, changed: 0 }), "nothing to plan anew");
    }

    #[test]
    fn price_book_is_unchanged_when_an_answer_has_no_prices() {
        let (mut book, before) = (book(), book());
        assert_eq!(
            book.learn_on_demand([("a.large".to_owned(), 0)], NOW),
            Err(NoPrices { capacity_type: "on-demand" })
        );
        assert_eq!(book.learn_spot([], NOW), Err(NoPrices { capacity_type: "spot" }));
        assert_eq!(book.learn_spot([spot("a.large", "z", -1)], NOW), Err(NoPrices { capacity_type: "spot" }));
        assert_eq!(book, before);
    }

    #[test]
    fn price_of_spot_is_on_demand_until_a_history_arrives() {
        let mut book = book();
        let price = |book: &PriceBook, name, zone| book.price(CapacityType::Spot, name, zone).map(|price| price.0);
        assert_eq!(price(&book, "a.large", "z"), Some(100));
        book.learn_spot([spot("a.large", "z", 30)], NOW).unwrap();
        assert_eq!((price(&book, "a.large", "z"), price(&book, "a.large", "y")), (Some(30), None));
        assert_eq!(price(&book, "b.large", "z"), None, "no history, no price");
        book.learn_spot([spot("b.large", "z", 60)], NOW).unwrap();
        assert_eq!(price(&book, "a.large", "z"), Some(30), "a later history that leaves a zone out says nothing of it");
    }

    #[test]
    fn statuses_report_origin_and_age_per_capacity_type() {
        let mut book = book();
        let shown = |book: &PriceBook, seconds: i64| {
            let now = NOW.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap();
            book.statuses().map(|it| (it.capacity_type.as_str(), it.origin.as_str(), it.origin.age(now), it.prices))
        };
        assert_eq!(shown(&book, 0), [("on-demand", "table", None, 2), ("spot", "on-demand", None, 2)]);
        book.learn_spot([spot("a.large", "z", 30)], NOW).unwrap();
        book.learn_on_demand([("a.large".to_owned(), 90)], NOW).unwrap();
        assert_eq!(shown(&book, 60), [("on-demand", "aws", Some(60), 2), ("spot", "aws", Some(60), 1)]);
        assert!(book.statuses().iter().all(|it| Origin::WORDS.contains(&it.origin.as_str())));
    }

    #[test]
    fn has_pricing_api_is_false_in_isolated_vpc_and_govcloud() {
        assert!(has_pricing_api("eu-west-2", false));
        assert!(!has_pricing_api("eu-west-2", true) && !has_pricing_api("us-gov-west-1", false));
    }
}

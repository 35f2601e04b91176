//! Order in which a launch uses its offerings. Planner and launch share this decision, so that a plan states the price of what
//! is launched.

use super::{CapacityType, InstanceType, MicroDollars, Offering};

/// Capacity type that a launch uses first, and the most that an offering of it may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstChoice {
    /// Capacity type of the cheapest offering; of equally cheap ones reserved comes first, then spot, then on-demand.
    pub capacity_type: CapacityType,
    /// Price of the cheapest offering.
    pub price: MicroDollars,
    /// Cost of the cheapest on-demand offering. Spot above this cost is never launched, because on-demand is safer and costs
    /// less.
    limit: Option<i64>,
}

impl InstanceType {
    /// Returns a price of this type per unit of performance, in micro-dollars per hour. Offerings are compared by this cost.
    #[must_use]
    pub fn cost(&self, price: MicroDollars) -> i64 {
        price.0.saturating_mul(1000) / i64::from(self.performance.unwrap_or(1000).max(1))
    }
}

impl FirstChoice {
    /// Decides for the available offerings of a launch, each with its type; `None` without an offering.
    #[must_use]
    pub fn new<'a>(offerings: impl Iterator<Item = (&'a InstanceType, &'a Offering)>) -> Option<Self> {
        let ranked = |(kind, offering): (&'a InstanceType, &'a Offering)| {
            ((kind.cost(offering.price), offering.capacity_type, &kind.name, &offering.zone), offering.price)
        };
        let offered: Vec<_> = offerings.map(ranked).collect();
        let ((_, capacity_type, ..), price) = *offered.iter().min()?;
        let on_demand = offered.iter().filter(|((_, of, ..), _)| *of == CapacityType::OnDemand);
        let limit = on_demand.map(|((cost, ..), _)| *cost).min();
        Some(Self { capacity_type, price, limit })
    }

    /// Reports whether the launch uses an offering as long as this choice has capacity.
    #[must_use]
    pub fn includes(&self, kind: &InstanceType, offering: &Offering) -> bool {
        let bargain = || self.limit.is_none_or(|limit| kind.cost(offering.price) <= limit);
        offering.capacity_type == self.capacity_type && (self.capacity_type != CapacityType::Spot || bargain())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(performance: Option<u32>) -> InstanceType {
        InstanceType { performance, ..InstanceType::default() }
    }

    fn offering(capacity_type: CapacityType, price: i64) -> Offering {
        Offering {
            zone: "z".to_owned(),
            capacity_type,
            price: MicroDollars(price),
            premium: MicroDollars(0),
            available: true,
            labels: Default::default(),
            reservation: None,
        }
    }

    /// Rows: prices of reserved, spot and on-demand, and the expected choice.
    #[test]
    fn first_choice_is_the_cheapest_capacity_type() {
        let rows = [
            ([None, Some(40), Some(100)], CapacityType::Spot, 40),
            ([None, Some(100), Some(40)], CapacityType::OnDemand, 40),
            ([None, Some(70), Some(70)], CapacityType::Spot, 70),
            ([Some(0), Some(40), Some(100)], CapacityType::Reserved, 0),
            ([Some(80), Some(40), Some(100)], CapacityType::Spot, 40),
            ([Some(40), Some(40), Some(40)], CapacityType::Reserved, 40),
            ([None, Some(100), None], CapacityType::Spot, 100),
        ];
        let kind = kind(None);
        for (prices, capacity_type, price) in rows {
            let types = [CapacityType::Reserved, CapacityType::Spot, CapacityType::OnDemand];
            let all: Vec<Offering> =
                types.into_iter().zip(prices).filter_map(|(it, price)| Some(offering(it, price?))).collect();
            let choice = FirstChoice::new(all.iter().map(|it| (&kind, it))).unwrap();
            assert_eq!((choice.capacity_type, choice.price.0), (capacity_type, price), "{prices:?}");
        }
        assert_eq!(FirstChoice::new(std::iter::empty()), None);
    }

    #[test]
    fn includes_excludes_spot_above_the_cheapest_on_demand() {
        let (plain, fast) = (kind(None), kind(Some(2000)));
        let all = [offering(CapacityType::Spot, 40), offering(CapacityType::OnDemand, 60)];
        let choice = FirstChoice::new(all.iter().map(|it| (&plain, it))).unwrap();
        assert!(choice.includes(&plain, &offering(CapacityType::Spot, 60)));
        assert!(!choice.includes(&plain, &offering(CapacityType::Spot, 61)));
        assert!(choice.includes(&fast, &offering(CapacityType::Spot, 120)), "per unit of performance it costs 60");
        assert!(!choice.includes(&plain, &offering(CapacityType::OnDemand, 40)));
    }

    #[test]
    fn first_choice_compares_prices_per_performance() {
        let (plain, fast) = (kind(None), kind(Some(1250)));
        let (spot, list) = (offering(CapacityType::Spot, 90), offering(CapacityType::OnDemand, 100));
        let choice = FirstChoice::new([(&plain, &spot), (&fast, &list)].into_iter()).unwrap();
        assert_eq!((choice.capacity_type, choice.price.0), (CapacityType::OnDemand, 100));
    }
}

//! Flexibility of a launch: its price and the order of its types, `minValues`, and enough types for spot.

use std::collections::BTreeSet;

use crate::check::Findings;
use crate::check::labels::{possible, satisfied};
use crate::{
    CapacityType, Commitment, InstanceType, MicroDollars, MinValuesPolicy, Offering, Purpose, Requirement, Resources,
    label,
};

use super::CheckedLaunch;

/// Types of one launch with their available offerings.
pub(super) struct Offered<'a> {
    launch: &'a CheckedLaunch<'a>,
    listed: Vec<(&'a InstanceType, Vec<&'a Offering>)>,
}

impl<'a> Offered<'a> {
    pub(super) fn new(launch: &'a CheckedLaunch<'a>, listed: &[usize]) -> Self {
        let had = |position: &usize| {
            let (kind, offerings) = &launch.in_flight_node.kinds[*position];
            (*kind, offerings.iter().copied().filter(|offering| offering.available).collect())
        };
        Self { launch, listed: listed.iter().map(had).collect() }
    }

    pub(super) fn check(&self, findings: &mut Findings) {
        self.prices(findings);
        self.classes(findings);
        // The claim of a static NodePool is its template, with every type that the template allows.
        if self.launch.launch.purpose == Purpose::Provision {
            self.min_values(findings);
            self.spot(findings);
        }
    }

    /// Checks that types are sorted by price per unit of performance, and that the price is that of the first one.
    fn prices(&self, findings: &mut Findings) {
        let CheckedLaunch { snapshot, launch, .. } = self.launch;
        let commitment = launch.commitment.as_ref().and_then(|name| snapshot.commitment(name));
        let cheapest = |offerings: &[&Offering]| offerings.iter().map(|it| (it.price, it.capacity_type)).min();
        let row = |(kind, offerings): &(&'a InstanceType, Vec<&Offering>)| {
            let paid = commitment.and_then(|it| Some(Commitment::price_of_launch(it.use_of(&kind.name)?)));
            let compared = |(price, of)| (effective(paid.unwrap_or(price), kind.performance), of);
            (cheapest(offerings).map(compared), kind.name.as_str())
        };
        let rows: Vec<_> = self.listed.iter().map(row).collect();
        let subject = &self.launch.subject;
        findings.expect(rows.is_sorted(), subject, || format!("types are not cheapest first: {rows:?}"));
        let real = self.listed.first().and_then(|(_, offerings)| cheapest(offerings)).map(|(price, _)| price);
        let stated = launch.price;
        findings.expect(real == Some(stated), subject, || format!("says {stated:?}, the cheapest is {real:?}"));
    }

    /// Checks that bare-metal and accelerated types stand beside ordinary ones only where `minValues` may need all of them. The
    /// launch would drop them, and use an offering with another price.
    fn classes(&self, findings: &mut Findings) {
        let exotic = self.listed.iter().filter(|(kind, _)| kind.is_exotic()).count();
        let launch = self.launch.launch;
        let own = launch.requirements.iter().chain(&self.launch.pool.requirements);
        let flexible = launch.min_instance_types.is_some() || own.into_iter().any(|it| it.min_values.is_some());
        findings.expect(flexible || exotic == 0 || exotic == self.listed.len(), &self.launch.subject, || {
            "lists bare-metal or accelerated types beside ordinary ones".to_owned()
        });
    }

    /// Checks that the flexibility that the NodePool requires remains; where it was reduced, only as far as necessary.
    fn min_values(&self, findings: &mut Findings) {
        let (checked, subject) = (self.launch, &self.launch.subject);
        let asked: BTreeSet<&str> = checked.pool.requirements.iter().map(|it| it.key.as_str()).collect();
        let mut lowered = false;
        for key in asked {
            let Some(asked) = greatest(&checked.pool.requirements, key) else { continue };
            let found = self.values(key);
            let stated = match key {
                label::INSTANCE_TYPE => checked.launch.min_instance_types,
                key => greatest(&checked.launch.requirements, key),
            };
            let truly = if checked.launch.min_values_relaxed { asked.min(found) } else { asked };
            lowered |= truly < asked;
            findings.expect(truly <= found, subject, || format!("leaves only {found} values of {key}"));
            findings.expect(stated == Some(truly), subject, || {
                format!("states minValues {stated:?} for {key}, {truly} is true")
            });
        }
        let allowed = checked.snapshot.policy.min_values == MinValuesPolicy::BestEffort && lowered;
        let relaxed = checked.launch.min_values_relaxed;
        findings.expect(!relaxed || allowed, subject, || "says that minValues was lowered without need".to_owned());
    }

    /// Returns the number of distinct label values of the available types.
    fn values(&self, key: &str) -> u32 {
        let mut values = BTreeSet::new();
        for (kind, offerings) in &self.listed {
            for offering in offerings {
                values.extend(possible(kind, offering, key).into_iter().flatten());
            }
        }
        let own = self.launch.launch.requirements.iter().chain(&self.launch.pool.requirements);
        let own: Vec<&Requirement> = own.filter(|own| own.key == key).collect();
        values.retain(|value| own.iter().all(|own| satisfied(own, Some(value))));
        u32::try_from(values.len()).unwrap_or(u32::MAX)
    }

    /// Checks that a possible spot launch lists as many types as the policy requires for the types that each of its pods alone
    /// could have. Under a limit every further type may cost other pods their place, so the solver decides; likewise for
    /// bare-metal and accelerated types, which some pods need only together.
    fn spot(&self, findings: &mut Findings) {
        let checked = self.launch;
        let spot = self.listed.iter().flat_map(|it| &it.1).any(|it| it.capacity_type == CapacityType::Spot);
        let exotic = self.listed.iter().all(|(kind, _)| kind.is_exotic());
        if !spot || exotic || checked.launch.pods.is_empty() || self.limited() {
            return;
        }
        let ordinary = |position: &usize| !checked.in_flight_node.kinds[*position].0.is_exotic();
        let all = (0..checked.in_flight_node.kinds.len()).filter(ordinary);
        let could = all.filter(|kind| checked.could_list(*kind)).count();
        let policy = &checked.snapshot.policy;
        let least = policy.least_spot_types.min(policy.max_instance_types).min(could / 8);
        findings.expect(self.listed.len() >= least, &checked.subject, || {
            format!("may be spot and lists {} types, {least} of {could} were due", self.listed.len())
        });
    }

    fn limited(&self) -> bool {
        let CheckedLaunch { snapshot, pool, .. } = self.launch;
        let limits = pool.limits.as_ref();
        snapshot.limits_cost_of(pool)
            || limits.is_some_and(|limits| limits.iter().any(|(name, _)| name != Resources::NODES))
    }
}

/// Returns the greatest `minValues` for a label.
fn greatest(requirements: &[Requirement], key: &str) -> Option<u32> {
    requirements.iter().filter(|it| it.key == key).filter_map(|it| it.min_values).max()
}

/// Returns the price per unit of performance, in the unit of the price; performance is in thousandths.
fn effective(price: MicroDollars, performance: Option<u32>) -> i128 {
    i128::from(price.0) * 1000 / i128::from(performance.unwrap_or(1000).max(1))
}

//! Evaluation of a Commitment: the amount that it has, and what nodes of each instance type use of it.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{CommitmentSpec, ReservedInstances, SavingsPlan};
use crate::resources::cost::FieldFault;
use crate::units::price::{dollars, micro_dollars};

/// Millionths of a dollar, and of an instance in Reserved Instances.
const MILLION: i64 = 1_000_000;

/// Families whose Reserved Instances count for one size only, by the beginning of their names: those with accelerators, for high
/// performance computing, and with large memory.
const SINGLE_SIZES: [&str; 10] = ["dl", "g4", "g5", "g6", "gr6", "hpc", "inf", "p", "trn", "u"];

/// Time in relation to the term of a Commitment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitmentTerm {
    /// It pays later.
    Future,
    /// It pays now.
    Present,
    /// It no longer pays.
    Past,
}

/// Instance type with what decides about commitments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnDemandType<'a> {
    /// EC2's name, such as `m7g.xlarge`.
    pub name: &'a str,
    /// On-demand price per hour in micro-dollars.
    pub price: i64,
    /// Number of vCPUs.
    pub cpus: i64,
}

impl OnDemandType<'_> {
    fn family(&self) -> &str {
        self.name.split('.').next().unwrap_or_default()
    }
}

impl CommitmentSpec {
    /// Returns whether it pays at a time.
    #[must_use]
    pub fn term(&self, now: Timestamp) -> CommitmentTerm {
        if self.end_time.as_ref().is_some_and(|end| end.0 <= now) {
            CommitmentTerm::Past
        } else if self.start_time.as_ref().is_some_and(|start| start.0 > now) {
            CommitmentTerm::Future
        } else {
            CommitmentTerm::Present
        }
    }

    /// Returns all problems; empty if it is valid.
    #[must_use]
    pub fn faults(&self) -> Vec<FieldFault> {
        let mut faults = Vec::new();
        let mut add = |path: &str, problem: String| faults.push(FieldFault { path: path.to_owned(), problem });
        match (&self.savings_plan, &self.reserved_instances) {
            (Some(plan), None) => plan.faults(&mut add),
            (None, Some(reserved)) => reserved.faults(&mut add),
            _ => add("spec", "a commitment is either a savingsPlan or reservedInstances".to_owned()),
        }
        if self.share_percent.is_some_and(|percent| !(1..=100).contains(&percent)) {
            add("spec.sharePercent", "write a percentage from 1 to 100".to_owned());
        }
        if let (Some(start), Some(end)) = (&self.start_time, &self.end_time)
            && start.0 >= end.0
        {
            add("spec.endTime", "the end must be after startTime".to_owned());
        }
        faults
    }

    /// Returns the amount per hour that the nodes of this cluster may use, in millionths of a dollar or of an instance.
    #[must_use]
    pub fn amount(&self) -> i64 {
        let whole = match (&self.savings_plan, &self.reserved_instances) {
            (Some(plan), _) => micro_dollars(&plan.cost_per_hour).unwrap_or_default(),
            (None, Some(reserved)) => i64::from(reserved.count) * MILLION,
            (None, None) => 0,
        };
        whole.saturating_mul(i64::from(self.share_percent.unwrap_or(100))) / 100
    }

    /// Returns what a node of an instance type uses of the amount; `None` if it pays for no such nodes.
    #[must_use]
    pub fn use_of(&self, kind: &OnDemandType<'_>) -> Option<i64> {
        match (&self.savings_plan, &self.reserved_instances) {
            (Some(plan), _) => plan.rate(kind),
            (None, Some(reserved)) => reserved.part(kind),
            (None, None) => None,
        }
    }

    /// Returns the rank in the order in which EC2 uses commitments: Reserved Instances of a zone, those of a region, Savings Plans of a
    /// family, and those for all.
    #[must_use]
    pub fn rank(&self) -> u8 {
        match (&self.savings_plan, &self.reserved_instances) {
            (None, Some(reserved)) => u8::from(reserved.zone.is_none()),
            (Some(plan), _) => 2 + u8::from(plan.instance_families.is_empty()),
            (None, None) => u8::MAX,
        }
    }

    /// Returns in words what it pays for.
    #[must_use]
    pub fn pays_for(&self) -> String {
        let amount = self.amount();
        match (&self.savings_plan, &self.reserved_instances) {
            (Some(plan), _) if plan.instance_families.is_empty() => format!("${}/h", dollars(amount)),
            (Some(plan), _) => format!("${}/h of {}", dollars(amount), plan.instance_families.join(", ")),
            (None, Some(reserved)) => {
                let zone = reserved.zone.iter().map(|zone| format!(" in {zone}")).collect::<String>();
                format!("{} {}{zone}", dollars(amount), reserved.instance_type)
            }
            (None, None) => String::new(),
        }
    }
}

impl SavingsPlan {
    fn faults(&self, add: &mut impl FnMut(&str, String)) {
        if let Err(problem) = micro_dollars(&self.cost_per_hour) {
            add("spec.savingsPlan.costPerHour", problem.to_string());
        }
        if self.discount_percent.is_some_and(|percent| !(0..100).contains(&percent)) {
            add("spec.savingsPlan.discountPercent", "write a percentage from 0 to 99".to_owned());
        }
        for (kind, rate) in &self.rates {
            if let Err(problem) = micro_dollars(rate) {
                add(&format!("spec.savingsPlan.rates[{kind}]"), problem.to_string());
            }
        }
        if self.discount_percent.is_none() && self.rates.is_empty() {
            add(
                "spec.savingsPlan",
                "without a rate the plan pays for nothing: set discountPercent or rates".to_owned(),
            );
        }
    }

    fn rate(&self, kind: &OnDemandType<'_>) -> Option<i64> {
        let families = &self.instance_families;
        if !families.is_empty() && !families.iter().any(|family| family == kind.family()) {
            return None;
        }
        let own = self.rates.get(kind.name).and_then(|rate| micro_dollars(rate).ok());
        let discounted = || Some(kind.price * i64::from(100 - self.discount_percent?) / 100);
        own.or_else(discounted).filter(|rate| *rate > 0)
    }
}

impl ReservedInstances {
    fn faults(&self, add: &mut impl FnMut(&str, String)) {
        if self.count < 1 {
            add("spec.reservedInstances.count", "write the number of instances, at least 1".to_owned());
        }
        if units(&self.instance_type, None).is_none() && self.is_size_flexible() {
            let problem = format!("{:?} is not an instance type such as m7g.xlarge", self.instance_type);
            add("spec.reservedInstances.instanceType", problem);
        }
    }

    fn family(&self) -> &str {
        self.instance_type.split('.').next().unwrap_or_default()
    }

    fn is_size_flexible(&self) -> bool {
        let is_usual = || self.zone.is_none() && !SINGLE_SIZES.iter().any(|start| self.family().starts_with(start));
        self.size_flexible.unwrap_or_else(is_usual)
    }

    /// Returns what a node uses in millionths of an instance of the reserved type.
    fn part(&self, kind: &OnDemandType<'_>) -> Option<i64> {
        if kind.name == self.instance_type {
            return Some(MILLION);
        }
        if !self.is_size_flexible() || kind.family() != self.family() {
            return None;
        }
        let own = units(&self.instance_type, None)?;
        Some(units(kind.name, Some(kind.cpus))? * MILLION / own)
    }
}

/// Returns EC2's normalization factor of an instance type in quarters: 16 for `large`, 32 for `xlarge`, 64 for `2xlarge`. That of a
/// bare-metal type follows from its CPUs.
fn units(kind: &str, cpus: Option<i64>) -> Option<i64> {
    let (_, size) = kind.split_once('.')?;
    let named: BTreeMap<&str, i64> =
        [("nano", 1), ("micro", 2), ("small", 4), ("medium", 8), ("large", 16), ("xlarge", 32)].into();
    let many = |size: &str| Some(32 * size.strip_suffix("xlarge")?.parse::<i64>().ok()?);
    let metal = |size: &str| match size.strip_prefix("metal-") {
        Some(size) => Some(32 * size.strip_suffix("xl")?.parse::<i64>().ok()?),
        None => cpus.filter(|_| size == "metal").map(|cpus| cpus * 8),
    };
    named.get(size).copied().or_else(|| many(size)).or_else(|| metal(size)).filter(|units| *units > 0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(value: Value) -> CommitmentSpec {
        serde_json::from_value(value).unwrap()
    }

    const LARGE: OnDemandType<'_> = OnDemandType { name: "m7g.large", price: 81_600, cpus: 2 };

    #[test]
    fn use_of_savings_plan_is_its_rate() {
        let rows = [
            (json!({"costPerHour": "1", "discountPercent": 50}), Some(40_800)),
            (json!({"costPerHour": "1", "discountPercent": 50, "rates": {"m7g.large": "0.06"}}), Some(60_000)),
            (json!({"costPerHour": "1", "rates": {"m7g.xlarge": "0.06"}}), None),
            (json!({"costPerHour": "1", "discountPercent": 50, "instanceFamilies": ["c7g"]}), None),
            (json!({"costPerHour": "1", "discountPercent": 50, "instanceFamilies": ["c7g", "m7g"]}), Some(40_800)),
        ];
        for (plan, expected) in rows {
            assert_eq!(spec(json!({"savingsPlan": plan})).use_of(&LARGE), expected, "{plan}");
        }
    }

    #[test]
    fn use_of_reserved_instances_follows_size_and_family() {
        let kind = |name| OnDemandType { name, price: 1, cpus: 64 };
        let rows = [
            (json!({"instanceType": "m7g.xlarge", "count": 1}), "m7g.xlarge", Some(1_000_000)),
            (json!({"instanceType": "m7g.xlarge", "count": 1}), "m7g.large", Some(500_000)),
            (json!({"instanceType": "m7g.xlarge", "count": 1}), "m7g.16xlarge", Some(16_000_000)),
            (json!({"instanceType": "m7g.xlarge", "count": 1}), "m7g.metal", Some(16_000_000)),
            (json!({"instanceType": "m7i.xlarge", "count": 1}), "m7i.metal-24xl", Some(24_000_000)),
            (json!({"instanceType": "t4g.small", "count": 1}), "t4g.nano", Some(250_000)),
            (json!({"instanceType": "m7g.xlarge", "count": 1}), "m7gd.xlarge", None),
            (json!({"instanceType": "m7g.xlarge", "count": 1, "zone": "eu-west-1a"}), "m7g.large", None),
            (json!({"instanceType": "m7g.xlarge", "count": 1, "zone": "eu-west-1a"}), "m7g.xlarge", Some(1_000_000)),
            (json!({"instanceType": "g5.xlarge", "count": 1}), "g5.2xlarge", None),
            (json!({"instanceType": "g5.xlarge", "count": 1, "sizeFlexible": true}), "g5.2xlarge", Some(2_000_000)),
        ];
        for (reserved, name, expected) in rows {
            let used = spec(json!({"reservedInstances": reserved})).use_of(&kind(name));
            assert_eq!(used, expected, "{name} of {reserved}");
        }
    }

    #[test]
    fn amount_is_the_share_of_the_cluster() {
        let rows = [
            (json!({"savingsPlan": {"costPerHour": "12.5", "discountPercent": 30}}), 12_500_000, "$12.5/h"),
            (
                json!({"savingsPlan": {"costPerHour": "4", "rates": {}, "instanceFamilies": ["m5"]}, "sharePercent": 25}),
                1_000_000,
                "$1/h of m5",
            ),
            (
                json!({"reservedInstances": {"instanceType": "m5.large", "count": 10, "zone": "a"}, "sharePercent": 50}),
                5_000_000,
                "5 m5.large in a",
            ),
        ];
        for (value, amount, words) in rows {
            let spec = spec(value);
            assert_eq!((spec.amount(), spec.pays_for().as_str()), (amount, words));
        }
    }

    #[test]
    fn rank_is_the_order_of_ec2() {
        let order = [
            json!({"reservedInstances": {"instanceType": "m5.large", "count": 1, "zone": "a"}}),
            json!({"reservedInstances": {"instanceType": "m5.large", "count": 1}}),
            json!({"savingsPlan": {"costPerHour": "1", "discountPercent": 1, "instanceFamilies": ["m5"]}}),
            json!({"savingsPlan": {"costPerHour": "1", "discountPercent": 1}}),
        ];
        assert_eq!(order.map(|it| spec(it).rank()), [0, 1, 2, 3]);
    }

    #[test]
    fn term_begins_and_ends() {
        let spec = spec(json!({
            "savingsPlan": {"costPerHour": "1", "discountPercent": 1},
            "startTime": "2026-01-01T00:00:00Z", "endTime": "2027-01-01T00:00:00Z",
        }));
        let rows = [
            ("2025-12-31T23:59:59Z", CommitmentTerm::Future),
            ("2026-01-01T00:00:00Z", CommitmentTerm::Present),
            ("2026-12-31T23:59:59Z", CommitmentTerm::Present),
            ("2027-01-01T00:00:00Z", CommitmentTerm::Past),
        ];
        for (now, expected) in rows {
            assert_eq!(spec.term(now.parse().unwrap()), expected, "{now}");
        }
    }

    #[test]
    fn faults_name_each_wrong_field() {
        let both = json!({"savingsPlan": {"costPerHour": "1", "discountPercent": 1},
                          "reservedInstances": {"instanceType": "m5.large", "count": 1}});
        let rows = [
            (json!({}), "spec: a commitment is either"),
            (both, "spec: a commitment is either"),
            (json!({"savingsPlan": {"costPerHour": "1"}}), "spec.savingsPlan: without a rate"),
            (json!({"savingsPlan": {"costPerHour": "much", "discountPercent": 1}}), "spec.savingsPlan.costPerHour: "),
            (
                json!({"savingsPlan": {"costPerHour": "1", "discountPercent": 100}}),
                "spec.savingsPlan.discountPercent: ",
            ),
            (json!({"savingsPlan": {"costPerHour": "1", "rates": {"a.b": "-1"}}}), "spec.savingsPlan.rates[a.b]: "),
            (json!({"reservedInstances": {"instanceType": "m5.large", "count": 0}}), "spec.reservedInstances.count: "),
            (json!({"reservedInstances": {"instanceType": "m5", "count": 1}}), "spec.reservedInstances.instanceType: "),
            (
                json!({"savingsPlan": {"costPerHour": "1", "discountPercent": 1}, "sharePercent": 0}),
                "spec.sharePercent: ",
            ),
            (
                json!({"savingsPlan": {"costPerHour": "1", "discountPercent": 1},
                       "startTime": "2027-01-01T00:00:00Z", "endTime": "2027-01-01T00:00:00Z"}),
                "spec.endTime: ",
            ),
        ];
        for (value, expected) in rows {
            let faults: Vec<String> = spec(value.clone()).faults().iter().map(ToString::to_string).collect();
            assert!(faults.len() == 1 && faults[0].starts_with(expected), "{value}: {faults:?}");
        }
    }
}

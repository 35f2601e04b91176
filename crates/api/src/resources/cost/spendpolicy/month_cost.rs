//! Cost of a calendar month: added up from the hourly cost between the updates of a SpendPolicy's status.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{SpendPolicyStatus, SpendRules};
use crate::units::price::{dollars, micro_dollars};

const NANOS_PER_HOUR: i128 = 3_600_000_000_000;
/// Micro-dollars of the smallest amount that a status shows.
const SHOWN: i64 = 100;

/// Cost of a month until a moment, in micro-dollars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MonthCost {
    /// Hourly cost from `until` on.
    pub rate: i64,
    /// Cost from `since` to `until`.
    pub spent: i64,
    /// Start of the month, or of the policy.
    pub since: Timestamp,
    /// Time of the last update.
    pub until: Timestamp,
}

/// Cost of this month with a forecast, in micro-dollars.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spending {
    /// Cost until now.
    pub count: MonthCost,
    /// Month, such as `2026-11`.
    pub month: String,
    /// Cost at the end of the month, if the average cost goes on.
    pub forecast: i64,
}

impl MonthCost {
    /// Returns the cost that a status has, if it has one.
    #[must_use]
    pub fn of_status(status: &SpendPolicyStatus) -> Option<Self> {
        let amount = |text: &Option<String>| micro_dollars(text.as_deref()?).ok();
        Some(Self {
            rate: amount(&status.cost_per_hour)?,
            spent: amount(&status.cost_this_month)?,
            since: status.counted_since.as_ref()?.0,
            until: status.counted_until.as_ref()?.0,
        })
    }

    /// Adds the cost until `now`, at the hourly cost of the last update. From then on the hourly cost is `rate`. The time in which no
    /// controller ran counts as well, since nodes cost without one. A new month begins at zero.
    #[must_use]
    pub fn continued(before: Option<Self>, rate: i64, zone: &TimeZone, now: Timestamp) -> Spending {
        let month = zone.to_datetime(now).date().first_of_month();
        let (starts, ends) = (midnight(month, zone), midnight(month.saturating_add(1.month()), zone));
        let before = before.unwrap_or(Self { rate: 0, spent: 0, since: now, until: now });
        let is_of_month = before.until >= starts;
        let (since, from) = (before.since.max(starts), before.until.max(starts).min(now));
        let spent = if is_of_month { before.spent } else { 0 } + cost_of(before.rate, from, now);
        let count = Self { rate, spent, since, until: now };
        let forecast = spent + average(count).map_or_else(|| cost_of(rate, now, ends), |it| cost_of(it, now, ends));
        Spending { count, month: month.strftime("%Y-%m").to_string(), forecast }
    }
}

impl SpendRules {
    /// Reports whether the month's budget is spent, by the last status.
    #[must_use]
    pub fn is_budget_spent(&self, status: Option<&SpendPolicyStatus>, now: Timestamp) -> bool {
        let before = status.and_then(MonthCost::of_status);
        let spending = || MonthCost::continued(before, before.map_or(0, |it| it.rate), &self.zone, now);
        self.budget.is_some_and(|budget| spending().count.spent >= budget)
    }
}

impl SpendPolicyStatus {
    /// Writes the cost of a month into the status.
    pub fn set_spending(&mut self, spending: &Spending) {
        let Spending { count, month, forecast } = spending;
        self.cost_per_hour = Some(dollars(count.rate));
        self.cost_this_month = Some(dollars(count.spent));
        self.forecast_this_month = Some(dollars(forecast.div_euclid(SHOWN) * SHOWN));
        self.month = Some(month.clone());
        self.counted_since = Some(Time(count.since));
        self.counted_until = Some(Time(count.until));
    }
}

/// Returns the average hourly cost; `None` in the first hour, which says little.
fn average(count: MonthCost) -> Option<i64> {
    let nanos = count.until.duration_since(count.since).as_nanos();
    (nanos >= NANOS_PER_HOUR).then(|| i64::try_from(i128::from(count.spent) * NANOS_PER_HOUR / nanos).ok())?
}

fn cost_of(rate: i64, from: Timestamp, to: Timestamp) -> i64 {
    let nanos = to.duration_since(from).as_nanos().max(0);
    i64::try_from(i128::from(rate) * nanos / NANOS_PER_HOUR).unwrap_or(i64::MAX)
}

fn midnight(day: Date, zone: &TimeZone) -> Timestamp {
    day.to_zoned(zone.clone()).map_or(Timestamp::MAX, |it| it.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::cost::spendpolicy::SpendPolicySpec;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn count(rate: i64, spent: i64, since: &str, until: &str) -> MonthCost {
        MonthCost { rate, spent, since: at(since), until: at(until) }
    }

    #[test]
    fn ledger_counts_by_the_hourly_cost_of_the_last_update() {
        let first = MonthCost::continued(None, 6_000_000, &TimeZone::UTC, at("2026-11-10T00:00:00Z"));
        assert_eq!((first.count.spent, first.month.as_str()), (0, "2026-11"));
        let next = MonthCost::continued(Some(first.count), 9_000_000, &TimeZone::UTC, at("2026-11-10T00:10:00Z"));
        assert_eq!(next.count, count(9_000_000, 1_000_000, "2026-11-10T00:00:00Z", "2026-11-10T00:10:00Z"));
        // After an hour the average counts: 2.50 dollars per hour.
        let later = MonthCost::continued(
            Some(count(9_000_000, 0, "2026-11-10T00:00:00Z", "2026-11-10T01:00:00Z")),
            1,
            &TimeZone::UTC,
            at("2026-11-10T02:00:00Z"),
        );
        assert_eq!(later.count.spent, 9_000_000);
        assert_eq!(later.forecast, 9_000_000 + 4_500_000 * (20 * 24 + 22));
    }

    #[test]
    fn month_begins_at_zero_in_the_time_zone() {
        let zone = crate::schedule::zone("Europe/Berlin").unwrap();
        let before = count(2_000_000, 700_000_000, "2026-11-01T00:00:00Z", "2026-11-30T22:30:00Z");
        let same = MonthCost::continued(Some(before), 0, &zone, at("2026-11-30T22:59:59Z"));
        assert_eq!(same.month, "2026-11");
        assert!(same.count.spent > 700_000_000);
        let next = MonthCost::continued(Some(before), 0, &zone, at("2026-11-30T23:30:00Z"));
        assert_eq!(next.month, "2026-12");
        assert_eq!(next.count, count(0, 1_000_000, "2026-11-30T23:00:00Z", "2026-11-30T23:30:00Z"));
    }

    #[test]
    fn status_keeps_the_cost() {
        let count = count(1_234_567, 89_000_001, "2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z");
        let mut status = SpendPolicyStatus::default();
        assert_eq!(MonthCost::of_status(&status), None);
        status.set_spending(&Spending { count, month: "2026-11".to_owned(), forecast: 123_456_789 });
        assert_eq!(MonthCost::of_status(&status), Some(count));
        assert_eq!(status.forecast_this_month.as_deref(), Some("123.4567"));
    }

    #[test]
    fn budget_is_spent_until_the_month_ends() {
        let spec = SpendPolicySpec { max_cost_per_month: Some("100".to_owned()), ..SpendPolicySpec::default() };
        let rules = spec.rules().unwrap();
        let mut status = SpendPolicyStatus::default();
        let spending = |spent| Spending {
            count: count(1_000_000, spent, "2026-11-01T00:00:00Z", "2026-11-20T00:00:00Z"),
            month: String::new(),
            forecast: 0,
        };
        assert!(!rules.is_budget_spent(None, at("2026-11-20T00:00:00Z")));
        status.set_spending(&spending(99_000_000));
        assert!(!rules.is_budget_spent(Some(&status), at("2026-11-20T00:59:00Z")));
        assert!(rules.is_budget_spent(Some(&status), at("2026-11-20T01:00:00Z")));
        assert!(!rules.is_budget_spent(Some(&status), at("2026-12-01T00:00:00Z")));
    }
}

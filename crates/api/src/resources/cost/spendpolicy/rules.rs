//! Evaluation of a SpendPolicy: its limits at one moment, and its NodePools.

use std::collections::BTreeMap;
use std::fmt;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::{SpendPolicySpec, SpendWindow};
use crate::names::label;
use crate::resources::cost::FieldFault;
use crate::resources::nodepool::NodePool;
use crate::resources::nodepool::schedule::{self, Schedule};
use crate::units::duration;
use crate::units::price::micro_dollars;

/// Limits of the hourly cost at one moment, in micro-dollars; `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpendLimits {
    /// Limit that no launch may exceed.
    pub max: Option<i64>,
    /// Limit above which only cost counts.
    pub soft: Option<i64>,
}

/// Parsed limits of a SpendPolicy.
#[derive(Clone, Debug)]
pub struct SpendRules {
    /// Time zone of schedules and months.
    pub zone: TimeZone,
    /// Budget of a month in micro-dollars.
    pub budget: Option<i64>,
    usual: SpendLimits,
    windows: Vec<Window>,
}

#[derive(Clone, Debug)]
struct Window {
    schedule: Schedule,
    lasts: SignedDuration,
    limits: SpendLimits,
}

impl SpendPolicySpec {
    /// Parses the limits.
    ///
    /// # Errors
    /// Returns all problems. A policy with a problem permits no launch, since a limit that fails open would be none.
    pub fn rules(&self) -> Result<SpendRules, Vec<FieldFault>> {
        let mut faults = Faults::default();
        let zone = self.time_zone.as_deref().map_or(Ok(TimeZone::UTC), schedule::zone);
        let rules = SpendRules {
            zone: faults.take("spec.timeZone", zone).unwrap_or(TimeZone::UTC),
            budget: faults.dollars("spec.maxCostPerMonth", self.max_cost_per_month.as_deref()),
            usual: SpendLimits {
                max: faults.dollars("spec.maxCostPerHour", self.max_cost_per_hour.as_deref()),
                soft: faults.dollars("spec.softCostPerHour", self.soft_cost_per_hour.as_deref()),
            },
            windows: self.windows.iter().enumerate().filter_map(|(at, window)| faults.window(at, window)).collect(),
        };
        if faults.0.is_empty() { Ok(rules) } else { Err(faults.0) }
    }

    /// Reports whether the policy covers the NodePool.
    #[must_use]
    pub fn selects(&self, pool: &NodePool) -> bool {
        let Some(selector) = &self.node_pool_selector else { return true };
        let own = pool.metadata.labels.iter().flatten();
        let of_nodes = pool.spec.template.metadata.labels.iter().flatten();
        let mut labels: BTreeMap<String, String> =
            own.chain(of_nodes).map(|(key, value)| (key.clone(), value.clone())).collect();
        labels.insert(label::NODEPOOL.to_owned(), pool.metadata.name.clone().unwrap_or_default());
        selector.matches(&labels)
    }
}

impl SpendRules {
    /// Returns the limits at a moment: those of the open windows, the lowest of each, and otherwise the usual ones. A soft limit
    /// that is not below the other one has no effect.
    #[must_use]
    pub fn limits_at(&self, now: Timestamp) -> SpendLimits {
        let open = || self.windows.iter().filter(|window| window.schedule.is_open(window.lasts, &self.zone, now));
        let max = open().filter_map(|window| window.limits.max).min().or(self.usual.max);
        let soft = open().filter_map(|window| window.limits.soft).min().or(self.usual.soft);
        SpendLimits { max, soft: soft.filter(|soft| max.is_none_or(|max| *soft < max)) }
    }
}

#[derive(Default)]
struct Faults(Vec<FieldFault>);

impl Faults {
    /// Returns the value, or takes the problem of the field.
    fn take<T>(&mut self, path: &str, value: Result<T, impl fmt::Display>) -> Option<T> {
        let fault = |problem: &dyn fmt::Display| FieldFault { path: path.to_owned(), problem: problem.to_string() };
        value.map_err(|problem| self.0.push(fault(&problem))).ok()
    }

    fn dollars(&mut self, path: &str, text: Option<&str>) -> Option<i64> {
        self.take(path, text.map(micro_dollars).transpose()).flatten()
    }

    fn window(&mut self, at: usize, window: &SpendWindow) -> Option<Window> {
        let path = |field: &str| format!("spec.windows[{at}].{field}");
        let schedule = self.take(&path("schedule"), Schedule::read(&window.schedule));
        let lasts = self.take(&path("duration"), duration::span(&window.duration.0));
        let limits = SpendLimits {
            max: self.dollars(&path("maxCostPerHour"), window.max_cost_per_hour.as_deref()),
            soft: self.dollars(&path("softCostPerHour"), window.soft_cost_per_hour.as_deref()),
        };
        Some(Window { schedule: schedule?, lasts: SignedDuration::from_nanos(lasts?), limits })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(value: Value) -> SpendPolicySpec {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn limits_follow_the_windows_in_the_time_zone() {
        let policy = spec(json!({
            "timeZone": "Europe/Berlin",
            "maxCostPerHour": "40",
            "softCostPerHour": "30",
            "windows": [
                {"schedule": "0 20 * * mon-fri", "duration": "10h", "maxCostPerHour": "10"},
                {"schedule": "0 0 * * *", "duration": "1h", "maxCostPerHour": "5", "softCostPerHour": "2"},
                {"schedule": "0 12 * * *", "duration": "1h", "maxCostPerHour": "60"},
            ],
        }));
        let rules = policy.rules().unwrap();
        let rows = [
            ("2026-11-30T18:59:59Z", Some(40), Some(30)),
            ("2026-11-30T19:00:00Z", Some(10), None),
            ("2026-11-30T23:30:00Z", Some(5), Some(2)),
            ("2026-12-01T00:00:00Z", Some(10), None),
            ("2026-12-01T05:00:00Z", Some(40), Some(30)),
            ("2026-12-01T11:30:00Z", Some(60), Some(30)),
            ("2026-07-01T18:00:00Z", Some(10), None),
        ];
        for (at, max, soft) in rows {
            let limits = rules.limits_at(at.parse().unwrap());
            let micro = |dollars: Option<i64>| dollars.map(|it| it * 1_000_000);
            assert_eq!(limits, SpendLimits { max: micro(max), soft: micro(soft) }, "{at}");
        }
    }

    #[test]
    fn rules_name_each_wrong_field() {
        let policy = spec(json!({
            "timeZone": "Mars/Olympus",
            "maxCostPerHour": "much",
            "maxCostPerMonth": "-1",
            "windows": [{"schedule": "at night", "duration": "long", "softCostPerHour": "$3"}],
        }));
        let faults: Vec<String> = policy.rules().unwrap_err().iter().map(ToString::to_string).collect();
        let paths = [
            "spec.timeZone: \"Mars/Olympus\" is not a time zone",
            "spec.maxCostPerMonth: \"-1\" is not a price",
            "spec.maxCostPerHour: \"much\" is not a price",
            "spec.windows[0].schedule: \"at night\" is not a schedule",
            "spec.windows[0].duration: ",
            "spec.windows[0].softCostPerHour: \"$3\" is not a price",
        ];
        assert_eq!(faults.len(), paths.len(), "{faults:?}");
        for (fault, path) in faults.iter().zip(paths) {
            assert!(fault.starts_with(path), "{fault}");
        }
    }

    #[test]
    fn policy_selects_pools_by_their_labels() {
        let pool: NodePool = serde_json::from_value(json!({
            "metadata": {"name": "batch", "labels": {"team": "research"}},
            "spec": {"template": {
                "metadata": {"labels": {"tier": "low"}},
                "spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "a"}},
            }},
        }))
        .unwrap();
        let rows = [
            (json!({}), true),
            (json!({"nodePoolSelector": {}}), true),
            (json!({"nodePoolSelector": {"matchLabels": {"team": "research"}}}), true),
            (json!({"nodePoolSelector": {"matchLabels": {"tier": "low"}}}), true),
            (json!({"nodePoolSelector": {"matchLabels": {"karpenter.sh/nodepool": "batch"}}}), true),
            (json!({"nodePoolSelector": {"matchLabels": {"team": "web"}}}), false),
            (json!({"nodePoolSelector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}}), false),
        ];
        for (value, expected) in rows {
            assert_eq!(spec(value.clone()).selects(&pool), expected, "{value}");
        }
    }
}

//! Evaluation of a NodePool's disruption block and of the annotations that extend it. The results are budgets at one moment,
//! minimum savings of a command, the use of utilization reports, and the limits for lowering requests. Invalid values are
//! reported, and the valid ones still apply.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::drift_canary::{DriftCanary, InvalidDriftCanary};
use super::schedule::{self, InvalidSchedule, Schedule, UnknownZone};
use super::{Budget, DisruptionReason, NodePool};
use crate::names::annotation;
use crate::objects::PoolSurge;
use crate::units::duration::{self, InvalidSpan};
use crate::units::node_count::part;
use crate::units::price::{InvalidPrice, InvalidShare, micro_dollars, share};

const NANOS_PER_HOUR: i64 = 3_600_000_000_000;
/// Maximum hours of history that reports count.
const MOST_HOURS: i64 = 255;

type Zone = Result<TimeZone, DisruptionFault>;

/// Invalid disruption setting of a NodePool, with the value that applies instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DisruptionFault {
    /// Number of nodes of a budget.
    #[error(
        "spec.disruption.budgets[{budget}] allows no disruption: {text:?} is neither a number of nodes nor a \
         percentage; write 5 or 10%"
    )]
    Nodes {
        /// Position of the budget.
        budget: usize,
        /// Text as received.
        text: String,
    },
    /// Schedule of a budget.
    #[error("spec.disruption.budgets[{budget}] allows no disruption: {error}")]
    Schedule {
        /// Position of the budget.
        budget: usize,
        /// Cause.
        error: InvalidSchedule,
    },
    /// Duration of a budget.
    #[error("spec.disruption.budgets[{budget}] allows no disruption: {error}")]
    Duration {
        /// Position of the budget.
        budget: usize,
        /// Cause.
        error: InvalidSpan,
    },
    /// Budget with a schedule but no duration, or the reverse.
    #[error("spec.disruption.budgets[{budget}] allows no disruption: {missing} is missing, such as {example}")]
    Half {
        /// Position of the budget.
        budget: usize,
        /// Missing field.
        missing: &'static str,
        /// Valid value of that field.
        example: &'static str,
    },
    /// Time zone of schedules.
    #[error("annotation kerf.sh/budget-timezone: budgets with a schedule allow no disruption: {0}")]
    Zone(UnknownZone),
    /// Canary of drift.
    #[error("annotation kerf.sh/drift-canary: drifted nodes are not replaced: {0}")]
    Canary(InvalidDriftCanary),
    /// Minimum savings as a share.
    #[error("annotation kerf.sh/consolidation-min-saving is ignored: {0}")]
    MinSaving(InvalidShare),
    /// Minimum savings for each evicted pod.
    #[error("annotation kerf.sh/consolidation-min-saving-per-pod is ignored: {0}")]
    MinSavingPerPod(InvalidPrice),
    /// Warm-up of a new node.
    #[error("annotation kerf.sh/consolidation-warm-up is ignored: {0}")]
    WarmUp(InvalidSpan),
    /// Work of evicted pods.
    #[error("annotation kerf.sh/consolidation-lost-work is ignored: unknown value {0:?}; write count or ignore")]
    LostWork(String),
    /// Use of utilization reports.
    #[error("annotation kerf.sh/utilization is ignored: {0:?} is not ignore, observe or pack")]
    Utilization(String),
    /// Annotation that requests a copy of single pods before their eviction.
    #[error("annotation kerf.sh/surge is ignored: unknown value {0:?}; write true")]
    Surge(String),
    /// Margin above the utilization of a pod.
    #[error("annotation kerf.sh/pack-margin is ignored: {0}")]
    PackMargin(InvalidShare),
    /// Lower bound of a lowered request.
    #[error("annotation kerf.sh/pack-floor is ignored: invalid percentage {0:?}: write 1% to 100%, such as 50%")]
    PackFloor(String),
    /// Minimum history of a pod.
    #[error("annotation kerf.sh/pack-min-history is ignored: invalid duration {0:?}: write 1h to 255h, such as 24h")]
    PackMinHistory(String),
}

/// Use of utilization reports in a NodePool (annotation `kerf.sh/utilization`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Utilization {
    /// Reports are ignored.
    Ignore,
    /// Reports influence which nodes are removed and which nodes receive pods.
    #[default]
    Observe,
    /// As `Observe`, and requests are lowered by in-place resize.
    Pack,
}

impl Budget {
    /// Reports whether the budget limits disruptions of this reason. `None` stands for reasons that budgets cannot name. An
    /// empty list of reasons means all reasons, as an absent one.
    #[must_use]
    pub fn concerns(&self, reason: Option<DisruptionReason>) -> bool {
        let named = self.reasons.as_deref().unwrap_or_default();
        named.is_empty() || reason.is_some_and(|reason| named.contains(&reason))
    }

    fn allows(&self, position: usize, total: u32, zone: &Zone, now: Timestamp) -> Result<Option<u32>, DisruptionFault> {
        let nodes = part(&self.nodes, total);
        let nodes = nodes.ok_or_else(|| DisruptionFault::Nodes { budget: position, text: self.nodes.clone() })?;
        Ok(self.is_open(position, zone, now)?.then_some(nodes))
    }

    fn is_open(&self, position: usize, zone: &Zone, now: Timestamp) -> Result<bool, DisruptionFault> {
        let half = |missing, example| Err(DisruptionFault::Half { budget: position, missing, example });
        match (&self.schedule, &self.duration) {
            (None, None) => Ok(true),
            (Some(_), None) => half("duration", "8h"),
            (None, Some(_)) => half("schedule", "@daily"),
            (Some(schedule), Some(lasts)) => {
                let schedule = Schedule::read(schedule);
                let schedule = schedule.map_err(|error| DisruptionFault::Schedule { budget: position, error })?;
                let lasts = duration::span(&lasts.0);
                let lasts = lasts.map_err(|error| DisruptionFault::Duration { budget: position, error })?;
                let zone = zone.as_ref().map_err(Clone::clone)?;
                Ok(schedule.is_open(SignedDuration::from_nanos(lasts), zone, now))
            }
        }
    }
}

impl NodePool {
    /// Returns for each budget how many of `total` nodes it allows at `now`. The number is `None` while the schedule of the
    /// budget is not active. An invalid budget allows none.
    pub fn budgets(
        &self,
        total: u32,
        now: Timestamp,
    ) -> impl Iterator<Item = (&Budget, Result<Option<u32>, DisruptionFault>)> {
        let zone = self.budget_zone();
        let listed = self.spec.disruption.budgets.iter().enumerate();
        listed.map(move |(position, budget)| (budget, budget.allows(position, total, &zone, now)))
    }

    /// Returns the canary of drift; `None` if drifted nodes are replaced as the budgets allow.
    ///
    /// # Errors
    /// Returns an error if the annotation is not a number or percentage of nodes and a duration.
    pub fn drift_canary(&self) -> Result<Option<DriftCanary>, DisruptionFault> {
        let text = self.annotation(annotation::DRIFT_CANARY);
        text.map(DriftCanary::read).transpose().map_err(DisruptionFault::Canary)
    }

    /// Returns the minimum savings of a command relative to the cost of its nodes, in thousandths; `None` if not set.
    ///
    /// # Errors
    /// Returns an error if the annotation is not a percentage.
    pub fn min_saving(&self) -> Result<Option<u32>, DisruptionFault> {
        let text = self.annotation(annotation::CONSOLIDATION_MIN_SAVING);
        text.map(share).transpose().map_err(DisruptionFault::MinSaving)
    }

    /// Returns the minimum savings per hour for each pod that a command evicts, in micro-dollars; `None` if not set.
    ///
    /// # Errors
    /// Returns an error if the annotation is not a price.
    pub fn min_saving_per_pod(&self) -> Result<Option<i64>, DisruptionFault> {
        let text = self.annotation(annotation::CONSOLIDATION_MIN_SAVING_PER_POD);
        text.map(micro_dollars).transpose().map_err(DisruptionFault::MinSavingPerPod)
    }

    /// Returns the nanoseconds for which a new node costs money before it is useful; `None` if not set.
    ///
    /// # Errors
    /// Returns an error if the annotation is not a duration of 0 or more.
    pub fn warm_up(&self) -> Result<Option<i64>, DisruptionFault> {
        let text = self.annotation(annotation::CONSOLIDATION_WARM_UP);
        text.map(duration::span).transpose().map_err(DisruptionFault::WarmUp)
    }

    /// Reports whether the work that evicted pods of Jobs would do again counts as a cost of a consolidation.
    ///
    /// # Errors
    /// Returns an error if the annotation is neither `count` nor `ignore`.
    pub fn lost_work_counts(&self) -> Result<bool, DisruptionFault> {
        match self.annotation(annotation::CONSOLIDATION_LOST_WORK) {
            None | Some("count") => Ok(true),
            Some("ignore") => Ok(false),
            Some(text) => Err(DisruptionFault::LostWork(text.to_owned())),
        }
    }

    /// Returns the use of utilization reports.
    ///
    /// # Errors
    /// Returns an error if the annotation is none of `ignore`, `observe` and `pack`.
    pub fn utilization(&self) -> Result<Utilization, DisruptionFault> {
        match self.annotation(annotation::UTILIZATION) {
            None => Ok(Utilization::default()),
            Some("ignore") => Ok(Utilization::Ignore),
            Some("observe") => Ok(Utilization::Observe),
            Some("pack") => Ok(Utilization::Pack),
            Some(text) => Err(DisruptionFault::Utilization(text.to_owned())),
        }
    }

    /// Returns the pods that get a copy before their eviction.
    ///
    /// # Errors
    /// Returns an error if the annotation is neither `true` nor `false`.
    pub fn surges(&self) -> Result<PoolSurge, DisruptionFault> {
        match self.annotation(annotation::SURGE) {
            None => Ok(PoolSurge::Blocked),
            Some(annotation::FALSE) => Ok(PoolSurge::Never),
            Some(annotation::TRUE) => Ok(PoolSurge::Single),
            Some(text) => Err(DisruptionFault::Surge(text.to_owned())),
        }
    }

    /// Returns the margin above the utilization of a pod, in thousandths; `None` if not set.
    ///
    /// # Errors
    /// Returns an error if the annotation is not a percentage.
    pub fn pack_margin(&self) -> Result<Option<u32>, DisruptionFault> {
        self.annotation(annotation::PACK_MARGIN).map(share).transpose().map_err(DisruptionFault::PackMargin)
    }

    /// Returns the lower bound of a lowered request relative to the request, in thousandths; `None` if not set.
    ///
    /// # Errors
    /// Returns an error if the annotation is not a percentage of at least 1 %.
    pub fn pack_floor(&self) -> Result<Option<u32>, DisruptionFault> {
        let Some(text) = self.annotation(annotation::PACK_FLOOR) else { return Ok(None) };
        let floor = share(text).ok().filter(|floor| *floor >= 10);
        floor.map(Some).ok_or_else(|| DisruptionFault::PackFloor(text.to_owned()))
    }

    /// Returns the hours of history that a pod must have, rounded up; `None` if not set.
    ///
    /// # Errors
    /// Returns an error if the annotation is not a duration of 1 to 255 hours.
    pub fn pack_min_history(&self) -> Result<Option<u32>, DisruptionFault> {
        let Some(text) = self.annotation(annotation::PACK_MIN_HISTORY) else { return Ok(None) };
        let nanos = duration::nanos(text).ok().filter(|nanos| *nanos >= NANOS_PER_HOUR);
        let hours = nanos.map(|nanos| nanos / NANOS_PER_HOUR + i64::from(nanos % NANOS_PER_HOUR > 0));
        let hours = hours.filter(|hours| *hours <= MOST_HOURS).and_then(|hours| u32::try_from(hours).ok());
        hours.map(Some).ok_or_else(|| DisruptionFault::PackMinHistory(text.to_owned()))
    }

    /// Returns all invalid disruption settings, each once.
    #[must_use]
    pub fn disruption_faults(&self) -> Vec<DisruptionFault> {
        let of_budgets = self.budgets(0, Timestamp::UNIX_EPOCH).filter_map(|(_, limit)| limit.err());
        let money = [self.min_saving().err(), self.min_saving_per_pod().err(), self.warm_up().err()];
        let packing = [self.pack_margin().err(), self.pack_floor().err(), self.pack_min_history().err()];
        let words = [self.lost_work_counts().err(), self.utilization().err(), self.surges().err()];
        let words = words.into_iter().chain(packing);
        let of_annotations =
            [self.budget_zone().err(), self.drift_canary().err()].into_iter().chain(money).chain(words);
        let mut faults = Vec::new();
        for fault in of_budgets.chain(of_annotations.flatten()) {
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        }
        faults
    }

    /// Returns the time zone of schedules: UTC, unless the annotation names another.
    fn budget_zone(&self) -> Zone {
        let name = self.annotation(annotation::BUDGET_TIMEZONE);
        name.map_or(Ok(TimeZone::UTC), schedule::zone).map_err(DisruptionFault::Zone)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pool(budgets: Value, annotations: Value) -> NodePool {
        let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
        let template = json!({"spec": {"requirements": [], "nodeClassRef": class}});
        let spec = json!({"template": template, "disruption": {"consolidateAfter": "0s", "budgets": budgets}});
        let metadata = json!({"name": "a", "annotations": annotations});
        let kind = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": metadata, "spec": spec});
        serde_json::from_value(kind).unwrap()
    }

    #[test]
    fn concerns_matches_the_reasons_of_a_budget() {
        let (empty, drifted) = (Some(DisruptionReason::Empty), Some(DisruptionReason::Drifted));
        let rows = [
            (json!({}), [true, true, true]),
            (json!({"reasons": []}), [true, true, true]),
            (json!({"reasons": ["Drifted"]}), [false, true, false]),
            (json!({"reasons": ["Drifted", "Empty"]}), [true, true, false]),
        ];
        for (budget, expected) in rows {
            let budget: Budget = serde_json::from_value(budget).unwrap();
            assert_eq!([empty, drifted, None].map(|reason| budget.concerns(reason)), expected, "{budget:?}");
        }
    }

    #[test]
    fn budgets_apply_while_their_schedule_is_open() {
        let budget = json!([{"nodes": "20%"}, {"nodes": "0", "schedule": "0 9 * * mon-fri", "duration": "8h"}]);
        // 2026-01-02 is a Friday. Tokyo is nine hours ahead of UTC.
        let rows = [
            (json!({}), "2026-01-02T08:59:59Z", None),
            (json!({}), "2026-01-02T09:00:00Z", Some(0)),
            (json!({}), "2026-01-03T09:00:00Z", None),
            (json!({"kerf.sh/budget-timezone": "Asia/Tokyo"}), "2026-01-02T00:00:00Z", Some(0)),
            (json!({"kerf.sh/budget-timezone": "Asia/Tokyo"}), "2026-01-02T09:00:00Z", None),
        ];
        for (annotations, now, expected) in rows {
            let pool = pool(budget.clone(), annotations);
            let limits: Vec<_> = pool.budgets(7, now.parse().unwrap()).map(|(_, limit)| limit).collect();
            assert_eq!(limits, [Ok(Some(2)), Ok(expected)], "{now}");
            assert_eq!(pool.disruption_faults(), []);
        }
    }

    #[test]
    fn disruption_faults_reports_each_invalid_setting() {
        let budgets = json!([
            {"nodes": "5"},
            {"nodes": "some"},
            {"nodes": "5", "schedule": "0 9 * * 8", "duration": "8h"},
            {"nodes": "5", "schedule": "@daily", "duration": "8"},
            {"nodes": "5", "schedule": "@daily"},
            {"nodes": "5", "duration": "8h"},
            {"nodes": "5", "schedule": "@daily", "duration": "-8h"},
        ]);
        let faulty = pool(budgets, json!({}));
        let valid: Vec<bool> = faulty.budgets(7, Timestamp::UNIX_EPOCH).map(|(_, limit)| limit.is_ok()).collect();
        assert_eq!(valid, [true, false, false, false, false, false, false]);
        let daily = json!({"nodes": "5", "schedule": "@daily", "duration": "8h"});
        let annotations = json!({
            "kerf.sh/budget-timezone": "Berlin", "kerf.sh/consolidation-min-saving": "5",
            "kerf.sh/consolidation-min-saving-per-pod": "much", "kerf.sh/utilization": "Pack",
            "kerf.sh/surge": "yes", "kerf.sh/consolidation-warm-up": "-10m",
            "kerf.sh/pack-margin": "20", "kerf.sh/pack-floor": "0%", "kerf.sh/pack-min-history": "400h",
            "kerf.sh/drift-canary": "10%", "kerf.sh/consolidation-lost-work": "no",
        });
        let annotated = pool(json!([daily, {"nodes": "3"}, daily]), annotations);
        let limits: Vec<_> = annotated.budgets(7, Timestamp::UNIX_EPOCH).map(|(_, limit)| limit.ok()).collect();
        assert_eq!(limits, [None, Some(Some(3)), None]);
        let rows = [
            "budgets[1] allows no disruption: \"some\" is neither",
            "budgets[2] allows no disruption: \"8\" is not the day of the week",
            "budgets[3] allows no disruption: \"8\" is not a duration",
            "budgets[4] allows no disruption: duration is missing, such as 8h",
            "budgets[5] allows no disruption: schedule is missing, such as @daily",
            "budgets[6] allows no disruption: \"-8h\" is not a duration of 0s or more",
            "budget-timezone: budgets with a schedule allow no disruption: \"Berlin\" is not a time zone",
            "drift-canary: drifted nodes are not replaced: \"10%\" is not nodes and a time",
            "min-saving is ignored: \"5\" is not a share",
            "min-saving-per-pod is ignored: \"much\" is not a price",
            "warm-up is ignored: \"-10m\" is not a duration of 0s or more",
            "lost-work is ignored: unknown value \"no\"; write count or ignore",
            "utilization is ignored: \"Pack\" is not",
            "surge is ignored: unknown value \"yes\"",
            "pack-margin is ignored: \"20\" is not a share",
            "pack-floor is ignored: invalid percentage \"0%\"",
            "pack-min-history is ignored: invalid duration \"400h\"",
        ];
        let faults = faulty.disruption_faults().into_iter().chain(annotated.disruption_faults());
        let faults: Vec<String> = faults.map(|fault| fault.to_string()).collect();
        assert_eq!(faults.len(), rows.len(), "{faults:?}");
        for (fault, expected) in faults.iter().zip(rows) {
            assert!(fault.contains(expected), "{fault}: {expected}");
        }
    }

    #[test]
    fn min_saving_and_warm_up_read_annotations() {
        let annotations = json!({
            "kerf.sh/consolidation-min-saving": "2.5%", "kerf.sh/consolidation-min-saving-per-pod": "0.005",
            "kerf.sh/utilization": "pack", "kerf.sh/consolidation-warm-up": "10m",
            "kerf.sh/consolidation-lost-work": "ignore",
        });
        let annotated = pool(json!([]), annotations);
        assert_eq!(annotated.lost_work_counts(), Ok(false));
        assert_eq!((annotated.min_saving(), annotated.min_saving_per_pod()), (Ok(Some(25)), Ok(Some(5000))));
        assert_eq!(annotated.warm_up(), Ok(Some(600_000_000_000)));
        assert_eq!(annotated.utilization(), Ok(Utilization::Pack));
        let default = pool(json!([]), json!({}));
        assert_eq!((default.min_saving(), default.min_saving_per_pod()), (Ok(None), Ok(None)));
        assert_eq!((default.utilization(), default.warm_up()), (Ok(Utilization::Observe), Ok(None)));
        assert_eq!(default.lost_work_counts(), Ok(true));
    }

    #[test]
    fn pack_settings_read_annotations() {
        let rows = [
            (json!({}), None, None, None),
            (
                json!({
                    "kerf.sh/pack-margin": "12.5%", "kerf.sh/pack-floor": "1%", "kerf.sh/pack-min-history": "90m",
                }),
                Some(125),
                Some(10),
                Some(2),
            ),
            (json!({"kerf.sh/pack-floor": "100%", "kerf.sh/pack-min-history": "255h"}), None, Some(1000), Some(255)),
        ];
        for (annotations, margin, floor, history) in rows {
            let pool = pool(json!([]), annotations);
            assert_eq!(
                (pool.pack_margin(), pool.pack_floor(), pool.pack_min_history()),
                (Ok(margin), Ok(floor), Ok(history))
            );
        }
    }
}

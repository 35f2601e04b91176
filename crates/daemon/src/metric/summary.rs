//! Summaries: quantiles of the observations of the last ten minutes, as Go's client library exports them by default.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::{Description, LabelPairs};

/// Time after which an observation leaves the quantiles. Sum and count keep it.
const WINDOW: Duration = Duration::from_secs(600);
/// Maximum number of observations in the quantiles of one series. The oldest are dropped first.
const KEPT: usize = 10_000;

/// Observations of one series.
#[derive(Debug, Default)]
struct Summary {
    recent: VecDeque<(Instant, f64)>,
    sum: f64,
    count: u64,
}

impl Summary {
    fn observe(&mut self, value: f64, now: Instant) {
        self.sum += value;
        self.count += 1;
        self.recent.push_back((now, value));
        let surplus = self.recent.len().saturating_sub(KEPT);
        self.recent.drain(..surplus);
    }

    /// Returns the observations in the window, in ascending order.
    fn window(&mut self, now: Instant) -> Vec<f64> {
        let expired = self.recent.partition_point(|(seen, _)| now.saturating_duration_since(*seen) >= WINDOW);
        self.recent.drain(..expired);
        let mut values: Vec<f64> = self.recent.iter().map(|(_, value)| *value).collect();
        values.sort_by(f64::total_cmp);
        values
    }
}

/// Returns the smallest value that this share of the sorted values does not exceed; NaN without values.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// Summaries of one metric, by their labels.
#[derive(Debug)]
pub(super) struct SummaryFamily {
    metric: Description,
    quantiles: &'static [f64],
    series: BTreeMap<LabelPairs, Summary>,
}

impl SummaryFamily {
    pub(super) const fn new(metric: Description, quantiles: &'static [f64]) -> Self {
        Self { metric, quantiles, series: BTreeMap::new() }
    }

    pub(super) fn observe(&mut self, labels: &LabelPairs, value: f64, now: Instant) {
        self.series.entry(labels.clone()).or_default().observe(value, now);
    }

    pub(super) fn forget(&mut self, labels: &LabelPairs) {
        self.series.remove(labels);
    }

    /// Appends the family in Prometheus' text format.
    pub(super) fn render(&mut self, text: &mut String, now: Instant) {
        let Description { name, help, kind, .. } = self.metric;
        // Writing into a String cannot fail.
        let _ = write!(text, "# HELP {name} {help}.\n# TYPE {name} {}\n", kind.as_str());
        for (labels, summary) in &mut self.series {
            let common = labels.iter().map(|(label, value)| (*label, escaped(value))).collect::<Vec<_>>();
            let sorted = summary.window(now);
            for share in self.quantiles {
                let quantile_label = [("quantile", share.to_string())];
                let all = listed(common.iter().chain(&quantile_label));
                let _ = writeln!(text, "{name}{{{all}}} {:?}", quantile(&sorted, *share));
            }
            let all = listed(common.iter());
            let _ = writeln!(text, "{name}_sum{{{all}}} {:?}", summary.sum);
            let _ = writeln!(text, "{name}_count{{{all}}} {}", summary.count);
        }
    }
}

fn listed<'a>(labels: impl Iterator<Item = &'a (&'static str, String)>) -> String {
    labels.map(|(label, value)| format!("{label}=\"{value}\"")).collect::<Vec<_>>().join(",")
}

fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::{Description, Duration, Instant, SummaryFamily};
    use crate::metric::Kind;

    const QUANTILES: &[f64] = &[0.0, 0.5, 0.9, 1.0];
    const METRIC: Description =
        Description { name: "wait_seconds", help: "Wait", kind: Kind::Summary(QUANTILES), labels: &["pool"] };

    fn rendered(family: &mut SummaryFamily, now: Instant) -> Vec<String> {
        let mut text = String::new();
        family.render(&mut text, now);
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    #[test]
    fn render_shows_quantiles_sum_and_count() {
        let (mut family, now) = (SummaryFamily::new(METRIC, QUANTILES), Instant::now());
        let labels = vec![("pool", "a\"b".to_owned())];
        for value in [4.0, 1.0, 3.0, 2.0] {
            family.observe(&labels, value, now);
        }
        let expected = [
            r#"wait_seconds{pool="a\"b",quantile="0"} 1.0"#,
            r#"wait_seconds{pool="a\"b",quantile="0.5"} 2.0"#,
            r#"wait_seconds{pool="a\"b",quantile="0.9"} 4.0"#,
            r#"wait_seconds{pool="a\"b",quantile="1"} 4.0"#,
            r#"wait_seconds_sum{pool="a\"b"} 10.0"#,
            r#"wait_seconds_count{pool="a\"b"} 4"#,
        ];
        assert_eq!(rendered(&mut family, now), expected);
    }

    #[test]
    fn render_drops_old_observations_from_quantiles_only() {
        let (mut family, start) = (SummaryFamily::new(METRIC, &[0.5]), Instant::now());
        let labels = vec![("pool", "a".to_owned())];
        family.observe(&labels, 7.0, start);
        let later = start + Duration::from_secs(600);
        let expected = [
            r#"wait_seconds{pool="a",quantile="0.5"} NaN"#,
            r#"wait_seconds_sum{pool="a"} 7.0"#,
            r#"wait_seconds_count{pool="a"} 1"#,
        ];
        assert_eq!(rendered(&mut family, later), expected);
        family.forget(&labels);
        assert!(rendered(&mut family, later).is_empty());
    }
}

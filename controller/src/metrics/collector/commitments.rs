//! Use of Commitments, from their status.

use api::Commitment;
use api::price::micro_dollars;

use super::costs::dollars;
use crate::metrics::gauge_set::Sample;
use crate::metrics::{self, ByCommitment};
use crate::state::index::Index;

pub(super) fn samples(index: &Index) -> Vec<Sample> {
    index.commitments.values().flat_map(|commitment| of_commitment(commitment)).collect()
}

fn of_commitment(commitment: &Commitment) -> Vec<Sample> {
    let name = commitment.metadata.name.as_deref().unwrap_or_default();
    let Some(status) = &commitment.status else { return Vec::new() };
    let used = status.used.as_deref().and_then(ratio);
    let covered = status.covered_cost_per_hour.as_deref().and_then(|text| micro_dollars(text).ok()).map(dollars);
    let sample = |(metric, value)| Some(Sample::new(metric, ByCommitment { commitment: name }, value?));
    [(&metrics::COMMITMENT_USED, used), (&metrics::COMMITMENT_COVERED, covered)]
        .into_iter()
        .filter_map(sample)
        .collect()
}

/// Returns a percentage such as `83.3%` as a ratio.
fn ratio(text: &str) -> Option<f64> {
    Some(text.strip_suffix('%')?.parse::<f64>().ok()? / 100.0)
}

#[cfg(test)]
mod tests {
    use super::ratio;

    #[test]
    fn ratio_reads_percentages() {
        assert_eq!((ratio("50.0%"), ratio("100.0%"), ratio("much")), (Some(0.5), Some(1.0), None));
    }
}

//! Split of a workload's pods over on-demand and spot, from annotations or labels of its pods.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::names::annotation::{ON_DEMAND_BASE, SPOT_SHARE};

/// Split of a workload as one of its pods requests it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestedSplit {
    /// Number of the workload's pods that never run on spot; 0 if absent.
    pub on_demand_base: u32,
    /// Percentage of the other pods on spot; `None` if absent.
    pub spot_share: Option<u8>,
    /// Invalid values, which count as absent.
    pub faults: Vec<InvalidSplit>,
}

/// Error for an invalid value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSplit {
    /// Base that is not a number of pods.
    #[error("{ON_DEMAND_BASE}: {text:?} is not a number of pods: write a whole number such as \"2\"")]
    Base {
        /// Text as received.
        text: String,
    },
    /// Share that is not a percentage.
    #[error("{SPOT_SHARE}: {text:?} is not a share: write a whole percentage from \"0%\" to \"100%\"")]
    Share {
        /// Text as received.
        text: String,
    },
}

impl RequestedSplit {
    /// Reads the annotations of a pod. A label with the same key replaces an absent annotation. A label value cannot contain a
    /// percent sign, so a share may omit it.
    #[must_use]
    pub fn from_pod(pod: &ObjectMeta) -> Self {
        let mut split = Self::default();
        if let Some(text) = value(pod, ON_DEMAND_BASE) {
            match count(text) {
                Some(base) => split.on_demand_base = base,
                None => split.faults.push(InvalidSplit::Base { text: text.to_owned() }),
            }
        }
        if let Some(text) = value(pod, SPOT_SHARE) {
            match percentage(text) {
                Some(share) => split.spot_share = Some(share),
                None => split.faults.push(InvalidSplit::Share { text: text.to_owned() }),
            }
        }
        split
    }

    /// Reports whether the pod requests a split.
    #[must_use]
    pub fn is_present(&self) -> bool {
        self.on_demand_base > 0 || self.spot_share.is_some()
    }
}

fn value<'a>(pod: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    let annotated = pod.annotations.as_ref().and_then(|all| all.get(key));
    annotated.or_else(|| pod.labels.as_ref()?.get(key)).map(String::as_str)
}

/// Parses digits only. `str::parse` would accept a sign too.
fn count(text: &str) -> Option<u32> {
    text.bytes().all(|it| it.is_ascii_digit()).then(|| text.parse().ok())?
}

fn percentage(text: &str) -> Option<u8> {
    let share = count(text.strip_suffix('%').unwrap_or(text)).filter(|share| *share <= 100)?;
    u8::try_from(share).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(annotations: &[(&str, &str)], labels: &[(&str, &str)]) -> ObjectMeta {
        let map = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            Some(pairs.collect())
        };
        ObjectMeta { annotations: map(annotations), labels: map(labels), ..ObjectMeta::default() }
    }

    #[test]
    fn split_from_pod_reads_counts_and_percentages() {
        let rows = [
            ("2", "70%", 2, Some(70), 0),
            ("0", "0%", 0, Some(0), 0),
            ("007", "100", 7, Some(100), 0),
            ("-1", "101%", 0, None, 2),
            ("+1", "+5%", 0, None, 2),
            ("two", "half", 0, None, 2),
            ("", "", 0, None, 2),
            ("1.5", "33.3%", 0, None, 2),
            ("4294967296", "70%%", 0, None, 2),
            (" 2", "70 %", 0, None, 2),
        ];
        for (base, share, on_demand_base, spot_share, faults) in rows {
            let split = RequestedSplit::from_pod(&pod(&[(ON_DEMAND_BASE, base), (SPOT_SHARE, share)], &[]));
            assert_eq!((split.on_demand_base, split.spot_share), (on_demand_base, spot_share), "{base} {share}");
            assert_eq!(split.faults.len(), faults, "{base} {share}");
            assert_eq!(split.is_present(), faults == 0, "{base} {share}");
        }
    }

    #[test]
    fn split_from_pod_reads_labels_when_annotations_are_absent() {
        let split =
            RequestedSplit::from_pod(&pod(&[(ON_DEMAND_BASE, "3")], &[(ON_DEMAND_BASE, "5"), (SPOT_SHARE, "40")]));
        assert_eq!((split.on_demand_base, split.spot_share), (3, Some(40)));
        assert_eq!(RequestedSplit::from_pod(&ObjectMeta::default()), RequestedSplit::default());
        let zero = RequestedSplit::from_pod(&pod(&[(ON_DEMAND_BASE, "0")], &[]));
        assert!(!zero.is_present() && zero.faults.is_empty());
    }

    #[test]
    fn split_faults_name_the_key_and_a_valid_value() {
        let split = RequestedSplit::from_pod(&pod(&[(ON_DEMAND_BASE, "two"), (SPOT_SHARE, "0.7")], &[]));
        let messages: Vec<String> = split.faults.iter().map(ToString::to_string).collect();
        assert_eq!(
            messages,
            [
                r#"kerf.sh/on-demand-base: "two" is not a number of pods: write a whole number such as "2""#,
                r#"kerf.sh/spot-share: "0.7" is not a share: write a whole percentage from "0%" to "100%""#,
            ]
        );
    }
}

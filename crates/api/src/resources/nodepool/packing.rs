//! Limits for lowering requests in a NodePool with `kerf.sh/utilization: pack`.

use super::{DisruptionFault, NodePool};
use crate::names::annotation;
use crate::units::duration;
use crate::units::price::share;

const NANOS_PER_HOUR: i64 = 3_600_000_000_000;
/// Maximum hours of history that reports count.
const MOST_HOURS: i64 = 255;

impl NodePool {
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
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pack_settings_read_annotations() {
        let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
        let spec = json!({"template": {"spec": {"requirements": [], "nodeClassRef": class}}});
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
            let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "a", "annotations": annotations}, "spec": spec});
            let pool: NodePool = serde_json::from_value(pool).unwrap();
            assert_eq!(
                (pool.pack_margin(), pool.pack_floor(), pool.pack_min_history()),
                (Ok(margin), Ok(floor), Ok(history))
            );
        }
    }
}

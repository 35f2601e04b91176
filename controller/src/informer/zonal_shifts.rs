//! Zonal shifts of ARC for the cluster, requested every 30 seconds. Offerings in a zone of a shift are unavailable, as in
//! Karpenter; NodePools with the zone receive an event.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::{EC2NodeClass, NodePool, label, reason};
use cloud::{Cloud, CloudError, ErrorKind, ZonalShift};
use daemon::metric::Metrics;

use crate::gc::periodic::{PeriodicTask, TaskContext};
use crate::metrics;
use crate::metrics::gauge_set::{GaugeSet, Sample};
use crate::state::index::Index;
use crate::write::events::{Event, ObjectReference};

/// Interval between requests.
const EVERY: Duration = Duration::from_secs(30);

/// Periodic request of the zonal shifts.
pub struct ZonalShifts {
    cluster_name: String,
    /// ARN of the cluster, once EKS has returned it.
    arn: Option<String>,
    /// Ids of the zones that were excluded after the last request.
    known: BTreeSet<String>,
    metrics: Arc<Metrics>,
    gauges: GaugeSet,
}

impl ZonalShifts {
    /// Creates a task for the EKS cluster of this name.
    #[must_use]
    pub fn new(cluster_name: &str, metrics: Arc<Metrics>) -> Self {
        Self {
            cluster_name: cluster_name.to_owned(),
            arn: None,
            known: BTreeSet::new(),
            metrics,
            gauges: GaugeSet::default(),
        }
    }

    async fn request(&mut self, cloud: &dyn Cloud) -> Result<Vec<ZonalShift>, CloudError> {
        if self.arn.is_none() {
            self.arn = Some(cloud.cluster(&self.cluster_name).await?.arn);
        }
        cloud.zonal_shifts(self.arn.as_deref().unwrap_or_default()).await
    }

    /// Reports the difference between the known and the current zones, and requests a plan.
    fn report(&mut self, current: BTreeSet<String>, context: &TaskContext) {
        let cluster = &context.cluster;
        if current == self.known {
            return;
        }
        for (zones, text) in [
            (&current - &self.known, "zonal shift excludes a zone"),
            (&self.known - &current, "zonal shift no longer excludes a zone"),
        ] {
            zones.iter().for_each(|zone| tracing::info!(zone_id = zone.as_str(), "{text}"));
        }
        let events = cluster.read(|index| events(index, &self.known, &current));
        events.into_iter().for_each(|event| cluster.notes.publish(event));
        let sample =
            |zone: &String| Sample::new(&metrics::ZONAL_SHIFT, metrics::ByZoneId { zone_id: zone.as_str() }, 1.0);
        self.gauges.replace(&self.metrics, current.iter().map(sample).collect());
        self.known = current;
        cluster.ask_for_plan("zonal shift".to_owned());
    }
}

impl PeriodicTask for ZonalShifts {
    const NAME: &'static str = "zonal shifts";
    /// Nothing is planned before the first request.
    const FIRST_PAUSE: Duration = Duration::from_millis(100);
    const REMOVES: bool = false;

    async fn run(&mut self, context: &TaskContext) -> Result<Duration, CloudError> {
        let TaskContext { cluster, offerings, .. } = context;
        let found = self.request(offerings.cloud()).await;
        if let Err(error) = &found {
            let error_text = daemon::error::chain(error);
            tracing::warn!(error = error_text.as_str(), hint = hint(error), "failed to read zonal shifts, retrying");
        }
        let now = cluster.now();
        offerings.learn_shifts(found.ok().as_deref(), now);
        self.report(offerings.shifted_zone_ids(now), context);
        Ok(EVERY)
    }
}

fn hint(error: &CloudError) -> &'static str {
    match (error.call, error.kind) {
        ("GetManagedResource", ErrorKind::NotFound) => {
            "enable zonal shift for the EKS cluster, or set ENABLE_ZONAL_SHIFT to false"
        }
        ("GetManagedResource", ErrorKind::Unauthorized) => "allow arc-zonal-shift:GetManagedResource for the cluster",
        (_, ErrorKind::Unauthorized) => "allow eks:DescribeCluster for the cluster",
        _ => "",
    }
}

/// Returns an event for each NodePool and each of its zones that was newly excluded or cleared. Shifts have zone ids; the subnets
/// of the EC2NodeClass give the names.
fn events(index: &Index, known: &BTreeSet<String>, current: &BTreeSet<String>) -> Vec<Event> {
    let mut events = Vec::new();
    for pool in index.pools.values() {
        let class = index.classes.get(&pool.spec.template.spec.node_class_ref.name);
        let zones = class.map(|class| zones(pool, class)).unwrap_or_default();
        let of = |ids: BTreeSet<String>| {
            let named = ids.into_iter().filter_map(|id| Some((zones.get(id.as_str())?.to_owned(), id)));
            named.collect::<Vec<_>>()
        };
        let object = || ObjectReference::to(pool.as_ref());
        events.extend(of(current - known).into_iter().map(|(zone, id)| {
            let message =
                format!("a zonal shift excludes zone {zone} ({id}): its offerings are unavailable for this NodePool");
            Event::warning(object(), reason::ZONAL_SHIFT_ACTIVE, message)
        }));
        events.extend(of(known - current).into_iter().map(|(zone, id)| {
            let message =
                format!("no zonal shift excludes zone {zone} ({id}) any more: its offerings are available again");
            Event::normal(object(), reason::ZONAL_SHIFT_CLEARED, message)
        }));
    }
    events
}

/// Returns the names of the zones that the NodePool can use, by zone id.
fn zones<'c>(pool: &NodePool, class: &'c EC2NodeClass) -> BTreeMap<&'c str, &'c str> {
    let requirements = cloud::requirements(&pool.spec.template.spec.requirements);
    let allows = |key: &str, value: &str| requirements.get(key).is_none_or(|set| set.allows(Some(value)));
    let subnets = class.status.iter().flat_map(|status| &status.subnets);
    subnets
        .filter(|subnet| allows(label::ZONE, &subnet.zone) && allows(label::ZONE_ID, &subnet.zone_id))
        .map(|subnet| (subnet.zone_id.as_str(), subnet.zone.as_str()))
        .collect()
}

#[cfg(test)]
mod tests;

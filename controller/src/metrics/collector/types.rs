//! Metrics of instance types in use: capacity, offerings and prices.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use planner::{Catalogue, InstanceType, Offering};

use super::{CatalogueSource, NodeSample, units};
use crate::metrics;
use crate::metrics::detail::MetricsDetail;
use crate::metrics::gauge_set::Sample;
use crate::state::index::Index;

/// EC2NodeClasses and their catalogues.
pub(super) struct TypeSource<'a> {
    pub(super) index: &'a Index,
    pub(super) catalogues: &'a dyn CatalogueSource,
}

/// Returns the current price of the node in dollars per hour, or `None` if it is unknown.
pub(super) fn price(machine: &NodeSample<'_>) -> Option<f64> {
    let labels = machine.node.metadata.labels.as_ref()?;
    entry(machine)?.price_of_node(labels).map(|price| price.0 as f64 / 1e6)
}

fn dollars(offering: &Offering) -> f64 {
    offering.price.0 as f64 / 1e6
}

fn entry<'a>(machine: &'a NodeSample<'_>) -> Option<&'a InstanceType> {
    machine.catalogue.as_ref()?.instance_type(machine.kind)
}

/// Returns the samples of instance types: of all that NodePools can use in detail, else of those that most nodes have.
pub(super) fn samples(detail: MetricsDetail, machines: &[&NodeSample<'_>], source: &TypeSource<'_>) -> Vec<Sample> {
    let mut counts: BTreeMap<&str, (usize, &InstanceType)> = BTreeMap::new();
    for machine in machines {
        if let Some(found) = entry(machine) {
            counts.entry(machine.kind).or_insert((0, found)).0 += 1;
        }
    }
    let unused = match detail {
        MetricsDetail::Aggregated => Vec::new(),
        MetricsDetail::Karpenter => class_catalogues(source),
    };
    for kind in unused.iter().flat_map(|catalogue| &catalogue.types) {
        counts.entry(&kind.name).or_insert((0, kind));
    }
    let mut reported: Vec<(usize, &InstanceType)> = counts.into_values().collect();
    reported.sort_by_key(|(count, _)| Reverse(*count));
    reported.iter().take(detail.most_types()).flat_map(|(_, kind)| of_type(kind)).collect()
}

fn class_catalogues(source: &TypeSource<'_>) -> Vec<Arc<Catalogue>> {
    source.index.classes.keys().filter_map(|class| source.catalogues.catalogue_of_class(class)).collect()
}

fn of_type(kind: &InstanceType) -> Vec<Sample> {
    let name = kind.name.as_str();
    let mut samples = vec![
        Sample::new(
            &metrics::TYPE_CORES,
            metrics::ByInstanceType { instance_type: name },
            units("cpu", kind.capacity.get("cpu")),
        ),
        Sample::new(
            &metrics::TYPE_MEMORY,
            metrics::ByInstanceType { instance_type: name },
            units("memory", kind.capacity.get("memory")),
        ),
    ];
    let mut reported = BTreeSet::new();
    for offering in &kind.offerings {
        let labels = metrics::ByInstanceTypeCapacityTypeZone {
            instance_type: name,
            capacity_type: offering.capacity_type.as_str(),
            zone: &offering.zone,
        };
        // Several reservations are one offering here: the first one, which is launched first.
        if reported.insert(labels) {
            samples.push(Sample::new(&metrics::OFFERING_PRICE, labels, dollars(offering)));
            let available = f64::from(u8::from(offering.available));
            samples.push(Sample::new(&metrics::OFFERING_AVAILABLE, labels, available));
        }
    }
    samples
}

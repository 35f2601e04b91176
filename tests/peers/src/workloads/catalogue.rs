//! EC2 instance types in three zones of us-east-1 at on-demand prices, as a catalogue file.

use std::collections::BTreeMap;

use api::quantity;
use api::{EC2NodeClass, EC2NodeClassSpec};
use cloud::Image;
use cloud::data;
use cloud::nodeclass::{ResolvedImage, Zone};
use cloud::types::{ClassSettings, OfferingSource, Source, catalogue};
use cloud::unavailable_offerings::UnavailableOfferings;
use jiff::Timestamp;
use planner::{CapacityType, Catalogue, InstanceType, Resources};
use serde_json::{Value, json};

const REGION: &str = "us-east-1";
/// Zones of the catalogue. Clusters have three zones more often than six, and these three offer nearly every type.
const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];

/// Returns every type with an on-demand price, as a file.
pub(super) fn on_demand() -> anyhow::Result<Value> {
    let types: Vec<Value> = on_demand_types()?.types.iter().filter_map(row).collect();
    Ok(json!({"instanceTypes": types}))
}

/// Returns every type with an on-demand price.
///
/// # Errors
/// Returns an error if the facts about the types cannot be read.
pub fn on_demand_types() -> anyhow::Result<Catalogue> {
    let facts = data::facts()?;
    let infos: Vec<_> = data::instance_types()?.values().cloned().collect();
    let mut market = OfferingSource::new(facts.on_demand.clone());
    market.set_offerings(data::type_offerings(REGION)?);
    let class = EC2NodeClass::new("default", EC2NodeClassSpec::default());
    let zone = |name: &&str| ((*name).to_owned(), Zone { id: String::new(), subnets: vec![String::new()] });
    let class = ClassSettings::new(&class, ZONES.iter().map(zone).collect::<BTreeMap<_, _>>())?;
    let images = [ResolvedImage { image: Image::default(), requirements: Vec::new() }];
    let source = Source {
        infos: &infos,
        facts,
        offerings: &market,
        shortages: &UnavailableOfferings::default(),
        images: &images,
    };
    let settings = cloud::Settings { region: REGION.to_owned(), ..cloud::Settings::default() };
    Ok(catalogue(&source, &class, &settings, Timestamp::UNIX_EPOCH))
}

fn row(kind: &InstanceType) -> Option<Value> {
    let sold = kind.offerings.iter().filter(|it| it.available && it.capacity_type == CapacityType::OnDemand);
    let offering = |it: &planner::Offering| {
        json!({
            "zone": it.zone, "capacityType": "on-demand", "available": true, "price": it.price.0 as f64 / 1e6,
            "reservationID": null, "reservationCapacity": null,
        })
    };
    let offerings: Vec<Value> = sold.map(offering).collect();
    let mut overhead = kind.capacity.clone();
    overhead.subtract(&kind.allocatable);
    (!offerings.is_empty()).then(|| {
        json!({
            "name": kind.name, "capacity": amounts(&kind.capacity), "overhead": amounts(&overhead),
            "labels": kind.labels, "offerings": offerings,
        })
    })
}

/// Returns the quantities in the API's form, without those that are zero.
fn amounts(resources: &Resources) -> BTreeMap<&str, String> {
    resources
        .iter()
        .filter(|(_, amount)| *amount > 0)
        .map(|(name, amount)| (name, quantity::text(name, amount)))
        .collect()
}

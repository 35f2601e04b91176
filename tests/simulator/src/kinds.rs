//! Instance types as nodes of the EC2NodeClass: what their kubelets report.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};

use api::EC2NodeClass;
use cloud::fake::settings;
use cloud::nodeclass::{ResolvedImage, Zone};
use cloud::types::{ClassSettings, OfferingSource, Source, catalogue};
use cloud::unavailable_offerings::UnavailableOfferings;
use cloud::{Image, data};
use jiff::Timestamp;
use planner::InstanceType;

use crate::classes::default_class;

static PRICES: LazyLock<OfferingSource> = LazyLock::new(|| {
    let mut prices = OfferingSource::new(data::facts().unwrap().on_demand.clone());
    prices.set_offerings(data::type_offerings(&settings().region).unwrap());
    prices
});
static KNOWN: Mutex<BTreeMap<String, Arc<InstanceType>>> = Mutex::new(BTreeMap::new());

/// Returns an instance type of the region by its name.
#[must_use]
pub fn kind(name: &str) -> Arc<InstanceType> {
    let mut known = KNOWN.lock().unwrap();
    Arc::clone(known.entry(name.to_owned()).or_insert_with(|| Arc::new(made(name))))
}

fn made(name: &str) -> InstanceType {
    let infos = [data::instance_types().unwrap()[name].clone()];
    let class: EC2NodeClass = serde_json::from_value(default_class()).unwrap();
    let zone = |letter: &str| {
        let name = format!("{}{letter}", settings().region);
        (name, Zone { id: String::new(), subnets: vec![String::new()] })
    };
    let class = ClassSettings::new(&class, ["a", "b", "c"].map(zone).into()).unwrap();
    let images = [ResolvedImage { image: Image::default(), requirements: Vec::new() }];
    let source = Source {
        infos: &infos,
        facts: data::facts().unwrap(),
        offerings: &PRICES,
        shortages: &UnavailableOfferings::default(),
        images: &images,
    };
    catalogue(&source, &class, &settings(), Timestamp::UNIX_EPOCH).types.swap_remove(0)
}

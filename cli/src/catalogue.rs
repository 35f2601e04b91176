//! Instance types and offerings without a request to EC2: embedded types, zones and list prices, or a catalogue from a file.

mod account;
pub(crate) mod assumed;
mod custom;
mod embedded;
mod measured;
pub mod prices;
mod published;
mod spot;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use api::nodepool::NodeClassRef;
use api::{EC2NodeClass, condition, label, status};
use clap::Args;
use cloud::data::region_of_zone;
use cloud::types::{ClassSettings, Source};
use cloud::unavailable_offerings::UnavailableOfferings;
use jiff::Timestamp;
use planner::{CapacityType, Catalogue};

use crate::failure::Failure;
use crate::input::Objects;

pub use account::commitments;
pub use custom::{Custom, read as read_custom};
pub(crate) use embedded::EmbeddedCatalogue;
pub(crate) use published::{PublishedMarket, read as read_published};
pub(crate) use spot::estimate_warning;
pub use spot::{SPOT_PER_MILLE, read as read_spot};

/// Region for objects that name no region.
pub const DEFAULT_REGION: &str = "us-east-1";

/// Sources of offerings and prices in place of the embedded ones.
#[derive(Args, Clone, Debug, Default)]
pub struct MarketSources {
    /// Offerings and spot prices of your AWS account, by the AWS CLI and its credentials
    #[arg(long)]
    pub account: bool,
    /// Spot prices, as `aws ec2 describe-spot-price-history` prints them
    #[arg(long, value_name = "FILE")]
    pub spot_prices: Option<PathBuf>,
    /// On-demand prices, as `kerf prices` writes them [default: the file of `kerf prices`]
    #[arg(long, value_name = "FILE")]
    pub prices: Option<PathBuf>,
}

impl MarketSources {
    /// Reports whether the user named no source.
    fn is_default(&self) -> bool {
        !self.account && self.spot_prices.is_none() && self.prices.is_none()
    }
}

/// Sources of the catalogue.
#[derive(Clone, Debug, Default)]
pub struct CatalogueOptions {
    /// File with a catalogue in place of EC2's.
    pub file: Option<PathBuf>,
    /// Region; `None` for the region that the objects name.
    pub region: Option<String>,
    /// Sources of offerings and prices.
    pub market: MarketSources,
    /// Settings that affect allocatable resources.
    pub settings: cloud::Settings,
    /// `true` if reserved capacity is included.
    pub reserved: bool,
    /// Catalogues of the cluster's controller.
    pub published: Option<PublishedMarket>,
}

impl CatalogueOptions {
    /// Reports whether catalogues of a controller apply where they are known: the user named no other source.
    pub(crate) fn follows_controller(&self) -> bool {
        self.file.is_none() && self.market.is_default()
    }
}

/// Catalogues by node class, with warnings.
#[derive(Clone, Debug, Default)]
pub struct CatalogueSet {
    /// Catalogues by the node class's name.
    pub catalogues: BTreeMap<String, Arc<Catalogue>>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// Sources of types and prices, for people; one line each.
    pub sources: Vec<String>,
    /// Labels of the catalogue's instance types that are not well-known labels.
    pub labels: BTreeSet<String>,
}

/// Builds the catalogue of every class that NodePools and NodeClaims name.
///
/// # Errors
/// Returns an error if a file cannot be read, or if the region is unknown.
pub fn build(objects: &Objects, options: &CatalogueOptions, now: Timestamp) -> Result<CatalogueSet, Failure> {
    let mut set = match (&options.file, &options.published) {
        (Some(path), _) => from_file(objects, custom::read(path)?, path),
        (None, Some(market)) if options.follows_controller() => from_controller(objects, market),
        (None, _) => from_embedded(objects, options, now)?,
    };
    if !options.reserved {
        for catalogue in set.catalogues.values_mut() {
            remove_reserved(Arc::make_mut(catalogue));
        }
    }
    set.warnings.sort();
    set.warnings.dedup();
    Ok(set)
}

fn remove_reserved(catalogue: &mut Catalogue) {
    for kind in &mut catalogue.types {
        kind.offerings.retain(|offering| offering.capacity_type != CapacityType::Reserved);
    }
}

/// Returns the classes that NodePools and NodeClaims name.
fn referenced_classes(objects: &Objects) -> BTreeSet<&NodeClassRef> {
    let pools = objects.pools.iter().map(|pool| &pool.spec.template.spec.node_class_ref);
    pools.chain(objects.claims.iter().map(|claim| &claim.spec.node_class_ref)).collect()
}

/// Returns the class of this name, if the input has it.
fn class<'a>(objects: &'a Objects, name: &str) -> Option<&'a EC2NodeClass> {
    objects.classes.iter().map(AsRef::as_ref).find(|class: &&EC2NodeClass| class.metadata.name.as_deref() == Some(name))
}

/// Returns why a class launches no nodes: it is being deleted, or its condition is not Ready.
fn unready(class: &EC2NodeClass) -> Option<String> {
    let name = class.metadata.name.as_deref().unwrap_or_default();
    if class.metadata.deletion_timestamp.is_some() {
        return Some(format!("EC2NodeClass {name} is being deleted, so no node is launched for it"));
    }
    let conditions = class.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let ready = status::find(conditions, condition::READY)?;
    (!ready.is_true())
        .then(|| format!("EC2NodeClass {name} is not Ready, so no node is launched for it: {}", ready.message))
}

/// Uses one catalogue for every class. Settings of the class have no effect on its instance types.
fn from_file(objects: &Objects, custom: Custom, path: &std::path::Path) -> CatalogueSet {
    let Custom { types, warnings } = custom;
    let labels = types.iter().flat_map(|kind| kind.labels.keys()).filter(|key| !label::is_well_known(key)).cloned();
    let mut set = CatalogueSet { warnings, labels: labels.collect(), ..CatalogueSet::default() };
    for reference in referenced_classes(objects) {
        if let Some(why) = class(objects, &reference.name).and_then(unready) {
            set.warnings.push(why);
            continue;
        }
        let catalogue = Catalogue { name: reference.name.clone(), types: types.clone(), ..Catalogue::default() };
        set.catalogues.insert(reference.name.clone(), Arc::new(catalogue));
    }
    set.sources.push(format!("{} instance types from {}", types.len(), path.display()));
    set
}

/// Uses the catalogues of the controller.
fn from_controller(objects: &Objects, market: &PublishedMarket) -> CatalogueSet {
    let mut set = CatalogueSet::default();
    for reference in referenced_classes(objects) {
        let refusal = class(objects, &reference.name).and_then(unready);
        match market.catalogues.get(&reference.name).filter(|_| refusal.is_none()) {
            Some(catalogue) => drop(set.catalogues.insert(reference.name.clone(), Arc::clone(catalogue))),
            None => set.warnings.push(refusal.unwrap_or_else(|| {
                format!("the controller knows no instance types of EC2NodeClass {}: see its conditions", reference.name)
            })),
        }
    }
    set.sources
        .push(format!("instance types, prices and unavailable offerings of the controller, of {}", market.written));
    set
}

fn from_embedded(objects: &Objects, options: &CatalogueOptions, now: Timestamp) -> Result<CatalogueSet, Failure> {
    let region = region(objects, options.region.as_deref())?;
    let embedded = EmbeddedCatalogue::new(&region, &options.market, now)?;
    let mut set = CatalogueSet {
        sources: vec![embedded.source.clone()],
        warnings: embedded.warnings.clone(),
        ..CatalogueSet::default()
    };
    set.warnings.extend(spot::warning(objects).filter(|_| embedded.spot_is_estimated));
    let settings = cloud::Settings { region: region.clone(), ..options.settings.clone() };
    for reference in referenced_classes(objects) {
        let known = known_class(objects, reference, &mut set.warnings);
        let Some(known) = known else { continue };
        set.warnings.extend(assumed::price_warning(&known));
        let images = assumed::images(&known);
        let class = ClassSettings::new(&known, assumed::zones(&known, &embedded.zones)).map_err(Failure::input)?;
        let measured = measured::by_type(objects, &known, &images, &embedded.infos, now);
        let source = Source {
            infos: &embedded.infos,
            facts: embedded.facts,
            offerings: &embedded.offering_source,
            shortages: &UnavailableOfferings::default(),
            images: &images,
        };
        let mut catalogue = cloud::types::catalogue(&source, &ClassSettings { measured, ..class }, &settings, now);
        assumed::remove_unknown_zone_ids(&mut catalogue);
        if options.reserved {
            set.warnings.extend(assumed::add_reservations(&mut catalogue, &known, now));
        }
        set.catalogues.insert(reference.name.clone(), Arc::new(catalogue));
    }
    Ok(set)
}

/// Returns the class from the input, or a class with only a name and default settings.
fn known_class(objects: &Objects, reference: &NodeClassRef, warnings: &mut Vec<String>) -> Option<EC2NodeClass> {
    if reference.kind != "EC2NodeClass" {
        warnings.push(format!("node class {} has kind {}, which is not supported", reference.name, reference.kind));
        return None;
    }
    let Some(given) = class(objects, &reference.name) else {
        warnings.push(format!(
            "EC2NodeClass {} is not in the input, assuming family AL2023 with default settings",
            reference.name
        ));
        return Some(assumed::class(&reference.name));
    };
    if let Some(why) = unready(given) {
        warnings.push(why);
        return None;
    }
    Some(given.clone())
}

/// Returns the requested region, else the one region that the objects name, else the default region.
fn region(objects: &Objects, requested: Option<&str>) -> Result<String, Failure> {
    let named: BTreeSet<String> = named_regions(objects);
    match (requested, named.len()) {
        (Some(region), _) => Ok(region.to_owned()),
        (None, 0) => Ok(DEFAULT_REGION.to_owned()),
        (None, 1) => Ok(named.into_iter().next().unwrap_or_default()),
        (None, _) => {
            let list: Vec<String> = named.into_iter().collect();
            let problem = format!("the objects have several regions: {}", list.join(", "));
            Err(Failure::usage(format!("{problem}; set --region")))
        }
    }
}

/// Returns the regions of node labels and of the subnets in class status.
fn named_regions(objects: &Objects) -> BTreeSet<String> {
    let from_nodes = objects.nodes.iter().filter_map(|node| node.metadata.labels.as_ref()?.get(label::REGION)).cloned();
    let subnets = objects.classes.iter().filter_map(|class| class.status.as_ref()).flat_map(|status| &status.subnets);
    let from_subnets = subnets.filter_map(|subnet| {
        let region = region_of_zone(&subnet.zone);
        (!region.is_empty()).then(|| region.to_owned())
    });
    from_nodes.chain(from_subnets).collect()
}

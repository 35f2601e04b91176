//! `kerf types`: instance types as nodes of a class would have them, without a request to EC2.

mod listing;
mod table;

use std::collections::BTreeSet;

use api::nodeclass::{AmiFamily, AmiSelectorTerm};
use api::{EC2NodeClass, EC2NodeClassSpec, label};
use cloud::types::{ClassSettings, Quote, Source};
use cloud::unavailable_offerings::UnavailableOfferings;
use jiff::Timestamp;
use planner::{InstanceType, Requirements, ValueSet};

use crate::args::{Format, Selector, Types};
use crate::catalogue::{EmbeddedCatalogue, assumed, estimate_warning};
use crate::failure::Failure;
use crate::output;

/// Labels that depend on the offering.
const OFFERING_LABELS: [&str; 3] = [label::ZONE, label::ZONE_ID, label::CAPACITY_TYPE];

/// One instance type with all its offerings.
pub(crate) struct Listed {
    kind: InstanceType,
    quotes: Vec<Quote>,
    /// Number of the region's zones that offer the type, including zones without a subnet of the class.
    zones: usize,
}

/// Selected types, with notes about the source of the data.
struct Found {
    listed: Vec<Listed>,
    region: String,
    family: AmiFamily,
    notes: Vec<String>,
}

/// Returns the complete output of the command.
///
/// # Errors
/// Returns an error if a flag or a file cannot be used; the message names it.
pub(crate) fn text(
    args: &Types,
    class: Option<EC2NodeClass>,
    now: Timestamp,
    colours: bool,
) -> Result<String, Failure> {
    let found = find(args, class, now)?;
    if args.output != Format::Table {
        found.notes.iter().for_each(|note| eprintln!("kerf: note: {note}"));
    }
    match args.output {
        Format::Table => Ok(table::table(&found, colours)),
        Format::Json => output::json(&listing::entries(&found.listed)),
        Format::Yaml => output::yaml(&listing::entries(&found.listed)),
    }
}

fn find(args: &Types, class: Option<EC2NodeClass>, now: Timestamp) -> Result<Found, Failure> {
    let embedded = EmbeddedCatalogue::new(&args.region, &args.market, now)?;
    let class = class.unwrap_or_else(|| default_class(args.family.unwrap_or(AmiFamily::Al2023)));
    let settings = cloud::Settings { region: embedded.region.clone(), ..args.sizes.cloud() };
    let sizes = ClassSettings::new(&class, assumed::zones(&class, &embedded.zones)).map_err(Failure::input)?;
    let images = assumed::images(&class);
    let source = Source {
        infos: &embedded.infos,
        facts: embedded.facts,
        offerings: &embedded.offering_source,
        shortages: &UnavailableOfferings::default(),
        images: &images,
    };
    let listed = embedded.infos.iter().map(|info| {
        let (kind, quotes) = cloud::types::listing(info, &source, &sizes, &settings, now);
        Listed { kind, quotes, zones: embedded.offering_source.zones(&info.name).count() }
    });
    let all: Vec<Listed> = listed.collect();
    let named = select_names(all, &args.names)?;
    let listed = select_labels(named, &args.selector)?;
    let mut notes = vec![embedded.source];
    notes.extend(embedded.warnings);
    notes.extend(embedded.spot_is_estimated.then(estimate_warning));
    Ok(Found { listed, region: embedded.region, family: sizes.family, notes })
}

/// Returns a class of the family with default settings.
fn default_class(family: AmiFamily) -> EC2NodeClass {
    let alias = AmiFamily::ALIASES.iter().find(|(_, known)| *known == family);
    let term = AmiSelectorTerm { alias: alias.map(|(name, _)| format!("{name}@latest")), ..AmiSelectorTerm::default() };
    let spec =
        EC2NodeClassSpec { ami_selector_terms: vec![term], ami_family: Some(family), ..EC2NodeClassSpec::default() };
    EC2NodeClass::new("", spec)
}

/// Selects the types with these names; all types if there are no names.
fn select_names(all: Vec<Listed>, names: &[String]) -> Result<Vec<Listed>, Failure> {
    let known = |name: &&String| all.iter().any(|one| one.kind.name == **name);
    if let Some(name) = names.iter().find(|name| !known(name)) {
        let family = name.split('.').next().unwrap_or_default();
        let mut same_family =
            all.iter().map(|one| one.kind.name.as_str()).filter(|own| own.split('.').next() == Some(family));
        let cure = match same_family.next() {
            Some(one) => {
                format!("its family has {one}; list them with kerf types -l {}={family}", label::INSTANCE_FAMILY)
            }
            None => "list all with kerf types".to_owned(),
        };
        return Err(Failure::usage(format!("unknown instance type {name:?}; {cure}")));
    }
    Ok(all.into_iter().filter(|one| names.is_empty() || names.contains(&one.kind.name)).collect())
}

/// Selects the types whose labels match, each with the offerings that match.
fn select_labels(all: Vec<Listed>, selector: &Selector) -> Result<Vec<Listed>, Failure> {
    let keys: BTreeSet<&str> = all.iter().flat_map(|one| one.kind.labels.keys()).map(String::as_str).collect();
    let known = |key: &&str| keys.contains(key) || label::is_well_known(key) || OFFERING_LABELS.contains(key);
    if let Some(key) = selector.keys().find(|key| !known(key)) {
        let name = key.rsplit('/').next().unwrap_or(key);
        let similar = keys.iter().chain(&OFFERING_LABELS).find(|own| own.rsplit('/').next() == Some(name));
        let cure = match similar {
            Some(own) => format!("did you mean {own}?"),
            None => "kerf types m5.large shows all labels".to_owned(),
        };
        return Err(Failure::usage(format!("--selector: no instance type has a label {key}; {cure}")));
    }
    let requirements = selector.requirements();
    Ok(all.into_iter().filter_map(|one| matching(one, &requirements)).collect())
}

/// Returns the type with the matching offerings, or `None` if the type does not match. Requirements on offerings need at least
/// one matching offering.
fn matching(mut one: Listed, requirements: &Requirements) -> Option<Listed> {
    let own =
        |set: &ValueSet, key: &str| one.kind.labels.get(key).map_or_else(|| set.allows(None), |it| set.allows_any(it));
    if !requirements.iter().filter(|(key, _)| !OFFERING_LABELS.contains(key)).all(|(key, set)| own(set, key)) {
        return None;
    }
    let of_offerings: Vec<_> = requirements.iter().filter(|(key, _)| OFFERING_LABELS.contains(key)).collect();
    if of_offerings.is_empty() {
        return Some(one);
    }
    let value = |quote: &Quote, key: &str| match key {
        label::ZONE => Some(quote.zone.clone()),
        label::CAPACITY_TYPE => Some(quote.capacity_type.as_str().to_owned()),
        _ => Some(quote.zone_id.clone()).filter(|id| !id.is_empty()),
    };
    one.quotes.retain(|quote| of_offerings.iter().all(|(key, set)| set.allows(value(quote, key).as_deref())));
    (!one.quotes.is_empty()).then_some(one)
}

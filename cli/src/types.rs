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
use crate::catalogue::{EmbeddedCatalogue, assumed, guess};
use crate::failure::Failure;

/// Labels that depend on the offering.
const OF_OFFERINGS: [&str; 3] = [label::ZONE, label::ZONE_ID, label::CAPACITY_TYPE];

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
    wish: &Types,
    class: Option<EC2NodeClass>,
    now: Timestamp,
    colours: bool,
) -> Result<String, Failure> {
    let found = find(wish, class, now)?;
    if wish.output != Format::Table {
        found.notes.iter().for_each(|note| eprintln!("kerf: note: {note}"));
    }
    match wish.output {
        Format::Table => Ok(table::table(&found, colours)),
        Format::Json => {
            let entries = listing::entries(&found.listed);
            Ok(serde_json::to_string_pretty(&entries).map_err(Failure::internal)? + "\n")
        }
        Format::Yaml => {
            serde_saphyr::to_string(&listing::entries(&found.listed)).map_err(|error| Failure::fault(error.to_string()))
        }
    }
}

fn find(wish: &Types, class: Option<EC2NodeClass>, now: Timestamp) -> Result<Found, Failure> {
    let world = EmbeddedCatalogue::new(&wish.region, wish.prices.as_deref(), wish.spot_prices.as_deref())?;
    let class = class.unwrap_or_else(|| of_family(wish.family.unwrap_or(AmiFamily::Al2023)));
    let settings = cloud::Settings { region: world.region.clone(), ..wish.sizes.cloud() };
    let sizes = ClassSettings::new(&class, assumed::zones(&class, &world.zones)).map_err(Failure::input)?;
    let images = assumed::images(&class);
    let source = Source {
        infos: &world.infos,
        facts: world.facts,
        market: &world.market,
        shortages: &UnavailableOfferings::default(),
        images: &images,
    };
    let listed = world.infos.iter().map(|info| {
        let (kind, quotes) = cloud::types::listing(info, &source, &sizes, &settings, now);
        Listed { kind, quotes, zones: world.market.zones(&info.name).count() }
    });
    let all: Vec<Listed> = listed.collect();
    let named = pick(all, &wish.names)?;
    let listed = select(named, &wish.selector)?;
    let mut notes = vec![world.source];
    notes.extend(world.warnings);
    notes.extend(world.spot_is_estimated.then(guess));
    Ok(Found { listed, region: world.region, family: sizes.family, notes })
}

/// Returns a class of the family with default settings.
fn of_family(family: AmiFamily) -> EC2NodeClass {
    let alias = AmiFamily::ALIASES.iter().find(|(_, known)| *known == family);
    let term = AmiSelectorTerm { alias: alias.map(|(name, _)| format!("{name}@latest")), ..AmiSelectorTerm::default() };
    let spec =
        EC2NodeClassSpec { ami_selector_terms: vec![term], ami_family: Some(family), ..EC2NodeClassSpec::default() };
    EC2NodeClass::new("", spec)
}

/// Selects the types with these names; all types if there are no names.
fn pick(all: Vec<Listed>, names: &[String]) -> Result<Vec<Listed>, Failure> {
    let known = |name: &&String| all.iter().any(|one| one.kind.name == **name);
    if let Some(name) = names.iter().find(|name| !known(name)) {
        let family = name.split('.').next().unwrap_or_default();
        let mut alike =
            all.iter().map(|one| one.kind.name.as_str()).filter(|own| own.split('.').next() == Some(family));
        let cure = match alike.next() {
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
fn select(all: Vec<Listed>, selector: &Selector) -> Result<Vec<Listed>, Failure> {
    let carried: BTreeSet<&str> = all.iter().flat_map(|one| one.kind.labels.keys()).map(String::as_str).collect();
    let known = |key: &&str| carried.contains(key) || label::is_well_known(key) || OF_OFFERINGS.contains(key);
    if let Some(key) = selector.keys().find(|key| !known(key)) {
        let name = key.rsplit('/').next().unwrap_or(key);
        let meant = carried.iter().chain(&OF_OFFERINGS).find(|own| own.rsplit('/').next() == Some(name));
        let cure = match meant {
            Some(own) => format!("did you mean {own}?"),
            None => "kerf types m5.large shows all labels".to_owned(),
        };
        return Err(Failure::usage(format!("--selector: no instance type has a label {key}; {cure}")));
    }
    let requirements = selector.requirements();
    Ok(all.into_iter().filter_map(|one| narrowed(one, &requirements)).collect())
}

/// Returns the type with the matching offerings, or `None` if the type does not match. Requirements on offerings need at least
/// one matching offering.
fn narrowed(mut one: Listed, requirements: &Requirements) -> Option<Listed> {
    let own =
        |set: &ValueSet, key: &str| one.kind.labels.get(key).map_or_else(|| set.allows(None), |it| set.allows_any(it));
    if !requirements.iter().filter(|(key, _)| !OF_OFFERINGS.contains(key)).all(|(key, set)| own(set, key)) {
        return None;
    }
    let asked: Vec<_> = requirements.iter().filter(|(key, _)| OF_OFFERINGS.contains(key)).collect();
    if asked.is_empty() {
        return Some(one);
    }
    let value = |quote: &Quote, key: &str| match key {
        label::ZONE => Some(quote.zone.clone()),
        label::CAPACITY_TYPE => Some(quote.capacity_type.as_str().to_owned()),
        _ => Some(quote.zone_id.clone()).filter(|id| !id.is_empty()),
    };
    one.quotes.retain(|quote| asked.iter().all(|(key, set)| set.allows(value(quote, key).as_deref())));
    (!one.quotes.is_empty()).then_some(one)
}

//! Instance types for people: one line each, or all data of a single type.

use std::collections::BTreeSet;

use api::{label, quantity};
use cloud::types::Quote;
use planner::{CapacityType, InstanceType, Resources};

use super::{Found, Listed, listing};
use crate::output::money::rounded;
use crate::output::{Paint, counted, fit, wrap};

const WIDTH: usize = 80;
/// Maximum length of a type's name.
const NAME: usize = 19;
/// Maximum length of a device's name with its count.
const DEVICES: usize = 14;
const GIB: i64 = 1 << 30;

/// Returns the complete table.
pub(super) fn table(found: &Found, colours: bool) -> String {
    let paint = Paint(colours);
    let mut lines = match found.listed.as_slice() {
        [] => vec!["no instance type matches".to_owned()],
        [one] => details(one, found, paint),
        many => overview(many, paint),
    };
    lines.push(String::new());
    if found.listed.len() > 1 {
        let offered = found.listed.iter().filter(|one| one.zones > 0).count();
        lines.extend(wrap(
            &format!(
                "{}, {offered} offered in {}. CPU, memory and pods are allocatable with family {}; memory in GiB, \
                 prices in dollars per hour in the cheapest zone. kerf types TYPE shows all of one, -o json all of \
                 all.",
                counted(found.listed.len(), "type"),
                found.region,
                found.family.as_str()
            ),
            WIDTH,
            "",
        ));
    }
    found.notes.iter().for_each(|note| lines.extend(wrap(note, WIDTH, "")));
    lines.join("\n") + "\n"
}

fn overview(listed: &[Listed], paint: Paint) -> Vec<String> {
    let heading = format!(
        "{:<NAME$} {:>7} {:>7} {:>4} {:<5} {:<DEVICES$} {:>9} {:>8}",
        "TYPE", "CPU", "MEMORY", "PODS", "ARCH", "DEVICES", "ON-DEMAND", "SPOT"
    );
    let mut sorted: Vec<&Listed> = listed.iter().collect();
    sorted.sort_by_cached_key(|one| order(&one.kind));
    let mut lines = vec![paint.bold(&heading)];
    lines.extend(sorted.into_iter().map(|one| line(one, paint)));
    lines
}

/// Returns the sort key: by family, small types first.
fn order(kind: &InstanceType) -> (String, i64, i64, String) {
    let family = kind.name.split('.').next().unwrap_or_default().to_owned();
    (family, kind.capacity.get(Resources::CPU), kind.capacity.get(Resources::MEMORY), kind.name.clone())
}

fn line(one: &Listed, paint: Paint) -> String {
    let (kind, left) = (&one.kind, &one.kind.allocatable);
    let arch = kind.labels.get(label::ARCH).and_then(|values| values.first()).map_or("", String::as_str);
    let size = format!(
        "{:>7} {:>7} {:>4} {arch:<5}",
        quantity::cpu_text(left.get(Resources::CPU)),
        gib(left.get(Resources::MEMORY)),
        left.get(Resources::PODS),
    );
    let price = |capacity_type| cheapest(&one.quotes, capacity_type).map_or_else(|| "-".to_owned(), rounded);
    let rest = match obstacle(one) {
        Some(why) => format!("{size} {why}"),
        None => format!(
            "{size} {:<DEVICES$} {:>9} {:>8}",
            fit(&devices(kind), DEVICES),
            price(CapacityType::OnDemand),
            price(CapacityType::Spot)
        ),
    };
    format!("{} {}", paint.cyan(&format!("{:<NAME$}", fit(&kind.name, NAME))), fit(&rest, WIDTH - NAME - 1))
}

/// Returns GiB with one decimal, rounded down, so that the text never exceeds the allocatable memory.
fn gib(bytes: i64) -> String {
    let tenths = bytes / (GIB / 10);
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Returns devices with their count, such as `8 h100` or `2 inferentia2`.
fn devices(kind: &InstanceType) -> String {
    let first = |key: &str| kind.labels.get(key).and_then(|values| values.first());
    let known = [
        (label::INSTANCE_GPU_COUNT, label::INSTANCE_GPU_NAME),
        (label::INSTANCE_ACCELERATOR_COUNT, label::INSTANCE_ACCELERATOR_NAME),
    ];
    let named = known.into_iter().find_map(|(count, name)| Some(format!("{} {}", first(count)?, first(name)?)));
    named.unwrap_or_default()
}

/// Returns the lowest price of an available offering, in millionths of a dollar per hour.
fn cheapest(quotes: &[Quote], capacity_type: CapacityType) -> Option<i64> {
    let available = quotes.iter().filter(|quote| quote.capacity_type == capacity_type && quote.obstacle.is_none());
    available.filter_map(|quote| quote.price).map(|price| price.0).min()
}

/// Returns why the type has no available offering.
fn obstacle(one: &Listed) -> Option<String> {
    if one.quotes.iter().any(|quote| quote.obstacle.is_none()) {
        return None;
    }
    let reasons: BTreeSet<String> =
        one.quotes.iter().filter_map(|quote| quote.obstacle.as_ref()).map(ToString::to_string).collect();
    Some(match (reasons.len(), one.zones) {
        (0, 0) => "not offered in this region".to_owned(),
        (0, _) => "not in these zones".to_owned(),
        _ => reasons.into_iter().collect::<Vec<_>>().join("; "),
    })
}

/// Returns the heading of the volumes that a driver can attach.
fn volumes(driver: &str) -> String {
    format!("volumes of {driver}")
}

/// Returns all data of one type.
fn details(one: &Listed, found: &Found, paint: Paint) -> Vec<String> {
    let kind = &one.kind;
    let mut lines = vec![paint.bold(&format!("{} under family {}", kind.name, found.family.as_str()))];
    let mut section = |heading: &str, rows: Vec<String>| {
        lines.push(String::new());
        lines.push(paint.bold(heading));
        lines.extend(rows.into_iter().map(|row| fit(&format!("  {row}"), WIDTH)));
    };
    let allocatable = listing::quantities(&kind.allocatable);
    let amounts = listing::quantities(&kind.capacity).into_iter().map(|(name, amount)| {
        let left = allocatable.get(name).cloned().unwrap_or_default();
        format!("{name:<34} {amount:>14} {left:>14}")
    });
    let mut rows = vec![format!("{:<34} {:>14} {:>14}", "", "capacity", "allocatable")];
    rows.extend(amounts);
    rows.extend(
        kind.attach_limits.iter().map(|(driver, limit)| format!("{:<34} {:>14} {limit:>14}", volumes(driver), "")),
    );
    section("RESOURCES", rows);
    section("LABELS", listing::labels(kind).into_iter().map(|(key, value)| format!("{key}={value}")).collect());
    let offerings = one.quotes.iter().map(|quote| {
        let price = quote.price.map_or_else(|| "-".to_owned(), |price| rounded(price.0));
        let why = quote.obstacle.as_ref().map(ToString::to_string).unwrap_or_default();
        format!("{:<14} {:<10} {price:>10}  {why}", quote.zone, quote.capacity_type.as_str()).trim_end().to_owned()
    });
    let offerings: Vec<String> = offerings.collect();
    let without_offerings = || vec![obstacle(one).unwrap_or_default()];
    section("OFFERINGS, DOLLARS PER HOUR", if offerings.is_empty() { without_offerings() } else { offerings });
    lines
}

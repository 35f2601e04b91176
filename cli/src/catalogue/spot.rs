//! Spot prices: a history in the output format of the AWS CLI, or a fraction of the list price.

use std::collections::BTreeMap;
use std::path::Path;

use api::{Operator, label};
use cloud::{SpotPrice, TypeOffering, data};
use serde::Deserialize;

use crate::failure::Failure;
use crate::input::Objects;

/// Spot price without a history, in thousandths of the list price.
pub const SPOT_PER_MILLE: i64 = 400;

/// Products whose prices are those of Linux instances.
const PRODUCTS: [&str; 2] = ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"];

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct History {
    spot_price_history: Vec<Record>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Record {
    availability_zone: String,
    instance_type: String,
    #[serde(default)]
    product_description: String,
    spot_price: String,
    #[serde(default)]
    timestamp: String,
}

/// Reads the output of `aws ec2 describe-spot-price-history`. Of each type and zone, the most recent record is used. Types and
/// zones outside the history have no spot offering.
///
/// # Errors
/// Returns an error if the file cannot be read, has another format, or contains no Linux price.
pub fn read(path: &Path) -> Result<Vec<SpotPrice>, Failure> {
    let cure = "write it with `aws ec2 describe-spot-price-history --output json > FILE`";
    let wrong = |problem: String| Failure::usage(format!("{}: {problem}; {cure}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    prices(&text).map_err(wrong)
}

/// Returns the prices of a history, as [`read`] does, or the problem.
pub(super) fn prices(text: &str) -> Result<Vec<SpotPrice>, String> {
    let history: History = serde_json::from_str(text).map_err(|error| format!("not a price history: {error}"))?;
    let mut latest: BTreeMap<(String, String), (String, i64)> = BTreeMap::new();
    for record in history.spot_price_history {
        if !record.product_description.is_empty() && !PRODUCTS.contains(&record.product_description.as_str()) {
            continue;
        }
        let price = data::scaled(&record.spot_price, 6).filter(|price| *price > 0);
        let Some(price) = price else {
            let Record { instance_type, spot_price, .. } = record;
            return Err(format!("SpotPrice of {instance_type}: {spot_price:?} is not a price"));
        };
        let known = latest.entry((record.instance_type, record.availability_zone)).or_default();
        // For equal timestamps the higher price is used, so that the result does not depend on the order of records.
        *known = known.clone().max((record.timestamp, price));
    }
    if latest.is_empty() {
        return Err("no price of Linux/UNIX".to_owned());
    }
    let price = |((instance_type, zone), (_, micro_dollars))| SpotPrice { instance_type, zone, micro_dollars };
    Ok(latest.into_iter().map(price).collect())
}

/// Returns spot prices as a fraction of the list prices.
pub(super) fn estimate(offerings: &[TypeOffering], on_demand: &BTreeMap<String, i64>) -> Vec<SpotPrice> {
    let one = |offering: &TypeOffering| {
        let list = on_demand.get(&offering.instance_type)?;
        let micro_dollars = (list * SPOT_PER_MILLE / 1000).max(1);
        Some(SpotPrice { instance_type: offering.instance_type.clone(), zone: offering.zone.clone(), micro_dollars })
    };
    offerings.iter().filter_map(one).collect()
}

/// Returns a warning about estimated spot prices, if any NodePool allows spot.
pub(super) fn warning(objects: &Objects) -> Option<String> {
    let allows = objects.pools.iter().any(|pool| {
        // A NodePool without a requirement for the capacity type allows all capacity types.
        pool.spec.template.spec.requirements.iter().filter(|it| it.key == label::CAPACITY_TYPE).all(|it| {
            let named = it.values.iter().any(|value| value == label::CAPACITY_SPOT);
            match it.operator {
                Operator::In => named,
                Operator::NotIn => !named,
                Operator::DoesNotExist => false,
                _ => true,
            }
        })
    });
    allows.then(estimate_warning)
}

/// Returns the warning about estimated spot prices.
pub(crate) fn estimate_warning() -> String {
    format!(
        "assuming spot prices of {} % of the on-demand price; use --account or --spot-prices for real ones",
        SPOT_PER_MILLE / 10
    )
}

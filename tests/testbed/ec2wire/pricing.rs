//! GetProducts of the price list: each product is a JSON document in a string.

use std::collections::BTreeMap;

use cloud::{Cloud, OnDemandPrice};
use serde_json::{Value, json};

use super::answer::{self, Failure, Reply, cut, invalid};

/// Number of products per page.
const PAGE: usize = 100;

pub(super) async fn act(cloud: &dyn Cloud, operation: &str, body: &[u8]) -> Result<Reply, Failure> {
    if operation != "GetProducts" {
        return Err(invalid("UnknownOperationException", format!("{operation} is not known here")));
    }
    let request = answer::json(body)?;
    let filters: BTreeMap<_, _> = request["Filters"].as_array().into_iter().flatten().filter_map(filter).collect();
    let metal = match filters.get("tenancy") {
        Some(&"Shared") => false,
        Some(&"Dedicated") => true,
        other => return Err(invalid("InvalidParameterException", format!("no products of tenancy {other:?} here"))),
    };
    let mut found = cloud.on_demand_prices().await?;
    found.retain(|price| price.instance_type.contains(".metal") == metal);
    let summary = format!("{} products", found.len());
    let size = request["MaxResults"].as_u64().and_then(|size| usize::try_from(size).ok()).unwrap_or(PAGE);
    let (rows, next) = cut(found, size, request["NextToken"].as_str(), PAGE)?;
    let products: Vec<_> = rows.iter().map(|price| product(price).to_string()).collect();
    let answer = json!({"FormatVersion": "aws_v1", "PriceList": products, "NextToken": next});
    Ok(Reply { body: answer.to_string(), summary })
}

fn filter(filter: &Value) -> Option<(&str, &str)> {
    Some((filter["Field"].as_str()?, filter["Value"].as_str()?))
}

fn product(price: &OnDemandPrice) -> Value {
    let dollars = format!("{}.{:06}0000", price.micro_dollars / 1_000_000, price.micro_dollars % 1_000_000);
    json!({
        "product": {"productFamily": "Compute Instance", "attributes": {"instanceType": price.instance_type}},
        "serviceCode": "AmazonEC2",
        "terms": {"OnDemand": {"T": {"priceDimensions": {"D": {"unit": "Hrs", "pricePerUnit": {"USD": dollars}}}}}},
    })
}

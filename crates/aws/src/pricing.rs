//! On-demand prices from AWS' price list.

use aws_sdk_pricing::Client;
use aws_sdk_pricing::types::{Filter, FilterType};
use cloud::data::{Currency, price_of};
use cloud::{AnswerLimit, CloudError, OnDemandPrice};

use crate::failure::{failure, incomplete, refused};

const CALL: &str = "GetProducts";

/// Products per page, the maximum of the service.
const PAGE: i32 = 100;

/// Products of the price list, selected by two of their attributes.
struct Product {
    tenancy: &'static str,
    family: &'static str,
}

const SHARED_MACHINES: Product = Product { tenancy: "Shared", family: "Compute Instance" };
const WHOLE_MACHINES: Product = Product { tenancy: "Dedicated", family: "Compute Instance (bare metal)" };

/// Returns the nearest of the few regions that serve the price list.
pub(crate) fn endpoint_region(region: &str) -> &'static str {
    match region.split('-').next() {
        Some("ap") => "ap-south-1",
        Some("cn") => "cn-northwest-1",
        Some("eu") => "eu-central-1",
        _ => "us-east-1",
    }
}

/// Returns both lists, requested concurrently. An empty list is an error: with half of the prices, those of the other half
/// would become stale without a warning.
pub(crate) async fn on_demand(client: &Client, region: Option<&str>) -> Result<Vec<OnDemandPrice>, CloudError> {
    let region = region.ok_or_else(|| refused(CALL, "no region is known; set AWS_REGION".to_owned()))?;
    let (mut prices, metal) =
        tokio::try_join!(list(client, region, SHARED_MACHINES), list(client, region, WHOLE_MACHINES))?;
    prices.extend(metal);
    Ok(prices)
}

async fn list(client: &Client, region: &str, product: Product) -> Result<Vec<OnDemandPrice>, CloudError> {
    let Product { tenancy, family } = product;
    let currency = if region.starts_with("cn-") { Currency::Cny } else { Currency::Usd };
    let fields = [
        ("regionCode", region),
        ("preInstalledSw", "NA"),
        ("operatingSystem", "Linux"),
        ("capacitystatus", "Used"),
        ("marketoption", "OnDemand"),
        ("tenancy", tenancy),
        ("productFamily", family),
    ];
    let mut call = client.get_products().service_code("AmazonEC2").max_results(PAGE);
    for (field, value) in fields {
        let filter = Filter::builder().r#type(FilterType::TermMatch).field(field).value(value).build();
        call = call.filters(filter.map_err(|error| refused(CALL, error.to_string()))?);
    }
    let mut pages = call.into_paginator().send();
    let (mut found, mut limit) = (Vec::new(), AnswerLimit::on_demand_prices());
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| failure(CALL, error))?;
        let products = page.price_list.unwrap_or_default();
        limit.add_page(products.iter().map(String::len))?;
        found.extend(products.iter().filter_map(|product| price_of(product, currency)));
    }
    if found.is_empty() {
        return Err(incomplete(CALL, &format!("price of family {family:?} in {region}")));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::endpoint_region;

    #[test]
    fn endpoint_region_returns_the_nearest_region() {
        let rows = [
            ("us-west-2", "us-east-1"),
            ("sa-east-1", "us-east-1"),
            ("ap-southeast-2", "ap-south-1"),
            ("eu-west-2", "eu-central-1"),
            ("cn-north-1", "cn-northwest-1"),
        ];
        for (region, expected) in rows {
            assert_eq!(endpoint_region(region), expected, "{region}");
        }
    }
}

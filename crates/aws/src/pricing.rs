//! On-demand prices from AWS' price list.

use aws_sdk_pricing::Client;
use aws_sdk_pricing::types::{Filter, FilterType};
use cloud::data::{Currency, price_of};
use cloud::{CloudError, OnDemandPrice};

use crate::failure::{failure, incomplete, refused};

const CALL: &str = "GetProducts";

/// Products a page, the most that the service gives.
const PAGE: i32 = 100;

/// The products whose price counts: machines that one shares with others, and whole ones.
const PRODUCTS: [(&str, &str); 2] = [("Shared", "Compute Instance"), ("Dedicated", "Compute Instance (bare metal)")];

/// The price list is served in few regions; the nearest one.
pub(crate) fn endpoint_region(region: &str) -> &'static str {
    match region.split('-').next() {
        Some("ap") => "ap-south-1",
        Some("cn") => "cn-northwest-1",
        Some("eu") => "eu-central-1",
        _ => "us-east-1",
    }
}

/// Both lists, asked for side by side. An empty one is an error: half a list would make prices of the other half stale
/// without anyone noticing.
pub(crate) async fn on_demand(client: &Client, region: Option<&str>) -> Result<Vec<OnDemandPrice>, CloudError> {
    let region = region.ok_or_else(|| refused(CALL, "no region is known; set AWS_REGION".to_owned()))?;
    let [shared, metal] = PRODUCTS;
    let (mut prices, metal) = tokio::try_join!(list(client, region, shared), list(client, region, metal))?;
    prices.extend(metal);
    Ok(prices)
}

async fn list(client: &Client, region: &str, product: (&str, &str)) -> Result<Vec<OnDemandPrice>, CloudError> {
    let (tenancy, family) = product;
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
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| failure(CALL, error))?;
        found.extend(page.price_list.unwrap_or_default().iter().filter_map(|product| price_of(product, currency)));
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
    fn the_price_list_is_near() {
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

//! Prices from products of the AWS price list.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::scaled;
use crate::calls::OnDemandPrice;

/// Decimal digits of a dollar in a micro-dollar.
const MICRO: usize = 6;

/// Currency of a price list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Currency {
    /// US dollars, everywhere but in China.
    Usd,
    /// Yuan, in China.
    Cny,
}

#[derive(Deserialize)]
struct Product {
    product: Described,
    terms: Terms,
}

#[derive(Deserialize)]
struct Described {
    attributes: Attributes,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Attributes {
    instance_type: Option<String>,
}

#[derive(Deserialize)]
struct Terms {
    #[serde(rename = "OnDemand", default)]
    on_demand: BTreeMap<String, Term>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Term {
    #[serde(default)]
    price_dimensions: BTreeMap<String, Dimension>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Dimension {
    price_per_unit: BTreeMap<String, String>,
}

/// Returns the on-demand price of one product of GetProducts, which is a JSON document as text. Returns `None` without an
/// instance type, without a price in that currency, or if the price is zero.
#[must_use]
pub fn price_of(product: &str, currency: Currency) -> Option<OnDemandPrice> {
    let product: Product = serde_json::from_str(product).ok()?;
    let unit = match currency {
        Currency::Usd => "USD",
        Currency::Cny => "CNY",
    };
    let dimensions = product.terms.on_demand.values().flat_map(|term| term.price_dimensions.values());
    let prices = dimensions.filter_map(|dimension| scaled(dimension.price_per_unit.get(unit)?, MICRO));
    let micro_dollars = prices.filter(|price| *price > 0).max()?;
    Some(OnDemandPrice { instance_type: product.product.attributes.instance_type?, micro_dollars })
}

#[cfg(test)]
mod tests {
    use super::{Currency, price_of};

    fn product(attributes: &str, terms: &str) -> String {
        format!(r#"{{"product":{{"productFamily":"x","attributes":{{{attributes}}},"sku":"S"}},"terms":{{{terms}}}}}"#)
    }

    fn on_demand(unit: &str) -> String {
        format!(r#""OnDemand":{{"S.T":{{"priceDimensions":{{"S.T.D":{{"unit":"Hrs","pricePerUnit":{{{unit}}}}}}}}}}}"#)
    }

    #[test]
    fn price_of_returns_the_price_in_the_requested_currency() {
        let named = r#""instanceType":"m5.large","vcpu":"2""#;
        let rows = [
            (product(named, &on_demand(r#""USD":"0.0960000000""#)), Currency::Usd, Some(96_000)),
            (product(named, &on_demand(r#""CNY":"0.9530000000""#)), Currency::Cny, Some(953_000)),
            (product(named, &on_demand(r#""CNY":"0.9530000000""#)), Currency::Usd, None),
            (product(named, &on_demand(r#""USD":"0.0000000000""#)), Currency::Usd, None),
            (product(named, &on_demand(r#""USD":"cheap""#)), Currency::Usd, None),
            (product("", &on_demand(r#""USD":"0.0960000000""#)), Currency::Usd, None),
            (product(named, ""), Currency::Usd, None),
            ("{".to_owned(), Currency::Usd, None),
        ];
        for (text, currency, expected) in rows {
            let found = price_of(&text, currency);
            assert_eq!(found.as_ref().map(|price| price.micro_dollars), expected, "{text}");
            assert!(found.is_none_or(|price| price.instance_type == "m5.large"));
        }
    }
}

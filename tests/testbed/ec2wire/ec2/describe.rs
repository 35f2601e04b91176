//! Filters of Describe calls, offerings of instance types, and spot prices.

use cloud::{Cloud, Filter, Tags};
use jiff::Timestamp;

use crate::ec2wire::answer::{Failure, Reply, cut, invalid, page};
use crate::ec2wire::form::Form;
use crate::ec2wire::xml::Xml;

const PAGE: usize = 1000;

/// Filters of a request by name.
pub(super) struct Select(Vec<(String, Vec<String>)>);

impl Select {
    pub(super) fn read(form: &Form) -> Self {
        let filters = form.list("Filter").into_iter();
        Self(filters.map(|filter| (filter.owned("Name"), filter.texts("Value"))).collect())
    }

    /// Removes and returns the filter called `name`.
    pub(super) fn take(&mut self, name: &str) -> Option<Vec<String>> {
        let position = self.0.iter().position(|(found, _)| found == name)?;
        Some(self.0.remove(position).1)
    }

    /// Converts the remaining filters into a [`Filter`]: tags, and the fields called `id` and `name`. An unknown filter is an
    /// error, because ignoring it would return too much.
    pub(super) fn filter(self, id: &str, name: &str) -> Result<Filter, Failure> {
        let mut filter = Filter::default();
        for (field, values) in self.0 {
            if field == id {
                filter.ids = values;
            } else if field == name {
                filter.names = values;
            } else {
                let (key, value) = tag_filter(&field, &values)?;
                filter.tags.insert(key, value);
            }
        }
        Ok(filter)
    }
}

fn tag_filter(field: &str, values: &[String]) -> Result<(String, String), Failure> {
    match (field.strip_prefix("tag:"), values) {
        (Some(key), [value]) => Ok((key.to_owned(), value.clone())),
        (None, [key]) if field == "tag-key" => Ok((key.clone(), "*".to_owned())),
        _ => Err(invalid("InvalidParameterValue", format!("The filter '{field}' is invalid"))),
    }
}

/// Returns the tags of a request's branch.
pub(super) fn tags_of(form: &Form) -> Tags {
    form.list("Tag").iter().map(|tag| (tag.owned("Key"), tag.owned("Value"))).collect()
}

pub(super) async fn type_offerings(cloud: &dyn Cloud, form: &Form) -> Result<Reply, Failure> {
    let kind = form.text("LocationType");
    if kind != "availability-zone" {
        return Err(invalid("InvalidParameterValue", format!("The location type '{kind}' is not known here")));
    }
    let found = cloud.type_offerings().await?;
    let summary = format!("{} offerings", found.len());
    let (rows, next) = page(found, form, PAGE)?;
    let body = Xml::response("DescribeInstanceTypeOfferings", |xml| {
        xml.items("instanceTypeOfferingSet", &rows, |xml, row| {
            xml.text("instanceType", &row.instance_type);
            xml.text("locationType", kind);
            xml.text("location", &row.zone);
        });
        xml.some("nextToken", next);
    });
    Ok(Reply { body, summary })
}

pub(super) async fn spot_prices(cloud: &dyn Cloud, form: &Form) -> Result<Reply, Failure> {
    let found = cloud.spot_prices().await?;
    let summary = format!("{} prices", found.len());
    // This call has no limit of its page size.
    let size = form.read("MaxResults").unwrap_or(PAGE);
    let (rows, next) = cut(found, size, form.get("NextToken"), usize::MAX)?;
    let now = Timestamp::now();
    let body = Xml::response("DescribeSpotPriceHistory", |xml| {
        xml.items("spotPriceHistorySet", &rows, |xml, row| {
            xml.text("instanceType", &row.instance_type);
            xml.text("productDescription", "Linux/UNIX");
            xml.text("spotPrice", dollars(row.micro_dollars));
            xml.text("timestamp", now);
            xml.text("availabilityZone", &row.zone);
        });
        xml.some("nextToken", next);
    });
    Ok(Reply { body, summary })
}

fn dollars(micro_dollars: i64) -> String {
    format!("{}.{:06}", micro_dollars / 1_000_000, micro_dollars % 1_000_000)
}

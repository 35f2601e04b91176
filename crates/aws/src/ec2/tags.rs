//! Conversion of tags and filters between maps and EC2's lists.

use aws_sdk_ec2::types::{Filter, ResourceType, Tag, TagSpecification};
use cloud::Tags;

/// Converts `tags` into EC2's list.
pub(crate) fn to_ec2(tags: &Tags) -> Vec<Tag> {
    tags.iter().map(|(key, value)| Tag::builder().key(key).value(value).build()).collect()
}

/// Converts EC2's list into a map; a tag without a key cannot exist.
pub(crate) fn from_ec2(tags: Option<Vec<Tag>>) -> Tags {
    let pair = |tag: Tag| tag.key.map(|key| (key, tag.value.unwrap_or_default()));
    tags.unwrap_or_default().into_iter().filter_map(pair).collect()
}

/// Returns filters that match resources with all `tags`; a value of `*` matches any value of the key.
pub(crate) fn filters(tags: &Tags) -> Vec<Filter> {
    tags.iter().map(|(key, value)| tag_filter(key, value)).collect()
}

fn tag_filter(key: &str, value: &str) -> Filter {
    if value == "*" { filter("tag-key", [key]) } else { filter(&format!("tag:{key}"), [value]) }
}

/// Returns one filter: the field `name` has any of `values`.
pub(crate) fn filter<'a>(name: &str, values: impl IntoIterator<Item = &'a str>) -> Filter {
    let values = values.into_iter().map(str::to_owned).collect();
    Filter::builder().name(name).set_values(Some(values)).build()
}

/// Returns `tags` for all resources of these kinds that a call creates.
pub(crate) fn specifications(kinds: &[ResourceType], tags: &Tags) -> Option<Vec<TagSpecification>> {
    let one = |kind: &ResourceType| {
        TagSpecification::builder().resource_type(kind.clone()).set_tags(Some(to_ec2(tags))).build()
    };
    (!tags.is_empty()).then(|| kinds.iter().map(one).collect())
}

//! Tags and filters between our maps and EC2's lists.

use aws_sdk_ec2::types::{Filter, ResourceType, Tag, TagSpecification};
use cloud::Tags;

/// EC2's list of `tags`.
pub(crate) fn to_ec2(tags: &Tags) -> Vec<Tag> {
    tags.iter().map(|(key, value)| Tag::builder().key(key).value(value).build()).collect()
}

/// Our map of EC2's list; a tag without a key cannot exist.
pub(crate) fn from_ec2(tags: Option<Vec<Tag>>) -> Tags {
    let pair = |tag: Tag| tag.key.map(|key| (key, tag.value.unwrap_or_default()));
    tags.unwrap_or_default().into_iter().filter_map(pair).collect()
}

/// Filters that a resource passes when it carries all `tags`; a value of `*` asks only for the key.
pub(crate) fn filters(tags: &Tags) -> Vec<Filter> {
    tags.iter().map(|(key, value)| tag_filter(key, value)).collect()
}

fn tag_filter(key: &str, value: &str) -> Filter {
    if value == "*" { filter("tag-key", [key]) } else { filter(&format!("tag:{key}"), [value]) }
}

/// One filter: the field called `name` is any of `values`.
pub(crate) fn filter<'a>(name: &str, values: impl IntoIterator<Item = &'a str>) -> Filter {
    let values = values.into_iter().map(str::to_owned).collect();
    Filter::builder().name(name).set_values(Some(values)).build()
}

/// `tags` for every resource of the given kinds that a call creates.
pub(crate) fn specifications(kinds: &[ResourceType], tags: &Tags) -> Option<Vec<TagSpecification>> {
    let one = |kind: &ResourceType| {
        TagSpecification::builder().resource_type(kind.clone()).set_tags(Some(to_ec2(tags))).build()
    };
    (!tags.is_empty()).then(|| kinds.iter().map(one).collect())
}

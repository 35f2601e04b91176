//! EC2's matching of filters in Describe calls.

use crate::calls::{
    CapacityReservation, Filter, Image, PlacementGroup, PlacementGroupQuery, ReservationFilter, SecurityGroup, Subnet,
    Tags,
};
use crate::policy::evaluation::wildcard;

/// Account id of the fake; the owner `self` means this account.
pub const ACCOUNT: &str = "123456789012";
/// Account id of EKS' own images; the owner `amazon` means this account.
pub const AMAZON: &str = "602401143452";

/// Reports whether `tags` contains all of `wanted`, whose values are patterns.
pub(super) fn tagged(tags: &Tags, wanted: &Tags) -> bool {
    wanted.iter().all(|(key, value)| tags.get(key).is_some_and(|found| wildcard(value, found)))
}

fn any(wanted: &[String], matches: impl Fn(&str) -> bool) -> bool {
    wanted.is_empty() || wanted.iter().any(|one| matches(one))
}

pub(super) fn subnet(filter: &Filter, subnet: &Subnet) -> bool {
    any(&filter.ids, |id| id == subnet.id) && tagged(&subnet.tags, &filter.tags)
}

pub(super) fn security_group(filter: &Filter, group: &SecurityGroup) -> bool {
    any(&filter.ids, |id| id == group.id)
        && any(&filter.names, |name| wildcard(name, &group.name))
        && tagged(&group.tags, &filter.tags)
}

pub(super) fn image(filter: &Filter, image: &Image) -> bool {
    any(&filter.ids, |id| id == image.id)
        && any(&filter.names, |name| wildcard(name, &image.name))
        && any(&filter.owners, |owner| owns(owner, &image.owner))
        && tagged(&image.tags, &filter.tags)
}

pub(super) fn reservation(filter: &ReservationFilter, one: &CapacityReservation) -> bool {
    let same = |wanted: &Option<String>, value: &String| wanted.as_ref().is_none_or(|wanted| wanted == value);
    any(&filter.ids, |id| id == one.id)
        && same(&filter.owner, &one.owner)
        && same(&filter.match_criteria, &one.match_criteria)
        && tagged(&one.tags, &filter.tags)
}

pub(super) fn placement_group(query: &PlacementGroupQuery, group: &PlacementGroup) -> bool {
    match query {
        PlacementGroupQuery::Name(name) => group.name == *name,
        PlacementGroupQuery::Id(id) => group.id == *id,
    }
}

fn owns(wanted: &str, owner: &str) -> bool {
    match wanted {
        "self" => owner == ACCOUNT,
        "amazon" => owner == AMAZON,
        id => owner == id,
    }
}

#[cfg(test)]
mod tests {
    use super::wildcard;

    #[test]
    fn wildcard_matches_star_and_question_mark() {
        let rows = [
            ("a*c", "abbc", true),
            ("a*c", "ac", true),
            ("*", "", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("amazon-eks-*-1.36-*", "amazon-eks-node-al2023-x86_64-standard-1.36-v20261101", true),
            ("abc", "abcd", false),
            ("", "", true),
        ];
        for (pattern, text, expected) in rows {
            assert_eq!(wildcard(pattern, text), expected, "{pattern} {text}");
        }
    }
}

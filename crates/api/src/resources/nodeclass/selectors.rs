//! Selector terms of an EC2NodeClass. Terms are alternatives. The fields of one term must all match.
//!
//! Some rules refuse a list only if every term is invalid, because Karpenter does so too. Kerf must accept every list that
//! Karpenter accepts.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ami::AmiFamily;
use crate::resources::schema_rules::cel_rule;

/// Term that selects subnets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubnetSelectorTerm {
    /// Tags of the subnet. The value `*` matches any value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 20, "x-kubernetes-validations" = [tag_rule()]))]
    pub tags: BTreeMap<String, String>,
    /// Id of the subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "subnet-[0-9a-z]+"))]
    pub id: Option<String>,
}

/// Term that selects security groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecurityGroupSelectorTerm {
    /// Tags of the group. The value `*` matches any value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 20, "x-kubernetes-validations" = [tag_rule()]))]
    pub tags: BTreeMap<String, String>,
    /// Id of the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "sg-[0-9a-z]+"))]
    pub id: Option<String>,
    /// Name of the group, which is not its Name tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Term that selects capacity reservations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityReservationSelectorTerm {
    /// Tags of the reservation. The value `*` matches any value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 20, "x-kubernetes-validations" = [tag_rule()]))]
    pub tags: BTreeMap<String, String>,
    /// Id of the reservation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^cr-[0-9a-z]+$"))]
    pub id: Option<String>,
    /// Id of the account that owns the reservation.
    #[serde(default, rename = "ownerID", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^[0-9]{12}$"))]
    pub owner_id: Option<String>,
    /// Instance match criteria of the reservation: `open` or `targeted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["open", "targeted"]))]
    pub instance_match_criteria: Option<String>,
}

/// Term that selects images.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AmiSelectorTerm {
    /// Alias `family@version` of AWS's own images of that family. Must be the only term.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "maxLength" = 30,
        "pattern" = "^[a-zA-Z0-9]+@.+$",
        "x-kubernetes-validations" = alias_rules(),
    ))]
    pub alias: Option<String>,
    /// Id of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "ami-[0-9a-z]+"))]
    pub id: Option<String>,
    /// Name of the image, which is not its Name tag. `*` and `?` are wildcards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Owner of the image: an account id, `self`, `amazon` or `aws-marketplace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Name of the SSM parameter that contains the id of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssm_parameter: Option<String>,
    /// Tags of the image. The value `*` matches any value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 20, "x-kubernetes-validations" = [tag_rule()]))]
    pub tags: BTreeMap<String, String>,
}

/// Selector of one placement group, by name or by id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [cel_rule(
    "has(self.name) != has(self.id)",
    "exactly one of 'name' and 'id' must be set in placementGroupSelector",
)]))]
pub struct PlacementGroupSelector {
    /// Name of the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minLength" = 1))]
    pub name: Option<String>,
    /// Id of the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^pg-[0-9a-z]+$"))]
    pub id: Option<String>,
}

/// Returns the rule that each term has at least one of these fields.
fn needs_one_of(fields: &[&str]) -> Value {
    let any = fields.iter().map(|name| format!("has(x.{name})")).collect::<Vec<_>>().join(" || ");
    let message = format!("expected at least one, got none, {fields:?}").replace('"', "'");
    cel_rule(format!("self.all(x, {any})"), message)
}

fn tag_rule() -> Value {
    cel_rule("self.all(k, k != '' && self[k] != '')", "empty tag keys or values are not supported")
}

/// Returns the rules of a list of subnet selector terms.
pub(super) fn subnet_rules() -> [Value; 2] {
    [
        needs_one_of(&["tags", "id"]),
        cel_rule(
            "!self.all(x, has(x.id) && has(x.tags))",
            "'id' is mutually exclusive, cannot be set with other fields in a subnet selector term",
        ),
    ]
}

/// Returns the rules of a list of security group selector terms.
pub(super) fn security_group_rules() -> [Value; 3] {
    [
        needs_one_of(&["tags", "id", "name"]),
        cel_rule(
            "!self.all(x, has(x.id) && (has(x.tags) || has(x.name)))",
            "'id' is mutually exclusive, cannot be set with other fields in a security group selector term",
        ),
        cel_rule(
            "!self.all(x, has(x.name) && (has(x.tags) || has(x.id)))",
            "'name' is mutually exclusive, cannot be set with other fields in a security group selector term",
        ),
    ]
}

/// Returns the rules of a list of capacity reservation selector terms.
pub(super) fn capacity_reservation_rules() -> [Value; 2] {
    [
        needs_one_of(&["tags", "id", "instanceMatchCriteria"]),
        cel_rule(
            "self.size() == 0 || !self.all(x, has(x.id) && (has(x.tags) || has(x.ownerID) || has(x.instanceMatchCriteria)))",
            "'id' is mutually exclusive, cannot be set with other fields in a capacity reservation selector term",
        ),
    ]
}

/// Returns the rules of a list of image selector terms.
pub(super) fn ami_rules() -> [Value; 4] {
    [
        needs_one_of(&["tags", "id", "name", "alias", "ssmParameter"]),
        cel_rule(
            "!self.exists(x, has(x.id) && (has(x.alias) || has(x.tags) || has(x.name) || has(x.owner)))",
            "'id' is mutually exclusive, cannot be set with other fields in an AMI selector term",
        ),
        cel_rule(
            "!self.exists(x, has(x.alias) && (has(x.id) || has(x.tags) || has(x.name) || has(x.owner)))",
            "'alias' is mutually exclusive, cannot be set with other fields in an AMI selector term",
        ),
        cel_rule(
            "!(self.exists(x, has(x.alias)) && self.size() != 1)",
            "'alias' is mutually exclusive, cannot be set with other AMI selector terms",
        ),
    ]
}

fn alias_rules() -> [Value; 2] {
    let names = |windows_only: bool| -> Vec<&str> {
        let families = AmiFamily::ALIASES.into_iter().filter(|(_, family)| !windows_only || family.is_windows());
        families.map(|(name, _)| name).collect()
    };
    let all = names(false);
    let windows = names(true);
    [
        cel_rule(
            format!("self.find('^[^@]+') in {all:?}"),
            format!("family is not supported, must be one of the following: {all:?}").replace('"', "'"),
        ),
        cel_rule(
            format!("self.find('^[^@]+') in {windows:?} ? self.find('[^@]+$') == 'latest' : true"),
            "windows families may only specify version 'latest'",
        ),
    ]
}

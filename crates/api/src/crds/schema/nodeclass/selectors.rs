//! Schema rules of the selectors in an EC2NodeClass.
//!
//! Some rules refuse a list only if every term is invalid, because Karpenter does so too. Kerf must accept every list that
//! Karpenter accepts.

use serde_json::{Value, json};

use super::super::common_rules::{cel_rule, cel_rules};
use super::super::{SchemaRule, set};
use crate::resources::nodeclass::AmiFamily;

pub(super) fn schema_rules() -> Vec<SchemaRule> {
    let mut rules = vec![
        set(
            "spec.placementGroupSelector",
            cel_rules([cel_rule(
                "has(self.name) != has(self.id)",
                "exactly one of 'name' and 'id' must be set in placementGroupSelector",
            )]),
        ),
        set("spec.placementGroupSelector.name", json!({ "minLength": 1 })),
        set("spec.placementGroupSelector.id", json!({ "pattern": "^pg-[0-9a-z]+$" })),
    ];
    rules.extend(subnets());
    rules.extend(security_groups());
    rules.extend(capacity_reservations());
    rules.extend(amis());
    rules
}

/// Returns the schema rules of a list of terms: its size, at least one field of `needed` in each term, and the rules in `more`.
fn terms(field: &str, least: u32, needed: &[&str], more: Vec<Value>) -> Vec<SchemaRule> {
    let any = needed.iter().map(|name| format!("has(x.{name})")).collect::<Vec<_>>().join(" || ");
    let mut all = vec![cel_rule(
        format!("self.all(x, {any})"),
        format!("expected at least one, got none, {needed:?}").replace('"', "'"),
    )];
    all.extend(more);
    let path = format!("spec.{field}");
    let mut size = json!({ "maxItems": 30 });
    if least > 0 {
        size["minItems"] = json!(least);
    }
    vec![
        set(&path, size),
        set(&path, cel_rules(all)),
        set(
            format!("{path}.[].tags"),
            cel_rules([cel_rule(
                "self.all(k, k != '' && self[k] != '')",
                "empty tag keys or values are not supported",
            )]),
        ),
        set(format!("{path}.[].tags"), json!({ "maxProperties": 20 })),
    ]
}

fn subnets() -> Vec<SchemaRule> {
    let exclusive = cel_rule(
        "!self.all(x, has(x.id) && has(x.tags))",
        "'id' is mutually exclusive, cannot be set with other fields in a subnet selector term",
    );
    let mut rules = terms("subnetSelectorTerms", 1, &["tags", "id"], vec![exclusive]);
    rules.push(set("spec.subnetSelectorTerms.[].id", json!({ "pattern": "subnet-[0-9a-z]+" })));
    rules
}

fn security_groups() -> Vec<SchemaRule> {
    let exclusive = vec![
        cel_rule(
            "!self.all(x, has(x.id) && (has(x.tags) || has(x.name)))",
            "'id' is mutually exclusive, cannot be set with other fields in a security group selector term",
        ),
        cel_rule(
            "!self.all(x, has(x.name) && (has(x.tags) || has(x.id)))",
            "'name' is mutually exclusive, cannot be set with other fields in a security group selector term",
        ),
    ];
    let mut rules = terms("securityGroupSelectorTerms", 1, &["tags", "id", "name"], exclusive);
    rules.push(set("spec.securityGroupSelectorTerms.[].id", json!({ "pattern": "sg-[0-9a-z]+" })));
    rules
}

fn capacity_reservations() -> Vec<SchemaRule> {
    const FIELD: &str = "capacityReservationSelectorTerms";
    let exclusive = cel_rule(
        "self.size() == 0 || !self.all(x, has(x.id) && (has(x.tags) || has(x.ownerID) || has(x.instanceMatchCriteria)))",
        "'id' is mutually exclusive, cannot be set with other fields in a capacity reservation selector term",
    );
    let mut rules = terms(FIELD, 0, &["tags", "id", "instanceMatchCriteria"], vec![exclusive]);
    let path = format!("spec.{FIELD}.[]");
    rules.extend([
        set(format!("{path}.id"), json!({ "pattern": "^cr-[0-9a-z]+$" })),
        set(format!("{path}.ownerID"), json!({ "pattern": "^[0-9]{12}$" })),
        set(format!("{path}.instanceMatchCriteria"), json!({ "enum": ["open", "targeted"] })),
    ]);
    rules
}

fn amis() -> Vec<SchemaRule> {
    const FIELD: &str = "amiSelectorTerms";
    let exclusive = vec![
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
    ];
    let needed = ["tags", "id", "name", "alias", "ssmParameter"];
    let mut rules = terms(FIELD, 1, &needed, exclusive);
    let path = format!("spec.{FIELD}.[]");
    rules.extend([
        set(format!("{path}.alias"), json!({ "maxLength": 30, "pattern": "^[a-zA-Z0-9]+@.+$" })),
        set(format!("{path}.alias"), cel_rules(alias_rules())),
        set(format!("{path}.id"), json!({ "pattern": "ami-[0-9a-z]+" })),
    ]);
    rules
}

fn alias_rules() -> [Value; 2] {
    let names = |windows_only: bool| -> Vec<&str> {
        AmiFamily::ALIASES
            .into_iter()
            .filter(|(_, family)| !windows_only || family.is_windows())
            .map(|(name, _)| name)
            .collect()
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

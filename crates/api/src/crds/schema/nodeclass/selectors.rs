//! Schema rules of the selectors in an EC2NodeClass.
//!
//! Some rules refuse a list only if every term is invalid, because Karpenter does so too. Kerf must accept every list that
//! Karpenter accepts.

use serde_json::{Value, json};

use super::super::laws::{rule, rules};
use super::super::{Law, law};
use crate::resources::nodeclass::AmiFamily;

pub(super) fn laws() -> Vec<Law> {
    let mut laws = vec![
        law(
            "spec.placementGroupSelector",
            rules([rule(
                "has(self.name) != has(self.id)",
                "exactly one of 'name' and 'id' must be set in placementGroupSelector",
            )]),
        ),
        law("spec.placementGroupSelector.name", json!({ "minLength": 1 })),
        law("spec.placementGroupSelector.id", json!({ "pattern": "^pg-[0-9a-z]+$" })),
    ];
    laws.extend(subnets());
    laws.extend(security_groups());
    laws.extend(capacity_reservations());
    laws.extend(amis());
    laws
}

/// Returns the schema rules of a list of terms: its size, at least one field of `needed` in each term, and the rules in `more`.
fn terms(field: &str, least: u32, needed: &[&str], more: Vec<Value>) -> Vec<Law> {
    let any = needed.iter().map(|name| format!("has(x.{name})")).collect::<Vec<_>>().join(" || ");
    let mut all = vec![rule(
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
        law(&path, size),
        law(&path, rules(all)),
        law(
            format!("{path}.[].tags"),
            rules([rule("self.all(k, k != '' && self[k] != '')", "empty tag keys or values are not supported")]),
        ),
        law(format!("{path}.[].tags"), json!({ "maxProperties": 20 })),
    ]
}

fn subnets() -> Vec<Law> {
    let exclusive = rule(
        "!self.all(x, has(x.id) && has(x.tags))",
        "'id' is mutually exclusive, cannot be set with other fields in a subnet selector term",
    );
    let mut laws = terms("subnetSelectorTerms", 1, &["tags", "id"], vec![exclusive]);
    laws.push(law("spec.subnetSelectorTerms.[].id", json!({ "pattern": "subnet-[0-9a-z]+" })));
    laws
}

fn security_groups() -> Vec<Law> {
    let exclusive = vec![
        rule(
            "!self.all(x, has(x.id) && (has(x.tags) || has(x.name)))",
            "'id' is mutually exclusive, cannot be set with other fields in a security group selector term",
        ),
        rule(
            "!self.all(x, has(x.name) && (has(x.tags) || has(x.id)))",
            "'name' is mutually exclusive, cannot be set with other fields in a security group selector term",
        ),
    ];
    let mut laws = terms("securityGroupSelectorTerms", 1, &["tags", "id", "name"], exclusive);
    laws.push(law("spec.securityGroupSelectorTerms.[].id", json!({ "pattern": "sg-[0-9a-z]+" })));
    laws
}

fn capacity_reservations() -> Vec<Law> {
    const FIELD: &str = "capacityReservationSelectorTerms";
    let exclusive = rule(
        "self.size() == 0 || !self.all(x, has(x.id) && (has(x.tags) || has(x.ownerID) || has(x.instanceMatchCriteria)))",
        "'id' is mutually exclusive, cannot be set with other fields in a capacity reservation selector term",
    );
    let mut laws = terms(FIELD, 0, &["tags", "id", "instanceMatchCriteria"], vec![exclusive]);
    let path = format!("spec.{FIELD}.[]");
    laws.extend([
        law(format!("{path}.id"), json!({ "pattern": "^cr-[0-9a-z]+$" })),
        law(format!("{path}.ownerID"), json!({ "pattern": "^[0-9]{12}$" })),
        law(format!("{path}.instanceMatchCriteria"), json!({ "enum": ["open", "targeted"] })),
    ]);
    laws
}

fn amis() -> Vec<Law> {
    const FIELD: &str = "amiSelectorTerms";
    let exclusive = vec![
        rule(
            "!self.exists(x, has(x.id) && (has(x.alias) || has(x.tags) || has(x.name) || has(x.owner)))",
            "'id' is mutually exclusive, cannot be set with other fields in an AMI selector term",
        ),
        rule(
            "!self.exists(x, has(x.alias) && (has(x.id) || has(x.tags) || has(x.name) || has(x.owner)))",
            "'alias' is mutually exclusive, cannot be set with other fields in an AMI selector term",
        ),
        rule(
            "!(self.exists(x, has(x.alias)) && self.size() != 1)",
            "'alias' is mutually exclusive, cannot be set with other AMI selector terms",
        ),
    ];
    let needed = ["tags", "id", "name", "alias", "ssmParameter"];
    let mut laws = terms(FIELD, 1, &needed, exclusive);
    let path = format!("spec.{FIELD}.[]");
    laws.extend([
        law(format!("{path}.alias"), json!({ "maxLength": 30, "pattern": "^[a-zA-Z0-9]+@.+$" })),
        law(format!("{path}.alias"), rules(alias_rules())),
        law(format!("{path}.id"), json!({ "pattern": "ami-[0-9a-z]+" })),
    ]);
    laws
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
        rule(
            format!("self.find('^[^@]+') in {all:?}"),
            format!("family is not supported, must be one of the following: {all:?}").replace('"', "'"),
        ),
        rule(
            format!("self.find('^[^@]+') in {windows:?} ? self.find('[^@]+$') == 'latest' : true"),
            "windows families may only specify version 'latest'",
        ),
    ]
}

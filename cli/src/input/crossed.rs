//! What the API server holds of NodePools and classes by rules between fields, which a schema's types and patterns cannot say.

use api::label;
use serde_json::Value;

use super::Raw;
use super::error::InputError;
use super::kinds::Kind;

/// Labels of this domain are those that machines have, and no others.
const OF_MACHINES: &str = "karpenter.k8s.aws";

/// Everything that such a rule refuses.
pub(super) fn faults(raw: &Raw) -> Vec<InputError> {
    let spec = &raw.value["spec"];
    match raw.kind {
        Kind::NodePool => {
            let mut faults = fixed_size(raw, spec);
            faults.extend(windows(raw, spec));
            faults.extend(keys(raw, &spec["template"]));
            faults
        }
        Kind::EC2NodeClass => images(raw, spec).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// An alias says the family by itself; other images do not, and a family that is named beside an alias must be its own.
fn images(raw: &Raw, spec: &Value) -> Option<InputError> {
    let terms = spec["amiSelectorTerms"].as_array()?;
    let alias = terms.iter().find_map(|term| term["alias"].as_str());
    let (family, path) = (spec["amiFamily"].as_str(), "spec.amiFamily");
    match (alias, family) {
        (None, None) if !terms.is_empty() => {
            let cure = "set the family of the images: AL2023, AL2, Bottlerocket, Windows2022, ... or Custom";
            Some(InputError::field(raw, path, "missing, and required without an alias", cure))
        }
        (Some(alias), Some(family)) if family != "Custom" => {
            let own = alias.split('@').next().unwrap_or_default();
            let problem = format!("{family:?} beside alias {alias}");
            let fault = || InputError::field(raw, path, &problem, "use the same family, or remove amiFamily");
            (!own.eq_ignore_ascii_case(family)).then(fault)
        }
        _ => None,
    }
}

/// A pool with `replicas` keeps that many nodes, so neither weight nor amounts of resources mean anything.
fn fixed_size(raw: &Raw, spec: &Value) -> Vec<InputError> {
    if spec["replicas"].is_null() {
        return Vec::new();
    }
    let beside = "not allowed with spec.replicas";
    let mut faults = Vec::new();
    if !spec["weight"].is_null() {
        faults.push(InputError::field(raw, "spec.weight", beside, "remove it"));
    }
    let limits = spec["limits"].as_object().into_iter().flatten();
    for (resource, _) in limits.filter(|(resource, _)| resource.as_str() != "nodes") {
        faults.push(InputError::field(raw, &format!("spec.limits[{resource}]"), beside, "limit only nodes"));
    }
    faults
}

/// A budget opens by a schedule and for a duration, or is always open.
fn windows(raw: &Raw, spec: &Value) -> Vec<InputError> {
    let budgets = spec["disruption"]["budgets"].as_array().into_iter().flatten().enumerate();
    let half = budgets.filter(|(_, budget)| budget["schedule"].is_null() != budget["duration"].is_null());
    let fault = |(index, _)| {
        let path = format!("spec.disruption.budgets[{index}]");
        InputError::field(raw, &path, "schedule and duration are required together", "write both or neither")
    };
    half.map(fault).collect()
}

/// Nobody would ever give a machine another label of Karpenter's own domain.
fn keys(raw: &Raw, template: &Value) -> Vec<InputError> {
    let labels = template["metadata"]["labels"].as_object().into_iter().flatten();
    let labels = labels.map(|(key, _)| (key.as_str(), format!("spec.template.metadata.labels[{key}]")));
    let requirements = template["spec"]["requirements"].as_array().into_iter().flatten().enumerate();
    let requirements = requirements
        .filter_map(|(index, it)| Some((it["key"].as_str()?, format!("spec.template.spec.requirements[{index}].key"))));
    let foreign = |key: &str| label::domain(key) == Some(OF_MACHINES) && !label::is_well_known(key);
    let fault = |(key, path): (&str, String)| {
        let problem = format!("{key:?} is restricted: no instance has such a label");
        InputError::field(raw, &path, &problem, "use a well-known label of Karpenter, or your own label")
    };
    labels.chain(requirements).filter(|(key, _)| foreign(key)).map(fault).collect()
}

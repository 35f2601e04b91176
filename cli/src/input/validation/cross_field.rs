//! Validation rules of the API server between fields of NodePools and classes, which a schema's types and patterns cannot
//! express.

use api::label;
use serde_json::Value;

use crate::input::error::InputError;
use crate::input::kinds::Kind;
use crate::input::raw::Raw;

/// Restricted domain: only the well-known labels of instances are permitted.
const OF_MACHINES: &str = "karpenter.k8s.aws";

/// Returns all violations of these rules.
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

/// Validates `amiFamily`. The field is required without an alias, and must match the family of an alias; Custom is also
/// permitted.
fn images(raw: &Raw, spec: &Value) -> Option<InputError> {
    let terms = spec["amiSelectorTerms"].as_array()?;
    let alias = terms.iter().find_map(|term| term["alias"].as_str());
    let (family, path) = (spec["amiFamily"].as_str(), "spec.amiFamily");
    match (alias, family) {
        (None, None) if !terms.is_empty() => {
            let cure = "set the family of the images: AL2023, AL2, Bottlerocket, Windows2022, ... or Custom";
            Some(raw.fault(path, "missing, and required without an alias", cure))
        }
        (Some(alias), Some(family)) if family != "Custom" => {
            let own = alias.split('@').next().unwrap_or_default();
            let problem = format!("{family:?} beside alias {alias}");
            let fault = || raw.fault(path, &problem, "use the same family, or remove amiFamily");
            (!own.eq_ignore_ascii_case(family)).then(fault)
        }
        _ => None,
    }
}

/// Validates a static NodePool: `replicas` permits neither a weight nor limits of resources other than nodes.
fn fixed_size(raw: &Raw, spec: &Value) -> Vec<InputError> {
    if spec["replicas"].is_null() {
        return Vec::new();
    }
    let beside = "not allowed with spec.replicas";
    let mut faults = Vec::new();
    if !spec["weight"].is_null() {
        faults.push(raw.fault("spec.weight", beside, "remove it"));
    }
    let limits = spec["limits"].as_object().into_iter().flatten();
    for (resource, _) in limits.filter(|(resource, _)| resource.as_str() != "nodes") {
        faults.push(raw.fault(&format!("spec.limits[{resource}]"), beside, "limit only nodes"));
    }
    faults
}

/// Validates that a budget has both a schedule and a duration, or neither.
fn windows(raw: &Raw, spec: &Value) -> Vec<InputError> {
    let budgets = spec["disruption"]["budgets"].as_array().into_iter().flatten().enumerate();
    let half = budgets.filter(|(_, budget)| budget["schedule"].is_null() != budget["duration"].is_null());
    let fault = |(index, _)| {
        let path = format!("spec.disruption.budgets[{index}]");
        raw.fault(&path, "schedule and duration are required together", "write both or neither")
    };
    half.map(fault).collect()
}

/// Rejects unknown labels in Karpenter's own domain, because no instance has them.
fn keys(raw: &Raw, template: &Value) -> Vec<InputError> {
    let labels = template["metadata"]["labels"].as_object().into_iter().flatten();
    let labels = labels.map(|(key, _)| (key.as_str(), format!("spec.template.metadata.labels[{key}]")));
    let requirements = template["spec"]["requirements"].as_array().into_iter().flatten().enumerate();
    let requirements = requirements
        .filter_map(|(index, it)| Some((it["key"].as_str()?, format!("spec.template.spec.requirements[{index}].key"))));
    let foreign = |key: &str| label::domain(key) == Some(OF_MACHINES) && !label::is_well_known(key);
    let fault = |(key, path): (&str, String)| {
        let problem = format!("{key:?} is restricted: no instance has such a label");
        raw.fault(&path, &problem, "use a well-known label of Karpenter, or your own label")
    };
    labels.chain(requirements).filter(|(key, _)| foreign(key)).map(fault).collect()
}

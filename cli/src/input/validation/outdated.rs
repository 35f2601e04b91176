//! Fields and values of older versions, and common mistakes of tutorials. The API server drops most of them without a visible
//! warning, so this module rejects them with the correct form.

use serde_json::Value;

use crate::input::error::InputError;
use crate::input::kinds::Kind;
use crate::input::raw::Raw;

/// Fields that have another path now, by kind, with the fix.
const FIELDS: [(Kind, &str, &str); 40] = [
    (Kind::NodePool, "spec.annotations", "write it as spec.template.metadata.annotations"),
    (Kind::NodePool, "spec.capacityType", CAPACITY_TYPE),
    (Kind::NodePool, "spec.capacityTypes", CAPACITY_TYPE),
    (Kind::NodePool, "spec.consolidation", "write spec.disruption.consolidationPolicy and consolidateAfter"),
    (Kind::NodePool, "spec.disruption.expireAfter", "write it as spec.template.spec.expireAfter"),
    (Kind::NodePool, "spec.disruption.maxPodGracePeriod", GRACE),
    (Kind::NodePool, "spec.expireAfter", "write it as spec.template.spec.expireAfter"),
    (Kind::NodePool, "spec.instanceType", INSTANCE_TYPE),
    (Kind::NodePool, "spec.instanceTypes", INSTANCE_TYPE),
    (Kind::NodePool, "spec.kubelet", KUBELET),
    (Kind::NodePool, "spec.kubeletConfiguration", KUBELET),
    (Kind::NodePool, "spec.labels", "write it as spec.template.metadata.labels"),
    (Kind::NodePool, "spec.limits.resources", "write its fields under spec.limits"),
    (Kind::NodePool, "spec.nodeClassRef", "write it as spec.template.spec.nodeClassRef"),
    (Kind::NodePool, "spec.providerRef", "write it as spec.template.spec.nodeClassRef"),
    (Kind::NodePool, "spec.requirements", "write it as spec.template.spec.requirements"),
    (Kind::NodePool, "spec.startupTaints", "write it as spec.template.spec.startupTaints"),
    (Kind::NodePool, "spec.taints", "write it as spec.template.spec.taints"),
    (Kind::NodePool, "spec.template.spec.capacityType", CAPACITY_TYPE),
    (Kind::NodePool, "spec.template.spec.capacityTypes", CAPACITY_TYPE),
    (Kind::NodePool, "spec.template.spec.instanceType", INSTANCE_TYPE),
    (Kind::NodePool, "spec.template.spec.instanceTypes", INSTANCE_TYPE),
    (Kind::NodePool, "spec.template.spec.kubelet", KUBELET),
    (Kind::NodePool, "spec.template.spec.kubeletConfiguration", KUBELET),
    (Kind::NodePool, "spec.template.spec.maxPodGracePeriod", GRACE),
    (Kind::NodePool, "spec.template.spec.nodeClassRef.apiVersion", "write group: karpenter.k8s.aws"),
    (Kind::NodePool, "spec.template.spec.weight", "write it as spec.weight"),
    (Kind::NodePool, "spec.template.weight", "write it as spec.weight"),
    (Kind::NodePool, "spec.ttlSecondsAfterEmpty", "write spec.disruption with WhenEmpty and consolidateAfter"),
    (Kind::NodePool, "spec.ttlSecondsUntilExpired", "write spec.template.spec.expireAfter"),
    (Kind::NodeClaim, "spec.kubelet", KUBELET),
    (Kind::NodeClaim, "spec.nodeClassRef.apiVersion", "write group: karpenter.k8s.aws"),
    (Kind::EC2NodeClass, "spec.amiSelector", "write spec.amiSelectorTerms"),
    (Kind::EC2NodeClass, "spec.kubelet.maxPodGracePeriod", "write it as spec.kubelet.evictionMaxPodGracePeriod"),
    (Kind::EC2NodeClass, "spec.launchTemplate", TEMPLATE),
    (Kind::EC2NodeClass, "spec.launchTemplateName", TEMPLATE),
    (Kind::EC2NodeClass, "spec.securityGroupSelector", "write spec.securityGroupSelectorTerms"),
    (Kind::EC2NodeClass, "spec.subnetSelector", "write spec.subnetSelectorTerms"),
    (Kind::EC2NodeClass, "spec.apiVersion", "remove it"),
    (Kind::EC2NodeClass, "spec.kind", "remove it"),
];
const CAPACITY_TYPE: &str = "write a requirement on karpenter.sh/capacity-type";
const INSTANCE_TYPE: &str = "write a requirement on node.kubernetes.io/instance-type";
const KUBELET: &str = "write it as spec.kubelet of the EC2NodeClass";
const GRACE: &str = "write spec.template.spec.terminationGracePeriod";
const TEMPLATE: &str = "copy the settings of the template into the EC2NodeClass";

/// Required fields that are often missing: kind, map, field, and the fix.
const MISSING: [(Kind, &str, &str, &str); 4] = [
    (
        Kind::NodePool,
        "spec.template.spec",
        "nodeClassRef",
        "write {group: karpenter.k8s.aws, kind: EC2NodeClass, name: ...}",
    ),
    (Kind::NodePool, "spec.template.spec.nodeClassRef", "group", "write group: karpenter.k8s.aws"),
    (Kind::NodePool, "spec.disruption", "consolidateAfter", "write 0s, the default before v1, or a longer duration"),
    (Kind::EC2NodeClass, "spec", "amiSelectorTerms", "write [{alias: al2023@latest}], with your family"),
];

/// Renamed values, by kind and field.
const VALUES: [(Kind, &str, &str, &str); 2] = [
    (Kind::NodePool, "spec.disruption.consolidationPolicy", "WhenUnderutilized", "write WhenEmptyOrUnderutilized"),
    (
        Kind::EC2NodeClass,
        "spec.amiFamily",
        "Ubuntu",
        "write AL2, and select Canonical's images in spec.amiSelectorTerms",
    ),
];

/// Lists whose terms select one object each.
const TERMS: [&str; 3] = ["subnetSelectorTerms", "securityGroupSelectorTerms", "amiSelectorTerms"];

/// Returns all outdated fields and values of an object.
pub(super) fn faults(raw: &Raw) -> Vec<InputError> {
    let own = FIELDS.iter().filter(|(kind, ..)| *kind == raw.kind);
    let mut faults: Vec<InputError> = own
        .filter(|(_, path, _)| at(&raw.value, path).is_some())
        .map(|(_, path, cure)| fault(raw, path, "not a field in v1", cure))
        .collect();
    let values = VALUES
        .iter()
        .filter(|(kind, path, old, _)| *kind == raw.kind && at(&raw.value, path).is_some_and(|it| it == old));
    faults.extend(values.map(|(_, path, old, cure)| fault(raw, path, &format!("{old} is not a value in v1"), cure)));
    for (_, map, field, cure) in MISSING.iter().filter(|(kind, ..)| *kind == raw.kind) {
        if at(&raw.value, map).is_some_and(|map| map.is_object() && map[field].is_null()) {
            faults.push(raw.fault(&format!("{map}.{field}"), "missing", *cure));
        }
    }
    if raw.kind == Kind::EC2NodeClass {
        faults.extend(TERMS.iter().flat_map(|list| terms(raw, list)));
    }
    faults
}

/// Returns errors for terms with several ids.
fn terms(raw: &Raw, list: &str) -> Vec<InputError> {
    let items = raw.value["spec"][list].as_array().into_iter().flatten().enumerate();
    let wrong = items.filter(|(_, term)| !term["ids"].is_null());
    wrong
        .map(|(index, _)| fault(raw, &format!("spec.{list}[{index}].ids"), "not a field", "write one term per id"))
        .collect()
}

fn fault(raw: &Raw, path: &str, problem: &str, cure: &str) -> InputError {
    let file = &raw.place.file;
    raw.fault(path, problem, format!("{cure}; `kerf convert {file}` does"))
}

fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, field| value.get(field)).filter(|found| !found.is_null())
}

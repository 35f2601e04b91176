//! Settings without effect in an object of any kind, as it was written.

use std::collections::BTreeMap;

use api::ineffective::{self, Ineffective, KeyOwner};
use serde_json::Value;

/// Paths of the metadata of pod templates, by kind.
const TEMPLATES: [(&str, &str); 7] = [
    ("CronJob", "spec.jobTemplate.spec.template.metadata"),
    ("DaemonSet", "spec.template.metadata"),
    ("Deployment", "spec.template.metadata"),
    ("Job", "spec.template.metadata"),
    ("PodTemplate", "template.metadata"),
    ("ReplicaSet", "spec.template.metadata"),
    ("StatefulSet", "spec.template.metadata"),
];

/// Returns the keys and limits of an object that have no effect.
pub(crate) fn settings(kind: &str, value: &Value) -> Vec<Ineffective> {
    let own = |owner| keys(owner, value, "metadata");
    match kind {
        "EC2NodeClass" => own(KeyOwner::Class),
        "NodeOverlay" => own(KeyOwner::Overlay),
        "CapacityBuffer" => own(KeyOwner::Buffer),
        "NodeClaim" => own(KeyOwner::Claim),
        "Node" => own(KeyOwner::Node),
        "Pod" => own(KeyOwner::Pod),
        "NodePool" => {
            let limits = value["spec"]["limits"].as_object().into_iter().flatten();
            let mut found = own(KeyOwner::Pool);
            found.extend(keys(KeyOwner::PoolTemplate, value, "spec.template.metadata"));
            found.extend(ineffective::limits(limits.map(|(name, _)| name.as_str())));
            found
        }
        kind => {
            let template = TEMPLATES.iter().find(|(known, _)| *known == kind);
            template.map(|(_, path)| keys(KeyOwner::Pod, value, path)).unwrap_or_default()
        }
    }
}

/// Returns the keys without effect of the metadata at a path.
fn keys(owner: KeyOwner, value: &Value, path: &str) -> Vec<Ineffective> {
    let metadata = path.split('.').fold(value, |value, field| &value[field]);
    let texts = |field: &str| -> BTreeMap<String, String> {
        let entries = metadata[field].as_object().into_iter().flatten();
        entries.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
    };
    ineffective::keys(owner, path, Some(&texts("annotations")), Some(&texts("labels")))
}

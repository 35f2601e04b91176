//! Pseudonyms in place of names: of namespaces, pods, workloads, nodes, NodePools and other objects, and of the values of the users'
//! own labels. A key decides about them, so that the same name has the same pseudonym everywhere, and only who has the key can
//! compute it from the name. Instance types, zones, amounts and times stay as they are.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use api::{annotation, label};
use ring::hmac::{self, HMAC_SHA256};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::{Map, Value};

/// Bytes of the key.
const KEY_LENGTH: usize = 32;
/// Bytes of a pseudonym: enough for a million names without two equal ones.
const LENGTH: usize = 6;
/// Names that every cluster has, or that Kubernetes gives a meaning.
const KEPT: [&str; 8] = [
    "default",
    "kube-system",
    "kube-public",
    "kube-node-lease",
    "system-cluster-critical",
    "system-node-critical",
    "Never",
    "",
];
/// Fields whose text is a name.
const NAMES: [&str; 13] = [
    "name",
    "namespace",
    "generateName",
    "nodeName",
    "nominatedNodeName",
    "claimName",
    "volumeName",
    "priorityClassName",
    "runtimeClassName",
    "storageClassName",
    "serviceName",
    "role",
    "instanceProfile",
];
/// Fields with labels and their values.
const LABELS: [&str; 4] = ["labels", "matchLabels", "nodeSelector", "tags"];
/// Fields with names in a list.
const NAME_LISTS: [&str; 1] = ["namespaces"];
/// Field whose names are those of programs, which other fields refer to: the CSI drivers of a node.
const DRIVERS: &str = "drivers";
/// Annotations whose value contains names, or was computed from names.
const NAMING: [&str; 5] = [
    annotation::REPLACES,
    annotation::REPLACED_BY,
    annotation::TIMELINE,
    annotation::NODEPOOL_HASH,
    annotation::EC2_NODE_CLASS_HASH,
];
/// Domains of labels whose values have a meaning, beside the well-known keys.
const MEANING: [&str; 5] =
    ["kerf.sh", "eks.amazonaws.com", "node.kubernetes.io", "topology.kubernetes.io", "topology.ebs.csi.aws.com"];
/// Labels with a well-known key whose value is a name.
const NAMING_LABELS: [&str; 4] =
    [label::NODEPOOL, label::HOSTNAME, label::EC2_NODE_CLASS, "kubernetes.io/metadata.name"];

/// Pseudonyms by a key.
pub(in crate::history) struct Pseudonyms(hmac::Key);

impl Pseudonyms {
    /// Reads the key in a file, or creates the file with a new key, which only its owner can read.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or written, or if it has another size than a key.
    pub(in crate::history) fn read(path: &Path) -> io::Result<Self> {
        let key = match fs::read(path) {
            Ok(key) if key.len() == KEY_LENGTH => key,
            Ok(_) => return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a key of kerf record")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => new_key(path)?,
            Err(error) => return Err(error),
        };
        Ok(Self(hmac::Key::new(HMAC_SHA256, &key)))
    }

    /// Returns the pseudonym of a name.
    fn of(&self, name: &str) -> String {
        if KEPT.contains(&name) {
            return name.to_owned();
        }
        let tag = hmac::sign(&self.0, name.as_bytes());
        let digits = tag.as_ref().iter().take(LENGTH).map(|byte| format!("{byte:02x}"));
        format!("x{}", digits.collect::<String>())
    }

    /// Replaces the names in an object.
    pub(in crate::history) fn replace(&self, object: &mut Value) {
        match object {
            Value::Object(fields) => self.replace_fields(fields),
            Value::Array(items) => items.iter_mut().for_each(|item| self.replace(item)),
            _ => {}
        }
    }

    fn replace_fields(&self, fields: &mut Map<String, Value>) {
        self.replace_values_of_key(fields);
        for (field, value) in fields.iter_mut() {
            match value {
                Value::String(text) if NAMES.contains(&field.as_str()) => *text = self.of(text),
                Value::Array(names) if NAME_LISTS.contains(&field.as_str()) => self.replace_all(names),
                Value::Object(labels) if LABELS.contains(&field.as_str()) => {
                    labels.iter_mut().for_each(|(key, value)| self.replace_label(key, value));
                }
                Value::Object(annotations) if field == "annotations" => {
                    NAMING.iter().for_each(|key| drop(annotations.remove(*key)));
                }
                Value::Array(_) if field == DRIVERS => {}
                _ => self.replace(value),
            }
        }
    }

    /// Replaces the values of a requirement, an expression of a selector, a taint or a toleration.
    fn replace_values_of_key(&self, fields: &mut Map<String, Value>) {
        let Some(key) = fields.get("key").and_then(Value::as_str).map(str::to_owned) else { return };
        if let Some(values) = fields.get_mut("values").and_then(Value::as_array_mut) {
            values.iter_mut().for_each(|value| self.replace_label(&key, value));
        }
        if let Some(value) = fields.get_mut("value") {
            self.replace_label(&key, value);
        }
    }

    fn replace_all(&self, names: &mut [Value]) {
        for name in names {
            if let Value::String(text) = name {
                *text = self.of(text);
            }
        }
    }

    /// Replaces the value of a label if users choose it. Numbers stay, because requirements compare them.
    fn replace_label(&self, key: &str, value: &mut Value) {
        if let Value::String(text) = value
            && is_chosen_by_users(key)
            && text.parse::<i64>().is_err()
        {
            *text = self.of(text);
        }
    }
}

fn is_chosen_by_users(key: &str) -> bool {
    let has_meaning = label::is_well_known(key)
        || label::is_restricted(key)
        || label::domain(key).is_some_and(|domain| MEANING.contains(&domain));
    NAMING_LABELS.contains(&key) || !has_meaning
}

fn new_key(path: &Path) -> io::Result<Vec<u8>> {
    let mut key = vec![0; KEY_LENGTH];
    SystemRandom::new().fill(&mut key).map_err(|_| io::Error::other("the system has no random numbers"))?;
    let mut file = fs::File::options().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(&key)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pseudonyms(folder: &Path) -> Pseudonyms {
        Pseudonyms::read(&folder.join("key")).unwrap()
    }

    #[test]
    fn replace_leaves_no_name_and_keeps_relations() {
        let folder = tempfile::tempdir().unwrap();
        let pseudonyms = pseudonyms(folder.path());
        let mut pod = json!({
            "kind": "Pod",
            "metadata": {
                "name": "hidden-1", "namespace": "hidden", "labels": {"app": "hidden", "tier": "3"},
                "annotations": {"karpenter.sh/do-not-disrupt": "true", "kerf.sh/timeline": "hidden"},
                "ownerReferences": [{"kind": "ReplicaSet", "name": "hidden-a", "uid": "u"}],
            },
            "spec": {
                "nodeName": "hidden-node", "priorityClassName": "system-node-critical",
                "nodeSelector": {"team": "hidden", "topology.kubernetes.io/zone": "us-east-1a", "karpenter.sh/nodepool": "hidden"},
                "tolerations": [{"key": "team", "operator": "Equal", "value": "hidden"}],
                "affinity": {"podAffinity": {"terms": [{
                    "topologyKey": "kubernetes.io/hostname", "namespaces": ["hidden"],
                    "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["hidden"]}]},
                }]}},
                "containers": [{"name": "hidden-web", "resources": {"requests": {"cpu": "1"}}}],
            },
        });
        let mut node = json!({"kind": "Node", "metadata": {"name": "hidden-node", "labels": {
            "kubernetes.io/hostname": "hidden-node", "node.kubernetes.io/instance-type": "m7g.large", "kerf.sh/spot-share": "70%",
        }}});
        let mut csi = json!({"kind": "CSINode", "spec": {"drivers": [{"name": "ebs.csi.aws.com"}]}});
        for object in [&mut pod, &mut node, &mut csi] {
            pseudonyms.replace(object);
            assert!(!object.to_string().contains("hidden"), "{object}");
        }
        assert_eq!(pod["spec"]["nodeName"], node["metadata"]["name"]);
        assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], node["metadata"]["name"]);
        let terms = &pod["spec"]["affinity"]["podAffinity"]["terms"][0];
        assert_eq!(terms["labelSelector"]["matchExpressions"][0]["values"][0], pod["metadata"]["labels"]["app"]);
        assert_eq!(terms["namespaces"][0], pod["metadata"]["namespace"]);
        assert_eq!(pod["spec"]["tolerations"][0]["value"], pod["spec"]["nodeSelector"]["team"]);
        let kept = [
            (&pod["metadata"]["labels"]["tier"], "3"),
            (&pod["spec"]["nodeSelector"]["topology.kubernetes.io/zone"], "us-east-1a"),
            (&pod["spec"]["priorityClassName"], "system-node-critical"),
            (&pod["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"], "true"),
            (&node["metadata"]["labels"]["kerf.sh/spot-share"], "70%"),
            (&csi["spec"]["drivers"][0]["name"], "ebs.csi.aws.com"),
        ];
        assert!(kept.iter().all(|(value, text)| *value == text), "{kept:?}");
    }

    #[test]
    fn read_keeps_the_key_for_its_owner() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let (first, again) = (pseudonyms(folder.path()), pseudonyms(folder.path()));
        assert_eq!(first.of("web"), again.of("web"));
        assert_eq!(fs::metadata(folder.path().join("key")).unwrap().permissions().mode() & 0o777, 0o600);
        let other = tempfile::tempdir().unwrap();
        assert_ne!(first.of("web"), pseudonyms(other.path()).of("web"), "another key");
        fs::write(other.path().join("key"), "short").unwrap();
        let error = Pseudonyms::read(&other.path().join("key")).err().unwrap();
        assert_eq!(error.to_string(), "it is not a key of kerf record");
    }
}

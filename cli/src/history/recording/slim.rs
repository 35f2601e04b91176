//! Objects as a recording keeps them: the fields that plans depend on. Environment variables, commands, images and user data are
//! removed, and so are annotations of other programs, which may contain anything.

use api::objects::{
    CSINode, DaemonSet, Deployment, LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
    PodDisruptionBudget, PodTemplate, PriorityClass, ReplicaSet, RuntimeClass, StatefulSet, StorageClass,
};
use api::{
    CapacityBuffer, Commitment, EC2NodeClass, NodeClaim, NodeOverlay, NodePool, ProvisioningRequest, SpendPolicy,
    annotation,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Domains of annotations that plans depend on.
const DOMAINS: [&str; 9] = [
    "karpenter.sh",
    "karpenter.k8s.aws",
    "kerf.sh",
    "compatibility.karpenter.sh",
    "compatibility.karpenter.k8s.aws",
    "controller.kubernetes.io",
    "pv.kubernetes.io",
    "volume.beta.kubernetes.io",
    "storageclass.kubernetes.io",
];
/// Domain of conditions whose message is read.
const OWN_CONDITIONS: &str = "kerf.sh/";

/// Returns the object without the fields that no plan depends on; `None` for another kind.
///
/// # Errors
/// Returns an error if a field has another type than in Kubernetes' API.
pub(in crate::history) fn slim(object: &Value) -> Result<Option<Value>, serde_json::Error> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let slimmed = match kind {
        "EC2NodeClass" => typed::<EC2NodeClass>(object),
        "NodePool" => typed::<NodePool>(object),
        "NodeOverlay" => typed::<NodeOverlay>(object),
        "NodeClaim" => typed::<NodeClaim>(object),
        "CapacityBuffer" => typed::<CapacityBuffer>(object),
        "ProvisioningRequest" => typed::<ProvisioningRequest>(object),
        "Commitment" => typed::<Commitment>(object).map(without_status),
        "SpendPolicy" => typed::<SpendPolicy>(object).map(without_status),
        "Node" => typed::<Node>(object),
        "Pod" => typed::<Pod>(object),
        "PodTemplate" => typed::<PodTemplate>(object),
        "Deployment" => typed::<Deployment>(object),
        "ReplicaSet" => typed::<ReplicaSet>(object),
        "StatefulSet" => typed::<StatefulSet>(object),
        "DaemonSet" => typed::<DaemonSet>(object),
        "PodDisruptionBudget" => typed::<PodDisruptionBudget>(object),
        "PersistentVolumeClaim" => typed::<PersistentVolumeClaim>(object),
        "PersistentVolume" => typed::<PersistentVolume>(object),
        "StorageClass" => typed::<StorageClass>(object),
        "CSINode" => typed::<CSINode>(object),
        "Namespace" => typed::<Namespace>(object),
        "LimitRange" => typed::<LimitRange>(object),
        "RuntimeClass" => typed::<RuntimeClass>(object),
        "PriorityClass" => typed::<PriorityClass>(object),
        _ => return Ok(None),
    };
    let mut slimmed = slimmed?;
    for field in ["apiVersion", "kind"] {
        slimmed[field] = object[field].clone();
    }
    if let Some(spec) = slimmed.get_mut("spec").and_then(Value::as_object_mut).filter(|_| kind == "EC2NodeClass") {
        spec.remove("userData");
    }
    if let Some(statuses) = slimmed.pointer_mut("/status/containerStatuses").and_then(Value::as_array_mut) {
        statuses.iter_mut().filter_map(Value::as_object_mut).for_each(|status| drop(status.remove("state")));
    }
    remove_details(&mut slimmed);
    Ok(Some(slimmed))
}

fn typed<T: DeserializeOwned + Serialize>(object: &Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(T::deserialize(object)?)
}

/// Removes the status, which has another cost every minute.
fn without_status(mut object: Value) -> Value {
    object.as_object_mut().map(|fields| fields.remove("status"));
    object
}

/// Removes versions, foreign annotations, heartbeats and messages, at any depth.
fn remove_details(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
                remove_from_metadata(metadata);
            }
            let is_condition = fields.contains_key("type") && fields.contains_key("status");
            if is_condition {
                let own = fields["type"].as_str().is_some_and(|type_| type_.starts_with(OWN_CONDITIONS));
                fields.remove("lastHeartbeatTime");
                fields.retain(|name, _| own || name != "message");
            }
            fields.retain(|_, inner| !inner.is_null());
            fields.values_mut().for_each(remove_details);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_details),
        _ => {}
    }
}

fn remove_from_metadata(metadata: &mut Map<String, Value>) {
    for field in ["resourceVersion", "selfLink", "managedFields"] {
        metadata.remove(field);
    }
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|key, _| is_kept(key));
    }
}

/// Reports whether plans depend on an annotation.
fn is_kept(key: &str) -> bool {
    let of_domain = key.split_once('/').is_some_and(|(domain, _)| DOMAINS.contains(&domain));
    of_domain || [annotation::TEMPLATE_GENERATION, annotation::MIRROR_POD].contains(&key)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn slim_keeps_what_plans_need_and_no_secret() {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7", "managedFields": [{"manager": "x"}],
                "annotations": {"karpenter.sh/do-not-disrupt": "true", "vault/token": "hunter2"},
            },
            "spec": {"nodeName": "a", "containers": [{
                "name": "web", "image": "web:1", "command": ["--password=hunter2"],
                "env": [{"name": "TOKEN", "value": "hunter2"}], "resources": {"requests": {"cpu": "1"}},
            }]},
            "status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True", "message": "hunter2", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        });
        let slimmed = slim(&pod).unwrap().unwrap();
        assert!(!slimmed.to_string().contains("hunter2"), "{slimmed}");
        assert!(!slimmed.to_string().contains("resourceVersion"), "{slimmed}");
        assert_eq!(slimmed["metadata"]["annotations"], json!({"karpenter.sh/do-not-disrupt": "true"}));
        assert_eq!(slimmed["spec"]["containers"][0]["resources"]["requests"]["cpu"], "1");
        assert_eq!(slimmed["status"]["conditions"][0]["lastTransitionTime"], "2026-01-01T00:00:00Z");
        assert_eq!(slim(&slimmed).unwrap(), Some(slimmed));
    }

    #[test]
    fn slim_removes_user_data_and_heartbeats() {
        let class = json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
            "spec": {"userData": "TOKEN=hunter2", "role": "nodes", "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "subnetSelectorTerms": [{"id": "subnet-1"}], "securityGroupSelectorTerms": [{"id": "sg-1"}]},
        });
        let slimmed = slim(&class).unwrap().unwrap();
        assert_eq!((&slimmed["spec"]["userData"], &slimmed["spec"]["role"]), (&Value::Null, &json!("nodes")));
        let node = |beat: &str| {
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "status": {"conditions": [
                {"type": "Ready", "status": "True", "lastHeartbeatTime": beat},
                {"type": "kerf.sh/Interrupted", "status": "False", "message": "deadline=never"}]}})
        };
        let [one, other] = ["2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z"].map(|beat| slim(&node(beat)).unwrap());
        assert_eq!(one, other);
        assert!(one.unwrap().to_string().contains("deadline=never"));
        assert_eq!(slim(&json!({"kind": "Secret"})).unwrap(), None);
    }
}

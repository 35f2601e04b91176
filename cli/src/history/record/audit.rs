//! Observations from an audit log of the API server: each write with the object that it returned.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::live::Seen;

/// Stage of an event whose response is complete.
const COMPLETE: &str = "ResponseComplete";

/// Reader of audit events, with the pods that it needs to know for their bindings and evictions.
#[derive(Debug, Default)]
pub(super) struct AuditReader {
    pods: BTreeMap<(String, String), Value>,
    /// Number of successful writes without the returned object.
    pub(super) without_object: usize,
}

/// Reports whether the value is an audit event.
pub(super) fn is_event(value: &Value) -> bool {
    value["kind"] == "Event" && text(value, "/apiVersion").starts_with("audit.k8s.io/")
}

impl AuditReader {
    /// Returns the time of an event, and what it changed.
    pub(super) fn read(&mut self, event: &Value) -> Option<(Timestamp, Vec<Seen>)> {
        let at = text(event, "/stageTimestamp").parse().ok()?;
        let code = event["responseStatus"]["code"].as_u64().unwrap_or_default();
        let is_dry_run = text(event, "/requestURI").contains("dryRun=");
        if event["stage"] != COMPLETE || !(200..300).contains(&code) || is_dry_run {
            return None;
        }
        let changes =
            match (text(event, "/verb"), text(event, "/objectRef/resource"), text(event, "/objectRef/subresource")) {
                ("create", "pods", "binding") => self.bind(event).into_iter().collect(),
                ("create", "pods", "eviction") => self.evict(event, at).into_iter().collect(),
                ("create" | "update" | "patch", _, "" | "status") => vec![event["responseObject"].clone()],
                ("delete", _, "") => vec![self.deleted(event)],
                ("deletecollection", _, "") => {
                    let items = event["responseObject"]["items"].as_array().into_iter().flatten();
                    items.map(|item| of_collection(item, at)).collect()
                }
                _ => return None,
            };
        let is_deletion = text(event, "/verb").starts_with("delete");
        let seen: Vec<Seen> = changes.into_iter().filter_map(|object| self.seen(object, is_deletion)).collect();
        Some((at, seen))
    }

    /// Returns the pod of a binding on its node.
    fn bind(&self, event: &Value) -> Option<Value> {
        let mut pod = self.pods.get(&key_of_reference(event))?.clone();
        pod["spec"]["nodeName"] = event["requestObject"]["target"]["name"].clone();
        Some(pod)
    }

    /// Returns the pod of an eviction, which terminates from now on.
    fn evict(&self, event: &Value, at: Timestamp) -> Option<Value> {
        let mut pod = self.pods.get(&key_of_reference(event))?.clone();
        pod["metadata"]["deletionTimestamp"] = json!(at.to_string());
        Some(pod)
    }

    /// Returns the deleted object. Where the response has only a status, the object is gone.
    fn deleted(&self, event: &Value) -> Value {
        let response = &event["responseObject"];
        if response["kind"].is_string() && response["kind"] != "Status" {
            return response.clone();
        }
        let (namespace, name) = key_of_reference(event);
        json!({
            "kind": kind_of(text(event, "/objectRef/resource")),
            "metadata": {"namespace": namespace, "name": name, "deletionTimestamp": text(event, "/stageTimestamp")},
        })
    }

    fn seen(&mut self, object: Value, is_deletion: bool) -> Option<Seen> {
        let is_object = object["kind"].is_string() && object["metadata"]["name"].is_string();
        if !is_object {
            self.without_object += usize::from(object.is_null());
            return None;
        }
        let key = (text(&object, "/metadata/namespace").to_owned(), text(&object, "/metadata/name").to_owned());
        let is_gone = is_gone(&object) || is_deletion && object["metadata"]["deletionTimestamp"].is_null();
        if object["kind"] == "Pod" {
            match is_gone {
                true => drop(self.pods.remove(&key)),
                false => drop(self.pods.insert(key, object.clone())),
            }
        }
        Some(if is_gone { Seen::Gone(object) } else { Seen::Set(object) })
    }
}

/// Returns an object of a deleted collection, which the response shows as it was before. A pod on a node terminates.
fn of_collection(item: &Value, at: Timestamp) -> Value {
    let mut item = item.clone();
    if item["spec"]["nodeName"].is_string() && item["metadata"]["deletionTimestamp"].is_null() {
        item["metadata"]["deletionTimestamp"] = json!(at.to_string());
    }
    item
}

/// Reports whether the API server has removed the object: its deletion was requested, and nothing keeps it.
fn is_gone(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let is_kept = metadata["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty());
    let has_grace =
        object["kind"] == "Pod" && metadata["deletionGracePeriodSeconds"].as_i64().is_none_or(|grace| grace > 0);
    let is_only_named = object["spec"].is_null();
    metadata["deletionTimestamp"].is_string() && !is_kept && (!has_grace || is_only_named)
}

fn key_of_reference(event: &Value) -> (String, String) {
    (text(event, "/objectRef/namespace").to_owned(), text(event, "/objectRef/name").to_owned())
}

/// Returns the kind of a resource of which deletions return only a status.
fn kind_of(resource: &str) -> &'static str {
    match resource {
        "pods" => "Pod",
        "nodes" => "Node",
        "nodepools" => "NodePool",
        "nodeclaims" => "NodeClaim",
        "nodeoverlays" => "NodeOverlay",
        "ec2nodeclasses" => "EC2NodeClass",
        "capacitybuffers" => "CapacityBuffer",
        "provisioningrequests" => "ProvisioningRequest",
        "spendpolicies" => "SpendPolicy",
        "commitments" => "Commitment",
        "deployments" => "Deployment",
        "replicasets" => "ReplicaSet",
        "statefulsets" => "StatefulSet",
        "daemonsets" => "DaemonSet",
        "poddisruptionbudgets" => "PodDisruptionBudget",
        "persistentvolumeclaims" => "PersistentVolumeClaim",
        "persistentvolumes" => "PersistentVolume",
        "storageclasses" => "StorageClass",
        "csinodes" => "CSINode",
        "namespaces" => "Namespace",
        "limitranges" => "LimitRange",
        "runtimeclasses" => "RuntimeClass",
        "priorityclasses" => "PriorityClass",
        _ => "",
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(verb: &str, subresource: &str, response: &Value) -> Value {
        json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "stage": "ResponseComplete", "verb": verb,
            "objectRef": {"resource": "pods", "namespace": "shop", "name": "web", "subresource": subresource},
            "requestObject": {"target": {"name": "node-1"}}, "responseObject": response,
            "responseStatus": {"code": 200}, "stageTimestamp": "2026-11-28T10:00:00.500000Z",
        })
    }

    fn pod(metadata: &Value) -> Value {
        let mut pod = json!({"kind": "Pod", "metadata": {"name": "web", "namespace": "shop"}, "spec": {}});
        pod["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
        pod
    }

    /// Returns what the events show: the node of the pod, whether it terminates, or that it is gone.
    fn shown(events: &[Value]) -> Vec<String> {
        let mut reader = AuditReader::default();
        let word = |seen: &Seen| match seen {
            Seen::Set(pod) if pod["metadata"]["deletionTimestamp"].is_string() => "terminates".to_owned(),
            Seen::Set(pod) => format!("on {}", text(pod, "/spec/nodeName")),
            Seen::Gone(_) => "gone".to_owned(),
            other => format!("{other:?}"),
        };
        events
            .iter()
            .filter_map(|event| reader.read(event))
            .flat_map(|(_, seen)| seen)
            .map(|seen| word(&seen))
            .collect()
    }

    #[test]
    fn read_follows_a_pod_from_its_creation_to_its_end() {
        let success = json!({"kind": "Status", "status": "Success"});
        let terminating = json!({"deletionTimestamp": "2026-11-28T10:00:30Z", "deletionGracePeriodSeconds": 30});
        let last = json!({"deletionTimestamp": "2026-11-28T10:00:30Z", "deletionGracePeriodSeconds": 0});
        let events = [
            event("create", "", &pod(&json!({}))),
            event("create", "binding", &success),
            event("create", "eviction", &success),
            event("patch", "status", &pod(&terminating)),
            event("delete", "", &pod(&last)),
        ];
        assert_eq!(shown(&events), ["on ", "on node-1", "terminates", "terminates", "gone"]);
    }

    #[test]
    fn read_respects_finalizers_and_answers_without_an_object() {
        let kept = json!({"deletionTimestamp": "2026-11-28T10:00:30Z", "deletionGracePeriodSeconds": 0, "finalizers": ["a/b"]});
        let success = json!({"kind": "Status", "status": "Success"});
        assert_eq!(shown(&[event("delete", "", &pod(&kept)), event("delete", "", &success)]), ["terminates", "gone"]);
        let list = json!({"kind": "PodList", "items": [pod(&json!({})), pod(&kept)]});
        assert_eq!(shown(&[event("deletecollection", "", &list)]), ["gone", "terminates"]);
    }

    #[test]
    fn read_skips_refused_reads_and_dry_runs_and_counts_writes_without_an_object() {
        let mut refused = event("create", "", &pod(&json!({})));
        refused["responseStatus"]["code"] = json!(403);
        let mut dry = event("create", "", &pod(&json!({})));
        dry["requestURI"] = json!("/api/v1/pods?dryRun=All");
        let mut early = event("create", "", &pod(&json!({})));
        early["stage"] = json!("RequestReceived");
        let read = event("list", "", &pod(&json!({})));
        assert_eq!(shown(&[refused, dry, early, read]), Vec::<String>::new());
        let mut reader = AuditReader::default();
        assert!(reader.read(&event("update", "", &Value::Null)).unwrap().1.is_empty());
        assert_eq!(reader.without_object, 1);
    }
}

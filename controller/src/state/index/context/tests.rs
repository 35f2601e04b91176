//! Tests of triggers by kinds that pods refer to, and of their kept fields.

use api::objects::{
    Deployment, LimitRange, Namespace, PersistentVolume, PersistentVolumeClaim, Pod, PodTemplate, PriorityClass,
    RuntimeClass, StorageClass,
};
use api::{CapacityBuffer, NodeOverlay};
use jiff::Timestamp;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Index, Indexed};
use crate::fixture::{buffer, merge, overlay, pod};
use crate::provision::batcher::PlanTrigger;
use crate::reconcile::work::WorkItem;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// Returns an object with this name in `default` (or without a namespace), this version and these fields.
fn made<K: DeserializeOwned>(name: &str, version: u32, fields: &Value) -> K {
    let mut base = json!({"metadata": {"name": name, "namespace": "default", "resourceVersion": version.to_string()}});
    merge(&mut base, fields);
    serde_json::from_value(base).unwrap()
}

/// Applies two versions of one object, and returns for each whether it triggers a plan.
fn plans<K: Indexed + DeserializeOwned>(index: &mut Index, fields: [&Value; 2]) -> [bool; 2] {
    let [first, second] = fields;
    let before = index.apply(made::<K>("it", 1, first), NOW, true);
    let after = index.apply(made::<K>("it", 2, second), NOW, true);
    [!before.plan.is_empty(), !after.plan.is_empty()]
}

fn waiting() -> Pod {
    let unschedulable = json!({
        "spec": {"nodeName": null},
        "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
        ]},
    });
    pod(&unschedulable).as_ref().clone()
}

#[test]
fn apply_triggers_a_plan_when_pods_are_pending() {
    let claim = |volume: &str| json!({"spec": {"volumeName": volume}});
    let labelled = |team: &str| json!({"metadata": {"namespace": null, "labels": {"team": team}}});
    let volume = |class: &str| json!({"metadata": {"namespace": null}, "spec": {"storageClassName": class}});
    let noted = |note: &str| json!({"metadata": {"namespace": null, "annotations": {"note": note}}});
    for wait in [true, false] {
        let mut index = Index::default();
        if wait {
            drop(index.apply(waiting(), NOW, true));
        }
        assert_eq!(index.has_waiting_pods(), wait);
        let index = &mut index;
        assert_eq!(plans::<PersistentVolumeClaim>(index, [&claim(""), &claim("disk")]), [wait, wait]);
        assert_eq!(plans::<PersistentVolume>(index, [&volume("a"), &volume("b")]), [wait, wait]);
        assert_eq!(plans::<Namespace>(index, [&labelled("a"), &labelled("b")]), [wait, wait]);
        assert_eq!(plans::<StorageClass>(index, [&json!({}), &json!({})]), [wait, wait]);
        assert_eq!(plans::<LimitRange>(index, [&json!({}), &json!({})]), [wait, wait]);
        assert_eq!(plans::<RuntimeClass>(index, [&noted("a"), &noted("b")]), [wait, wait]);
        assert_eq!(plans::<PriorityClass>(index, [&noted("a"), &noted("b")]), [wait, wait]);
        drop(index.delete::<Namespace>("it", NOW));
        assert_eq!(
            plans::<Namespace>(index, [&noted("a"), &noted("b")]),
            [wait, false],
            "no selector reads annotations"
        );
    }
}

#[test]
fn has_waiting_pods_returns_false_when_pods_are_bound_or_gone() {
    let mut index = Index::default();
    drop(index.apply(waiting(), NOW, true));
    assert!(index.has_waiting_pods());
    let bound = pod(&json!({"metadata": {"resourceVersion": "6"}})).as_ref().clone();
    drop(index.apply(bound, NOW, true));
    assert!(!index.has_waiting_pods());
    let mut index = Index::default();
    drop(index.apply(waiting(), NOW, true));
    drop(index.delete::<Pod>("default/web", NOW));
    assert!(!index.has_waiting_pods());
}

#[test]
fn apply_triggers_no_plan_when_only_the_nomination_changes() {
    let mut index = Index::default();
    let refused = || PlanTrigger::Refused { pod: "pod-uid".to_owned(), owner: "pod-uid".to_owned() };
    assert_eq!(index.apply(waiting(), NOW, true).plan, [refused()]);
    let mut nominated = waiting();
    nominated.metadata.resource_version = Some("6".to_owned());
    nominated.status.nominated_node_name = "node-1".to_owned();
    assert_eq!(index.apply(nominated.clone(), NOW, true).plan, []);
    assert!(index.waiting_pod("pod-uid").is_some_and(|pod| pod.status.nominated_node_name == "node-1"));
    nominated.metadata.resource_version = Some("7".to_owned());
    assert_eq!(
        index.apply(nominated.clone(), NOW, true).plan,
        [PlanTrigger::Again],
        "kube-scheduler has tried it again"
    );
    nominated.metadata.resource_version = Some("8".to_owned());
    nominated.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    assert_eq!(index.apply(nominated, NOW, true).plan, [refused()], "it is another pod for a plan");
}

#[test]
fn apply_triggers_by_owner_when_pods_arrive_or_are_refused() {
    let owned = |uid: &str, status: Value| {
        let owner =
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web-uid", "controller": true});
        let metadata = json!({"name": uid, "uid": uid, "ownerReferences": [owner]});
        pod(&json!({"metadata": metadata, "spec": {"nodeName": null}, "status": status})).as_ref().clone()
    };
    let owner = || "web-uid".to_owned();
    let mut index = Index::default();
    let fresh = json!({"phase": "Pending", "conditions": []});
    assert_eq!(
        index.apply(owned("a", fresh), NOW, true).plan,
        [PlanTrigger::Another { pod: "a".to_owned(), owner: owner() }]
    );
    assert!(index.is_awaiting_scheduler("a") && index.waits("a") && !index.has_waiting_pods());
    let refused = serde_json::to_value(waiting().status).unwrap();
    let mut again = owned("a", refused.clone());
    again.metadata.resource_version = Some("6".to_owned());
    drop(index.apply(again, NOW, true));
    assert!(!index.is_awaiting_scheduler("a"), "it has been refused since");
    let trigger = PlanTrigger::Refused { pod: "b".to_owned(), owner: owner() };
    assert_eq!(index.apply(owned("b", refused), NOW, true).plan, [trigger]);
}

#[test]
fn apply_triggers_a_plan_when_the_source_of_a_buffer_changes() {
    let replicas = |count: u32| json!({"spec": {"replicas": count}});
    let template = |image: &str| json!({"template": {"spec": {"schedulerName": image}}});
    let follows =
        |name: &str| json!({"spec": {"podTemplateRef": null, "scalableRef": {"kind": "Deployment", "name": name}}});
    let of_template = |name: &str| json!({"spec": {"podTemplateRef": {"name": name}}});
    let elsewhere = |mut change: Value| {
        merge(&mut change, &json!({"metadata": {"namespace": "other"}}));
        change
    };
    let rows = [
        ("followed", follows("it"), [true, false]),
        ("another one", follows("other"), [false, false]),
        ("in another namespace", elsewhere(follows("it")), [false, false]),
        ("a template", of_template("it"), [false, true]),
        ("another template", of_template("other"), [false, false]),
    ];
    for (what, change, [deployment, pod_template]) in rows {
        let mut index = Index::default();
        let buffer: CapacityBuffer = buffer(&change).as_ref().clone();
        assert!(!index.apply(buffer, NOW, true).plan.is_empty(), "{what}");
        let found = plans::<Deployment>(&mut index, [&replicas(1), &replicas(2)]);
        assert_eq!(found, [deployment; 2], "{what}");
        let found = plans::<PodTemplate>(&mut index, [&template("a"), &template("b")]);
        assert_eq!(found, [pod_template; 2], "{what}");
    }
}

#[test]
fn apply_triggers_a_plan_when_admission_of_buffers_changes() {
    let mut index = Index::default();
    drop(index.apply(buffer(&json!({})).as_ref().clone(), NOW, true));
    let range = made::<LimitRange>("limits", 1, &json!({}));
    assert_eq!(index.apply(range, NOW, true).plan, [PlanTrigger::New("capacitybuffer/default/spare".to_owned())]);
}

/// Status writes of the controller come back as changes and trigger a reconcile, never a plan.
#[test]
fn apply_triggers_no_plan_when_only_the_status_changes() {
    let version = |version: &str| json!({"metadata": {"resourceVersion": version}});
    let mut index = Index::default();
    let first = index.apply::<NodeOverlay>(overlay(&version("1")).as_ref().clone(), NOW, true);
    assert_eq!((first.work, first.plan.len()), (vec![WorkItem::Overlay("dear".to_owned())], 1));
    let second = index.apply::<NodeOverlay>(overlay(&version("2")).as_ref().clone(), NOW, true);
    assert_eq!((second.work, second.plan.len()), (vec![WorkItem::Overlay("dear".to_owned())], 0));
    let first = index.apply::<CapacityBuffer>(buffer(&version("1")).as_ref().clone(), NOW, true);
    assert_eq!((first.work, first.plan.len()), (vec![WorkItem::Buffer("default/spare".to_owned())], 1));
    let second = index.apply::<CapacityBuffer>(buffer(&version("2")).as_ref().clone(), NOW, true);
    assert_eq!((second.work, second.plan.len()), (vec![WorkItem::Buffer("default/spare".to_owned())], 0));
}

#[test]
fn slim_keeps_only_annotations_that_are_read() {
    fn kept<K: Indexed>(mut object: K) -> Vec<String> {
        object.slim();
        let meta = Resource::meta(&object);
        assert!(meta.managed_fields.is_none());
        meta.annotations.iter().flatten().map(|(key, _)| key.clone()).collect()
    }
    let annotated = json!({"metadata": {
        "managedFields": [{"manager": "kubectl"}],
        "annotations": {
            api::annotation::LAST_APPLIED: "{}",
            api::annotation::DO_NOT_DISRUPT: "true",
            api::annotation::ON_DEMAND_BASE: "2",
            api::annotation::SPOT_SHARE: "70%",
            api::annotation::BIND_COMPLETED: "yes",
            "note": "mine",
        },
    }});
    let of_pods = [api::annotation::DO_NOT_DISRUPT, api::annotation::ON_DEMAND_BASE, api::annotation::SPOT_SHARE];
    let all_but_the_copy = [&of_pods[..], &["note", api::annotation::BIND_COMPLETED]].concat();
    assert_eq!(kept(overlay(&annotated).as_ref().clone()), all_but_the_copy);
    assert_eq!(kept(pod(&annotated).as_ref().clone()), of_pods);
    assert_eq!(kept(made::<PersistentVolumeClaim>("it", 1, &annotated)), [api::annotation::BIND_COMPLETED]);
    assert_eq!(kept(made::<Deployment>("it", 1, &annotated)), [""; 0]);
}

#[test]
fn do_without_removes_the_kind_from_missing() {
    let mut index = Index::default();
    assert!(index.missing().contains(&"nodeoverlays"));
    index.do_without::<NodeOverlay>();
    assert!(!index.missing().contains(&"nodeoverlays"));
}

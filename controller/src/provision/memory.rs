//! Memory for each of many pods that fit nowhere, in every place that keeps them between plans or while a plan is made.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::objects::Pod;
use daemon::metric::Metrics;
use planner::Catalogue;
use serde_json::{Value, json};
use snapshot::{Input, SnapshotCache};

use super::actions;
use crate::fixture::{at, condition, pool};
use crate::metrics;
use crate::state::index::Index;
use crate::state::plans::pod_decisions::PodDecisions;

/// Pods of the test, twenty of each shape.
const PODS: u32 = 10_000;
const SHAPES: u32 = 500;

/// Bytes for each pod.
#[derive(Debug)]
struct Memory {
    kept: i64,
    peak: i64,
}

fn measure<T>(make: impl FnOnce() -> T) -> (T, Memory) {
    let mut made = None;
    let counted = allocation_counter::measure(|| made = Some(make()));
    let peak = i64::try_from(counted.bytes_max).unwrap();
    (made.unwrap(), Memory { kept: counted.bytes_current / i64::from(PODS), peak: peak / i64::from(PODS) })
}

/// Returns a pod with the fields that the API server adds to each pod.
fn waiting(number: u32) -> Value {
    let (shape, volume) = (number % SHAPES, format!("kube-api-access-{number:05}"));
    let tolerated =
        |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("crowd-{number}"), "namespace": "default", "generation": 1,
            "uid": format!("5a1e2f0e-6f1c-4e6e-9a3b-{number:012}"), "resourceVersion": (100_000 + number).to_string(),
            "creationTimestamp": at(0).to_string(),
            "managedFields": [{"manager": "crowd", "operation": "Update", "fieldsV1": {"f:spec": {"f:containers": {}}}}],
        },
        "spec": {
            "schedulerName": "crowd", "nodeSelector": {"example.com/shape": shape.to_string()},
            "containers": [{
                "name": "app", "image": "app", "imagePullPolicy": "Always",
                "resources": {"requests": {"cpu": format!("{}m", 100 + shape)}},
                "volumeMounts": [{"name": volume, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
            }],
            "volumes": [{"name": volume, "projected": {"sources": [{"configMap": {"name": "kube-root-ca.crt"}}]}}],
            "tolerations": [tolerated("node.kubernetes.io/not-ready"), tolerated("node.kubernetes.io/unreachable")],
            "priority": 0, "preemptionPolicy": "PreemptLowerPriority", "terminationGracePeriodSeconds": 30,
        },
        "status": {
            "phase": "Pending", "qosClass": "Burstable",
            "conditions": [{
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0 nodes are available",
                "lastTransitionTime": at(1).to_string(),
            }],
        },
    })
}

/// Returns the index with all pods.
fn index() -> Index {
    let mut index = Index::default();
    for number in 0..PODS {
        drop(index.apply::<Pod>(serde_json::from_value(waiting(number)).unwrap(), at(1), true));
    }
    index
}

#[test]
fn from_plan_and_all_before_keep_few_bytes_per_pod() {
    let (index, of_index) = measure(index);
    let pool = pool(&json!({"status": {"conditions": [condition("Ready", "True", 0)]}}));
    let catalogue = Arc::new(Catalogue { name: "default".to_owned(), types: Vec::new(), ..Catalogue::default() });
    let input = Input {
        pods: index.pods.values().collect(),
        pools: vec![&pool],
        catalogues: BTreeMap::from([("default".to_owned(), catalogue)]),
        ..Input::at(at(60))
    };
    let mut cache = SnapshotCache::default();
    let (built, of_first) = measure(|| cache.build(&input));
    let (again, of_next) = measure(|| cache.build(&input));
    drop(again);
    let plan = planner::checked(&built.snapshot, planner::plan(&built.snapshot)).sound.unwrap();
    // The planner uses several threads, and only this one is measured.
    let (copy, of_plan) = measure(|| plan.clone());
    drop(copy);
    let (events, of_events) = measure(|| {
        let outcome = actions::from_plan(&index, &built, &plan, &[]);
        outcome.pod_events.iter(&index, &built, &plan).count()
    });
    assert_eq!(events, PODS as usize, "no pod fits");
    let (decisions, metrics) = (PodDecisions::new(at(0)), Metrics::new(&metrics::table()));
    let ((), of_decisions) = measure(|| decisions.note(&built.snapshot, &plan, &metrics, at(60)));
    let rows = [
        ("index", of_index, 1_050, 1_050),
        ("first snapshot with its cache", of_first, 600, 850),
        ("next snapshot", of_next, 280, 500),
        ("plan", of_plan, 70, 70),
        ("actions and events", of_events, 1, 10),
        ("decisions", of_decisions, 190, 190),
    ];
    for (holder, Memory { kept, peak }, most_kept, most_at_peak) in rows {
        assert!(kept <= most_kept, "{holder}: {kept} bytes per pod, more than {most_kept}");
        assert!(peak <= most_at_peak, "{holder}: {peak} bytes per pod at the peak, more than {most_at_peak}");
    }
}

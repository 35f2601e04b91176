//! Commands with `--live`: the cluster of the kubeconfig in place of files.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::collections::BTreeMap;
use std::io::Write as _;

use api::decisions::storage::{CATALOGUES, WRITTEN};
use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use planner::{CapacityType, Catalogue, InstanceType, MicroDollars, Offering};
use serde_json::{Value, json};

use crate::cluster::{api_server, cluster_of, run};

const CLUSTER: &str = "adopt_nodes/cluster.yaml";

/// Runs one line with the kubeconfig of a cluster with these lists.
fn answer(line: &str, lists: Value) -> (i32, String, String) {
    let place = tempfile::tempdir().unwrap();
    run(place.path(), line, &api_server(lists))
}

/// Returns a pending pod without an owner. With a condition, kube-scheduler has tried to place it.
fn pending(name: &str, conditions: Value) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "creationTimestamp": "2026-11-21T10:00:00Z"},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Pending", "conditions": conditions},
    })
}

fn unschedulable() -> Value {
    json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}])
}

#[test]
fn plan_lists_the_commands_for_a_live_cluster() {
    let (code, out, err) = answer("kerf plan --live -o json", cluster_of(CLUSTER));
    assert_eq!(code, 0, "{out}{err}");
    let plan: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(plan["disruption"]["moves"][0]["nodes"], json!(["full"]), "{plan}");
}

#[test]
fn plan_covers_only_pods_that_kube_scheduler_refused() {
    let mut lists = cluster_of(CLUSTER);
    lists["/apis/apps/v1/deployments"][0]["spec"]["replicas"] = json!(9);
    for (conditions, expected) in
        [(json!([]), json!([])), (unschedulable(), json!([{"node": "full", "pods": ["shop/web"]}]))]
    {
        lists["/api/v1/pods"].as_array_mut().unwrap().push(pending("web", conditions));
        let (code, out, err) = answer("kerf plan --live -o json", lists.clone());
        assert_eq!(code, 0, "{out}{err}");
        let plan: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(plan["existing"], expected, "{plan}");
        lists["/api/v1/pods"].as_array_mut().unwrap().pop();
    }
}

#[test]
fn plan_reads_every_page_of_a_list() {
    let mut lists = cluster_of(CLUSTER);
    let pods = lists["/api/v1/pods"].as_array_mut().unwrap();
    pods.extend((0..20).map(|number| pending(&format!("many-{number:02}"), unschedulable())));
    let (_, out, err) = answer("kerf plan --live -o json", lists);
    assert_eq!((0..20).filter(|number| out.contains(&format!("shop/many-{number:02}"))).count(), 20, "{out}{err}");
}

#[test]
fn why_explains_a_node_and_its_nodeclaim() {
    let (code, node, err) = answer("kerf why node full --live", cluster_of(CLUSTER));
    assert_eq!(code, 0, "{err}");
    assert!(node.contains("Node full, NodeClaim general-full, NodePool general"), "{node}");
    assert!(node.contains("It is removed: Underutilized."), "{node}");
    let (_, claim, _) = answer("kerf why nodeclaim general-full --live", cluster_of(CLUSTER));
    let before_events = |text: &str| text.split_once("\nEVENTS\n").unwrap().0.to_owned();
    assert_eq!(before_events(&claim), before_events(&node));
    let (code, _, err) = answer("kerf why node ful --live", cluster_of(CLUSTER));
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("node ful is not in the input; did you mean full?"), "{err}");
}

/// Path of the events about pod shop/web.
const EVENTS: &str = "/api/v1/namespaces/shop/events?fieldSelector=involvedObject.kind%3DPod,involvedObject.name%3Dweb";

#[test]
fn why_ends_with_the_newest_events_of_controller_and_agent() {
    let mut lists = cluster_of(CLUSTER);
    lists["/api/v1/pods"].as_array_mut().unwrap().push(pending("web", unschedulable()));
    let event = |component: &str, minute: u32, message: &str| {
        let time = format!("2026-11-21T10:{minute:02}:00Z");
        json!({
            "metadata": {"name": message, "namespace": "shop"}, "involvedObject": {"kind": "Pod", "name": "web"},
            "source": {"component": component}, "reason": "Nominated", "message": message, "count": minute,
            "lastTimestamp": time,
        })
    };
    let mut events: Vec<Value> = (1..=6).map(|minute| event("karpenter", minute, &format!("to {minute}"))).collect();
    events.push(event("default-scheduler", 9, "of another program"));
    lists[EVENTS] = json!(events);
    let (code, out, err) = answer("kerf why pod shop/web --live", lists.clone());
    assert_eq!(code, 0, "{out}{err}");
    let (_, section) = out.split_once("\nEVENTS\n").unwrap();
    let message = |line: &str| line.split_once(" ago, ").unwrap_or((line, "no age")).1.to_owned();
    let messages: Vec<String> = section.lines().map(message).collect();
    let expected = [6, 5, 4, 3, 2].map(|number| format!("{number} times: Nominated: to {number}"));
    assert_eq!(messages, expected);

    lists[EVENTS] = json!([]);
    let (_, out, _) = answer("kerf why pod shop/web --live", lists.clone());
    assert!(out.contains("\nEVENTS\n  none of the controller or the agent; "), "{out}");
    lists[EVENTS] = json!("not permitted");
    let (code, out, _) = answer("kerf why pod shop/web --live", lists);
    assert!(code == 0 && out.contains("not read: events: forbidden; you need verb list on resource"), "{out}");
}

#[test]
fn plan_uses_the_settings_of_the_controller() {
    let gates = |value: &str| {
        let mut lists = cluster_of(CLUSTER);
        let container = &mut lists["/apis/apps/v1/deployments"][0]["spec"]["template"]["spec"]["containers"][0];
        container["env"] =
            json!([{"name": "FEATURE_GATES", "value": value}, {"name": "KARPENTER_SERVICE", "value": "k"}]);
        lists["/apis/karpenter.sh/v1alpha1/nodeoverlays"] = json!([{
            "metadata": {"name": "half"}, "spec": {"requirements": [], "priceAdjustment": "-50%"},
        }]);
        answer("kerf plan --live", lists)
    };
    let (open, closed) = (gates("NodeOverlay=true"), gates("NodeOverlay=false"));
    assert_eq!((open.0, closed.0), (0, 0), "{open:?} {closed:?}");
    assert_ne!(open.1, closed.1, "an overlay changes prices only where the gate is open");
    let (code, _, err) = gates("NodeOverlay=perhaps");
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("Deployment of the controller: FEATURE_GATES: \"NodeOverlay=perhaps\" is not"), "{err}");
}

/// Path of the ConfigMap in which the controller publishes its view of the market.
const MARKET: &str = "/api/v1/namespaces/kube-system/configmaps/kerf-market";

/// Returns the ConfigMap of a controller that knows one instance type, at half a dollar per hour.
fn market() -> Value {
    let offering = Offering {
        zone: "us-west-2a".to_owned(),
        capacity_type: CapacityType::OnDemand,
        price: MicroDollars(500_000),
        premium: MicroDollars(0),
        available: false,
        labels: BTreeMap::new(),
        reservation: None,
    };
    let kind = InstanceType { name: "m5.2xlarge".to_owned(), offerings: vec![offering], ..InstanceType::default() };
    let catalogue = Catalogue { name: "default".to_owned(), types: vec![kind], ..Catalogue::default() };
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(json!({"default": catalogue}).to_string().as_bytes()).unwrap();
    let map = ConfigMap {
        data: Some([(WRITTEN.to_owned(), "2026-11-28T10:00:00Z".to_owned())].into()),
        binary_data: Some([(CATALOGUES.to_owned(), ByteString(encoder.finish().unwrap()))].into()),
        ..ConfigMap::default()
    };
    serde_json::to_value(map).unwrap()
}

#[test]
fn plan_uses_the_prices_of_the_controller() {
    let mut lists = cluster_of(CLUSTER);
    let price = |lists: &Value, flags: &str| {
        let (code, out, err) = answer(&format!("kerf plan --live -o json {flags}"), lists.clone());
        assert_eq!(code, 0, "{err}");
        let plan: Value = serde_json::from_str(&out).unwrap();
        plan["removals"][0]["pricePerHour"].as_str().unwrap().to_owned()
    };
    let embedded = price(&lists, "");
    lists[MARKET] = market();
    assert_eq!(price(&lists, ""), "0.5");
    assert_ne!(embedded, "0.5");
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("spot.json");
    std::fs::write(&file, r#"{"SpotPriceHistory": [{"AvailabilityZone": "us-west-2a", "InstanceType": "m5.2xlarge", "ProductDescription": "Linux/UNIX", "SpotPrice": "0.1", "Timestamp": "2026-11-21T10:00:00Z"}]}"#).unwrap();
    assert_eq!(price(&lists, &format!("--spot-prices {}", file.display())), embedded, "sources that the user names");
    let (_, out, _) = answer("kerf why node full --live", lists);
    assert!(out.contains("$0.500"), "{out}");
}

#[test]
fn plan_warns_without_the_right_to_read_the_market() {
    let mut lists = cluster_of(CLUSTER);
    lists[MARKET] = json!("configmaps is forbidden");
    let (code, out, err) = answer("kerf plan --live -o json", lists.clone());
    assert_eq!(code, 0, "{out}{err}");
    let warning = "without the controller's prices and unavailable offerings: ConfigMap kerf-market: forbidden; you need verb get \
                   on resource configmaps in namespace kube-system";
    assert!(out.contains(warning), "{out}");
    lists[MARKET] = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kerf-market"}});
    let (code, _, err) = answer("kerf plan --live", lists);
    assert_eq!(code, 2);
    assert!(
        err.contains("ConfigMap kerf-market: binaryData.catalogues.json.gz is missing; it is of another version"),
        "{err}"
    );
}

#[test]
fn plan_warns_when_the_cluster_has_no_controller() {
    let mut lists = cluster_of(CLUSTER);
    lists["/apis/apps/v1/deployments"] = json!([]);
    let (_, out, err) = answer("kerf plan --live -o json", lists);
    assert!(out.contains("the cluster has no Deployment of the controller: using default settings"), "{out}{err}");
}

#[test]
fn plan_names_the_missing_right() {
    let mut lists = cluster_of(CLUSTER);
    lists["/apis/karpenter.sh/v1/nodepools"] = json!("nodepools is forbidden");
    let (code, out, err) = answer("kerf plan --live", lists);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    let right = "you need verb list on resource nodepools of API group \"karpenter.sh\"";
    assert!(err.contains(&format!("nodepools.karpenter.sh: forbidden; {right}")), "{err}");
}

#[test]
fn live_needs_a_known_context_and_no_files() {
    let (code, _, err) = answer("kerf plan --live --context blue", cluster_of(CLUSTER));
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("--context blue: ") && err.contains("kubectl config get-contexts"), "{err}");
    let (code, _, err) = answer("kerf plan --live --context c", cluster_of(CLUSTER));
    assert_eq!(code, 0, "{err}");
    for line in ["kerf plan . --live", "kerf plan . --context c", "kerf plan"] {
        let (code, _, err) = answer(line, cluster_of(CLUSTER));
        assert_eq!(code, 2, "{line}: {err}");
    }
}

/// The emulated API server knows no watch.
#[test]
fn record_continues_when_watches_fail() {
    let (place, server) = (tempfile::tempdir().unwrap(), api_server(cluster_of(CLUSTER)));
    let (code, out, err) = run(place.path(), "kerf record --out recording --for 3s", &server);
    assert_eq!(code, 0, "{out}{err}");
    assert!(err.contains("pods: ") && err.contains("trying again"), "{err}");
    assert!(out.contains("recorded ") && out.contains("objects at the end, in recording"), "{out}");
    let (code, out, err) = run(place.path(), "kerf replay recording -o yaml", &server);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("recorded:") && out.contains("replayed:"), "{out}");
}

#[test]
fn replay_reports_objects_whose_feature_gate_is_closed() {
    let mut lists = cluster_of(CLUSTER);
    lists["/apis/karpenter.sh/v1alpha1/nodeoverlays"] = json!([{
        "metadata": {"name": "half"}, "spec": {"requirements": [], "priceAdjustment": "-50%"},
    }]);
    let (place, server) = (tempfile::tempdir().unwrap(), api_server(lists));
    run(place.path(), "kerf record --out recording --for 1s", &server);
    let (code, closed, err) = run(place.path(), "kerf replay recording", &server);
    assert_eq!(code, 0, "{closed}{err}");
    let warning = "NodeOverlay ignored: feature gate NodeOverlay is off";
    assert!(closed.contains(warning), "{closed}");
    let (_, open, _) = run(place.path(), "kerf replay recording --feature-gates NodeOverlay=true", &server);
    assert!(open.contains("RECORDED") && !open.contains(warning), "{open}");
}

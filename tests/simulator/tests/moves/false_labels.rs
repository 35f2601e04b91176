//! Nodes that change the labels which say what was launched.

use std::collections::BTreeSet;

use api::label;
use api::objects::Node;
use serde_json::json;
use simulator::api_server::NODES;
use simulator::cluster::{ModelCluster, pool};
use simulator::surroundings::Workload;

/// kube-scheduler counts the false zone, which has no pod of the workload, so that no other zone may get one.
#[tokio::test(start_paused = true)]
async fn pods_with_zone_spread_run_when_a_node_changes_its_zone() {
    for zone in [json!("moon-1a"), json!(""), json!(null)] {
        let cluster = ModelCluster::new(pool(&["m5.large"], json!({"consolidateAfter": "Never"})), Default::default());
        let _controller_run = cluster.controller_run();
        let spread = json!([{
            "maxSkew": 1, "topologyKey": label::ZONE, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }]);
        let template = json!({"spec": {"topologySpreadConstraints": spread}});
        cluster.want("web", Workload { template, ..Workload::of(3, 1500) });
        cluster.until("a node in each zone", |cluster| cluster.is_settled(3, 3)).await;
        let before = cluster.nodes();
        let name = before[0].name();
        cluster.server.change(NODES, name, &json!({"metadata": {"labels": {label::ZONE: zone}}}));
        cluster.surroundings.scale("web", 6);
        cluster.until("two nodes in each zone", |cluster| cluster.is_settled(6, 6)).await;
        let zone_of = |node: &Node| node.label(label::ZONE).map(str::to_owned);
        let after = cluster.server.get::<Node>(NODES, name).unwrap();
        assert_eq!(zone_of(&after), zone_of(&before[0]), "restored");
        let zones: BTreeSet<_> = cluster.nodes().iter().map(zone_of).collect();
        assert_eq!(zones.len(), 3);
    }
}

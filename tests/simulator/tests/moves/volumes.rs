//! No instance is terminated while a volume is attached to it, unless its termination grace period is over.

use api::status::Conditioned;
use api::{condition, reason};
use jiff::SignedDuration;
use serde_json::{Value, json};
use simulator::api_server::CLAIMS;
use simulator::clock::of_tokio;
use simulator::cluster::{ModelCluster, pool};
use simulator::surroundings::Workload;

const ATTACHMENTS: &str = "volumeattachments";

async fn settled(grace: Option<&str>) -> (ModelCluster, simulator::controller_run::ControllerRun) {
    let mut pool = pool(&["m5.large"], json!({"consolidateAfter": "Never"}));
    pool["spec"]["template"]["spec"]["terminationGracePeriod"] = grace.map_or(Value::Null, Value::from);
    let cluster = ModelCluster::new(pool, Default::default());
    let controller_run = cluster.controller_run();
    cluster.want("database", Workload::of(1, 1500));
    cluster.until("a node", |cluster| cluster.is_settled(1, 1)).await;
    let node = cluster.claims()[0].status.clone().unwrap().node_name;
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "csi-1"},
        "spec": {"attacher": "ebs.csi.aws.com", "nodeName": node, "source": {"persistentVolumeName": "pv-1"}},
    });
    cluster.server.create(ATTACHMENTS, attachment);
    (cluster, controller_run)
}

async fn delete_the_claim(cluster: &ModelCluster) -> String {
    let name = cluster.claims()[0].metadata.name.clone().unwrap();
    cluster.server.delete(CLAIMS, &name);
    name
}

fn check_condition(cluster: &ModelCluster, name: &str, type_: &str, wanted: &str) -> Result<(), String> {
    let claim = cluster.claims().into_iter().find(|claim| claim.metadata.name.as_deref() == Some(name));
    let claim = claim.ok_or("it is gone")?;
    let event = api::status::find(claim.conditions(), type_).map(|event| (event.status.clone(), event.reason.clone()));
    let found = event.as_ref().is_some_and(|(status, reason)| status == wanted || reason == wanted);
    if found { Ok(()) } else { Err(format!("{type_} is {event:?}")) }
}

#[tokio::test(start_paused = true)]
async fn termination_waits_until_volume_is_detached() {
    let (cluster, controller_run) = settled(None).await;
    let name = delete_the_claim(&cluster).await;
    let waits = condition::VOLUMES_DETACHED;
    cluster
        .until("to wait", |cluster| check_condition(cluster, &name, waits, reason::AWAITING_VOLUME_DETACHMENT))
        .await;
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    assert_eq!(cluster.ec2.count("TerminateInstances"), 0, "its volume is attached");
    assert!(
        controller_run
            .events()
            .iter()
            .any(|event| event.starts_with(reason::AWAITING_VOLUME_DETACHMENT) && event.contains("pv-1"))
    );
    cluster.server.delete(ATTACHMENTS, "csi-1");
    let detached = of_tokio();
    cluster
        .until(
            "the end",
            |cluster| {
                if cluster.ec2.count("TerminateInstances") > 0 { Ok(()) } else { Err("it lives".to_owned()) }
            },
        )
        .await;
    assert!(of_tokio().duration_since(detached) <= SignedDuration::from_secs(6), "the volumes were not checked again");
    cluster.until("its successor alone", |cluster| cluster.is_settled(1, 1)).await;
}

#[tokio::test(start_paused = true)]
async fn termination_ignores_volumes_when_grace_period_is_over() {
    let (cluster, _controller_run) = settled(Some("5m")).await;
    let begin = of_tokio();
    let name = delete_the_claim(&cluster).await;
    let ended = || cluster.ec2.count("TerminateInstances") > 0;
    cluster.until("the end", |_| if ended() { Ok(()) } else { Err("it lives".to_owned()) }).await;
    let took = of_tokio().duration_since(begin);
    assert!((299..=306).contains(&took.as_secs()), "it took {took}");
    cluster
        .until("a word", |cluster| {
            check_condition(cluster, &name, condition::VOLUMES_DETACHED, reason::TERMINATION_GRACE_PERIOD_ELAPSED)
        })
        .await;
}
